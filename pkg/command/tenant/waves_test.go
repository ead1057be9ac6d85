package tenant

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/command/internal/commandtest"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

const waves = "testdata/waves.yaml"

// TestWaves: shards of traces that wait for scores go through their waves
// without waiting for each other, and end when nothing in them waits. How they
// are cut, and whoever is killed between waves and inside them, must not change
// what comes out.
func TestWaves(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	lathe(t, 0, "run", waves, "--run", whole, "--set", "rollout.shards=1", "--set", "evaluation.shards=1")
	commandtest.Clean(t, whole)
	want := commandtest.Essence(t, whole)

	cut, began := filepath.Join(t.TempDir(), "cut"), time.Now()
	lathe(t, 0, "run", waves, "--run", cut)
	chaos := commandtest.NewChaos(t, 6)
	chaos.Whole = time.Since(began)
	commandtest.Clean(t, cut)
	if diff := cmp.Diff(want, commandtest.Essence(t, cut)); diff != "" {
		t.Errorf("digests (-one shard +three):\n%s", diff)
	}
	wavesSeen(t, cut)
	for _, stage := range []string{"rollout", "score", "buffer", "learn", "evalrollout", "evalscore", "evaluate"} {
		lathe(t, 0, "replay", cut, "--iter", "2", "--stage", stage)
	}

	for chaos.Done < chaos.Kills {
		dir := filepath.Join(t.TempDir(), "run")
		chaos.Run(25, "run", waves, "--run", dir)
		chaos.Report(dir)
		commandtest.Clean(t, dir)
		if diff := cmp.Diff(want, commandtest.Essence(t, dir)); diff != "" {
			t.Errorf("digests (-one shard +after kills):\n%s", diff)
		}
	}
	chaos.Log()
	t.Logf("%d kills, %d resumes", chaos.Done, chaos.Resumes)
}

// TestSlurmWaves takes the same run through job arrays, through steps of an
// allocation, and through arrays whose tasks and controller jobs are killed.
func TestSlurmWaves(t *testing.T) {
	program, err := exec.LookPath("lathe")
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := filepath.Abs(waves)
	if err != nil {
		t.Fatal(err)
	}
	c := commandtest.StartCluster(t, filepath.Dir(program), "--nodes", "3", "--max-array-size", "101")
	whole := filepath.Join(t.TempDir(), "whole")
	lathe(t, 0, "run", waves, "--run", whole, "--set", "rollout.shards=1", "--set", "evaluation.shards=1")
	want := commandtest.Essence(t, whole)
	same := func(t *testing.T, dir string) {
		t.Helper()
		lathe(t, 0, "run", "--run", dir) // finds it done, and sweeps
		commandtest.Clean(t, dir)
		if diff := cmp.Diff(want, commandtest.Essence(t, dir)); diff != "" {
			t.Errorf("digests (-on one machine +through Slurm):\n%s", diff)
		}
	}
	const slow = "env.slow.milliseconds=250" // longer than Slurm takes to start a task
	t.Run("arrays", func(t *testing.T) {
		c, dir, began := c.In(t), filepath.Join(t.TempDir(), "run"), time.Now()
		c.Must(program, "advance", "--recipe", recipe, "--run", dir, "--executor", "slurm", "--site", "devcluster",
			"--set", slow)
		c.Await(dir, nil)
		c.Settle()
		t.Logf("%v", time.Since(began).Round(time.Second))
		same(t, dir)
		wavesSeen(t, dir)
	})
	t.Run("steps of an allocation", func(t *testing.T) {
		c, dir := c.In(t), filepath.Join(t.TempDir(), "run")
		command := fmt.Sprintf("%s run %s --run %s --executor steps --site devcluster --set %s", program, recipe, dir, slow)
		c.Must("sbatch", "--wait", "--partition=high", "--nodes=2", "--ntasks=2", "--cpus-per-task=4", "--output="+filepath.Join(c.Dir(), "steps.log"), "--wrap", command)
		same(t, dir)
		wavesSeen(t, dir)
	})
	t.Run("kills", func(t *testing.T) {
		chaos := commandtest.NewChaos(t, 6)
		for chaos.Done < chaos.Kills {
			dir := filepath.Join(t.TempDir(), "run")
			chaos.RunOn(c.In(t), dir, 25, 15*time.Minute, "--recipe", recipe)
			same(t, dir)
		}
		chaos.Log()
	})
}

// wavesSeen checks that there is a task for each shard in which something waits
// and for no other, and that shards of an iteration were in different waves at
// once.
func wavesSeen(t *testing.T, dir string) {
	t.Helper()
	r := commandtest.Open(t, dir)
	tasks, spared, apart := 0, 0, 0
	for _, first := range []graph.Node{{Stage: graph.StageRollout, Iteration: 1}, {Stage: graph.StageRollout, Iteration: 2}, {Stage: graph.StageEvalRollout, Iteration: 2}} {
		if got := r.Graph.Waves(first.Stage); got != 5 {
			t.Errorf("%s may have %d waves, want the 5 turns", first.Stage, got)
		}
		type span struct {
			shard, wave int
			from, to    time.Time
		}
		var spans []span
		for shardNumber := range r.Graph.Shards(first) {
			waits := true
			for wave := range 5 {
				rollouts := first.InWave(wave)
				for _, n := range []graph.Node{rollouts, rollouts.Judging()} {
					task := graph.Task{Node: n, Shard: shardNumber}
					m, err := seal.Read(t.Context(), r.Dir.Sampled(n, shardNumber), seal.Options{})
					_, noLog := os.Stat(r.Dir.Log(task, 0))
					switch {
					case waits && err != nil:
						t.Errorf("%s: %v", task, err)
					case waits:
						tasks++
						spans = append(spans, span{shardNumber, wave, m.Started, m.Ended})
					case err == nil || noLog == nil:
						t.Errorf("%s has run although nothing waited for it", task)
					default:
						spared++
					}
					if n.Judges() {
						waits = waits && m.Metrics[shard.MetricWaiting] > 0
					}
				}
			}
		}
		for i, a := range spans {
			for _, b := range spans[:i] {
				if a.shard != b.shard && a.wave != b.wave && a.from.Before(b.to) && b.from.Before(a.to) {
					apart++
				}
			}
		}
	}
	t.Logf("%d tasks; %d spared, since nothing waited; %d times two shards were in different waves at once", tasks, spared, apart)
	if spared == 0 || apart == 0 {
		t.Errorf("%d tasks spared, %d times in different waves at once: the test shows little", spared, apart)
	}
}
