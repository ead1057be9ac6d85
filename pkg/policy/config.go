package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Architecture is the model class that a config.json names.
type Architecture string

// The architectures that are implemented. They are one decoder with RMSNorm,
// rotary embedding, grouped-query attention and gated MLPs. What each adds is in
// Config's other fields: nothing that computes asks for the name.
const (
	Llama    Architecture = "LlamaForCausalLM"
	Mistral  Architecture = "MistralForCausalLM"
	Qwen2    Architecture = "Qwen2ForCausalLM"
	Qwen3    Architecture = "Qwen3ForCausalLM"
	Qwen3MoE Architecture = "Qwen3MoeForCausalLM"
	OlmoE    Architecture = "OlmoeForCausalLM"
	SmolLM3  Architecture = "SmolLM3ForCausalLM"
	Olmo2    Architecture = "Olmo2ForCausalLM"
	Olmo3    Architecture = "Olmo3ForCausalLM"
	Phi3     Architecture = "Phi3ForCausalLM"
	Granite  Architecture = "GraniteForCausalLM"
	Gemma    Architecture = "GemmaForCausalLM"
	Gemma2   Architecture = "Gemma2ForCausalLM"
	Gemma3   Architecture = "Gemma3ForCausalLM"
)

// Config is the shape of a policy, named as in Hugging Face's config.json, of
// which package checkpoint reads it. The zero values of the fields from QKVBias
// on are those of Llama.
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

	QKVBias    bool       `json:"qkv_bias,omitempty"`    // of the query, key and value projections
	OutputBias bool       `json:"output_bias,omitempty"` // of attention's output projection
	MLPBias    bool       `json:"mlp_bias,omitempty"`    // of the MLP's three projections
	Fused      bool       `json:"fused,omitempty"`       // query, key and value projections are one tensor, gate and up another
	QKNorm     QKNorm     `json:"qk_norm,omitempty"`     // of queries and keys, before rotary embedding
	Norms      Norms      `json:"norms,omitempty"`       // where the norms of a block stand
	NormOffset float64    `json:"norm_offset,omitempty"` // what is added to a norm's weight before it multiplies
	Activation Activation `json:"activation,omitempty"`  // of the MLP's gates

	Experts         int  `json:"experts,omitempty"`           // MLPs of a layer, of which a router sends a token to a few; 0 for one MLP
	ExpertsPerToken int  `json:"experts_per_token,omitempty"` // those few
	ExpertSize      int  `json:"expert_size,omitempty"`       // intermediate size of an expert
	ExpertsNormed   bool `json:"experts_normed,omitempty"`    // the shares of a token's experts are divided by their sum

	EmbeddingScale float64 `json:"embedding_scale,omitempty"` // what embeddings are multiplied by, rounded to the table's type; 0 for 1
	ResidualScale  float64 `json:"residual_scale,omitempty"`  // what a branch is multiplied by before it is added; 0 for 1
	AttentionScale float64 `json:"attention_scale,omitempty"` // what scores are multiplied by; 0 for 1/sqrt(head_dim)
	LogitScale     float64 `json:"logit_scale,omitempty"`     // what logits are divided by; 0 for 1
	AttentionCap   float64 `json:"attention_cap,omitempty"`   // scores become cap·tanh(score/cap); 0 for no cap
	LogitCap       float64 `json:"logit_cap,omitempty"`       // likewise the logits

	RotaryDim      int     `json:"rotary_dim,omitempty"`       // the first values of a head that are rotated, even; 0 for all
	LocalRopeTheta float64 `json:"local_rope_theta,omitempty"` // rope_theta of layers with RopeLocal, which have no scaling
	Layers         []Layer `json:"layers,omitempty"`           // of every layer; none when all are the zero value
}

// QKNorm says what of queries and keys is normed together.
type QKNorm string

// The ways of norming queries and keys.
const (
	QKNormNone QKNorm = ""
	QKNormHead QKNorm = "head" // every head by itself, with one weight for all query heads and one for all key heads
	QKNormAll  QKNorm = "all"  // all query heads of a token together, and all key heads
)

// Norms says where the norms of a block stand. A block is two branches,
// attention and MLP, each of which is added to the residual stream.
type Norms string

// The places of norms.
const (
	NormBefore Norms = ""      // of what goes into a branch
	NormAfter  Norms = "after" // of what comes out of it
	NormBoth   Norms = "both"
)

// Before reports whether what goes into a branch is normed.
func (n Norms) Before() bool { return n != NormAfter }

// After reports whether what comes out of a branch is normed.
func (n Norms) After() bool { return n != NormBefore }

// Activation is the function of an MLP's gates.
type Activation string

// The functions.
const (
	SiLU     Activation = ""
	GELUTanh Activation = "gelu_tanh" // x/2·(1 + tanh(sqrt(2/π)(x + 0.044715x³)))
)

// Layer is what layers of one policy may differ in.
type Layer struct {
	Window int  `json:"window,omitempty"` // keys that a query sees, its own the last; 0 for all up to its own
	Rope   Rope `json:"rope,omitempty"`
	Dense  bool `json:"dense,omitempty"` // one MLP, where other layers have experts
}

// Rope says how a layer's queries and keys are rotated.
type Rope string

// The kinds of rotary embedding of a policy.
const (
	RopeGlobal Rope = ""      // by RopeTheta and RopeScaling
	RopeLocal  Rope = "local" // by LocalRopeTheta
	RopeNone   Rope = "none"
)

