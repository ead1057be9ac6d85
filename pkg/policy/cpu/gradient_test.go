package cpu

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// tinyConfig is a model of odd sizes: widths that fill no vector.
func tinyConfig() policy.Config { return policytest.Tiny() }

// normedConfig is a model with norms of queries and keys, with heads wider
// than the hidden size has room for, and with scaled rotary embedding.
func normedConfig() policy.Config {
	c := tinyConfig()
	policytest.Normed(&c)
	c.HeadDim = 10
	c.RopeScaling = policy.RopeScaling{Type: policy.RopeLlama3, Factor: 8, LowFrequencyFactor: 1, HighFrequencyFactor: 4, Original: 32}
	return c
}

// evenConfig is a model whose widths fill vectors. Pure Go takes minutes for
// the large one.
func evenConfig() policy.Config {
	c := benchConfig(1)
	if vec.Active() == vec.Go {
		c.HiddenSize, c.IntermediateSize, c.NumHiddenLayers, c.VocabSize = 32, 64, 1, 64
	}
	return c
}

func newEngine(t testing.TB, c policy.Config, weights []policy.Tensor, threads int) *Engine {
	t.Helper()
	e, err := New(policy.InMemory(c, weights), Options{Threads: threads, Train: true})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func forward(t testing.TB, e *Engine, batch policy.Batch, s policy.Sampling) (logProbs, entropy []float32) {
	t.Helper()
	logProbs, entropy = make([]float32, len(batch.TokenIDs)), make([]float32, len(batch.TokenIDs))
	if err := e.Forward(batch, s, logProbs, entropy); err != nil {
		t.Fatal(err)
	}
	return logProbs, entropy
}

// difference is the largest |a-b| relative to the largest |b|.
func difference(a []float32, b []float64) float64 {
	worst, scale := 0.0, 1e-30
	for i := range a {
		d := math.Abs(float64(a[i]) - b[i])
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		worst, scale = max(worst, d), max(scale, math.Abs(b[i]))
	}
	return worst / scale
}

// Values within 1e-5 and gradients within 1e-4 of the float64 reference,
// relative to the largest of their tensor: float32 rounds at 6e-8, and sums
// here have up to a few hundred terms.
func TestAgainstReference(t *testing.T) {
	t.Parallel()
	change := func(f func(c *policy.Config)) policy.Config {
		c := tinyConfig()
		f(&c)
		return c
	}
	configs := map[string]policy.Config{
		"qwen tied GQA":  tinyConfig(),
		"llama untied":   change(func(c *policy.Config) { c.Architecture, c.QKVBias, c.TieWordEmbeddings = policy.Llama, false, false }),
		"one head":       change(func(c *policy.Config) { c.NumAttentionHeads, c.NumKeyValueHeads = 1, 1 }),
		"all heads":      change(func(c *policy.Config) { c.NumKeyValueHeads = 4 }),
		"even sizes":     change(func(c *policy.Config) { c.HiddenSize, c.IntermediateSize, c.HeadDim, c.VocabSize = 32, 64, 16, 64 }),
		"one layer":      change(func(c *policy.Config) { c.NumHiddenLayers = 1 }),
		"qwen untied":    change(func(c *policy.Config) { c.TieWordEmbeddings = false }),
		"qwen3":          change(policytest.Normed),
		"qwen3 untied":   change(func(c *policy.Config) { policytest.Normed(c); c.TieWordEmbeddings, c.HeadDim = false, 10 }),
		"llama3 scaling": normedConfig(),
		"linear scaling": change(func(c *policy.Config) { c.RopeScaling = policy.RopeScaling{Type: policy.RopeLinear, Factor: 3} }),
		"llama tied MQA": change(func(c *policy.Config) { c.Architecture, c.QKVBias, c.NumKeyValueHeads = policy.Llama, false, 1 }),
	}
	samplings := map[string]policy.Sampling{
		"temperature 1":   {Temperature: 1},
		"temperature 0.7": {Temperature: 0.7},
		"greedy":          {},
		"top-k":           {Temperature: 1, TopK: 5},
		"top-p":           {Temperature: 1.3, TopP: 0.6},
		"top-k and top-p": {Temperature: 0.9, TopK: 9, TopP: 0.8},
	}
	run := func(name string, c policy.Config, s policy.Sampling) {
		t.Run(name, func(t *testing.T) {
			weights := policytest.LoudWeights(t, c)
			e := newEngine(t, c, weights, 1)
			// 70 and 130 tokens go over several blocks of queries.
			batch := policytest.Batch(c, 3, 1, 7, 70, 0, 2, 130)
			coef, ofEntropy := policytest.Coefficients(batch, 1), policytest.Coefficients(batch, 2)
			logProbs, entropy := forward(t, e, batch, s)
			if err := e.Backward(policy.Coefficients{LogProb: coef, Entropy: ofEntropy}); err != nil {
				t.Fatal(err)
			}
			r := newReference(c, weights)
			wantLogProbs, wantEntropy := r.run(batch, s, coef, ofEntropy)
			if d := difference(logProbs, wantLogProbs); d > 1e-5 {
				t.Errorf("log-probabilities differ by %.2g", d)
			}
			if d := difference(entropy, wantEntropy); d > 1e-5 {
				t.Errorf("entropies differ by %.2g", d)
			}
			for _, g := range e.Gradients() {
				if d := difference(g.Data, r.tensors[g.Name].g); d > 1e-4 {
					t.Errorf("gradient of %s differs by %.2g", g.Name, d)
				}
			}
		})
	}
	for name, c := range configs {
		run(name, c, policy.Sampling{Temperature: 1})
	}
	for name, s := range samplings {
		run(name, tinyConfig(), s)
	}
}

// The reference's own gradients against central differences in float64, with
// step 1e-5 and so an error of about 1e-10 of the third derivative.
func TestReferenceAgainstFiniteDifferences(t *testing.T) {
	t.Parallel()
	for _, architecture := range []policy.Architecture{policy.Qwen2, policy.Qwen3} {
		t.Run(string(architecture), func(t *testing.T) {
			c := tinyConfig()
			c.Architecture = architecture
			compareWithFiniteDifferences(t, c)
		})
	}
}

func compareWithFiniteDifferences(t *testing.T, c policy.Config) {
	weights := policytest.LoudWeights(t, c)
	batch := policytest.Batch(c, 9, 5, 8)
	coef, ofEntropy := policytest.Coefficients(batch, 1), policytest.Coefficients(batch, 2)
	s := policy.Sampling{Temperature: 0.8}
	r := newReference(c, weights)
	loss := func() float64 {
		logProbs, entropy := r.run(batch, s, make([]float32, len(coef)), nil)
		total := 0.0
		for i := range coef {
			total += float64(coef[i])*logProbs[i] + float64(ofEntropy[i])*entropy[i]
		}
		return total
	}
	r.run(batch, s, coef, ofEntropy)
	stream := rng.New(1, rng.PurposeTest, 0, "entries", 0)
	for n, w := range weights {
		m := r.tensors[w.Name]
		analytic := append([]float64{}, m.g...)
		for trial := range 4 {
			i := stream.IntN(uint64(4*n+trial), len(m.v))
			const step = 1e-5
			old := m.v[i]
			m.v[i] = old + step
			up := loss()
			m.v[i] = old - step
			down := loss()
			m.v[i] = old
			if numeric := (up - down) / (2 * step); math.Abs(numeric-analytic[i]) > 1e-6*(1+math.Abs(numeric)) {
				t.Errorf("%s[%d]: gradient %.9g, finite difference %.9g", w.Name, i, analytic[i], numeric)
			}
		}
	}
}
