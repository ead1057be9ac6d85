package run_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// oneAtATime runs tasks one after another, as they have one GPU.
type oneAtATime struct{ runtest.InProcess }

func (oneAtATime) Cores() int { return 1 }

// A small recipe, whole, on the CUDA engine: the run is sound, the learner takes the
// log-probabilities that were sampled, and how the work is divided changes no byte.
func TestRecipeOnTheEngine(t *testing.T) {
	t.Setenv(policytest.LibraryVariable, policytest.Library(t))
	if policytest.Emulated() {
		t.Setenv("LATHE_HOST_MEMORY", "1073741824")
	}
	finish := func(settings ...string) *rundir.Run {
		t.Helper()
		opened := runtest.Create(t, runtest.Smoke(), append([]string{
			"policy.backend=cuda", "resources.stages={warm: {gpus: 1}, rollout: {gpus: 1}, learn: {gpus: 1}, gradient: {gpus: 1}, evaluate: {gpus: 1}}",
			"warm_start.steps=4", "warm_start.chunk=2", "warm_start.batch=8", "schedule.iterations=1", "rollout.prompts=4", "rollout.group=2",
			"evaluation.problems=2", "evaluation.samples=1",
		}, settings...)...)
		driver := &drive.Driver{Run: opened, Launcher: oneAtATime{runtest.InProcess{T: t, Run: opened}}, Attempt: seal.AttemptFromEnv(), Version: "test"}
		if err := driver.Drive(t.Context()); err != nil {
			t.Fatal(err)
		}
		return opened
	}
	whole := finish()
	runtest.Verified(t, whole)
	divided := finish("rollout.shards=1", "schedule.gradient_shards=2", "evaluation.shards=1")
	for version := range 2 {
		m, err := seal.Read(t.Context(), whole.Dir.Policy(version), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if engine, ok, err := stage.EngineOf(m); err != nil || !ok || engine.Backend != "cuda" || engine.Library == "" {
			t.Errorf("version %d was computed by %v (%v)", version, engine, err)
		}
		if a, b := runtest.Digest(t, whole.Dir.Policy(version)), runtest.Digest(t, divided.Dir.Policy(version)); a != b {
			t.Errorf("version %d is %s, and of other shards %s", version, a, b)
		}
	}
	m, err := seal.Read(t.Context(), whole.Dir.Policy(1), seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if gap, measured := m.Metrics["sampler_difference"]; measured && gap != 0 {
		t.Errorf("the sampler's log-probabilities differ from the learner's by %g nats", gap)
	}
}
