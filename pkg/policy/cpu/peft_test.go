package cpu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Adapters of the golden models qwen2-tied, one saved by PEFT and one by us, phi3
// and gemma2, with log-probabilities and gradients that PEFT computed in float64 from their
// folders (../testdata/make_lora_golden.py).
func TestAgainstPEFT(t *testing.T) {
	t.Parallel()
	lora := filepath.Join("..", "testdata", "lora")
	ours := filepath.Join(lora, "lathe")
	writeGoldenAdapter(t, ours)
	for _, name := range []string{"peft", "lathe", "phi3", "gemma2"} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(lora, name)
			base, err := checkpoint.AdapterBase(folder)
			if err != nil {
				t.Fatal(err)
			}
			source, err := checkpoint.Open(base)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			adapter, err := checkpoint.LoadAdapter(folder, source.Config(), false)
			if err != nil {
				t.Fatal(err)
			}
			e, err := New(source, Options{Threads: 1, Train: true, Adapter: &adapter})
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
			logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1})
			if d := difference(logProbs, widened(read("logprobs"))); d > 1e-5 {
				t.Errorf("log-probabilities differ by %.2g", d)
			}
			if err := e.Backward(policy.Coefficients{LogProb: read("coefficients")}); err != nil {
				t.Fatal(err)
			}
			if compared := len(golden.Tensors()) - 3; compared != len(e.Gradients()) {
				t.Errorf("PEFT has gradients of %d tensors, we of %d", compared, len(e.Gradients()))
			}
			for _, g := range e.Gradients() {
				if d := difference(g.Data, widened(read("grad."+g.Name))); d > 1e-4 {
					t.Errorf("gradient of %s differs by %.2g", g.Name, d)
				}
			}
		})
	}
}

// writeGoldenAdapter saves the adapter that PEFT's numbers are of, and checks
// that it is saved as it was then.
func writeGoldenAdapter(t *testing.T, committed string) {
	t.Helper()
	config, err := checkpoint.LoadConfig(filepath.Join("..", "testdata", "golden", "qwen2-tied"))
	if err != nil {
		t.Fatal(err)
	}
	adapter := policytest.LoudAdapter(t, config, policytest.Everywhere())
	adapter.Base = "../../golden/qwen2-tied"
	folder := t.TempDir()
	if err := checkpoint.SaveAdapter(folder, config, *adapter); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{checkpoint.AdapterConfigFile, checkpoint.AdapterWeightsFile} {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join(committed, name), got)
	}
}
