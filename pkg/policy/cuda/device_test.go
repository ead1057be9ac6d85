//go:build cgo && linux

package cuda_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The library opens, finds a device, and an engine on it computes numbers: the first thing to
// look at on a machine with a GPU (cuda/gpu-check.sh, stage open).
func TestOpens(t *testing.T) {
	device, err := cuda.Find(policytest.Library(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", device)
	c := small(nil)
	e := open(t, c, tuned(t, c), cuda.Options{DType: safetensors.BF16}, budgets(nil))
	logProbs, _ := forward(t, e, policytest.Batch(c, 3, 12), policy.Sampling{Temperature: 1})
	for i, x := range logProbs {
		if math.IsNaN(float64(x)) || x > 0 {
			t.Errorf("token %d has log-probability %g", i, x)
		}
	}
	t.Logf("engine %s", e.Arithmetic())
}

// stepVariable names a file for the digest that TestStepTwice computes, so that two processes
// can be compared.
const stepVariable = "LATHE_GPU_STEP"

// One training step has the same bytes twice, in two engines of one process; on a GPU, of a
// policy with widths as published ones have them.
func TestStepTwice(t *testing.T) {
	c := small(nil)
	lengths, pass := []int{7, 70, 0, 31}, 512
	if !policytest.Emulated() {
		c = small(func(c *policy.Config) {
			c.VocabSize, c.HiddenSize, c.IntermediateSize, c.NumHiddenLayers = 32000, 896, 4864, 4
			c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim, c.MaxPositionEmbeddings = 14, 2, 64, 4096
		})
		lengths, pass = []int{7, 1500, 0, 2100}, 4096
	}
	weights := tuned(t, c)
	step := func() string {
		e := open(t, c, weights, cuda.Options{Train: true, DType: safetensors.BF16}, budgets(func(b *cuda.Budgets) { b.PassTokens = pass }))
		batch := policytest.Batch(c, 3, lengths...)
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		backward(t, e, policy.Coefficients{LogProb: policytest.Coefficients(batch, 1)})
		stats, err := e.Step(adamW)
		if err != nil || stats.Skipped {
			t.Fatalf("the step: %+v, %v", stats, err)
		}
		sum := sha256.New()
		for _, tensor := range e.Weights() {
			if err := binary.Write(sum, binary.LittleEndian, tensor.Data); err != nil {
				t.Fatal(err)
			}
		}
		return fmt.Sprintf("%x", sum.Sum(nil))
	}
	first, second := step(), step()
	if first != second {
		t.Errorf("weights after one step are %s, and again %s", first, second)
	}
	if path := os.Getenv(stepVariable); path != "" {
		if err := os.WriteFile(path, []byte(first+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
