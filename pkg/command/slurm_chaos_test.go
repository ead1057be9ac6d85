package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/sourcetree"
)

// On a real Slurm, lathe advance is killed at random instants, whether a
// person or a controller job runs it, and so are tasks. Advancing again, and pruning
// on the way, goes on to the bytes of a run without kills.
func TestSlurmChaos(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3", "--max-array-size", "101")
	chaos := commandtest.NewChaos(t, 16)
	settings := []string{"schedule.iterations=3", "schedule.staleness=1", "rollout.shards=3", "schedule.max_attempts=1000000"}
	reference := filepath.Join(t.TempDir(), "reference")
	lathe(t, exitcode.OK, runArgs(reference, longSmoke, settings...)...)
	want := essence(t, reference)

	began := time.Now()
	runs := 0
	for ; chaos.Done < chaos.Kills; runs++ {
		dir := filepath.Join(t.TempDir(), "run")
		args := append([]string{"--recipe", "jobs/smoke.yaml"}, commandtest.Set(append(settings, "schedule.keep_every=2")...)...)
		chaos.RunOn(c, dir, 25, 12*time.Minute, args...)
		if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
			t.Errorf("digests (-reference +after kills):\n%s", diff)
		}
		lathe(t, exitcode.OK, "run", "--run", dir) // finds it done, and sweeps
		clean(t, dir)
	}
	chaos.Log()
	t.Logf("%d kills in %d runs, %v", chaos.Done, runs, time.Since(began).Round(time.Second))
}

// TestSlurmSweep: the runs of a sweep go on side by side on Slurm, while lathe advance
// of controller jobs is killed, and a node; continuing the sweep ends with the bytes of the
// runs by themselves. With LATHE_CHAOS it is a sweep of twenty runs.
func TestSlurmSweep(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3", "--max-array-size", "101")
	chaos := commandtest.NewChaos(t, 4)
	seeds := 1
	if os.Getenv("LATHE_CHAOS") != "" {
		seeds = 10
	}
	settings := []string{"schedule.iterations=2", "schedule.max_attempts=1000000"}
	rates := []string{"1e-3", "2e-3"}
	folder := filepath.Join(t.TempDir(), "sweep")
	args := append([]string{
		"sweep", "jobs/smoke.yaml", "--out", folder, "--seeds", fmt.Sprintf("1-%d", seeds), "--grid", "optimizer.learning_rate=" + strings.Join(rates, ","),
		"--executor", "slurm", "--site", "devcluster",
	}, commandtest.Set(settings...)...)
	var dirs []string
	want := map[string]map[string]string{}
	for seed := 1; seed <= seeds; seed++ {
		for _, rate := range rates {
			dir := filepath.Join(folder, fmt.Sprintf("smoke-learning_rate=%s-s%d", rate, seed))
			reference := filepath.Join(t.TempDir(), "reference")
			lathe(t, exitcode.OK, runArgs(reference, longSmoke, append(settings, "optimizer.learning_rate="+rate, fmt.Sprintf("seed=%d", seed))...)...)
			dirs, want[dir] = append(dirs, dir), essence(t, reference)
		}
	}
	began, lost := time.Now(), false
	c.Must(filepath.Join(c.Bin, "lathe"), args...)
	for again := time.Now(); !commandtest.AllReported(dirs); time.Sleep(50 * time.Millisecond) {
		chaos.KillOneOf(dirs)
		if !lost && time.Since(began) > 5*time.Second {
			lost = true
			c.Do(t, "kill", "n3")
		}
		if time.Since(again) > 10*time.Second {
			c.Must(filepath.Join(c.Bin, "lathe"), "sweep", "--out", folder, "--executor", "slurm", "--site", "devcluster")
			again = time.Now()
		}
		if time.Since(began) > 15*time.Minute {
			t.Fatalf("not done after %v\n%s", time.Since(began), c.Must(filepath.Join(c.Bin, "lathe"), "sweep", "--out", folder, "--status"))
		}
	}
	c.Do(t, "start", "n3")
	for _, dir := range dirs {
		if diff := cmp.Diff(want[dir], essence(t, dir)); diff != "" {
			t.Errorf("%s: digests (-reference +after kills):\n%s", dir, diff)
		}
	}
	table := c.Must(filepath.Join(c.Bin, "lathe"), "sweep", "--out", folder, "--status")
	if strings.Count(table, " done ") != len(dirs) {
		t.Errorf("of %d runs not all are done:\n%s", len(dirs), table)
	}
	chaos.Log()
	t.Logf("%d runs, %d kills and a node, %v", len(dirs), chaos.Done, time.Since(began).Round(time.Second))
}

