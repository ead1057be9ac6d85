package advance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// TestGoesByShard: shards that an iteration may be closed without do not wait for the
// rest of their array, but those of evaluations and all other stages do.
func TestGoesByShard(t *testing.T) {
	t.Parallel()
	g := graph.Graph{Recipe: runtest.Load(t).Recipe}
	stages := []graph.Stage{graph.StageRollout, graph.StageScore, graph.StageBuffer, graph.StageLearn, graph.StageEvalRollout, graph.StageEvaluate}
	for seconds, want := range map[float64][]graph.Stage{0: nil, 60: {graph.StageRollout, graph.StageScore}} {
		g.Recipe.Schedule.CloseAfterSeconds = seconds
		var got []graph.Stage
		for _, stage := range stages {
			if GoesByShard(g, runtest.Node(stage, 1)) {
				got = append(got, stage)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("closed after %g s: %v, want %v", seconds, got, want)
		}
	}
	// Two turns of an environment are two waves.
	g = graph.Graph{Recipe: runtest.LoadOf(t, "mle-smoke", "env.max_turns=2").Recipe}
	if !GoesByShard(g, runtest.Node(graph.StageScore, 1)) || GoesByShard(g, runtest.Node(graph.StageLearn, 1)) {
		t.Error("scores of two waves go by their array, or learning does not")
	}
}

// TestWatched: one controller job follows at most 100 ends, first of tasks that run.
func TestWatched(t *testing.T) {
	t.Parallel()
	running, pending := []int{-2, -1}, make([]int, 99)
	for i := range pending {
		pending[i] = i
	}
	if got := Watched(running, pending); len(got) != 100 || got[0] != -2 || got[1] != -1 || got[99] != 97 {
		t.Errorf("of 2 that run and 99 that wait: %v", got)
	}
	if got := Watched(nil, pending); len(got) != 99 {
		t.Errorf("of 99 that wait: %v", got)
	}
}

// TestGateArray: a controller job has one core at least, and advances the run with the
// site profile that is in it.
func TestGateArray(t *testing.T) {
	t.Parallel()
	r := &rundir.Run{Dir: "/run", Identity: rundir.Identity{RunID: "r-00000001"}}
	for asked, want := range map[int]int{0: 1, 3: 3} {
		q := &r.Recipe.Resources.Stages.Gate
		q.CPUs, q.MemoryGB, q.Minutes = asked, 2, 10
		a := GateArray(r, "/bin", "abc", 7)
		if got := fmt.Sprint(a.Run, a.Attempt, a.Shards, a.NoShard, a.CPUs, a.MemoryGB, a.GPUs, a.Minutes); got != fmt.Sprint("r-00000001", 7, []int{0}, true, want, 2, 0, 10) {
			t.Errorf("for %d cores: %s", asked, got)
		}
		const command = "/bin/lathe advance --run /run --executor slurm --site /run/jobs/site.yaml --site-sha256 abc --unless-paused"
		if got := strings.Join(a.Command, " "); got != command {
			t.Errorf("it runs %s, want %s", got, command)
		}
	}
}

// TestTryStages: what the cluster or the site cannot take is told before Slurm is asked.
func TestTryStages(t *testing.T) {
	r := runtest.NewBoard(t, "evaluation.problems=16").Run()
	r.Identity.RunID = "smoke-00ff00ff"
	limits := slurm.Limits{MaxArraySize: 1001, MaxJobCount: 10000}
	slash := *r
	slash.Dir = `/a\b`
	for name, c := range map[string]struct {
		run    *rundir.Run
		limits slurm.Limits
		fail   string
		tries  int // the controller job, and one of each stage's resources
		err    string
	}{
		"taken":                   {r, limits, "", 7, ""},
		"refused":                 {r, limits, "try*evalrollout*", 4, "a job of stage evalrollout (resources.stages.evaluate: 1 core, 2 GiB, 0 GPUs, 30 minutes) would be refused: "},
		"no array is taken":       {r, slurm.Limits{}, "", 0, "accepts no array"},
		"a folder with backslash": {&slash, limits, "", 0, "backslash"},
	} {
		a, commands := noted(t, r, c.fail, "Invalid account", nil)
		err := TryStages(t.Context(), a.Cluster, c.run, a.Site, c.limits, "")
		if got := commands(); len(got) != c.tries || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q; tries %q, want %d", name, err, c.err, got, c.tries)
		}
	}
}
