package mle

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
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

// readDemonstrations gives the tasks to train on the demonstrations of a file.
func (e *Env) readDemonstrations(path string) error {
	content, err := plainfile.Read(path, maxDemonstrations)
	if err != nil {
		return fmt.Errorf("data.demonstrations: %w", err)
	}
	sum := sha256.Sum256(content)
	e.inputs = append(e.inputs, env.Input{Path: path, SHA256: hex.EncodeToString(sum[:])})
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var d demonstration
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&d)
		if err == nil {
			err = d.check()
		}
		if err != nil {
			return exitcode.Dataf("data.demonstrations: %q line %d: %w", path, n, err)
		}
		for _, t := range e.splits[env.Train] {
			if d.Task == "" || config.Matches(t.ID, []string{d.Task}) {
				source := &e.entries[t.ID].source
				source.Demonstrations = append(source.Demonstrations, d)
			}
		}
	}
	return nil
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

// Demonstration draws one of the file's demonstrations of a kind. To improve on a
// program that failed is to debug it, so demonstrations of both kinds answer the
// kind improve.
func (e *Env) Demonstration(of env.Task, kind shard.Kind, stream rng.Stream) ([]shard.Message, bool, error) {
	var fit []demonstration
	for _, d := range e.entries[of.ID].source.Demonstrations {
		if d.Kind == string(kind) || kind == shard.KindImprove && d.Kind == string(shard.KindDebug) {
			fit = append(fit, d)
		}
	}
	if len(fit) == 0 {
		return nil, false, nil
	}
	d := fit[stream.IntN(0, len(fit))]
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
