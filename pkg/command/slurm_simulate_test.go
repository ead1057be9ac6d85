package command_test

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestSlurmSimulate holds what lathe simulate estimates from the tasks of a run against
// the run itself, of two and of eight shards: the mean of five seeds, of which each is some
// 5 % from the next. Whatever else the machine does, tasks and run are of the same time.
// What it estimates from a run of another size is compared in analysis/results/simulate,
// on a machine that does nothing else: 15 % off at most.
func TestSlurmSimulate(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3")
	settings := func(shards string) []string {
		return append(commandtest.Set("schedule.iterations=3", "warm_start.steps=30", "warm_start.chunk=30", "rollout.prompts=32", "rollout.group=64",
			"rollout.max_new_tokens=24", "policy.new.hidden_size=128", "policy.new.intermediate_size=256", "policy.new.num_hidden_layers=4",
			"rollout.shards="+shards), "--site", "devcluster")
	}
	for _, shards := range []string{"2", "8"} { // one after the other: they would slow each other
		dir := filepath.Join(t.TempDir(), "run")
		c.Submit("jobs/smoke.yaml", dir, settings(shards)...)
		c.Await(dir, nil)
		took := submittedToDone(t, dir)
		args := append([]string{"simulate", "jobs/smoke.yaml", "--json", "--from", dir}, settings(shards)...)
		const seeds = 5
		estimated := 0.0
		for seed := range seeds {
			estimated += wallSeconds(t, c.Must(filepath.Join(c.Bin, "lathe"), append(args, "--seed", strconv.Itoa(seed))...)) / seeds
		}
		off := estimated/took - 1
		t.Logf("%s shards took %.1f s; %.1f s is estimated: %+.0f %%", shards, took, estimated, 100*off)
		if math.Abs(off) > 0.5 {
			t.Errorf("%s shards: more than 50 %% off", shards)
		}
	}
}

// submittedToDone is from when the first array of a run was submitted to when its last
// controller job had found it done, and began to gather what was measured.
func submittedToDone(t *testing.T, dir string) float64 {
	t.Helper()
	submissions, err := advance.ReadSubmissions(graph.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	first := slices.MinFunc(submissions, func(a, b advance.Submission) int { return a.Submitted.Compare(b.Submitted) })
	gathered, err := seal.Read(t.Context(), graph.Dir(dir).Metrics(3), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return gathered.Started.Sub(first.Submitted).Seconds()
}

// wallSeconds is what lathe simulate --json says of one combination of settings.
func wallSeconds(t *testing.T, said string) float64 {
	t.Helper()
	var rows []struct {
		Outcome struct {
			WallSeconds float64 `json:"wall_seconds"`
		}
	}
	if err := json.Unmarshal([]byte(said), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%v\n%s", err, said)
	}
	return rows[0].Outcome.WallSeconds
}
