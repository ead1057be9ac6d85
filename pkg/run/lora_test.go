package run_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/seal"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// adapted are settings that train an adapter of a policy that can already
// answer, towards which a penalty pulls.
func adapted(base graph.Dir) []string {
	return []string{
		"policy.new=null", "policy.path=" + base.Policy(0), "policy.lora={rank: 4, alpha: 8, targets: [v_proj, q_proj, down_proj]}",
		"warm_start.steps=0", "loss.mini_batches=2", "loss.kl.coef=0.05", "loss.kl.ref_every=0", "optimizer.learning_rate=1e-2", "evaluation.every=1",
	}
}

// sealed maps what every task of a run but the gradient shards made to its
// content's digest.
func sealed(t *testing.T, r *rundir.Run) map[string]string {
	t.Helper()
	digests := map[string]string{}
	for _, n := range r.Graph.Nodes() {
		if n.Stage == graph.StageGradient || n.Stage == graph.StageLearn && n.Step < r.Graph.OptimizerSteps()-1 && n.Step > 0 {
			continue
		}
		for shard := range r.Graph.Shards(n) {
			for _, path := range r.Graph.Outputs(graph.Task{Node: n, Shard: shard}) {
				if strings.Contains(path, string(filepath.Separator)+"step"+string(filepath.Separator)) {
					continue
				}
				m, err := seal.Verify(t.Context(), path, seal.Options{})
				if err != nil {
					t.Fatal(err)
				}
				digests[r.Dir.Rel(path)] = m.ContentSHA256
			}
		}
	}
	return digests
}

// stopping ends a drive after some tasks were launched.
type stopping struct {
	runtest.InProcess
	left int
	stop context.CancelFunc
}

func (s *stopping) Launch(ctx context.Context, a executor.Array, done func(executor.Result)) error {
	if s.left--; s.left < 0 {
		s.stop()
	}
	return s.InProcess.Launch(ctx, a, done)
}

