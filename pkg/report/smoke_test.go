package report

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// smokeRun carries out jobs/smoke.yaml in this process, with a warm start
// that is long enough for some answers to be right.
func smokeRun(t *testing.T) *rundir.Run {
	t.Helper()
	ctx := context.Background()
	resolved := must.Get(recipe.Load(filepath.Join("..", "..", "jobs", "smoke.yaml"), []string{"warm_start.steps=300"}))(t)
	attempt := seal.AttemptFromEnv()
	r := must.Get(rundir.Create(ctx, graph.Dir(filepath.Join(t.TempDir(), "run")), resolved, attempt, "test"))(t)
	w := worker.New(r, attempt, "test", t.Logf)
	surveyor := survey.New(r.Graph)
	for {
		surveyor.Refresh()
		found := must.Get(drive.CloseAll(ctx, r, surveyor, attempt, "test"))(t)
		if found.Done {
			return r
		}
		for _, task := range found.Ready {
			if err := w.Do(ctx, task); err != nil {
				t.Fatalf("%s: %v", task, err)
			}
		}
		if len(found.Ready) == 0 {
			t.Fatal("the run is stuck")
		}
	}
}

// What the stages write under a name is found here under that name: the
// report of a real run misses nothing.
func TestRealRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a whole run takes some seconds")
	}
	r := smokeRun(t)
	s := must.Get(Write(context.Background(), r, r.Dir.Report()))(t)
	groupsOf(t, r.Dir.Report())
	for key, reason := range s.Missing {
		t.Errorf("%s is not known: %s", key, reason)
	}
	if s.Ledger.Planned == 0 || s.Ledger.Planned != s.Ledger.Trained+sum(s.Ledger.Dropped) {
		t.Errorf("ledger %+v", s.Ledger)
	}
	if n := sum(s.Outcomes); n != s.Ledger.Planned {
		t.Errorf("%d outcomes of %d responses", n, s.Ledger.Planned)
	}
	trained := 0
	for _, it := range s.Series {
		for name, missing := range map[string]bool{
			"reward": it.RewardMean == nil, "score": it.ScoreMean == nil, "response tokens": it.ResponseTokensMean == nil, "cut off": it.CutOffShare == nil,
			"buffer size": it.BufferSize == nil, "depth": it.DepthMean == nil, "kinds": it.Kinds == nil, "origins": it.Origins == nil,
			"trained": it.Trained == nil, "late shards": it.LateShards == nil, "wall": it.WallSeconds == nil, "idle": it.OrchestrationSeconds == nil,
		} {
			if missing {
				t.Errorf("iteration %d has no %s", it.Iteration, name)
			}
		}
		if *it.Trained == 0 {
			continue // nothing to learn from, so nothing to say of it
		}
		trained++
		for name, missing := range map[string]bool{
			"loss": it.Loss == nil, "entropy": it.Entropy == nil, "gradient norm": it.GradNorm == nil, "old KL": it.OldKL == nil,
			"clip share": it.ClipShare == nil, "ratio": it.RatioDeviationMax == nil, "first ratio": it.FirstStepRatioDeviationMax == nil,
		} {
			if missing {
				t.Errorf("iteration %d has no %s", it.Iteration, name)
			}
		}
	}
	if trained == 0 {
		t.Error("no iteration had anything to learn from, so the learner's numbers were not looked at")
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
