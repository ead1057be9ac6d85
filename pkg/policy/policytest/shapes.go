package policytest

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// Tiny is a model of odd sizes: widths that fill no vector and no tile.
func Tiny() policy.Config {
	return policy.Config{
		Architecture: policy.Qwen2, QKVBias: true, VocabSize: 37, HiddenSize: 20, IntermediateSize: 27, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 6, MaxPositionEmbeddings: 200,
		RMSNormEps: 1e-6, RopeTheta: 1000, TieWordEmbeddings: true, BOSTokenID: -1,
	}
}

// Normed makes a shape one of Qwen3.
func Normed(c *policy.Config) {
	c.Architecture, c.QKVBias, c.QKNorm = policy.Qwen3, false, policy.QKNormHead
}

// Families are the shapes that are compared: all architectures, tied and not,
// heads shared by several queries, by all and by none, odd sizes and even ones.
func Families() map[string]policy.Config {
	change := func(change func(c *policy.Config)) policy.Config {
		c := Tiny()
		change(&c)
		return c
	}
	return map[string]policy.Config{
		"qwen2 tied":                    Tiny(),
		"llama untied":                  change(func(c *policy.Config) { c.Architecture, c.QKVBias, c.TieWordEmbeddings = policy.Llama, false, false }),
		"llama tied, one key head":      change(func(c *policy.Config) { c.Architecture, c.QKVBias, c.NumKeyValueHeads = policy.Llama, false, 1 }),
		"qwen2 untied, a key head each": change(func(c *policy.Config) { c.TieWordEmbeddings, c.NumKeyValueHeads = false, 4 }),
		"qwen3 tied, scaled": change(func(c *policy.Config) {
			Normed(c)
			c.HeadDim = 10
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeLlama3, Factor: 8, LowFrequencyFactor: 1, HighFrequencyFactor: 4, Original: 32}
		}),
		"qwen3 untied": change(func(c *policy.Config) { Normed(c); c.TieWordEmbeddings = false }),
		"qwen2 even": change(func(c *policy.Config) {
			c.VocabSize, c.HiddenSize, c.IntermediateSize, c.HeadDim, c.NumHiddenLayers = 128, 64, 96, 32, 1
		}),
	}
}

// Composed are shapes of what other families add to the decoder, all of it at least
// once: windows of less than a page of the cache and of more, scores and logits
// that are capped, scales, norms in all places, rotary embedding of all kinds.
func Composed() map[string]policy.Config {
	change := func(architecture policy.Architecture, change func(c *policy.Config)) policy.Config {
		c := Tiny()
		c.Architecture, c.QKVBias = architecture, false
		change(&c)
		return c
	}
	layers := func(of ...policy.Layer) []policy.Layer { return of }
	return map[string]policy.Config{
		"smollm3": change(policy.SmolLM3, func(c *policy.Config) {
			c.OutputBias, c.MLPBias = true, true
			c.Layers = layers(policy.Layer{}, policy.Layer{Rope: policy.RopeNone})
		}),
		"ropes": change(policy.SmolLM3, func(c *policy.Config) { // rotary embeddings alone
			c.Layers = layers(policy.Layer{Rope: policy.RopeNone}, policy.Layer{})
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeYarn, Factor: 8, Original: 32}
		}),
		"olmo3": change(policy.Olmo3, func(c *policy.Config) {
			c.Norms, c.QKNorm, c.TieWordEmbeddings = policy.NormAfter, policy.QKNormAll, false
			c.LocalRopeTheta, c.Layers = 700, layers(policy.Layer{Window: 70, Rope: policy.RopeLocal}, policy.Layer{})
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeYarn, Factor: 4, Original: 32}
		}),
		"phi3": change(policy.Phi3, func(c *policy.Config) {
			c.Fused, c.HeadDim, c.RotaryDim = true, 8, 6
			c.Layers = layers(policy.Layer{Window: 17}, policy.Layer{Window: 17})
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeLong, Factor: 4, Original: 200, ShortFactors: []float64{1, 1.1, 1.3}, LongFactors: []float64{1, 2, 3}}
		}),
		"qwen3-moe": change(policy.Qwen3MoE, func(c *policy.Config) {
			c.QKNorm, c.Experts, c.ExpertsPerToken, c.ExpertSize, c.ExpertsNormed = policy.QKNormHead, 5, 2, 11, true
			c.Layers = layers(policy.Layer{}, policy.Layer{Dense: true})
		}),
		"olmoe": change(policy.OlmoE, func(c *policy.Config) {
			c.QKNorm, c.Experts, c.ExpertsPerToken, c.ExpertSize, c.TieWordEmbeddings = policy.QKNormAll, 4, 3, 9, false
		}),
		"granite": change(policy.Granite, func(c *policy.Config) {
			c.EmbeddingScale, c.ResidualScale, c.AttentionScale, c.LogitScale = 6, 0.3, 0.2, 3
		}),
		"gemma2": change(policy.Gemma2, func(c *policy.Config) {
			c.Norms, c.NormOffset, c.Activation = policy.NormBoth, 1, policy.GELUTanh
			c.EmbeddingScale, c.AttentionScale, c.AttentionCap, c.LogitCap = math.Sqrt(20), 0.3, 3, 5
			c.Layers = layers(policy.Layer{Window: 66}, policy.Layer{})
		}),
		"gemma3": change(policy.Gemma3, func(c *policy.Config) {
			c.Norms, c.NormOffset, c.Activation, c.QKNorm = policy.NormBoth, 1, policy.GELUTanh, policy.QKNormHead
			c.EmbeddingScale, c.AttentionScale = math.Sqrt(20), 0.3
			c.LocalRopeTheta, c.Layers = 50, layers(policy.Layer{}, policy.Layer{Window: 9, Rope: policy.RopeLocal})
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeLinear, Factor: 8}
		}),
	}
}

