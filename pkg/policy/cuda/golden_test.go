//go:build cgo && linux

package cuda_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// goldenFile is a model that transformers has saved, with what it makes of it.
type goldenFile struct {
	t       testing.TB
	config  policy.Config
	weights []policy.Tensor
	file    *safetensors.File
}

func openGolden(t testing.TB, folder string) goldenFile {
	t.Helper()
	file, err := safetensors.Open(filepath.Join(folder, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	config, weights, err := checkpoint.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return goldenFile{t, config, weights, file}
}

func (g goldenFile) read(name string) (values []float32, shape []int) {
	g.t.Helper()
	info, ok := g.file.Lookup(name)
	if !ok {
		g.t.Fatalf("no %s", name)
	}
	values = make([]float32, info.Elements())
	if err := g.file.Float32To(values, name); err != nil {
		g.t.Fatal(err)
	}
	return values, info.Shape
}

// batch is the sequences, with all tokens but the first as targets.
func (g goldenFile) batch() policy.Batch {
	tokens, shape := g.read("tokens")
	batch := policy.Batch{Offsets: []int32{0}}
	for i, id := range tokens {
		batch.TokenIDs = append(batch.TokenIDs, int32(id))
		batch.Targets = append(batch.Targets, i%shape[1] != 0)
	}
	for s := range shape[0] {
		batch.Offsets = append(batch.Offsets, int32((s+1)*shape[1]))
	}
	return batch
}

// mean has the derivatives of the mean over the targets.
func mean(batch policy.Batch) []float32 {
	count := 0
	for _, target := range batch.Targets {
		if target {
			count++
		}
	}
	c := make([]float32, len(batch.Targets))
	for i, target := range batch.Targets {
		if target {
			c[i] = 1 / float32(count)
		}
	}
	return c
}

// rootMeanSquare is that of a-b.
func rootMeanSquare(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	return math.Sqrt(sum / float64(max(1, len(a))))
}

// What transformers says of its own models, in float64
// (../testdata/make_golden.py and make_families.py): all families, one file and
// several, all three types of weights, and sequences of 5,300 tokens. In float32
// what is stored in float16 or bfloat16 is exact. Families with a part that the
// kernels do not compute are refused by name.
func TestAgainstTransformers(t *testing.T) {
	policytest.Library(t)
	var folders []string
	for _, kind := range []string{"golden", "families"} {
		found, err := filepath.Glob(filepath.Join("..", "testdata", kind, "*"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%d models in %s, %v", len(found), kind, err)
		}
		folders = append(folders, found...)
	}
	taken := map[string]bool{"llama-yarn": true, "mistral-full": true, "smollm3": true, "qwq": true}
	for _, folder := range folders {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			g := openGolden(t, folder)
			if filepath.Base(filepath.Dir(folder)) == "families" && !taken[name] {
				_, err := cuda.New(policy.InMemory(g.config, g.weights), cuda.Options{Library: policytest.Library(t)})
				if exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), string(g.config.Architecture)) {
					t.Errorf("%s is not refused by its name: %v", name, err)
				}
				return
			}
			batch := g.batch()
			if policytest.Emulated() && len(batch.TokenIDs) > 1000 {
				return // emulated attention over 5,300 tokens takes minutes
			}
			e := open(t, g.config, g.weights, cuda.Options{Train: true, DType: safetensors.F32}, budgets(func(b *cuda.Budgets) {
				b.PassTokens, b.Slots, b.CachePages, b.PrefillTokens = 16*(len(batch.TokenIDs)/16+len(batch.Offsets)), 0, 0, 0
			}))
			logProbs, _ := forward(t, e, batch, policy.Sampling{Temperature: 1})
			want, _ := g.read("logprobs")
			if d := difference(logProbs, want); d > closeValues {
				t.Errorf("log-probabilities differ by %.2g", d)
			}
			if policytest.Emulated() && len(batch.TokenIDs) > 500 {
				return // another twelve seconds
			}
			backward(t, e, policy.Coefficients{LogProb: mean(batch)})
			for _, gradient := range e.Gradients() {
				want, _ := g.read("grad." + gradient.Name)
				if d := difference(gradient.Data, want); d > closeGradients {
					t.Errorf("gradient of %s differs by %.2g", gradient.Name, d)
				}
			}
		})
	}
}
