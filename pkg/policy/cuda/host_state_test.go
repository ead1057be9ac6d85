//go:build cgo && linux

package cuda_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The optimizer's state in the host's memory goes through the device in pieces, and no bit
// of weights and state depends on it: of groups of several pieces and of many small ones, in
// every type, with an adapter and a value head, after loading, and after a gradient that is not
// finite. The emulated device copies between page-locked memory and itself as late as CUDA
// allows, so that a wait that is missing shows.
func TestHostState(t *testing.T) {
	large := small(func(c *policy.Config) { c.VocabSize, c.NumHiddenLayers = 40000, 1 }) // 800,000 elements: four pieces
	untied := small(func(c *policy.Config) { c.TieWordEmbeddings = false })
	adapter, err := policy.InitAdapter(untied, policy.LoRA{Rank: 5, Alpha: 5, Targets: policy.LoRATargets()}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		config  policy.Config
		options cuda.Options
	}{
		{large, cuda.Options{}},
		{large, cuda.Options{DType: safetensors.BF16}},
		{large, cuda.Options{DType: safetensors.BF16, State: safetensors.BF16}}, // rounded by the number of the element
		{untied, cuda.Options{DType: safetensors.BF16, State: safetensors.BF16, ValueHead: make([]float32, untied.HiddenSize)}},
		{untied, cuda.Options{State: safetensors.BF16}},
		{untied, cuda.Options{DType: safetensors.BF16, Adapter: &adapter, ValueHead: make([]float32, untied.HiddenSize)}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c.options.Train = true
			weights := tuned(t, c.config)
			batch := policytest.Batch(c.config, 3, 7, 20)
			given := policy.Coefficients{LogProb: policytest.Coefficients(batch, 1)}
			engine := func(onHost bool) *cuda.Engine {
				return open(t, c.config, weights, c.options, budgets(func(b *cuda.Budgets) { b.HostState = onHost }))
			}
			step := func(e *cuda.Engine, settings policy.AdamW) policy.StepStats {
				t.Helper()
				e.ZeroGradients()
				forward(t, e, batch, policy.Sampling{Temperature: 1})
				backward(t, e, given)
				stats, err := e.Step(settings)
				if err != nil {
					t.Fatal(err)
				}
				return stats
			}
			onDevice, onHost := engine(false), engine(true)
			if stats, err := onHost.Stats(); err != nil || stats.StateBytes != 0 {
				t.Errorf("%d bytes of state are on the device: %v", stats.StateBytes, err)
			}
			compare := func(what string, got *cuda.Engine) {
				t.Helper()
				sameTensors(t, what+": weights", got.Weights(), onDevice.Weights())
				gotState, gotSteps := policytest.State(t, got)
				state, steps := policytest.State(t, onDevice)
				sameTensors(t, what+": state", gotState, state)
				if gotSteps != steps || len(gotState) != len(state) {
					t.Errorf("%s: %d steps and %d tensors of state, want %d and %d", what, gotSteps, len(gotState), steps, len(state))
				}
			}
			for n := range 2 {
				settings := adamW
				if c.options.ValueHead != nil {
					settings.ValueHead.MaxGradNorm = float64(n) // in the second step the head is clipped by itself
				}
				if a, b := step(onDevice, settings), step(onHost, settings); a != b {
					t.Errorf("step %d: %+v, on the device %+v", n, b, a)
				}
				compare(fmt.Sprint("step ", n), onHost)
			}
			state, steps := policytest.State(t, onHost)
			for _, s := range state {
				if strings.Contains(s.Name, "exp_avg") { // masters have to round to the weights
					for j := range s.Data {
						s.Data[j] *= 2
					}
				}
			}
			for _, e := range []*cuda.Engine{onDevice, onHost} {
				if err := e.LoadOptimizerState(state, steps); err != nil {
					t.Fatal(err)
				}
			}
			compare("state that was loaded", onHost)
			for _, e := range []*cuda.Engine{onDevice, onHost} {
				if stats := step(e, policy.AdamW{LearningRate: 1, Beta1: 0.9, Beta2: 0.9, Epsilon: 1e-8}); stats.Skipped {
					t.Error("a finite gradient was skipped")
				}
			}
			compare("the third step", onHost)
		})
	}
}
