package cpu

import (
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// benchConfig is a model of about millions of parameters: 1, 5, 27, or 494,
// which is the shape of Qwen2.5-0.5B.
func benchConfig(millions int) policy.Config {
	c := policy.Config{
		Architecture: policy.Qwen2, VocabSize: 260, HiddenSize: 128, IntermediateSize: 384, NumHiddenLayers: 5,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 32, MaxPositionEmbeddings: 512,
		RMSNormEps: 1e-6, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: -1,
	}
	switch millions {
	case 5:
		c.VocabSize, c.HiddenSize, c.IntermediateSize, c.NumHiddenLayers, c.HeadDim = 4096, 256, 640, 6, 64
	case 27:
		c.VocabSize, c.HiddenSize, c.IntermediateSize, c.NumHiddenLayers = 8192, 512, 1408, 8
		c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim = 8, 4, 64
	case 494:
		c.VocabSize, c.HiddenSize, c.IntermediateSize, c.NumHiddenLayers = 151936, 896, 4864, 24
		c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim = 14, 2, 64
		c.MaxPositionEmbeddings, c.RopeTheta = 32768, 1e6
	}
	return c
}

func benchEngine(b *testing.B, c policy.Config, threads int) *Engine {
	weights, err := policy.Init(c, 1)
	if err != nil {
		b.Fatal(err)
	}
	return newEngine(b, c, weights, threads)
}

// cpuSeconds is the CPU time that the process has used. Tokens per CPU second
// can be compared on a machine with other work, tokens per second cannot.
func cpuSeconds(b testing.TB) float64 { return cputime.Spent(b, false).Seconds() }

// trainer returns a function that takes one optimizer step on random tokens.
func trainer(t testing.TB, e *Engine, sequences, tokens int) func() {
	lengths := make([]int, sequences)
	for i := range lengths {
		lengths[i] = tokens
	}
	batch := policytest.Batch(e.config, 1, lengths...)
	for i := range batch.Targets {
		batch.Targets[i] = i%tokens != 0
	}
	coef := policytest.Coefficients(batch, 1)
	logProbs, entropy := make([]float32, len(coef)), make([]float32, len(coef))
	settings := policy.AdamW{LearningRate: 1e-4, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, MaxGradNorm: 1}
	return func() {
		if err := e.Forward(batch, policy.Sampling{Temperature: 1}, logProbs, entropy); err != nil {
			t.Fatal(err)
		}
		e.ZeroGradients()
		if err := e.Backward(policy.Coefficients{LogProb: coef}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Step(settings); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkTrain measures forward, backward and AdamW in tokens per second; see
// also TestAgainstPyTorch.
func BenchmarkTrain(b *testing.B) {
	for _, shape := range []struct{ millions, sequences, tokens int }{{27, 8, 256}, {5, 8, 256}, {1, 200, 40}} {
		for _, threads := range []int{1, 2} {
			c := benchConfig(shape.millions)
			name := fmt.Sprintf("params=%.1fM/sequences=%dx%d/threads=%d", float64(policy.ParameterCount(c))/1e6, shape.sequences, shape.tokens, threads)
			b.Run(name, func(b *testing.B) {
				e := benchEngine(b, c, threads)
				step := trainer(b, e, shape.sequences, shape.tokens)
				step() // the first one allocates
				b.ReportAllocs()
				start := cpuSeconds(b)
				for b.Loop() {
					step()
				}
				tokens := shape.sequences * shape.tokens
				perSecond := float64(tokens*b.N) / b.Elapsed().Seconds()
				b.ReportMetric(perSecond, "tokens/s")
				b.ReportMetric(float64(tokens*b.N)/(cpuSeconds(b)-start), "tokens/cpu-s")
				b.ReportMetric(perSecond*policy.FLOPsPerToken(c, shape.tokens)/1e9, "GFLOP/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkDecode measures sampling of 48 tokens after a prompt of 32, four
// responses to a prompt, in response tokens per second.
func BenchmarkDecode(b *testing.B) {
	for _, millions := range []int{1, 5} {
		for _, size := range []int{1, 8, 64, 512} {
			c := benchConfig(millions)
			b.Run(fmt.Sprintf("params=%.1fM/batch=%d/threads=1", float64(policy.ParameterCount(c))/1e6, size), func(b *testing.B) {
				e := benchEngine(b, c, 1)
				requests := make([]policy.Request, size)
				for i := range requests {
					prompt := make([]int32, 32)
					for j := range prompt {
						prompt[j] = int32((i/4*31 + j*7) % c.VocabSize)
					}
					requests[i] = policy.Request{
						Prompt: prompt, MaxNewTokens: 48, Stream: rng.New(1, rng.PurposeTest, 0, "", i), Sampling: policy.Sampling{Temperature: 1},
					}
				}
				b.ReportAllocs()
				start := cpuSeconds(b)
				for b.Loop() {
					generate(b, e, requests)
				}
				b.ReportMetric(float64(48*size*b.N)/b.Elapsed().Seconds(), "tokens/s")
				b.ReportMetric(float64(48*size*b.N)/(cpuSeconds(b)-start), "tokens/cpu-s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
