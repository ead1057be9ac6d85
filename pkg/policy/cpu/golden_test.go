package cpu

import (
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Models saved by Hugging Face transformers, with log-probabilities and
// gradients that it computed in float64 (../testdata/make_golden.py).
func TestAgainstTransformers(t *testing.T) {
	for _, name := range []string{"qwen2", "llama"} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("..", "testdata", name)
			config, weights, err := policy.Load(folder)
			if err != nil {
				t.Fatal(err)
			}
			golden, err := safetensors.Open(filepath.Join(folder, "golden.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer golden.Close()
			read := func(name string) []float32 {
				info, _ := golden.Lookup(name)
				values := make([]float32, info.Elements())
				if err := golden.Float32To(values, name); err != nil {
					t.Fatal(err)
				}
				return values
			}
			batch := policy.Batch{Offsets: []int32{0, 24, 48}}
			for i, id := range read("tokens") {
				batch.TokenIDs = append(batch.TokenIDs, int32(id))
				batch.Targets = append(batch.Targets, i%24 != 0)
			}
			e := newEngine(t, config, weights, 1)
			logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1})
			if d := difference(logProbs, widened(read("logprobs"))); d > 1e-5 {
				t.Errorf("log-probabilities differ by %.2g", d)
			}
			if err := e.Backward(policy.Coefficients{LogProb: read("coefficients")}); err != nil {
				t.Fatal(err)
			}
			for _, g := range e.Gradients() {
				if d := difference(g.Data, widened(read("grad."+g.Name))); d > 1e-4 {
					t.Errorf("gradient of %s differs by %.2g", g.Name, d)
				}
			}
		})
	}
}

func widened(x []float32) []float64 {
	wide := make([]float64, len(x))
	for i := range x {
		wide[i] = float64(x[i])
	}
	return wide
}
