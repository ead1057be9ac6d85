package plan_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// goesOn is a curriculum whose next selection goes on from one response, or from two.
type goesOn struct {
	ref     shard.Ref
	kind    shard.Kind
	partner shard.Ref
}

func (goesOn) Name() string { return "goes on" }

func (goesOn) Update(state curriculum.State, iteration int, _ []curriculum.Group, _ []string) (curriculum.State, error) {
	return curriculum.State{Iteration: iteration, Stats: append(state.Stats, shard.Stat{Scope: "run", Name: "updates", Iteration: int32(iteration)})}, nil
}

func (c goesOn) Next(_ curriculum.State, _, _ int, taskIDs []string) ([]curriculum.Selection, error) {
	s := curriculum.Selection{TaskID: taskIDs[0], Kind: c.kind, Ref: c.ref, PartnerRef: c.partner}
	if !c.partner.IsZero() {
		s.PartnerID = "partner"
	}
	return []curriculum.Selection{s}, nil
}

// asked keeps what prompts were asked to iterate on.
type asked struct {
	env.Env
	parents []env.Parent
}

func (a *asked) Prompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	a.parents = append(a.parents, parent)
	return []shard.Message{{Role: "user", Content: "again"}}, nil
}

// TestParent: a prompt is made from the messages that a reference names and from
// the score of the last of them that is the policy's, whatever contexts they
// are in; messages of the prompt's history are nobody's turn.
func TestParent(t *testing.T) {
	t.Parallel()
	say := func(roles ...string) []shard.Message {
		var messages []shard.Message
		for _, role := range roles {
			messages = append(messages, shard.Message{Role: role, Content: role})
		}
		return messages
	}
	f := stagetest.NewReduction(t, 1)
	i := f.Rows[0]
	row := func(step, part int32, prompt int32, messages []shard.Message) shard.Rollout {
		return shard.Rollout{
			InstanceID: i.InstanceID, GroupID: i.GroupID, Step: step, Part: part, Messages: messages, PromptMessages: prompt, Turns: 1, Outcome: "ok",
			TokenIDs: []int32{1, 2}, LossMask: []bool{false, true}, LogProbs: []float32{0, -1},
		}
	}
	f.Check(stagetest.Write(f.Path("rollout.parquet"), []shard.Rollout{
		row(0, 0, 1, say("user", "assistant")),
		row(1, 1, 3, say("user", "assistant", "user", "assistant")), // its first answer is history
		row(1, 2, 1, say("user", "assistant")),
	}))
	f.Check(stagetest.Write(f.Path("score.parquet"), []shard.Score{{
		InstanceID: i.InstanceID, GroupID: i.GroupID, Outcome: "ok", Turns: []shard.TurnScore{
			{Outcome: "ok", Feedback: "first attempt"}, {Step: 1, Part: 1, Outcome: "ok", Feedback: "first turn"}, {Step: 1, Part: 2, Outcome: "ok", Feedback: "second turn"},
		},
	}}))
	files := buffer.WaveRef{Rollout: f.Path("rollout.parquet"), Score: f.Path("score.parquet")}
	f.In.Shards = []buffer.ShardRef{{Iteration: 1, Rollout: files.Rollout, Score: files.Score}}
	for _, c := range []struct {
		what           string
		step, messages int32
		files          buffer.WaveRef
		feedback       string
	}{
		{"an attempt", 0, 2, files, "first attempt"},
		{"a prompt alone", 0, 1, files, ""},
		{"to its first turn", 1, 4, files, "first turn"},
		{"to the prompt of its second context", 1, 5, files, "first turn"},
		{"to its second turn", 1, 6, files, "second turn"},
		{"no further than the history", 1, 2, files, ""},
		{"verdicts that are not at hand", 0, 2, buffer.WaveRef{Rollout: files.Rollout}, ""},
	} {
		f.In.WaveOf = func(shard.Ref, string) (buffer.WaveRef, error) { return c.files, nil }
		environment := &asked{Env: f.Env}
		err := buffer.Run(f.Context(), f.Job, buffer.SettingsOf(f.Recipe), environment, goesOn{ref: shard.Ref{Iteration: 1, Step: c.step, Messages: c.messages}, kind: shard.KindImprove}, f.In)
		f.Check(err)
		parent := environment.parents[0]
		got := ""
		if parent.Verdict != nil {
			got = parent.Verdict.Feedback
		}
		if len(parent.Messages) != int(c.messages) || got != c.feedback {
			t.Errorf("%s: %d messages with the verdict %q, want %d and %q", c.what, len(parent.Messages), got, c.messages, c.feedback)
		}
	}

	// A first answer with a past answers that past as it stands.
	f.In.WaveOf = func(shard.Ref, string) (buffer.WaveRef, error) { return files, nil }
	f.In.PlanOutputs[0].Path = f.Path("first-answer.parquet")
	environment := &asked{Env: f.Env}
	f.Check(buffer.Run(f.Context(), f.Job, buffer.SettingsOf(f.Recipe), environment, goesOn{ref: shard.Ref{Iteration: 1, Step: 1, Messages: 3}, kind: shard.KindInitial}, f.In))
	planned := stagetest.Read[shard.Instance](f.Rig, f.In.PlanOutputs[0].Path)
	if diff := cmp.Diff(say("user", "assistant", "user"), planned[0].Messages); diff != "" || len(environment.parents) > 0 {
		t.Errorf("prompt of a first answer with a past (-want +got):\n%s", diff)
	}

	m, err := seal.Read(t.Context(), f.Path("first-answer.parquet"), seal.Options{})
	f.Check(err)
	cited := map[string]int{}
	for _, input := range m.Inputs {
		cited[filepath.Base(input.Path)]++
	}
	if cited["rollout.parquet"] != 1 || cited["score.parquet"] != 1 {
		t.Errorf("the plan cites %v; it was read from one rollout and its scores", cited)
	}

	// A prompt that joins two responses is made from both, each with its own score.
	f.In.PlanOutputs[0].Path = f.Path("joined.parquet")
	environment = &asked{Env: f.Env}
	joins := goesOn{ref: shard.Ref{Iteration: 1, Messages: 2}, kind: shard.KindCrossover, partner: shard.Ref{Iteration: 1, Step: 1, Messages: 6}}
	f.Check(buffer.Run(f.Context(), f.Job, buffer.SettingsOf(f.Recipe), environment, joins, f.In))
	planned = stagetest.Read[shard.Instance](f.Rig, f.In.PlanOutputs[0].Path)
	parent := environment.parents[0]
	if p := parent.Partner; p == nil || len(parent.Messages) != 2 || len(p.Messages) != 6 || parent.Verdict.Feedback != "first attempt" || p.Verdict.Feedback != "second turn" || planned[0].PartnerID != "partner" {
		t.Errorf("a prompt that joins two: %+v with %+v, planned as %+v", parent, parent.Partner, planned[0])
	}

	stats := stagetest.Read[shard.Stat](f.Rig, f.In.StatsOutput)
	if len(stats) != 1 || stats[0].Axis != shard.StatCurriculum || stats[0].Name != "updates" {
		t.Errorf("statistics of the curriculum: %+v", stats)
	}
}
