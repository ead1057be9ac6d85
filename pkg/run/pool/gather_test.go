package pool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// answered is a run of three iterations of two shards, of which two are closed: an
// instance a shard, with two answers of a token each. The second shard of the first
// iteration is late and carried into the second.
type answered struct {
	*runtest.Board
	*rundir.Run
}

// write seals a table as the task of a run that makes it.
func write[T shard.Row](t *testing.T, g graph.Graph, path string, rows []T, inputs ...seal.Input) seal.Manifest {
	t.Helper()
	task, _ := g.TaskOf(path)
	m := g.Expected(task)
	m.Inputs = inputs
	m, err := shard.Write(path, rows, nil, seal.AttemptFromEnv(), m)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newAnswered(t *testing.T, id, tokenizer string) answered {
	t.Helper()
	b := runtest.NewBoard(t, "schedule.iterations=3", "schedule.oversample=2", "rollout.group=2")
	a := answered{b, b.Run()}
	a.Identity.RunID = id
	d := a.Run.Dir
	policy, err := seal.CreateFolder(d.Policy(0), seal.AttemptFromEnv())
	if err != nil {
		t.Fatal(err)
	}
	if tokenizer != "" {
		err = os.WriteFile(filepath.Join(policy.Path(), "tokenizer.json"), []byte(tokenizer), 0o666)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(policy.Path(), "config.json"), []byte("{}"), 0o666)
	}
	if err == nil {
		_, err = policy.Commit(b.Expected(graph.Task{Node: b.LastLearn(0)}))
	}
	if err != nil {
		t.Fatal(err)
	}
	for k := 1; k <= 2; k++ {
		var plan []shard.Instance
		for n := range 2 {
			instance := fmt.Sprintf("i%d-%d", k, n)
			plan = append(plan, shard.Instance{InstanceID: instance, TaskID: "task of " + instance})
			var rollouts []shard.Rollout
			var scores []shard.Score
			for sample := range int32(2) {
				rollouts = append(rollouts, shard.Rollout{
					InstanceID: instance, GroupID: instance, Sample: 1 - sample, Turns: 1, PromptMessages: 1, Messages: []shard.Message{says("user", "q"), says("assistant", "a")},
					TokenIDs: []int32{1, 2}, LossMask: []bool{false, true}, LogProbs: []float32{0, -1},
				})
				scores = append(scores, shard.Score{InstanceID: instance, GroupID: instance, Sample: 1 - sample, Outcome: "ok", Turns: []shard.TurnScore{{Outcome: "ok"}}})
			}
			m := write(t, b.Graph, d.Rollout(k, n), rollouts)
			write(t, b.Graph, d.Score(k, n), scores, seal.Input{Path: d.Rel(d.Rollout(k, n)), ContentSHA256: m.ContentSHA256})
		}
		write(t, b.Graph, d.Plan(k), plan)
	}
	row := func(instance string, sample int32, k, decided int, fate shard.Fate) shard.LedgerRow {
		return shard.LedgerRow{InstanceID: instance, Sample: sample, IterationSampled: int32(k), Iteration: int32(decided), Fate: string(fate)}
	}
	write(t, b.Graph, d.Ledger(1), []shard.LedgerRow{row("i1-0", 0, 1, 1, shard.FateTrained), row("i1-0", 1, 1, 1, shard.FateDropped)})
	write(t, b.Graph, d.Ledger(2), []shard.LedgerRow{
		row("i2-0", 0, 2, 2, shard.FateTrained), row("i2-0", 1, 2, 2, shard.FateTrained), row("i2-1", 0, 2, 2, shard.FateDropped),
		row("i1-1", 0, 1, 2, shard.FateTrained), row("i1-1", 1, 1, 2, shard.FateTrained),
	})
	for _, c := range []closing.Closing{
		{Iteration: 1, Shards: 2, Included: []int{0}, Late: []int{1}},
		{Iteration: 2, Shards: 2, Included: []int{0, 1}, Carried: []closing.Ref{{Iteration: 1, Shard: 1}}},
	} {
		if err := closing.Seal(a.Run, c, seal.AttemptFromEnv(), "test"); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// TestGather: the segments of closed iterations, in the order of the runs, of what decided
// them and of what sampled them; one without a disposition waits.
func TestGather(t *testing.T) {
	t.Parallel()
	one, two := newAnswered(t, "one", "t"), newAnswered(t, "another", "t")
	own := []string{"1 1 i1-0 0 task of i1-0", "1 1 i1-0 1 task of i1-0", "2 1 i1-1 0 task of i1-1", "2 1 i1-1 1 task of i1-1", "2 2 i2-0 0 task of i2-0", "2 2 i2-0 1 task of i2-0", "2 2 i2-1 0 task of i2-1"}
	for _, c := range []struct {
		which Selection
		want  []string
		kept  int
	}{{All, own, 7}, {Selected, []string{own[0], own[2], own[3], own[4], own[5]}, 5}, {Valid, own, 7}} {
		p, err := Gather(t.Context(), []*rundir.Run{one.Run, two.Run}, c.which)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range p.Rows {
			got = append(got, fmt.Sprint(row.Iteration, " ", row.IterationSampled, " ", row.InstanceID, " ", row.Sample, " ", row.TaskID))
		}
		if want := slices.Concat(c.want, c.want); !slices.Equal(got, want) || p.Rows[0].RunID != "one" {
			t.Errorf("%s: %q, want %q", c.which, got, want)
		}
		if want := (RunCount{"another", 7, c.kept, c.kept}); len(p.Runs) != 2 || p.Runs[1] != want || p.Tokenizer == "" {
			t.Errorf("%s: counts %+v, want %+v", c.which, p.Runs, want)
		}
	}
	if got := Names(); !slices.Equal(got, []string{"all", "valid", "selected"}) {
		t.Errorf("selections %q", got)
	}
}

// TestGatherRefuses: runs whose tokens do not belong together, and files that do not.
func TestGatherRefuses(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		which Selection
		runs  func() []*rundir.Run
		code  int
	}{
		"--select is":              {"some", func() []*rundir.Run { return nil }, exitcode.Usage},
		"name it once":             {All, func() []*rundir.Run { return []*rundir.Run{newAnswered(t, "a", "t").Run, newAnswered(t, "a", "t").Run} }, exitcode.Usage},
		"have different tokenizer": {All, func() []*rundir.Run { return []*rundir.Run{newAnswered(t, "a", "t").Run, newAnswered(t, "b", "u").Run} }, exitcode.Data},
		"has no tokenizer.json":    {All, func() []*rundir.Run { return []*rundir.Run{newAnswered(t, "a", "").Run} }, exitcode.Data},
		"the pool would be empty": {Selected, func() []*rundir.Run {
			a := newAnswered(t, "a", "t")
			if err := seal.Remove(a.Run.Dir.Ledger(1)); err != nil {
				t.Fatal(err)
			}
			return []*rundir.Run{a.Run}
		}, exitcode.Data},
		"no longer holds": {All, func() []*rundir.Run {
			a := newAnswered(t, "a", "t")
			if err := seal.Remove(a.Run.Dir.Rollout(1, 0)); err != nil {
				t.Fatal(err)
			}
			write(t, a.Run.Graph, a.Run.Dir.Rollout(1, 0), []shard.Rollout{{InstanceID: "i1-0"}})
			return []*rundir.Run{a.Run}
		}, exitcode.Data},
		"has 1 rows": {All, func() []*rundir.Run { return rescored(t, shard.Score{InstanceID: "i1-0"}) }, exitcode.Data},
		"row 1 is of another trace": {All, func() []*rundir.Run {
			return rescored(t, shard.Score{InstanceID: "i1-0", Sample: 1}, shard.Score{InstanceID: "i1-0", Sample: 7})
		}, exitcode.Data},
		"close.json": {All, func() []*rundir.Run {
			a := newAnswered(t, "a", "t")
			if err := seal.Remove(a.Run.Dir.Close(2)); err != nil {
				t.Fatal(err)
			}
			return []*rundir.Run{a.Run}
		}, exitcode.Data},
	} {
		if _, err := Gather(t.Context(), c.runs(), c.which); exitcode.Code(err) != c.code || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// rescored is a run whose first shard has other scores.
func rescored(t *testing.T, scores ...shard.Score) []*rundir.Run {
	a := newAnswered(t, "a", "t")
	if err := seal.Remove(a.Run.Dir.Score(1, 0)); err != nil {
		t.Fatal(err)
	}
	write(t, a.Run.Graph, a.Run.Dir.Score(1, 0), scores)
	return []*rundir.Run{a.Run}
}

// TestLaterWavesCount: of a trace that went on the last wave is gathered, in the place of
// its first.
func TestLaterWavesCount(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t)
	g := b.Graph
	g.Recipe.Env, g.Recipe.Data = runtest.LoadOf(t, "mle-smoke", "env.max_turns=3").Recipe.Env, runtest.LoadOf(t, "mle-smoke").Recipe.Data
	r := b.Run()
	r.Graph = g
	n := runtest.Node(graph.StageRollout, 1)
	for wave, instances := range [][]string{{"a", "b"}, {"b"}} {
		var rollouts []shard.Rollout
		var scores []shard.Score
		for _, id := range instances {
			rollouts = append(rollouts, shard.Rollout{InstanceID: id, Turns: int32(wave + 1), LossMask: []bool{true, false, true}[:2*wave+1], TokenIDs: make([]int32, 2*wave+1), LogProbs: make([]float32, 2*wave+1)})
			scores = append(scores, shard.Score{InstanceID: id, Reward: float64(wave)})
		}
		at := n.InWave(wave)
		write(t, g, b.Dir.Sampled(at, 0), rollouts)
		m := g.Expected(graph.Task{Node: at.Judging()})
		m.Metrics = map[string]float64{shard.MetricWaiting: float64(1 - wave)}
		if _, err := shard.Write(b.Dir.Sampled(at.Judging(), 0), scores, nil, seal.AttemptFromEnv(), m); err != nil {
			t.Fatal(err)
		}
	}
	traces, err := closing.Traces(t.Context(), r, closing.Ref{Iteration: 1})
	if err != nil || len(traces) != 2 || traces[0].Rows[0].InstanceID != "a" || traces[1].Rows[0].InstanceID != "b" || traces[1].Score.Reward != 1 || !slices.Equal(judge(traces[1], planRow{}).trace.Contexts[0].TurnTokens, []int{1, 1}) {
		t.Errorf("traces %+v, %v", traces, err)
	}
}
