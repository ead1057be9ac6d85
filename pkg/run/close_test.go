package run_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// actionRun makes a run over the actions, with a shard for each.
func actionRun(t *testing.T, settings ...string) *rundir.Run {
	t.Helper()
	path := filepath.Join(t.TempDir(), "actions.yaml")
	text := `policy: {backend: cpu, new: {hidden_size: 8, intermediate_size: 8, num_hidden_layers: 1, num_attention_heads: 1, num_key_value_heads: 1, max_position_embeddings: 16}}
env: {name: test-actions}
curriculum: {name: test-actions}
warm_start: {steps: 1, batch: 1, chunk: 1, improve: 0, diverge: 0}
preset: reinforce
segments: trajectory
reward: {name: verdict}
advantage: {name: none}
factors: [duration]
select: []
rollout: {group: 1, max_new_tokens: 1}
optimizer: {learning_rate: 1e-9}
score: {embedding: none}
evaluation: {problems: 1, samples: 1, steps: 0, greedy: false}
`
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	resolved, err := recipe.Load(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := rundir.Create(t.Context(), graph.Dir(filepath.Join(t.TempDir(), "run")), resolved, seal.AttemptFromEnv(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// impatient is a clock by which an iteration is overdue once one of its shards is done.
var impatient = survey.Clock{
	Now:   func() time.Time { return time.Unix(3600, 0) },
	Began: func(context.Context, int) (time.Time, error) { return time.Unix(1, 0), nil },
}

// TestClosings: iterations that are closed with what is done of them after a time. What
// was decided is not decided again, also when its record is lost, and a run whose process
// ends between goes on to its end. Every planned response has a disposition.
func TestClosings(t *testing.T) {
	for _, late := range []string{recipe.LateDrop, recipe.LateCarry} {
		r := actionRun(t, "rollout.prompts=8", "rollout.shards=8", "schedule.iterations=3", "schedule.close_after_seconds=1", "schedule.late="+late)
		launcher := runtest.LauncherOf(t, r)
		launcher.Slots = 3
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		driver := &drive.Driver{Run: r, Launcher: launcher, Attempt: seal.AttemptFromEnv(), Version: "test", Clock: impatient, Watch: func(p drive.Progress) {
			if p.Task.Iteration == 2 && p.Task.Stage == graph.StageScore && p.Event == "done" {
				cancel()
			}
		}}
		if err := driver.Drive(ctx); err == nil {
			t.Fatal("the driver was not stopped")
		}
		before, err := closing.Read(t.Context(), r.Dir, 1, seal.Options{})
		if err != nil || len(before.Late) == 0 {
			t.Fatalf("iteration 1 was closed with %+v (%v)", before, err)
		}
		if err := seal.Remove(r.Dir.Close(1)); err != nil {
			t.Fatal(err)
		}
		v, _ := runtest.Faults(t, r)
		if _, err := verify.Repair(r, v, seal.AttemptFromEnv()); err != nil || len(v.Faults) == 0 {
			t.Fatalf("%d faults, %v", len(v.Faults), err)
		}
		driver = &drive.Driver{Run: r, Launcher: launcher, Attempt: seal.AttemptFromEnv(), Version: "test", Clock: impatient}
		if err := driver.Drive(t.Context()); err != nil {
			t.Fatal(err)
		}
		ledger := runtest.Exact(t, r)
		if late == recipe.LateDrop && (ledger.Dropped["late"] == 0 || ledger.Planned != ledger.Trained+ledger.Dropped["late"]) {
			t.Errorf("late: %s: ledger %+v", late, ledger)
		}
		after, err := closing.Read(t.Context(), r.Dir, 1, seal.Options{})
		if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("late: %s: iteration 1 was closed with %+v, and now with %+v (%v)", late, before, after, err)
		}
	}
}
