package closing_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestDecide: four shards of 2 of 8 planned rows, of which rollout.prompts are enough.
// o is open, d done, g gave up and b broken.
func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		progress string
		prompts  int
		quorum   float64
		overdue  bool
		want     string // included / late / left out; or why it is stuck; empty for not yet
	}{
		{"dddd", 8, 1, false, "[0 1 2 3] [] []"},
		{"ddod", 8, 1, false, ""},
		{"ddod", 6, 1, false, "[0 1 3] [2] []"},
		{"ddoo", 5, 1, false, ""},
		{"ddoo", 4, 1, false, "[0 1] [2 3] []"},
		{"oodo", 8, 1, true, "[2] [0 1 3] []"},
		{"oooo", 8, 1, true, ""},
		{"dgdd", 8, 1, false, "stuck [1]: 1 of 4 shards used up all attempts, more than schedule.quorum 1 allows"},
		{"dgdd", 8, 0.75, false, "[0 2 3] [] [1]"},
		{"dggd", 8, 0.75, false, "stuck [1 2]: 2 of 4 shards used up all attempts, more than schedule.quorum 0.75 allows"},
		{"dgod", 8, 0.75, false, ""},
		{"dgod", 4, 0.75, false, "[0 3] [2] [1]"},
		{"gggg", 8, 0, true, "[] [] [0 1 2 3]"},
		{"dbgd", 8, 0, true, "stuck [1]: it would fail again the same way"},
	} {
		var g graph.Graph
		g.Recipe.Rollout.Prompts, g.Recipe.Rollout.Shards, g.Recipe.Schedule.Quorum = c.prompts, 4, c.quorum
		g.Recipe.Schedule.Oversample = 8 / float64(c.prompts)
		got := ""
		decision := closing.Decide(g, 3, c.overdue, func(shard int) closing.Progress {
			return map[byte]closing.Progress{'o': closing.Open, 'd': closing.Done, 'g': closing.GaveUp, 'b': closing.Broken}[c.progress[shard]]
		})
		if d := decision.Closing; d != nil {
			got = fmt.Sprint(d.Included, d.Late, d.LeftOut)
			if d.Iteration != 3 || d.Shards != 4 || d.Carried == nil || len(d.Carried) > 0 {
				t.Errorf("%s: %+v", c.progress, d)
			}
		}
		if decision.Stuck != nil {
			got = fmt.Sprintf("stuck %v: %s", decision.Stuck, decision.Reason)
		}
		if got != c.want {
			t.Errorf("%s with %d prompts, quorum %g, overdue %v: %q, want %q", c.progress, c.prompts, c.quorum, c.overdue, got, c.want)
		}
	}
}

// TestOutstanding: what is late until an iteration has carried it.
func TestOutstanding(t *testing.T) {
	t.Parallel()
	h := closing.History{
		1: {Iteration: 1, Included: []int{0}, Late: []int{1, 2}},
		2: {Iteration: 2, Included: []int{0, 2}, Late: []int{1}, LeftOut: []int{3}, Carried: []closing.Ref{{1, 2}}},
		3: {Iteration: 3, Included: []int{0, 1, 2}, Carried: []closing.Ref{{1, 1}}},
		5: {Iteration: 5, Late: []int{0}},
	}
	for k, want := range map[int][]closing.Ref{1: nil, 2: {{1, 1}, {1, 2}}, 3: {{1, 1}, {2, 1}}, 4: {{2, 1}}, 6: {{2, 1}}} {
		if diff := cmp.Diff(want, h.Outstanding(k), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("outstanding before iteration %d (-want +got):\n%s", k, diff)
		}
	}
	if diff := cmp.Diff([]closing.Ref{{2, 0}, {2, 2}, {1, 2}}, h[2].Reads()); diff != "" {
		t.Errorf("iteration 2 reads (-want +got):\n%s", diff)
	}
	for shard, want := range []string{"included", "late", "included", "left out", ""} {
		got := ""
		for name, is := range map[string]bool{"included": h[2].Includes(shard), "late": h[2].IsLate(shard), "left out": h[2].Lost(shard)} {
			if is {
				got += name
			}
		}
		if got != want {
			t.Errorf("shard %d of iteration 2 is %q, want %q", shard, got, want)
		}
	}
}

// TestReadHistory: closings that are sealed count, whatever is damaged between; what was
// left out ends a run with its own exit code.
func TestReadHistory(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=4")
	r := b.Run()
	want := closing.History{}
	for _, k := range []int{1, 2, 4} {
		c := closing.Closing{Iteration: k, Shards: 2, Included: []int{0}, Late: []int{}, LeftOut: []int{1}, Carried: []closing.Ref{}}
		if err := closing.Seal(r, c, seal.AttemptFromEnv(), "test"); err != nil {
			t.Fatal(err)
		}
		want[k] = c
	}
	if err := os.Truncate(b.Dir.Close(2), 1); err != nil {
		t.Fatal(err)
	}
	delete(want, 2)
	got, err := closing.ReadHistory(t.Context(), b.Dir, 4, seal.Options{})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; history (-want +got):\n%s", err, diff)
	}
	if err := closing.LeftOut(t.Context(), r); exitcode.Code(err) != exitcode.LeftOut || !strings.Contains(err.Error(), "without 2 shards") {
		t.Errorf("left out: %v", err)
	}
	whole := runtest.NewBoard(t)
	if err := closing.LeftOut(t.Context(), whole.Run()); err != nil {
		t.Errorf("nothing is left out: %v", err)
	}
}

