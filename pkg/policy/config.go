package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Architecture is the model class that a config.json names.
type Architecture string

// The architectures that are implemented. They are one decoder with RMSNorm,
// rotary embedding, grouped-query attention and SwiGLU. Qwen2 adds biases to
// the query, key and value projections, Qwen3 norms of every query and key
// head.
const (
	Llama Architecture = "LlamaForCausalLM"
	Qwen2 Architecture = "Qwen2ForCausalLM"
	Qwen3 Architecture = "Qwen3ForCausalLM"
)

// Config is the shape of a policy, named as in Hugging Face's config.json, of
// which package checkpoint reads it.
type Config struct {
	Architecture          Architecture `json:"architecture"`
	VocabSize             int          `json:"vocab_size"`
	HiddenSize            int          `json:"hidden_size"`
	IntermediateSize      int          `json:"intermediate_size"`
	NumHiddenLayers       int          `json:"num_hidden_layers"`
	NumAttentionHeads     int          `json:"num_attention_heads"`
	NumKeyValueHeads      int          `json:"num_key_value_heads"`
	HeadDim               int          `json:"head_dim"`                // even
	MaxPositionEmbeddings int          `json:"max_position_embeddings"` // tokens of the longest sequence
	RMSNormEps            float64      `json:"rms_norm_eps"`
	RopeTheta             float64      `json:"rope_theta"`
	RopeScaling           RopeScaling  `json:"rope_scaling"`
	TieWordEmbeddings     bool         `json:"tie_word_embeddings"`
	InitializerRange      float64      `json:"initializer_range"` // standard deviation of random matrices; 0 means 0.02
	BOSTokenID            int32        `json:"bos_token_id"`      // negative when there is none
	EOSTokenIDs           []int32      `json:"eos_token_ids"`     // each ends a response
}

// QKVBias reports whether the query, key and value projections have biases.
func (c Config) QKVBias() bool { return c.Architecture == Qwen2 }

// QKNorm reports whether every query and key head is normed before its rotary
// embedding.
func (c Config) QKNorm() bool { return c.Architecture == Qwen3 }

// QueryWidth is the width of all query heads together.
func (c Config) QueryWidth() int { return c.NumAttentionHeads * c.HeadDim }

// KeyValueWidth is the width of all key heads together, and of all value heads.
func (c Config) KeyValueWidth() int { return c.NumKeyValueHeads * c.HeadDim }

// maxParameters is the size of a model beyond which its configuration is
// taken for damaged; counts of elements below it cannot overflow.
const maxParameters = 1 << 48

// Validate collects everything that is out of range, as one data error.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.Architecture == Llama || c.Architecture == Qwen2 || c.Architecture == Qwen3, "the architecture %q is not implemented; %s, %s and %s are", c.Architecture, Llama, Qwen2, Qwen3)
	for _, size := range []struct {
		name  string
		value int
	}{
		{"vocab_size", c.VocabSize},
		{"hidden_size", c.HiddenSize},
		{"intermediate_size", c.IntermediateSize},
		{"num_hidden_layers", c.NumHiddenLayers},
		{"num_attention_heads", c.NumAttentionHeads},
		{"num_key_value_heads", c.NumKeyValueHeads},
		{"head_dim", c.HeadDim},
		{"max_position_embeddings", c.MaxPositionEmbeddings},
	} {
		check(size.value > 0 && size.value < 1<<24, "%s is %d; it must lie between 1 and 2^24", size.name, size.value)
	}
	if len(faults) == 0 {
		n := c.parameters()
		check(n < maxParameters, "the model has %.3g parameters; the limit is 2^48", n)
	}
	check(c.HeadDim%2 == 0, "head_dim is %d; rotary embedding needs it even", c.HeadDim)
	check(c.NumKeyValueHeads <= 0 || c.NumAttentionHeads%c.NumKeyValueHeads == 0,
		"num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads)
	check(c.RMSNormEps > 0 && c.RMSNormEps < 1, "rms_norm_eps is %g; it must lie between 0 and 1", c.RMSNormEps)
	check(c.RopeTheta > 1 && !math.IsInf(c.RopeTheta, 0), "rope_theta is %g; it must be above 1", c.RopeTheta)
	if err := c.RopeScaling.validate(); err != nil {
		faults = append(faults, err)
	}
	check(int(c.BOSTokenID) < c.VocabSize, "bos_token_id is %d; the vocabulary has %d", c.BOSTokenID, c.VocabSize)
	for _, id := range c.EOSTokenIDs {
		check(id >= 0 && int(id) < c.VocabSize, "eos_token_id is %d; the vocabulary has %d", id, c.VocabSize)
	}
	if len(faults) > 0 {
		return exitcode.Dataf("%w", errors.Join(faults...))
	}
	return nil
}

// blockMatrices is the number of elements of the matrices of one block.
func (c Config) blockMatrices() float64 {
	hidden, queries, keys := float64(c.HiddenSize), float64(c.QueryWidth()), float64(c.KeyValueWidth())
	return hidden*(2*queries+2*keys) + 3*hidden*float64(c.IntermediateSize)
}

// parameters is the number of parameters, which for absurd sizes is more than
// an int holds. Below 2^53 it is exact.
func (c Config) parameters() float64 {
	block := c.blockMatrices() + 2*float64(c.HiddenSize)
	if c.QKVBias() {
		block += float64(c.QueryWidth() + 2*c.KeyValueWidth())
	}
	if c.QKNorm() {
		block += 2 * float64(c.HeadDim)
	}
	table := float64(c.VocabSize) * float64(c.HiddenSize)
	total := float64(c.NumHiddenLayers)*block + table + float64(c.HiddenSize)
	if !c.TieWordEmbeddings {
		total += table
	}
	return total
}

// ParameterCount is the number of trained parameters of a valid
// configuration; a tied head counts once.
func ParameterCount(c Config) int { return int(c.parameters()) }

// FLOPsPerToken is the work of training on one token of sequences of S tokens,
// forward and backward, in floating-point operations:
//
//	6·N_mat + 6·L·(Hq·dh)·S
//
// with N_mat the parameters of the blocks' matrices and of the head (the
// gather of the embedding is free) and causal attention over S/2 keys on
// average. Forward alone is a third of it.
func FLOPsPerToken(c Config, sequenceTokens int) float64 {
	return 6*c.matrices() + 6*float64(c.NumHiddenLayers)*float64(c.QueryWidth())*float64(sequenceTokens)
}

// DecodeFLOPsPerToken is the work of the forward pass of one token behind a
// context of so many tokens: 2·N_mat + 4·L·(Hq·dh)·context, with N_mat as for
// FLOPsPerToken.
func DecodeFLOPsPerToken(c Config, context int) float64 {
	return 2*c.matrices() + 4*float64(c.NumHiddenLayers)*float64(c.QueryWidth())*float64(context)
}

// matrices is N_mat of FLOPsPerToken.
func (c Config) matrices() float64 {
	return float64(c.NumHiddenLayers)*c.blockMatrices() + float64(c.VocabSize)*float64(c.HiddenSize)
}
