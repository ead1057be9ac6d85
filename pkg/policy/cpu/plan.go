package cpu

import (
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Case is an engine to plan for.
type Case struct {
	DType     safetensors.DType // of the weights; empty is F32
	State     safetensors.DType // as in Options
	Compute   safetensors.DType // as in Options
	Train     bool
	ValueHead bool
	LoRA      *policy.LoRA
	Threads   int // 1 or more
	// Tokens bounds those of all sequences between two sums of gradients; 0 for not known.
	Tokens int
	policy.Workload
}

// Plan is the memory that an engine takes, in bytes.
type Plan struct {
	WeightBytes     int64 `json:"weight_bytes"`
	GradientBytes   int64 `json:"gradient_bytes"`
	SumBytes        int64 `json:"sum_bytes"`        // of partial sums of gradients
	StateBytes      int64 `json:"state_bytes"`      // of the optimizer: masters and moments
	ActivationBytes int64 `json:"activation_bytes"` // and their gradients
	HeadBytes       int64 `json:"head_bytes"`       // logits, and what belongs to them
	OtherBytes      int64 `json:"other_bytes"`      // weights of a layer as a backward pass has them, and scratch
	PassTokens      int   `json:"pass_tokens"`      // at most
	Recomputed      bool  `json:"recomputed"`       // activations of all blocks but for their inputs
}

// EngineBytes is the sum of all parts.
func (p Plan) EngineBytes() int64 {
	return p.WeightBytes + p.GradientBytes + p.SumBytes + p.StateBytes + p.ActivationBytes + p.HeadBytes + p.OtherBytes
}

// PlanFor is the memory of an engine that is not opened, with its largest pass: what is
// allocated by the sizes of buffers, whatever the weights are.
func PlanFor(c policy.Config, k Case) Plan {
	var p Plan
	pairs := k.Compute == safetensors.BF16
	base := policy.Layout(c)
	for i := range base {
		base[i].DType = k.DType
	}
	trained := base
	if k.LoRA != nil {
		trained = policy.LoRALayout(c, *k.LoRA)
	}
	if k.ValueHead {
		trained = append(trained[:len(trained):len(trained)], policy.ValueHeadLayout(c))
	}
	held := trained
	if k.LoRA != nil {
		held = append(base, trained...)
	}
	for _, t := range held {
		p.WeightBytes += heldBytes(t, pairs)
	}
	elements := int64(0)
	if k.Train {
		for _, t := range trained {
			n := int64(t.Elements())
			elements += n
			if !k.Gradients {
				p.StateBytes += n * stateBytes(t.StoredAs(), k.State, pairs && len(t.Shape) == 2)
			}
		}
	}
	p.GradientBytes, p.SumBytes = 4*elements, 4*elements*int64(k.Sums)
	p.addPass(c, k, elements)
	return p
}

// heldBytes is a tensor as a forward pass reads it: a matrix in panels of rows.
func heldBytes(t policy.Tensor, pairs bool) int64 {
	if len(t.Shape) != 2 {
		return 4 * int64(t.Elements())
	}
	rows, in, width := (t.Shape[0]+panelRows-1)/panelRows*panelRows, t.Shape[1], 4
	if pairs {
		in = (in + gemm.PairBlock - 1) / gemm.PairBlock * gemm.PairBlock
	}
	if pairs || t.StoredAs() == safetensors.BF16 {
		width = 2
	}
	return int64(rows) * int64(in) * int64(width)
}

// stateBytes is what the optimizer keeps of an element of a weight: two moments and, of
// what is rounded, a master.
func stateBytes(weight, state safetensors.DType, rounded bool) int64 {
	bytes := int64(8)
	if state == safetensors.BF16 {
		bytes = 4
	}
	switch {
	case weight == safetensors.F16, weight == safetensors.BF16 && state != safetensors.BF16, weight == safetensors.F32 && rounded:
		bytes += 4
	}
	return bytes
}

// addPass adds what the largest pass takes, of a policy of which so many elements are
// trained.
func (p *Plan) addPass(c policy.Config, k Case, elements int64) {
	longest := c.MaxPositionEmbeddings
	if k.Longest > 0 {
		longest = min(longest, k.Longest)
	}
	group, most := max(longest, k.Shared), roomTokens
	if k.PassTokens > 0 {
		most = min(most, k.PassTokens)
	}
	tokens := max(group, most)
	if k.Tokens > 0 {
		tokens = min(tokens, max(k.Tokens, 1))
	}
	head := heldBytes(policy.Tensor{Shape: []int{c.VocabSize, c.HiddenSize}, DType: k.DType}, k.Compute == safetensors.BF16)
	l := limitsOf(c, k.Train, int(elements), int(head))
	if tokens > l.sparseTokens {
		tokens = min(tokens, max(group, l.chunkTokens))
	}
	p.PassTokens, p.Recomputed = tokens, k.Train && tokens > l.chunkTokens
	n, hidden, inner := int64(tokens), int64(c.HiddenSize), int64(c.LargestInnerWidth())
	memory := policy.MemoryOf(c, safetensors.F32)
	perToken := memory.KeptBytes
	if p.Recomputed || !k.Train {
		perToken = memory.RecomputeBytes
	}
	if !k.Train { // one residual stream for all layers
		perToken -= 4 * int64(c.NumHiddenLayers) * hidden
	}
	gradients := int64(0)
	if k.Train {
		gradients = 4 * (4*hidden + 2*int64(c.QueryWidth()) + int64(wide(c)) + inner)
		if c.Norms.After() {
			gradients += 4 * 2 * hidden
		}
	}
	if c.Experts > 0 { // what experts read and make, and the gradient of it
		gradients += 4 * 3 * int64(c.ExpertsPerToken) * hidden
	}
	p.ActivationBytes = grown(n * (perToken + gradients))
	p.HeadBytes = grown(headBytes(c, l, k.Train, tokens))
	p.OtherBytes = int64(k.Threads) * grown(scratchBytes(c, min(longest, tokens)))
	if k.Train {
		p.OtherBytes += backwardBytes(c, k)
		if k.LoRA == nil {
			p.OtherBytes += 4 * hidden * min(int64(c.VocabSize), n) // the gradient of rows that are looked up
		}
	}
}

// grown is what buffers of so many bytes have, which [grow] makes a quarter larger.
func grown(bytes int64) int64 { return bytes + bytes/4 }

// headBytes is what logits of so many targets take, and the states that they come from.
func headBytes(c policy.Config, l limits, train bool, targets int) int64 {
	rows := min(targets, l.chunkRows(c))
	if train {
		rows = max(rows, min(targets, l.keptLogits/c.VocabSize))
	}
	states := 1
	if train {
		states = 2
	}
	return 4 * (int64(rows)*int64(c.VocabSize) + int64(targets)*int64(states*c.HiddenSize))
}

// backwardBytes are the weights of one layer, and of a part of the head, as a backward pass
// multiplies by them.
func backwardBytes(c policy.Config, k Case) int64 {
	bytes := int64(0)
	for _, shape := range [][]int{
		{c.HiddenSize, wide(c)},
		{c.QueryWidth(), c.HiddenSize},
		{c.HiddenSize, 2 * c.LargestInnerWidth()},
		{c.LargestInnerWidth(), c.HiddenSize},
		{c.HiddenSize, min(backwardOutputs, c.VocabSize)},
	} {
		bytes += heldBytes(policy.Tensor{Shape: shape, DType: k.DType}, k.Compute == safetensors.BF16)
	}
	return bytes
}

// scratchBytes is what a thread has for blocks of rows and for scores of attention.
func scratchBytes(c policy.Config, longest int) int64 {
	rows := int64(blockRows(c))
	return 4 * (rows*int64(2*c.HiddenSize+c.LargestInnerWidth()+c.QueryWidth()) + 2*queryBlock*int64(longest))
}
