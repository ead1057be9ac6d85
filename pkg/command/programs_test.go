package command_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

const programs = "../../jobs/mle-smoke.yaml"

// playPrograms are settings for two iterations of two turns each, from the
// policy that the recipe warms up.
func playPrograms(t *testing.T) []string {
	t.Helper()
	return append(from(warmPrograms(t)), "env.max_turns=2", "rollout.prompts=2", "evaluation.samples=1", "evaluation.steps=0")
}

// from are settings for a run from a policy of another.
func from(folder string) []string {
	return []string{"policy.new=null", "policy.path=" + folder, "warm_start.steps=0"}
}

// warmPrograms is the policy that the recipe warms up.
func warmPrograms(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	dir := made(t, programs, "schedule.iterations=1", "rollout.prompts=1", "rollout.shards=1", "evaluation.samples=1", "evaluation.steps=0")
	return filepath.Join(dir, "policy", "v000000")
}

// methods are compositions that keep a memory, windows and thresholds, or a buffer with
// its potentials and visits, from iteration to iteration.
var methods = map[string][]string{
	"mlerl": {
		"preset=reinforce", "env.fingerprint=true", "curriculum.name=restarts", "curriculum.restarts.reset_ratio=0.3",
		"segments=valid_submission", "reward.name=running_mean", "reward.running_mean.window=4",
		"select=[no_submission, invalid_turns, {below_percentile: {percentile: 20, submissions: 2}}]", "schedule.batch_segments=8",
	},
	"ace": {"curriculum.name=ace", "reward.name=score_and_improvement"},
}

// TestProgramsChaos: whoever is killed while programs of the policy run, nothing
// changes but the seconds that had to be measured again, and no program is left.
func TestProgramsChaos(t *testing.T) {
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	play := append(playPrograms(t), "schedule.max_attempts=1000000")
	c := commandtest.NewChaos(t, 5)
	each := c.Kills / len(methods)
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		settings := slices.Concat(play, methods[name])
		reference, began := filepath.Join(t.TempDir(), "reference"), time.Now()
		lathe(t, exitcode.OK, runArgs(reference, programs, settings...)...)
		c.Whole = time.Since(began)
		t.Logf("%s: a run without kills takes %v", name, c.Whole.Round(10*time.Millisecond))
		commandtest.Clean(t, reference)
		want := commandtest.Essence(t, reference)
		ran(t, reference)
		for until := c.Done + each; c.Done < until; {
			dir := filepath.Join(t.TempDir(), "run")
			c.Run(min(25, until-c.Done), runArgs(dir, programs, settings...)...)
			c.Report(dir)
			commandtest.Clean(t, dir)
			if diff := cmp.Diff(want, commandtest.Essence(t, dir)); diff != "" {
				t.Errorf("%s: digests (-without kills +with):\n%s", name, diff)
			}
			ran(t, dir)
		}
	}
	c.Log()
	folders, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, folder := range folders {
		if cwd, err := os.Readlink(folder); err == nil && strings.HasPrefix(cwd, scratch) {
			t.Errorf("a program is left in %s", cwd)
		}
	}
}

// ran checks that programs ran in both waves, valid ones among them.
func ran(t *testing.T, dir string) {
	t.Helper()
	for wave, pattern := range []string{"iter/*/score/*.parquet", "iter/*/w01/score/*.parquet"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Errorf("wave %d has no scores: %v", wave, err)
		}
		valid, seconds := 0, 0.0
		for _, path := range files {
			rows, _, err := shard.Read[shard.Score](t.Context(), path, seal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if seconds += row.ExecuteSeconds; row.Outcome == string(shard.OutcomeOK) {
					valid++
				}
			}
		}
		if valid == 0 || seconds == 0 {
			t.Errorf("wave %d: %d valid submissions, programs ran for %v s; want some", wave, valid, seconds)
		}
	}
}

// TestSlurmPrograms takes the same run through job arrays: tasks and controller jobs are
// killed, a score task is requeued, and a node is lost while it runs programs.
func TestSlurmPrograms(t *testing.T) {
	t.Parallel()
	c := commandtest.StartCluster(t, commandtest.Build(t), "--nodes", "3", "--max-array-size", "101")
	settings := slices.Concat(playPrograms(t), []string{"schedule.iterations=4", "rollout.shards=3", "rollout.prompts=6", "rollout.group=12"})
	reference := filepath.Join(t.TempDir(), "reference")
	lathe(t, exitcode.OK, runArgs(reference, programs, settings...)...)
	want := commandtest.Essence(t, reference)

	dir := filepath.Join(t.TempDir(), "run")
	c.Submit("jobs/mle-smoke.yaml", dir, append(commandtest.Set(settings...), "--site", "devcluster")...)
	var requeued, lost string
	var since time.Time
	c.Await(dir, func() {
		for began := time.Now(); time.Since(began) < time.Second && lost == "" && since.IsZero(); time.Sleep(100 * time.Millisecond) {
			out, _ := c.Command("squeue", "-h", "-r", "-t", "running", "-o", "%F_%K %j %N")
			for line := range strings.Lines(out) {
				word := strings.Fields(line)
				if len(word) != 3 || !strings.Contains(word[1], "-score-") {
					continue
				}
				if requeued == "" {
					if _, err := c.Command("scontrol", "requeue", word[0]); err == nil {
						requeued = word[1]
					}
				} else if word[1] != requeued {
					lost, since = word[2], time.Now()
					c.Do(t, "kill", lost)
				}
				break
			}
		}
		if lost != "" && time.Since(since) > 40*time.Second {
			c.Do(t, "start", lost)
			lost = ""
		}
	})
	if requeued == "" || since.IsZero() {
		t.Errorf("requeued %q, node lost at %v: want both", requeued, since)
	}
	c.Must(filepath.Join(c.Bin, "lathe"), "advance", "--run", dir, "--executor", "slurm", "--site", "devcluster") // sweeps
	commandtest.Clean(t, dir)
	ran(t, dir)
	if diff := cmp.Diff(want, commandtest.Essence(t, dir)); diff != "" {
		t.Errorf("digests (-on this machine +through Slurm):\n%s", diff)
	}
}
