//go:build cgo && linux

package cuda_test

import (
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

func openSpeed(t *testing.T, config policy.Config, options cuda.Options) *cuda.Engine {
	options.Library = policytest.Library(t)
	e, err := cuda.New(plainSource{config}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// total is what the engine says it holds.
func total(t *testing.T, e *cuda.Engine) int64 {
	stats, err := e.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return cuda.Footprint{
		WeightBytes: stats.WeightBytes, GradientBytes: stats.GradientBytes, SumBytes: stats.SumBytes, StateBytes: stats.StateBytes,
		ActivationBytes: stats.ActivationBytes, HeadBytes: stats.HeadBytes, CacheBytes: stats.CacheBytes, OtherBytes: stats.OtherBytes,
	}.Total()
}

// batchOf is what a case learns: sequences of one length, or responses to
// prompts, which go on from one copy of all but its prompt's last token.
func batchOf(config policy.Config, c *speedCase) (batch policy.Batch, workload policy.Workload) {
	var lengths []int
	var prefixes []int32
	sequences := max(1, c.Responses)
	for range c.Sequences / sequences {
		prefix, own := int32(-1), c.Tokens
		if c.Responses > 0 {
			prefix, own = int32(len(prefixes)), c.Tokens-(c.Prompt-1)
			lengths, prefixes = append(lengths, c.Prompt-1), append(prefixes, -1)
		}
		for range sequences {
			lengths, prefixes = append(lengths, own), append(prefixes, prefix)
		}
	}
	batch = policytest.Batch(config, 1, lengths...)
	if batch.Prefixes = prefixes; c.Responses == 0 {
		batch.Prefixes = nil
	}
	rows := 0
	for s, n := range lengths {
		rows += policy.RowsOf(n)
		learned := c.Responses == 0 || prefixes[s] >= 0
		for i := range n {
			batch.Targets[int(batch.Offsets[s])+i] = learned && i > 0
		}
	}
	workload = policy.Workload{Longest: c.Tokens, PassTokens: len(batch.TokenIDs)}
	if c.Responses > 0 {
		workload.Shared = rows / (c.Sequences / sequences)
	}
	return batch, workload
}

// trainingFLOPs are those of learning a batch, forward and backward
// (policy.FLOPsPerToken), with the head's for targets alone and attention's for
// each pair of a query and a key that it sees; of weights that are frozen there is
// no gradient.
func trainingFLOPs(config policy.Config, batch policy.Batch, lora *policy.LoRA) float64 {
	head := 6 * float64(config.VocabSize) * float64(config.HiddenSize)
	blocks := policy.FLOPsPerToken(config, 0) - head
	ofPair := policy.FLOPsPerToken(config, 2) - policy.FLOPsPerToken(config, 0) // S tokens see S/2 keys on average
	targets, pairs := 0.0, 0.0
	for _, target := range batch.Targets {
		if target {
			targets++
		}
	}
	for s := range len(batch.Offsets) - 1 {
		n, before := float64(batch.Offsets[s+1]-batch.Offsets[s]), 0.0
		if prefix := batch.Prefix(s); prefix >= 0 {
			before = float64(batch.Offsets[prefix+1] - batch.Offsets[prefix])
		}
		pairs += n*before + n*(n+1)/2
	}
	tokens := float64(len(batch.TokenIDs))
	matrices := blocks*tokens + head*targets
	if lora != nil {
		adapter := 0
		for _, t := range policy.LoRALayout(config, *lora) {
			adapter += t.Elements()
		}
		matrices = matrices*2/3 + 6*float64(adapter)*tokens
	}
	return matrices + ofPair*pairs
}

// fastest is the least time of a step, after two that are not counted, and the
// seconds of it that the device was busy.
func fastest(t *testing.T, e *cuda.Engine, steps int, step func()) (best, device float64) {
	for i := range 2 + steps {
		if _, err := e.Stats(); err != nil { // starts its clock anew
			t.Fatal(err)
		}
		start := time.Now()
		step()
		seconds := time.Since(start).Seconds()
		if i < 2 || best != 0 && seconds >= best {
			continue
		}
		stats, err := e.Stats()
		if err != nil {
			t.Fatal(err)
		}
		best, device = seconds, stats.DeviceSeconds
	}
	return best, device
}

// measureTraining takes steps of maximum likelihood, of which the fastest
// counts: forward, backward and AdamW. Tokens are counted as if every response
// had its prompt.
func measureTraining(t *testing.T, c *speedCase, config policy.Config) {
	batch, workload := batchOf(config, c)
	options := cuda.Options{Train: true, Workload: workload}
	var lora *policy.LoRA
	if c.LoRA > 0 {
		adapter, err := policy.InitAdapter(config, policy.LoRA{Rank: c.LoRA, Alpha: 2 * float64(c.LoRA), Targets: policy.LoRATargets()}, 1)
		if err != nil {
			t.Fatal(err)
		}
		options.Adapter, lora = &adapter, &adapter.LoRA
	}
	e := openSpeed(t, config, options)
	given := policy.Coefficients{LogProb: mean(batch)}
	settings := adamW
	settings.LearningRate = 1e-6
	best, device := fastest(t, e, c.Steps, func() {
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		e.ZeroGradients()
		backward(t, e, given)
		if _, err := e.Step(settings); err != nil {
			t.Fatal(err)
		}
	})
	c.DeviceSeconds = device
	c.TokensPerSecond = float64(c.Sequences*c.Tokens) / best
	c.FLOPsPerSecond = trainingFLOPs(config, batch, lora) / best
	c.PeakBytes = total(t, e)
	c.How = "bfloat16, float32 masters and moments"
}

// measureHead computes log-probabilities and entropies and goes back through
// both, in a model that has the case's head and hardly anything else: one block
// of one head of attention, whose time counts too.
func measureHead(t *testing.T, c *speedCase, config policy.Config) {
	config.NumHiddenLayers, config.NumAttentionHeads, config.NumKeyValueHeads, config.HeadDim, config.IntermediateSize = 1, 1, 1, 64, 64
	batch, workload := batchOf(config, c)
	e := openSpeed(t, config, cuda.Options{Train: true, Workload: workload})
	given := policy.Coefficients{LogProb: mean(batch), Entropy: mean(batch)}
	best, device := fastest(t, e, c.Steps, func() {
		forward(t, e, batch, policy.Sampling{Temperature: 1})
		backward(t, e, given)
	})
	c.DeviceSeconds = device
	c.TokensPerSecond = float64(c.Sequences*c.Tokens) / best
	c.FLOPsPerSecond = trainingFLOPs(config, batch, nil) / best
	stats, err := e.Stats()
	if err != nil {
		t.Fatal(err)
	}
	c.PeakBytes = stats.HeadBytes
	c.How = "bfloat16, with a block of one narrow head"
}

// measureDecoding samples a response for each of the same number of prompts.
func measureDecoding(t *testing.T, c *speedCase, config policy.Config) {
	e := openSpeed(t, config, cuda.Options{Workload: policy.Workload{Generate: true, Responses: c.Batch, Longest: c.Prompt + c.Tokens}})
	requests := make([]policy.Request, c.Batch)
	for i := range requests {
		one := policytest.Batch(config, uint64(i), c.Prompt)
		requests[i] = policy.Request{
			Prompt: one.TokenIDs, MaxNewTokens: c.Tokens, Stream: rng.New(1, rng.PurposeSample, 0, "speed", i), Sampling: policy.Sampling{Temperature: 1},
		}
	}
	best := 0.0
	for range 2 {
		start := time.Now()
		generate(t, e, requests)
		best = time.Since(start).Seconds() // the first has the graphs to make
	}
	c.TokensPerSecond = float64(c.Batch*c.Tokens) / best
	// Each step reads the weights once, and the keys and values so far.
	context := float64(c.Prompt) + float64(c.Tokens)/2
	memory := policy.MemoryOf(config, safetensors.BF16)
	c.BytesPerSecond = c.TokensPerSecond / float64(c.Batch) * (float64(memory.WeightBytes) + float64(c.Batch)*context*float64(memory.KVBytes))
	c.PeakBytes = total(t, e)
	c.How = "bfloat16, prompts included"
}
