package plan_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/plan"
)

// newHistory is a reduction of iteration 5 whose curriculum goes on from entries of
// earlier iterations alone. The responses are in one file for each iteration,
// and those that came late in a wave in another.
func newHistory(t *testing.T, entries ...shard.Entry) *stagetest.Reduction {
	t.Helper()
	f := stagetest.NewReduction(t, 1, "curriculum.name=exit", "curriculum.exit.select_probability=1", "curriculum.exit.diverge_probability=0", "curriculum.exit.inverse_temperature=0", "curriculum.exit.min_buffer_size=1")
	for i := range entries {
		entries[i].EntryID, entries[i].TaskID = fmt.Sprintf("entry-%d", i), f.Rows[0].TaskID
	}
	f.In.Iteration, f.In.Plans[0].Iteration, f.In.PlanOutputs[0].Iteration, f.In.PlanRows = 5, 5, 6, 12
	f.In.State = f.Path("before.parquet")
	f.Check(stagetest.Write(f.In.State, entries))
	f.In.WaveOf = func(ref shard.Ref, instanceID string) (buffer.WaveRef, error) {
		if want := plan.InstanceID(int(ref.Iteration), int(ref.Row)); instanceID != want {
			return buffer.WaveRef{}, fmt.Errorf("asked for instance %q, want %q", instanceID, want)
		}
		return buffer.WaveRef{Rollout: f.Path(fmt.Sprintf("history-%d-%d.parquet", ref.Iteration, ref.Wave))}, nil
	}
	f.Shard("now", f.Rows, []stagetest.Verdict{{Outcome: shard.OutcomeInfra}, {Outcome: shard.OutcomeInfra}}) // nothing is added
	f.In.Shards[0].Iteration = 5
	return f
}

// say seals what was said in an iteration and wave.
func say(f *stagetest.Reduction, iteration, wave int, rows ...shard.Rollout) {
	f.Helper()
	f.Check(stagetest.Write(f.Path(fmt.Sprintf("history-%d-%d.parquet", iteration, wave)), rows))
}

func conversation(texts ...string) []shard.Message {
	var messages []shard.Message
	for i, text := range texts {
		messages = append(messages, shard.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
	}
	return messages
}

// A plan's prompts are made from the conversations that its entries name:
// of the right iteration, row, sample, attempt and wave, up to the right
// message. The plan cites what it was made from, and nothing else does.
func TestPlansGoOnFromHistory(t *testing.T) {
	t.Parallel()
	entries := []shard.Entry{
		{Kind: "improve", Depth: 1, Turn: 1, Ref: shard.Ref{Iteration: 2, Row: 1, Sample: 1, Messages: 2}},
		{Kind: "improve", Depth: 2, Turn: 1, Ref: shard.Ref{Iteration: 4, Row: 0, Sample: 0, Step: 1, Wave: 1, Messages: 2}},
		{Kind: "improve", Depth: 3, Turn: 2, Ref: shard.Ref{Iteration: 4, Row: 0, Sample: 0, Step: 1, Wave: 1, Messages: 4}},
	}
	f := newHistory(t, entries...)
	question := f.Rows[0].Messages[0].Content
	say(f, 2, 0,
		shard.Rollout{InstanceID: "i000002-000001", Sample: 0, Messages: conversation(question, "wrong sample")},
		shard.Rollout{InstanceID: "i000002-000000", Sample: 1, Messages: conversation(question, "wrong row")},
		shard.Rollout{InstanceID: "i000002-000001", Sample: 1, Messages: conversation(question, "2/1/1", "too", "far")})
	say(f, 4, 0, shard.Rollout{InstanceID: "i000004-000000", Step: 1, Messages: conversation(question, "wrong wave")})
	say(f, 4, 1,
		shard.Rollout{InstanceID: "i000004-000000", Step: 0, Messages: conversation(question, "wrong attempt")},
		shard.Rollout{InstanceID: "i000004-000000", Step: 1, Part: 1, Messages: conversation(question, "4/0/0 first")},
		shard.Rollout{InstanceID: "i000004-000000", Step: 1, Part: 2, Messages: conversation("again", "4/0/0 second")})
	f.Run()

	histories := map[string][]shard.Message{
		"entry-0": conversation(question, "2/1/1"),
		"entry-1": conversation(question, "4/0/0 first"),
		"entry-2": conversation(question, "4/0/0 first", "again", "4/0/0 second"),
	}
	task, _ := f.Env.Set().Task(f.Rows[0].TaskID)
	selected := map[string]bool{}
	for i, row := range stagetest.Read[shard.Instance](f.Rig, f.Path("next.parquet")) {
		want, err := f.Env.Prompt(task, shard.KindImprove, env.Parent{Messages: histories[row.ParentID]})
		f.Check(err)
		if diff := cmp.Diff(want, row.Messages); diff != "" {
			t.Errorf("prompt %d, of %s (-want +got):\n%s", i, row.ParentID, diff)
		}
		if row.SelectedBy != "buffer" || !(row.Probability > 0.3 && row.Probability < 0.34) {
			t.Errorf("row %d was selected by %q with probability %v, want a third", i, row.SelectedBy, row.Probability)
		}
		selected[row.ParentID] = true
	}
	if len(selected) != 3 {
		t.Fatalf("12 prompts go on from %v: the test shows little", selected)
	}
	for file, want := range map[string]bool{"next.parquet": true, "state.parquet": false, "batch.arrow": false} {
		m, err := seal.Read(t.Context(), f.Path(file), seal.Options{})
		f.Check(err)
		var cited []string
		for _, input := range m.Inputs {
			if name := filepath.Base(input.Path); strings.HasPrefix(name, "history") {
				cited = append(cited, name+" "+input.ContentSHA256)
			}
		}
		digest := func(name string) string { return name + " " + f.Digest(f.Path(name)) }
		if want != (len(cited) == 2) || want && !(cited[0] == digest("history-2-0.parquet") || cited[1] == digest("history-2-0.parquet")) {
			t.Errorf("%s cites %q", file, cited)
		}
	}
}

// A conversation that is not there, or not all of it, is one clear error.
func TestHistoryThatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ref        shard.Ref
		code       int
		want, hint string
	}{
		"too short":   {shard.Ref{Iteration: 2, Row: 1, Sample: 1, Messages: 3}, exitcode.Data, `history-2-0.parquet", instance "i000002-000001", sample 1, step 0: there are 2 messages, and the curriculum's state continues from message 3`, ""},
		"no such row": {shard.Ref{Iteration: 2, Row: 1, Sample: 2, Messages: 2}, exitcode.Data, `instance "i000002-000001", sample 2, step 0: there are 0 messages`, ""},
		"no message":  {shard.Ref{Iteration: 2, Row: 1, Sample: 1}, exitcode.Data, "continues from message 0", ""},
		"no file":     {shard.Ref{Iteration: 3, Row: 1, Sample: 1, Messages: 2}, exitcode.Data, "reading what the plan continues from", "lathe verify --repair"},
	} {
		f := newHistory(t, shard.Entry{Kind: "improve", Ref: c.ref})
		say(f, 2, 0, shard.Rollout{InstanceID: "i000002-000001", Sample: 1, Messages: conversation("q", "a")})
		err := f.Try()
		if exitcode.Code(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) || !strings.Contains(strings.Join(exitcode.Hints(err), " "), c.hint) {
			t.Errorf("%s: error %v with hints %q, want %q", name, err, exitcode.Hints(err), c.want)
		}
		if name == "no file" && !errors.Is(err, seal.ErrNotSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
