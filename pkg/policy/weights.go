package policy

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The two tensors that are one when the configuration ties them.
const (
	EmbeddingName = "model.embed_tokens.weight"
	HeadName      = "lm_head.weight"
)

// Layout lists a policy's tensors by name and shape, as F32 without data, in
// the order of files and engines. Query, key and value projections lie next to
// each other, and so do gate and up, so that a backend can multiply by each
// group at once. Of a layer with experts the router comes first and then expert
// after expert, by the names of Qwen's files.
func Layout(c Config) []Tensor {
	hidden := c.HiddenSize
	var tensors []Tensor
	whole := func(name string, shape ...int) {
		tensors = append(tensors, Tensor{Name: name, Shape: shape, DType: safetensors.F32})
	}
	whole(EmbeddingName, c.VocabSize, hidden)
	for layer := range c.NumHiddenLayers {
		add := func(name string, shape ...int) { whole(fmt.Sprintf("model.layers.%d.%s", layer, name), shape...) }
		norm := func(there bool, name string, width int) {
			if there {
				add(name+".weight", width)
			}
		}
		groups := ProjectionGroups(c)
		project := func(group int, biased bool) {
			for _, p := range groups[group] {
				add(p.name+".weight", p.Out, p.In)
			}
			if biased {
				for _, p := range groups[group] {
					add(p.name+".bias", p.Out)
				}
			}
		}
		// Where norms stand after a branch alone, what stands before it elsewhere
		// goes by the same name.
		before, after := c.Norms.Before(), c.Norms.After()
		norm(before, "input_layernorm", hidden)
		project(0, c.QKVBias)
		query, key := c.normWidths()
		norm(c.QKNorm != QKNormNone, "self_attn.q_norm", query)
		norm(c.QKNorm != QKNormNone, "self_attn.k_norm", key)
		project(1, c.OutputBias)
		norm(true, "post_attention_layernorm", hidden)
		norm(before && after, "pre_feedforward_layernorm", hidden)
		if c.Mixture(c.Layer(layer)) {
			add("mlp.gate.weight", c.Experts, hidden)
			for e := range c.Experts {
				for _, p := range ExpertProjections(c) {
					add(fmt.Sprintf("mlp.experts.%d.%s.weight", e, p.name), p.Out, p.In)
				}
			}
		} else {
			project(2, c.MLPBias)
			project(3, c.MLPBias)
		}
		norm(after, "post_feedforward_layernorm", hidden)
	}
	whole("model.norm.weight", hidden)
	if !c.TieWordEmbeddings {
		whole(HeadName, c.VocabSize, hidden)
	}
	return tensors
}

// normWidths are the widths of the norms of queries and of keys.
func (c Config) normWidths() (query, key int) {
	if c.QKNorm == QKNormAll {
		return c.QueryWidth(), c.KeyValueWidth()
	}
	return c.HeadDim, c.HeadDim
}

// Elements is the number of elements of the tensor's shape.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Decayed reports whether weight decay applies to the tensor: to matrices,
// the embedding and the head included, but not to norms and biases.
func (t Tensor) Decayed() bool { return len(t.Shape) == 2 }

// norm reports whether the tensor is a norm's weight.
func (t Tensor) norm() bool { return strings.HasSuffix(t.Name, "norm.weight") }

// StoredAs is the type of the tensor's elements in a file: F32 unless DType says
// otherwise.
func (t Tensor) StoredAs() safetensors.DType { return cmp.Or(t.DType, safetensors.F32) }

// InitStd is the standard deviation of random matrices, by default the
// initializer_range of all architectures' defaults.
func (c Config) InitStd() float64 { return cmp.Or(c.InitializerRange, 0.02) }

// Init draws the weights of a new policy: matrices normal with standard
// deviation σ = c.InitializerRange, the two projections that add to the
// residual stream with σ/sqrt(2·layers) (Radford et al., Language Models are
// Unsupervised Multitask Learners, 2019, section 2.3), norms such that they
// multiply by one, biases zero.
// Each tensor has a stream of its own by name, so that its numbers do not
// depend on the others.
func Init(c Config, seed uint64) ([]Tensor, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if std := c.InitStd(); std <= 0 || std > 1 || math.IsNaN(std) {
		return nil, exitcode.Dataf("initializer_range is %g; random weights need one above 0 and at most 1", std)
	}
	tensors := Layout(c)
	for i := range tensors {
		t := &tensors[i]
		t.Data = make([]float32, t.Elements())
		switch {
		case t.norm():
			for j := range t.Data {
				t.Data[j] = float32(1 - c.NormOffset)
			}
		case t.Decayed():
			std := c.InitStd()
			if strings.HasSuffix(t.Name, "o_proj.weight") || strings.HasSuffix(t.Name, "down_proj.weight") {
				std /= math.Sqrt(2 * float64(c.NumHiddenLayers))
			}
			stream := rng.New(seed, rng.PurposeInit, 0, t.Name, 0)
			for j := range t.Data {
				t.Data[j] = float32(stream.Normal(uint64(j)) * std)
			}
		}
	}
	return tensors, nil
}
