package policy

import "github.com/lathe-rl/lathe/pkg/safetensors"

// Memory is what a policy takes with its weights in one type: bytes without
// those that a backend adds for its own layout of matrices. Gradients are
// float32; moments and, beside weights in half precision, master weights are
// float32 unless the optimizer's state is chosen to be in half precision.
type Memory struct {
	DType          safetensors.DType `json:"dtype"`
	WeightBytes    int64             `json:"weight_bytes"`
	MasterBytes    int64             `json:"master_bytes"`
	GradientBytes  int64             `json:"gradient_bytes"`
	MomentBytes    int64             `json:"moment_bytes"`
	TrainBytes     int64             `json:"train_bytes"`           // the sum of those above
	KVBytes        int64             `json:"kv_bytes_per_token"`    // with keys and values in this type
	KeptBytes      int64             `json:"activation_bytes"`      // per token, for a backward pass that computes nothing again
	RecomputeBytes int64             `json:"activation_bytes_less"` // per token, when blocks are computed again
}

// MemoryOf is the memory of a policy with its weights in type d.
func MemoryOf(c Config, d safetensors.DType) Memory {
	n, width := int64(ParameterCount(c)), int64(d.Bytes())
	m := Memory{DType: d, WeightBytes: n * width, GradientBytes: 4 * n, MomentBytes: 8 * n}
	if d != safetensors.F32 {
		m.MasterBytes = 4 * n
	}
	m.TrainBytes = m.WeightBytes + m.MasterBytes + m.GradientBytes + m.MomentBytes
	m.KVBytes = 2 * int64(c.NumHiddenLayers) * int64(c.KeyValueWidth()) * width
	stream, blocks := int64(c.HiddenSize), int64(0)
	for i := range c.NumHiddenLayers {
		l := c.Layer(i)
		blocks += c.activations(c.Mixture(l), c.InnerWidth(l))
	}
	largest := c.activations(c.Experts > 0, c.LargestInnerWidth())
	m.KeptBytes = 4 * (blocks + stream)
	m.RecomputeBytes = 4 * ((int64(c.NumHiddenLayers)-1)*stream + largest + stream)
	return m
}

// activations is the number of values that a block, with experts or without and so
// wide inside its MLP, leaves for its backward pass, for each token: the residual
// stream before and inside it, queries, keys and values, attention's output with the
// maximum and sum of each head's softmax, gate and up projections, what norms read
// that is none of these, and the norms' factors; of experts, the router's
// probabilities, and for each of the token's its number, its share and both places of
// its row.
func (c Config) activations(mixture bool, inner int) int64 {
	stream := int64(c.HiddenSize)
	block := 2*stream + 2*int64(c.QueryWidth()) + 2*int64(c.KeyValueWidth()) + 2*int64(c.NumAttentionHeads) + 2*int64(inner) + 2
	if mixture {
		block += int64(c.Experts) + 4*int64(c.ExpertsPerToken)
	}
	switch c.QKNorm {
	case QKNormHead:
		block += int64(c.QueryWidth()+c.KeyValueWidth()) + int64(c.NumAttentionHeads+c.NumKeyValueHeads)
	case QKNormAll:
		block += int64(c.QueryWidth()+c.KeyValueWidth()) + 2
	}
	if c.Norms.After() { // the branches' outputs before their norms
		block += 2*stream + 2
	}
	return block
}