// Layer is what is special about layer i.
func (c Config) Layer(i int) Layer {
	if len(c.Layers) == 0 {
		return Layer{}
	}
	return c.Layers[i]
}

// ScoreScale is what attention scores are multiplied by.
func (c Config) ScoreScale() float32 {
	if c.AttentionScale != 0 {
		return float32(c.AttentionScale)
	}
	return float32(1 / math.Sqrt(float64(c.HeadDim)))
}

// Rotated is the number of values of a head that are rotated.
func (c Config) Rotated() int { return cmp.Or(c.RotaryDim, c.HeadDim) }

// Mixture reports whether a layer has experts in place of one MLP.
func (c Config) Mixture(l Layer) bool { return c.Experts > 0 && !l.Dense }

// InnerWidth is the width inside a layer's MLP, or inside all experts of a token.
func (c Config) InnerWidth(l Layer) int {
	if c.Mixture(l) {
		return c.ExpertsPerToken * c.ExpertSize
	}
	return c.IntermediateSize
}

// LargestInnerWidth is that of the widest of a dense layer and one with experts.
func (c Config) LargestInnerWidth() int {
	return max(c.IntermediateSize, c.ExpertsPerToken*c.ExpertSize)
}

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
	if c.Experts != 0 {
		check(c.Experts > 0 && c.Experts < 1<<16, "the number of experts is %d; it must lie between 1 and 2^16", c.Experts)
		check(c.ExpertsPerToken > 0 && c.ExpertsPerToken <= c.Experts, "a token goes to %d of %d experts (num_experts_per_tok); it must go to at least 1 and at most all", c.ExpertsPerToken, c.Experts)
		check(c.ExpertSize > 0 && c.ExpertSize < 1<<24, "the intermediate size of experts is %d; it must lie between 1 and 2^24", c.ExpertSize)
		check(!c.Fused && !c.MLPBias, "experts with fused projections or biases are not implemented")
	}
	if layers := len(c.Layers); layers != 0 && layers != c.NumHiddenLayers {
		check(false, "%d layers are described; num_hidden_layers is %d", layers, c.NumHiddenLayers)
	}
	if len(faults) == 0 {
		n := c.parameters()
		check(n < maxParameters, "the model has %.3g parameters; the limit is 2^48", n)
	}
	check(c.HeadDim%2 == 0, "head_dim is %d; rotary embedding needs it even", c.HeadDim)
	check(c.RotaryDim >= 0 && c.RotaryDim <= c.HeadDim && c.RotaryDim%2 == 0, "%d values of a head of %d are rotated (partial_rotary_factor); rotary embedding needs an even number of them", c.RotaryDim, c.HeadDim)
	check(c.NumKeyValueHeads <= 0 || c.NumAttentionHeads%c.NumKeyValueHeads == 0,
		"num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads)
	check(c.RMSNormEps > 0 && c.RMSNormEps < 1, "rms_norm_eps is %g; it must lie between 0 and 1", c.RMSNormEps)
	check(c.RopeTheta > 1 && !math.IsInf(c.RopeTheta, 0), "rope_theta is %g; it must be above 1", c.RopeTheta)
	check(c.LocalRopeTheta == 0 || c.LocalRopeTheta > 1 && !math.IsInf(c.LocalRopeTheta, 0), "the rope_theta of layers with a window is %g; it must be above 1", c.LocalRopeTheta)
	if err := c.RopeScaling.validate(c.Rotated()); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, c.validateParts()...)
	check(int(c.BOSTokenID) < c.VocabSize, "bos_token_id is %d; the vocabulary has %d", c.BOSTokenID, c.VocabSize)
	for _, id := range c.EOSTokenIDs {
		check(id >= 0 && int(id) < c.VocabSize, "eos_token_id is %d; the vocabulary has %d", id, c.VocabSize)
	}
	if len(faults) > 0 {
		return exitcode.Dataf("%w", errors.Join(faults...))
	}
	return nil
}

// validateParts collects what is wrong with what families add.
func (c Config) validateParts() (faults []error) {
	for _, scale := range []struct {
		name  string
		value float64
	}{
		{"embedding scale", c.EmbeddingScale},
		{"residual scale", c.ResidualScale},
		{"attention scale", c.AttentionScale},
		{"logit scale", c.LogitScale},
		{"cap of attention scores", c.AttentionCap},
		{"cap of logits", c.LogitCap},
	} {
		if narrow := float32(scale.value); scale.value != 0 && !(narrow > 1e-30 && narrow < 1e30) {
			faults = append(faults, fmt.Errorf("the %s is %g; it must be a positive number", scale.name, scale.value))
		}
	}
	if c.NormOffset != 0 && c.NormOffset != 1 {
		faults = append(faults, fmt.Errorf("the offset of norms is %g; 0 and 1 are implemented", c.NormOffset))
	}
	for i, l := range c.Layers {
		if l.Window < 0 || l.Window >= 1<<24 {
			faults = append(faults, fmt.Errorf("the window of layer %d is %d tokens; it must lie between 1 and 2^24", i, l.Window))
			break
		}
		if l.Rope == RopeLocal && c.LocalRopeTheta == 0 {
			faults = append(faults, fmt.Errorf("layer %d has a rotary embedding of its own, but there is no rope_theta for it", i))
			break
		}
	}
	return faults
}
