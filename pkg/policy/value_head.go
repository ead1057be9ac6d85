package policy

import "github.com/lathe-rl/lathe/pkg/safetensors"

// ValueHeadName is the tensor of a value head, of shape (1, hidden): a linear
// function of the hidden state from which a token is predicted, after the last
// norm. It is the value that a critic gives to the sequence so far.
const ValueHeadName = "score.weight"

// ValueHeadLayout is the value head by name and shape, without data.
func ValueHeadLayout(c Config) Tensor {
	return Tensor{Name: ValueHeadName, Shape: []int{1, c.HiddenSize}, DType: safetensors.F32}
}

// NewValueHead is a value head that gives every state the value 0: the first
// advantages are those without a critic, and nothing random flows into the
func NewValueHead(c Config) []float32 { return make([]float32, c.HiddenSize) }

// SplitValueHead takes the value head, if there is one, from the trained
// tensors of an engine, of which it is the last.
func SplitValueHead(trained []Tensor) (rest []Tensor, head *Tensor) {
	if last := len(trained) - 1; last >= 0 && trained[last].Name == ValueHeadName {
		return trained[:last], &trained[last]
	}
	return trained, nil
}
