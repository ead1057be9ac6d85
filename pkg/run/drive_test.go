package run_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/verify"
	"github.com/lathe-rl/lathe/pkg/seal"
)

func TestSmokeRun(t *testing.T) {
	opened := runtest.Finish(t, runtest.Smoke())
	result, err := verify.Verify(t.Context(), opened)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range result.Faults {
		t.Errorf("%s: %s", fault.Path, fault.Problem)
	}
	t.Logf("%+v", result.Ledger)
}

// The warm start stops on its recent loss, wherever its checkpoints are.
func TestWarmStartStopsOnLoss(t *testing.T) {
	settings := []string{"schedule.iterations=1", "warm_start.stop_loss=1.5"}
	var digests []string
	for _, chunk := range []string{"300", "23"} {
		opened := runtest.Finish(t, runtest.Smoke(), append(settings, "warm_start.chunk="+chunk)...)
		m, err := seal.Read(t.Context(), opened.Dir.Policy(0), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if steps := m.Metrics["recent_loss_steps"]; steps < 5 || steps >= 300 {
			t.Errorf("with checkpoints every %s steps the warm start took %g steps, want it to stop before the last of 300", chunk, steps)
		}
		digests = append(digests, m.SHA256)
	}
	if digests[0] != digests[1] {
		t.Errorf("the policy depends on the checkpoints: %v", digests)
	}
}