// TestRecover: of the 4 shards of iteration 2, by what its batch was made from: 0 and 2 of
// its own and 3 of the first. The ledger tells those that were given up.
func TestRecover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		settings []string
		lost     string // instance that the ledger says was left out
		witness  func(d graph.Dir) string
		want     string // included / late / left out / carried
	}{
		{"late ones alone", []string{"schedule.oversample=2", "schedule.quorum=1"}, "", func(d graph.Dir) string { return d.Batch(2) }, "[0 2] [1 3] [] [{1 3}]"},
		{"given up ones alone", []string{"schedule.quorum=0.5"}, "", func(d graph.Dir) string { return d.State(2) }, "[0 2] [] [1 3] [{1 3}]"},
		{"both", []string{"schedule.oversample=2", "schedule.quorum=0.5"}, "i2", func(d graph.Dir) string { return d.Ledger(2) }, "[0 2] [3] [1] [{1 3}]"},
		{"nothing was made", nil, "", nil, ""},
	} {
		b := runtest.NewBoard(t, append([]string{"schedule.iterations=2", "rollout.prompts=4", "rollout.shards=4"}, c.settings...)...)
		m := b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, 2)})
		for _, path := range []string{b.Dir.Plan(2), b.Dir.Score(2, 0), b.Dir.Score(1, 3), b.Dir.Rollout(2, 0), b.Dir.Rollout(2, 1), b.Dir.Score(2, 2)} {
			m.Inputs = append(m.Inputs, seal.Input{Path: b.Dir.Rel(path)})
		}
		var plan []shard.Instance
		for i := range b.PlanRows() {
			plan = append(plan, shard.Instance{InstanceID: fmt.Sprintf("i%d", i)})
		}
		ledger := []shard.LedgerRow{
			{InstanceID: "i0", IterationSampled: 2},
			{InstanceID: c.lost, Reason: "left_out", IterationSampled: 2},
			{InstanceID: "i6", Reason: "left_out", IterationSampled: 1},
			{InstanceID: "i6", Reason: "late", IterationSampled: 2},
		}
		seals := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := shard.Write(b.Dir.Plan(2), plan, nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, 1)}))
		seals(err)
		if c.witness != nil {
			_, err = shard.Write(b.Dir.Ledger(2), ledger, nil, seal.AttemptFromEnv(), m)
			seals(err)
			if path := c.witness(b.Dir); path != b.Dir.Ledger(2) {
				seals(seal.Remove(b.Dir.Ledger(2)))
				_, err = seal.WriteBytes(path, nil, seal.AttemptFromEnv(), m)
				seals(err)
			}
		}
		closed, found, err := closing.Recover(t.Context(), b.Graph, 2)
		seals(err)
		got := ""
		if found {
			got = fmt.Sprint(closed.Included, closed.Late, closed.LeftOut, closed.Carried)
		}
		if got != c.want || found && (closed.Iteration != 2 || closed.Shards != 4) {
			t.Errorf("%s: %q, want %q (%+v)", c.what, got, c.want, closed)
		}
	}
	// Both are late or given up, and the ledger is lost: nobody can tell.
	b := runtest.NewBoard(t, "schedule.iterations=1", "schedule.oversample=2", "schedule.quorum=0.5")
	b.Seal(runtest.Node(graph.StageBuffer, 1))
	if _, found, err := closing.Recover(t.Context(), b.Graph, 1); err == nil || found || !strings.Contains(err.Error(), "finding out how iteration 1 was closed") {
		t.Errorf("without a ledger: %v, %v", found, err)
	}
}

// TestWaves: a shard ends with the first wave after which nothing in it waits.
func TestWaves(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t)
	n := runtest.Node(graph.StageRollout, 1)
	if waves, err := closing.Waves(t.Context(), b.Graph, n, 0, seal.Options{}); waves != 1 || err != nil {
		t.Errorf("an environment without waves: %d, %v", waves, err)
	}
	b.Seal(n.Judging(), 0)
	waving := b.Graph
	waving.Recipe = runtest.LoadOf(t, "mle-smoke", "env.max_turns=4").Recipe
	if waves, err := closing.Waves(t.Context(), waving, n, 0, seal.Options{}); waves != 1 || err != nil {
		t.Errorf("a shard that ends at once: %d, %v", waves, err)
	}
	for wave, waiting := range []float64{3, 1, 0} {
		if _, err := closing.Waves(t.Context(), waving, n, 1, seal.Options{}); err == nil {
			t.Errorf("wave %d is not scored yet, and the shard has ended", wave)
		}
		task := graph.Task{Node: n.InWave(wave).Judging(), Shard: 1}
		m := b.Expected(task)
		m.Metrics = map[string]float64{shard.MetricWaiting: waiting}
		if _, err := seal.WriteBytes(b.Dir.Sampled(task.Node, 1), nil, seal.AttemptFromEnv(), m); err != nil {
			t.Fatal(err)
		}
	}
	if waves, err := closing.Waves(t.Context(), waving, n, 1, seal.Options{}); waves != 3 || err != nil {
		t.Errorf("%d waves, %v", waves, err)
	}
}