// A run that trains an adapter: its versions are PEFT folders beside one copy
// of the policy, and how the work is cut or interrupted, or where the run
// lies, changes no byte.
func TestLoRARun(t *testing.T) {
	first := runtest.Finish(t, runtest.Smoke(), "schedule.iterations=1", "evaluation.problems=2")
	settings := adapted(first.Dir)
	whole := runtest.Finish(t, runtest.Smoke(), settings...)
	want := sealed(t, whole)
	runtest.Verified(t, whole)

	base, err := checkpoint.Digest(whole.Dir.Base())
	if err != nil {
		t.Fatal(err)
	}
	if original, err := checkpoint.Digest(first.Dir.Policy(0)); err != nil || base != original {
		t.Errorf("policy/base has weights %s, the policy that was named %s (%v)", base, original, err)
	}
	before := want["policy/v000000"]
	for version := range 3 {
		folder := whole.Dir.Policy(version)
		if _, err := os.Stat(filepath.Join(folder, checkpoint.WeightsFile)); err == nil {
			t.Errorf("version %d has weights of its own", version)
		}
		raw, err := os.ReadFile(filepath.Join(folder, checkpoint.AdapterConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		var stated struct {
			Base    string   `json:"base_model_name_or_path"`
			Targets []string `json:"target_modules"`
		}
		if err := json.Unmarshal(raw, &stated); err != nil {
			t.Fatal(err)
		}
		if stated.Base != "../base" || !cmp.Equal(stated.Targets, []string{"q_proj", "v_proj", "down_proj"}) {
			t.Errorf("version %d: %+v", version, stated)
		}
		for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "lathe_chat.json"} {
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				t.Errorf("version %d: %v", version, err)
			}
		}
		if now := want[whole.Dir.Rel(folder)]; version > 0 && now == before {
			t.Errorf("version %d is the one before", version)
		} else {
			before = now
		}
	}
	m, err := seal.Read(t.Context(), whole.Dir.Rollout(1, 0), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cited := false
	for _, input := range m.Inputs {
		cited = cited || input.Path == "policy/base"
	}
	if !cited {
		t.Errorf("a rollout shard does not cite the base: %+v", m.Inputs)
	}

	t.Run("3 gradient shards", func(t *testing.T) {
		cut := runtest.Finish(t, runtest.Smoke(), append(settings, "schedule.gradient_shards=3", "rollout.shards=3")...)
		runtest.Verified(t, cut)
		got := sealed(t, cut)
		for _, path := range []string{"policy/base", "policy/v000000", "policy/v000001", "policy/v000002", "policy/v000001.optim", "policy/v000002.optim"} {
			if want[path] == "" || got[path] != want[path] {
				t.Errorf("%s: %s, want %s", path, got[path], want[path])
			}
		}
		// Optimizer state holds adapters only.
		f, err := safetensors.Open(filepath.Join(cut.Dir.Optimizer(2), checkpoint.OptimizerFile))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, info := range f.Tensors() {
			if !strings.Contains(info.Name, ".lora_") {
				t.Errorf("the optimizer's state holds %q", info.Name)
			}
		}
	})
	t.Run("stopped and continued", func(t *testing.T) {
		resolved, err := recipe.Load(runtest.Smoke(), settings)
		if err != nil {
			t.Fatal(err)
		}
		dir := graph.Dir(filepath.Join(t.TempDir(), "run"))
		for tasks := 1; ; tasks++ {
			opened, err := rundir.Create(t.Context(), dir, resolved, seal.AttemptFromEnv(), "test")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			launcher := &stopping{runtest.InProcess{T: t, Run: opened}, tasks, stop}
			err = (&drive.Driver{Run: opened, Launcher: launcher, Attempt: seal.AttemptFromEnv(), Version: "test"}).Drive(ctx)
			stop()
			if err == nil {
				runtest.Verified(t, opened)
				if diff := cmp.Diff(want, sealed(t, opened)); diff != "" {
					t.Errorf("digests (-whole +stopped):\n%s", diff)
				}
				return
			}
			if exitcode.Code(err) != exitcode.Stopped {
				t.Fatal(err)
			}
		}
	})
	t.Run("moved, replayed and repaired", func(t *testing.T) {
		moved := graph.Dir(filepath.Join(t.TempDir(), "elsewhere", "run"))
		if err := os.MkdirAll(filepath.Dir(string(moved)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(string(whole.Dir), string(moved)); err != nil {
			t.Fatal(err)
		}
		opened, err := rundir.Open(t.Context(), moved)
		if err != nil {
			t.Fatal(err)
		}
		w := worker.New(opened, seal.AttemptFromEnv(), "test", t.Logf)
		replayed, err := worker.Replay(t.Context(), w, []graph.Task{
			{Node: graph.Node{Stage: graph.StageWarm, Iteration: 1}},
			{Node: graph.Node{Stage: graph.StageRollout, Iteration: 2}},
			{Node: graph.Node{Stage: graph.StageLearn, Iteration: 2}},
			{Node: graph.Node{Stage: graph.StageEvaluate, Iteration: 2}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range replayed {
			if !r.Same {
				t.Errorf("%s is another when made again", r.Path)
			}
		}
		// A link would damage the policy that the run started from too.
		if err := os.Remove(filepath.Join(opened.Dir.Base(), checkpoint.WeightsFile)); err != nil {
			t.Fatal(err)
		}
		found, err := verify.Verify(t.Context(), opened)
		if err != nil || len(found.Faults) == 0 {
			t.Fatalf("the lost base is not found: %v", err)
		}
		if _, err := verify.Repair(opened, found, seal.AttemptFromEnv()); err != nil {
			t.Fatal(err)
		}
		driver := &drive.Driver{Run: opened, Launcher: runtest.InProcess{T: t, Run: opened}, Attempt: seal.AttemptFromEnv(), Version: "test"}
		if err := driver.Drive(t.Context()); err != nil {
			t.Fatal(err)
		}
		runtest.Verified(t, opened)
		if diff := cmp.Diff(want, sealed(t, opened)); diff != "" {
			t.Errorf("digests (-before +repaired):\n%s", diff)
		}
	})
}

// With policy.lora the warm start trains the adapter too, and a run goes on
// from an adapter that another run made.
func TestLoRAWarmStart(t *testing.T) {
	lora := "policy.lora={rank: 2, alpha: 4}"
	opened := runtest.Finish(t, runtest.Smoke(), lora, "loss.kl.ref_every=0", "warm_start.steps=6", "warm_start.chunk=2", "schedule.iterations=1", "evaluation.problems=2")
	runtest.Verified(t, opened)
	_, base, err := checkpoint.Load(opened.Dir.Base())
	if err != nil {
		t.Fatal(err)
	}
	config, err := checkpoint.LoadConfig(opened.Dir.Base())
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := policy.Init(config, opened.Recipe.Seed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range fresh {
		if !cmp.Equal(base[i].Data, fresh[i].Data) {
			t.Fatalf("%s of the base is not the drawn one", base[i].Name)
		}
	}
	trained, err := checkpoint.LoadAdapter(opened.Dir.Policy(0), config, true)
	if err != nil {
		t.Fatal(err)
	}
	moved := false
	for _, tensor := range trained.Tensors {
		if strings.HasSuffix(tensor.Name, "lora_B.weight") {
			for _, x := range tensor.Data {
				moved = moved || x != 0
			}
		}
	}
	if !moved {
		t.Error("the warm start trained nothing")
	}
	next := runtest.Finish(t, runtest.Smoke(), lora, "policy.new=null", "policy.path="+opened.Dir.Policy(1), "loss.kl.ref_every=0", "warm_start.steps=0", "schedule.iterations=1", "evaluation.problems=2")
	runtest.Verified(t, next)
	was, err := os.ReadFile(filepath.Join(opened.Dir.Policy(1), checkpoint.AdapterWeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(filepath.Join(next.Dir.Policy(0), checkpoint.AdapterWeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	if string(was) != string(is) {
		t.Error("the run does not start from the adapter that it was given")
	}
}
