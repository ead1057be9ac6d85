package cpu

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
)

var testAdamW = policy.AdamW{LearningRate: 3e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxGradNorm: 1}

// trainSteps does n steps of maximum likelihood on a batch and returns the
// mean negative log-probability before each.
func trainSteps(t *testing.T, e *Engine, batch policy.Batch, n int) []float64 {
	t.Helper()
	count := 0
	coef := make([]float32, len(batch.TokenIDs))
	for _, target := range batch.Targets {
		if target {
			count++
		}
	}
	for i, target := range batch.Targets {
		if target {
			coef[i] = -1 / float32(count)
		}
	}
	var losses []float64
	for range n {
		logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1})
		loss := 0.0
		for _, x := range logProbs {
			loss -= float64(x) / float64(count)
		}
		losses = append(losses, loss)
		e.ZeroGradients()
		if err := e.Backward(policy.Coefficients{LogProb: coef}); err != nil {
			t.Fatal(err)
		}
		settings := testAdamW
		settings.Rounding = rng.New(7, rng.PurposeRounding, e.steps, "", 0)
		if _, err := e.Step(settings); err != nil {
			t.Fatal(err)
		}
	}
	return losses
}

func TestOverfit(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	weights, err := policy.Init(c, 3)
	if err != nil {
		t.Fatal(err)
	}
	losses := trainSteps(t, newEngine(t, c, weights, 2), policytest.Batch(c, 2, 20, 24), 150)
	// A new policy is close to uniform: ln 37 = 3.61 nats.
	if losses[0] < 3.4 || losses[0] > 3.9 || losses[len(losses)-1] > 0.1 {
		t.Errorf("loss went from %.3f to %.3f, want 3.6 to below 0.1", losses[0], losses[len(losses)-1])
	}
}
