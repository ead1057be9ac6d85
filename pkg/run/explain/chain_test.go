package explain_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/explain"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// seals seals a table in the place of one that may be there.
func seals[T shard.Row](t *testing.T, b *runtest.Board, path string, rows []T) {
	t.Helper()
	if _, err := seal.Read(t.Context(), path, seal.Options{}); err == nil {
		if err := seal.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	task, made := b.TaskOf(path)
	if !made {
		t.Fatalf("nothing makes %q", path)
	}
	if _, err := shard.Write(path, rows, nil, seal.AttemptFromEnv(), b.Expected(task)); err != nil {
		t.Fatal(err)
	}
}

func rowsOf[T shard.Row](t *testing.T, path string) []T {
	t.Helper()
	rows, _, err := shard.Read[T](t.Context(), path, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// chain is a run in which an instance of iteration 3 continues from the second turn of a
// response of iteration 1, sampled with staleness 1, and that from a task's entry.
func chain(t *testing.T) *runtest.Board {
	t.Helper()
	b := runtest.NewBoard(t, "schedule.iterations=4", "schedule.staleness=1", "rollout.shards=4", "curriculum.exit.select_probability=0.5")
	for k := range 3 {
		seals(t, b, b.Dir.Stats(k), []shard.Stat{})
	}
	first := shard.Entry{EntryID: "e0", TaskID: "t", Kind: "improve", ParentID: "task"}
	second := shard.Entry{
		EntryID: "e1", TaskID: "t", Kind: "improve", ParentID: "i1", Depth: 2, Turn: 1, BaseScore: 0.25, Potential: 0.5, LastSampled: 1, Visits: 7,
		Ref: shard.Ref{Iteration: 1, Row: 5, Sample: 1, Step: 2, Messages: 5},
	}
	seals(t, b, b.Dir.State(0), []shard.Entry{first})
	seals(t, b, b.Dir.State(1), []shard.Entry{first, second})
	seals(t, b, b.Dir.Plan(1), []shard.Instance{{InstanceID: "i0"}, {InstanceID: "i1", Iteration: 1, Kind: "improve", ParentID: "e0", Depth: 1, Seed: 3}})
	seals(t, b, b.Dir.Plan(3), []shard.Instance{{InstanceID: "i3", Iteration: 3, TaskID: "t", Kind: "improve", Origin: "buffer", SelectedBy: "buffer", ParentID: "e1", Depth: 2, BaseScore: 0.25, Potential: 0.5}, {InstanceID: "i4", Iteration: 3}})
	said := func(instance string, sample, step, part int32, prompt int32, texts ...string) shard.Rollout {
		r := shard.Rollout{InstanceID: instance, Sample: sample, Step: step, Part: part, PromptMessages: prompt}
		for i, text := range texts {
			r.Messages = append(r.Messages, shard.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
		}
		return r
	}
	seals(t, b, b.Dir.Rollout(1, 2), []shard.Rollout{ // rows 4 and 5 of 8
		said("i0", 1, 2, 0, 1, "q", "wrong instance"), said("i1", 0, 2, 0, 1, "q", "wrong sample"), said("i1", 1, 1, 0, 1, "q", "wrong step"),
		said("i1", 1, 2, 0, 3, "q", "history", "again", "first"), said("i1", 1, 2, 1, 1, "and", "too late"),
	})
	return b
}

// TestChain: what is known of an instance and of what it continues from, each found where
// it was planned, drawn and sampled.
func TestChain(t *testing.T) {
	t.Parallel()
	b := chain(t)
	got, err := explain.Explain(t.Context(), b.Run(), 3, "i3")
	if err != nil {
		t.Fatal(err)
	}
	want := explain.Explanation{
		Iteration: 3, InstanceID: "i3", TaskID: "t", Kind: "improve", Origin: "buffer", SelectedBy: "buffer", Depth: 2,
		Entry: &explain.Entry{EntryID: "e1", Iteration: 1, BaseScore: 0.25, Potential: 0.5, LastSampled: 1, Visits: 7},
		Ancestors: []explain.Ancestor{
			{InstanceID: "i1", Iteration: 1, Sample: 1, Kind: "improve", Depth: 1, BaseScore: 0.25, Said: []string{"first"}},
			{InstanceID: "task", Said: []string{}},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(explain.Explanation{}, "Terms", "Probability")); diff != "" {
		t.Errorf("explained (-want +got):\n%s", diff)
	}
	if last := got.Terms[len(got.Terms)-1]; got.Probability != last.Value || last.Name != "probability" || last.Value <= 0 {
		t.Errorf("probability %v of %+v: a plan that states none has what the curriculum comes to", got.Probability, got.Terms)
	}
	// A plan that states it states the same; all messages may be continued from.
	seals(t, b, b.Dir.Plan(3), []shard.Instance{{InstanceID: "i3", Iteration: 3, TaskID: "t", Kind: "improve", Origin: "buffer", ParentID: "e1", Probability: got.Probability}})
	entries := rowsOf[shard.Entry](t, b.Dir.State(1))
	entries[1].Ref.Messages = 6
	seals(t, b, b.Dir.State(1), []shard.Entry{entries[1], entries[0]})
	again, err := explain.Explain(t.Context(), b.Run(), 3, "i3")
	if err != nil || again.Probability != got.Probability || cmp.Diff([]string{"first", "too late"}, again.Ancestors[0].Said) != "" || again.Entry == nil {
		t.Errorf("stated, and to the end: %+v, %v", again, err)
	}
	first, err := explain.Explain(t.Context(), b.Run(), 1, "i1")
	if err != nil || len(first.Ancestors) != 1 || first.Entry.EntryID != "e0" {
		t.Errorf("of the first iteration: %+v, %v", first, err)
	}
}

// TestChainsThatBreak: what is missing is named, and where it was looked for.
func TestChainsThatBreak(t *testing.T) {
	t.Parallel()
	for want, breaks := range map[string]func(b *runtest.Board, e shard.Entry){
		"the plan was made by other binaries": func(b *runtest.Board, _ shard.Entry) {
			seals(t, b, b.Dir.Plan(3), []shard.Instance{{InstanceID: "i3", Iteration: 3, TaskID: "t", Kind: "improve", Origin: "buffer", ParentID: "e1", Probability: 0.123}})
		},
		`continues from entry "e9"`: func(b *runtest.Board, _ shard.Entry) {
			seals(t, b, b.Dir.Plan(3), []shard.Instance{{InstanceID: "i3", Iteration: 3, TaskID: "t", Kind: "initial", Origin: "base", ParentID: "e9"}})
		},
		"has 6 messages of instance": func(b *runtest.Board, e shard.Entry) {
			e.Ref.Messages = 7
			seals(t, b, b.Dir.State(1), []shard.Entry{e})
		},
		`has no instance "i9": it has i0 to i1`: func(b *runtest.Board, e shard.Entry) {
			e.ParentID = "i9"
			seals(t, b, b.Dir.State(1), []shard.Entry{e})
		},
		"iteration 2 is not planned yet": func(b *runtest.Board, e shard.Entry) {
			e.Ref.Iteration = 2
			seals(t, b, b.Dir.State(1), []shard.Entry{e})
		},
	} {
		b := chain(t)
		entries := rowsOf[shard.Entry](t, b.Dir.State(1))
		breaks(b, entries[1])
		_, err := explain.Explain(t.Context(), b.Run(), 3, "i3")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if code := exitcode.Code(err); code != exitcode.Data && code != exitcode.Usage {
			t.Errorf("exit code %d: %v", code, err)
		}
	}
}

// TestNoSuchInstance: an iteration or an instance that the run does not have.
func TestNoSuchInstance(t *testing.T) {
	t.Parallel()
	b := chain(t)
	for _, c := range []struct {
		iteration  int
		id         string
		code       int
		want, hint string
	}{
		{5, "i3", exitcode.Usage, "iteration 5: the run has 1 to 4", ""},
		{0, "i3", exitcode.Usage, "iteration 0: the run has 1 to 4", ""},
		{3, "i1", exitcode.Usage, `no instance "i1": it has i3 to i4`, ""},
		{4, "i4", exitcode.Data, "iteration 4 is not planned yet: there is no iter/000004/plan.parquet", "resume the run: lathe run --run"},
	} {
		_, err := explain.Explain(t.Context(), b.Run(), c.iteration, c.id)
		if exitcode.Code(err) != c.code || !strings.Contains(err.Error(), c.want) || !strings.Contains(strings.Join(exitcode.Hints(err), " "), c.hint) {
			t.Errorf("iteration %d, %s: %v", c.iteration, c.id, err)
		}
	}
}