// TestSlurmSharedWarmStart: of runs of a sweep on Slurm that have the same warm start, one
// makes it, in three checkpoints, while the controller jobs of the others wait, and all come to the
// bytes of the runs by themselves. When the run that makes it is cancelled, the others do.
func TestSlurmSharedWarmStart(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "2", "--max-array-size", "101")
	for _, cancelled := range []bool{false, true} {
		folder := filepath.Join(t.TempDir(), "sweep")
		settings := []string{"schedule.iterations=1", "warm_start.chunk=100"}
		args := append([]string{
			"sweep", "jobs/smoke.yaml", "--out", folder, "--grid", "optimizer.learning_rate=1e-3,2e-3", "--executor", "slurm", "--site", "devcluster",
		}, commandtest.Set(settings...)...)
		first, second := filepath.Join(folder, "smoke-learning_rate=1e-3-s1"), filepath.Join(folder, "smoke-learning_rate=2e-3-s1")
		if cancelled {
			c.Must("scontrol", "update", "NodeName=n1,n2", "State=DRAIN", "Reason=test") // so that nothing starts
		}
		c.Must(filepath.Join(c.Bin, "lathe"), args...)
		warm, left := 0, []string{first, second}
		if cancelled {
			c.Must(filepath.Join(c.Bin, "lathe"), "cancel", first)
			c.Must("scontrol", "update", "NodeName=n1,n2", "State=RESUME")
			warm, left = 3, left[1:]
		}
		c.Await(second, nil)
		if !cancelled {
			c.Await(first, nil)
		}
		submitted, err := filepath.Glob(filepath.Join(second, "jobs", "submitted", "warm-*"))
		if err != nil || len(submitted) != warm {
			t.Errorf("the other run cancelled %v: submissions for a warm start %q, %v; want %d", cancelled, submitted, err, warm)
		}
		for _, dir := range left {
			reference := filepath.Join(t.TempDir(), "reference")
			rate := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), "smoke-"), "-s1")
			lathe(t, exitcode.OK, runArgs(reference, longSmoke, append(settings, "optimizer."+rate)...)...)
			if want, got := c.PolicySHA256(reference), c.PolicySHA256(dir); got != want {
				t.Errorf("%s: policy %s, by itself %s", dir, got, want)
			}
		}
	}
}

// TestSlurmReproduce: a plan whose experiments learn from runs of others is executed
// on Slurm by one command, and comes to the policies that it comes to on one machine.
func TestSlurmReproduce(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3", "--max-array-size", "101")
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("first.yaml", "base: "+filepath.Join(sourcetree.Path(), "jobs", "smoke.yaml")+"\ncurriculum: {name: uniform}\nfactors: []\nschedule: {iterations: 1}\n")
	write("after.yaml", "base: first.yaml\npolicy: {new: null}\nwarm_start: {steps: 0}\n")
	write("distilled.yaml", "base: first.yaml\npolicy: {new: null, path: $LATHE_RUNS/first-s1/policy/v000000}\n"+
		"warm_start: {pool: $LATHE_RUNS/selected.parquet, steps: 5, chunk: 5, improve: 0, diverge: 0}\nschedule: {iterations: 0}\n")
	write("plan.yaml", `experiments:
  - name: chained
    seeds: 1-2
    recipes: [after.yaml, first.yaml]
    own: {after: ["policy.path={first}/policy/v000001"]}
  - name: distilled
    seeds: 1-1
    recipes: [distilled.yaml]
    pool: {experiment: chained, method: first, select: [selected]}
`)
	plan := filepath.Join(folder, "plan.yaml")
	lathe(t, exitcode.OK, "reproduce", plan, "--out", filepath.Join(folder, "here"))
	out, err := c.Command(filepath.Join(c.Bin, "lathe"), "reproduce", plan, "--out", filepath.Join(folder, "there"), "--executor", "slurm", "--site", "devcluster", "--wait",
		"--against", filepath.Join(folder, "here", "reproduction.json"))
	if want := "5 of 5 policies have the same weights as in reproduction.json, to the byte"; err != nil || !strings.Contains(out, want) {
		t.Errorf("it does not say %q, %v:\n%s", want, err, out)
	}
}