// families are the shapes that the backend takes.
func (b Backend) families() map[string]policy.Config {
	all := Families()
	for name, c := range Composed() {
		if b.Takes == nil || b.Takes(c) {
			all[name] = c
		}
	}
	return all
}

// Requests ask for continuations of a few prompts, several of each, of at most
// so many tokens each; prompt and response may fill more than one page of a
// cache.
func Requests(c policy.Config, seed uint64, n, tokens int, s policy.Sampling) []policy.Request {
	stream := rng.New(seed, rng.PurposeTest, 0, "requests", 0)
	requests := make([]policy.Request, n)
	for i := range requests {
		which := stream.IntN(uint64(4*i), 1+n/3)
		prompt := make([]int32, 1+stream.IntN(uint64(1e6+which), 90))
		for j := range prompt {
			prompt[j] = int32(stream.IntN(uint64(2e6+1000*which+j), c.VocabSize))
		}
		requests[i] = policy.Request{
			Prompt: prompt, MaxNewTokens: 1 + stream.IntN(uint64(4*i+1), tokens), StopTokens: []int32{3},
			Stream: rng.New(seed, rng.PurposeSample, 1, "x", i), Sampling: s,
		}
	}
	return requests
}

// AsBatch packs prompts and responses, with the responses' tokens as targets.
func AsBatch(requests []policy.Request, completions []policy.Completion) policy.Batch {
	batch := policy.Batch{Offsets: []int32{0}}
	for i, r := range requests {
		batch.TokenIDs = append(append(batch.TokenIDs, r.Prompt...), completions[i].TokenIDs...)
		for range r.Prompt {
			batch.Targets = append(batch.Targets, false)
		}
		for range completions[i].TokenIDs {
			batch.Targets = append(batch.Targets, true)
		}
		batch.Offsets = append(batch.Offsets, int32(len(batch.TokenIDs)))
	}
	return batch
}

// Part is the sequences from..to-1 of a batch without shared prefixes.
func Part(batch policy.Batch, from, to int) policy.Batch {
	first, end := batch.Offsets[from], batch.Offsets[to]
	part := policy.Batch{TokenIDs: batch.TokenIDs[first:end], Targets: batch.Targets[first:end]}
	for _, offset := range batch.Offsets[from : to+1] {
		part.Offsets = append(part.Offsets, offset-first)
	}
	return part
}
