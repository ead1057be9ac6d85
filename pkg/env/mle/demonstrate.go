package mle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/mle/grammar"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// demonstration is a response that a warm start learns from.
type demonstration struct {
	Task     string `json:"task,omitempty"` // name or pattern; empty for every task
	Kind     string `json:"kind,omitempty"` // empty for initial
	Parent   string `json:"parent,omitempty"`
	Failed   string `json:"failed,omitempty"`
	Response string `json:"response"`
}

// maxDemonstrations bounds a file of demonstrations.
const maxDemonstrations = 1 << 30

// readDemonstrations reads a file of demonstrations, if there is one.
func readDemonstrations(name, folder string) (all []demonstration, inputs []env.Input, err error) {
	if name == "" {
		return nil, nil, nil
	}
	path, err := config.ResolvePath(name, folder)
	if err != nil {
		return nil, nil, fmt.Errorf("data.demonstrations: %w", err)
	}
	content, err := plainfile.Read(path, maxDemonstrations)
	if err != nil {
		return nil, nil, fmt.Errorf("data.demonstrations: %w", err)
	}
	sum := sha256.Sum256(content)
	n := 0
	for line := range bytes.Lines(content) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var d demonstration
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&d)
		if err == nil {
			err = d.check()
		}
		if err != nil {
			return nil, nil, exitcode.Dataf("data.demonstrations: %q line %d: %w", path, n, err)
		}
		all = append(all, d)
	}
	return all, []env.Input{{Path: path, SHA256: hex.EncodeToString(sum[:])}}, nil
}

func (d *demonstration) check() error {
	if d.Kind == "" {
		d.Kind = string(shard.KindInitial)
	}
	kinds := []string{string(shard.KindInitial), string(shard.KindImprove), string(shard.KindDebug), string(shard.KindDiverge)}
	switch {
	case !slices.Contains(kinds, d.Kind):
		return fmt.Errorf("kind is %q, and must be one of %q", d.Kind, kinds)
	case d.Response == "":
		return errors.New("it has no response")
	case (d.Kind == string(shard.KindInitial)) != (d.Parent == ""):
		return fmt.Errorf("a demonstration of kind %q has a parent, or one of kind initial has none", d.Kind)
	case d.Failed != "" && d.Parent == "":
		return errors.New("failed says what came of a parent, and there is none")
	}
	return nil
}

// Demonstration draws one of the file's demonstrations of a kind, or a program
// of the grammar. To improve on a program that failed is to debug it, so
// demonstrations of both kinds answer the kind improve.
func (e *Env) Demonstration(of env.Task, kind shard.Kind, stream rng.Stream) ([]shard.Message, bool, error) {
	if e.settings.Grammar != nil {
		return e.drawn(of, kind, stream)
	}
	var fit []demonstration
	for _, d := range e.entries[of.ID].source.Demonstrations {
		if d.Kind == string(kind) || kind == shard.KindImprove && d.Kind == string(shard.KindDebug) {
			fit = append(fit, d)
		}
	}
	if len(fit) == 0 {
		return nil, false, nil
	}
	return e.demonstrate(of, kind, fit[stream.IntN(0, len(fit))])
}

// drawn is a program of the grammar: of a first attempt some with a slip; after
// one with a slip the same without, and after another one with a change.
func (e *Env) drawn(of env.Task, kind shard.Kind, stream rng.Stream) ([]shard.Message, bool, error) {
	t, err := e.folder(of)
	if err != nil || !grammar.Knows(t.Metric) {
		return nil, false, err
	}
	if kind == shard.KindImprove && stream.Float64(positionJoins) < e.settings.Grammar.Crossover {
		return e.drawnJoined(of, t.Metric, stream)
	}
	first := grammar.Draw(t.Metric, e.settings.Grammar.Buggy, stream, 0)
	d := demonstration{Kind: string(kind), Response: e.written(first)}
	if kind != shard.KindInitial {
		d.Parent, d.Response = d.Response, e.written(first.Changed(stream, 8))
		if first.Bug != "" {
			d.Kind, d.Response = string(shard.KindDebug), e.written(first.Fixed())
		}
	}
	return e.demonstrate(of, kind, d)
}

// The draws of a demonstration that joins two programs, after those of one that does not.
const (
	positionJoins  = 16 // whether it does
	positionFirst  = 24 // of its programs
	positionSecond = 32
	positionScores = 40 // what they say of themselves
)

// drawnJoined joins two programs of the grammar without a slip. What they say of themselves is
// drawn and means nothing: nothing runs here.
func (e *Env) drawnJoined(of env.Task, metric string, stream rng.Stream) ([]shard.Message, bool, error) {
	var programs [2]grammar.Program
	var parents [2]env.Parent
	for i, at := range []uint64{positionFirst, positionSecond} {
		programs[i] = grammar.Draw(metric, 0, stream, at)
		score := float64(stream.IntN(positionScores+uint64(i), 10_000)) / 10_000
		parents[i] = env.Parent{
			Messages: []shard.Message{{Role: "assistant", Content: e.written(programs[i])}},
			Verdict: &env.TurnVerdict{
				Outcome: shard.OutcomeOK, ValidationScore: score, Parts: []shard.RewardPart{{Name: env.PartValidation, Value: score}},
			},
		}
	}
	parents[0].Partner = &parents[1]
	prompt, err := e.Prompt(of, shard.KindCrossover, parents[0])
	joined := e.written(programs[0].Joined(programs[1]))
	return append(prompt, shard.Message{Role: "assistant", Content: joined}), true, err
}

// textsOfTask is how many programs of a task a tokenizer is trained on.
const textsOfTask = 100

// texts are the demonstrations: programs of the grammar, or those of the file.
func (e *Env) texts() (texts []string) {
	for _, of := range e.Tasks(env.Train) {
		for _, d := range e.entries[of.ID].source.Demonstrations {
			texts = append(texts, d.Parent, d.Response)
		}
		if e.settings.Grammar == nil {
			continue
		}
		if t, err := e.folder(of); err == nil && grammar.Knows(t.Metric) {
			stream := rng.New(0, rng.PurposeData, 0, of.ID, 0) // the same for every seed
			for i := range uint64(textsOfTask) {
				texts = append(texts, of.ID+" "+t.Metric, e.written(grammar.Draw(t.Metric, e.settings.Grammar.Buggy, stream, 8*i)))
			}
		}
	}
	return texts
}

// written is a program as the style's responses have it.
func (e *Env) written(p grammar.Program) string {
	if e.style.fenced {
		return fence("python", p.Source())
	}
	return p.Source()
}

// demonstrate is the conversation of a demonstration.
func (e *Env) demonstrate(of env.Task, kind shard.Kind, d demonstration) ([]shard.Message, bool, error) {
	var parent env.Parent
	if d.Parent != "" {
		parent.Messages = []shard.Message{{Role: "assistant", Content: d.Parent}}
		parent.Verdict = &env.TurnVerdict{Outcome: shard.OutcomeOK}
		if d.Kind == string(shard.KindDebug) {
			parent.Verdict.Outcome, parent.Verdict.Feedback = shard.OutcomeInvalid, d.Failed
		}
	}
	prompt, err := e.Prompt(of, kind, parent)
	return append(prompt, shard.Message{Role: "assistant", Content: d.Response}), true, err
}
