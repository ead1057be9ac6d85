package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/lathe-rl/lathe/pkg/exit"
)

// Architecture is the model class that a config.json names.
type Architecture string

// The architectures that are implemented. They differ in the biases of the
// query, key and value projections, which Qwen2 has and Llama has not.
const (
	Qwen2 Architecture = "Qwen2ForCausalLM"
	Llama Architecture = "LlamaForCausalLM"
)

// Config is the shape of a policy, named as in Hugging Face's config.json.
type Config struct {
	Architecture          Architecture
	VocabSize             int
	HiddenSize            int
	IntermediateSize      int
	NumHiddenLayers       int
	NumAttentionHeads     int
	NumKeyValueHeads      int
	HeadDim               int // even
	MaxPositionEmbeddings int // tokens of the longest sequence
	RMSNormEps            float64
	RopeTheta             float64
	TieWordEmbeddings     bool
	BOSTokenID            int32   // negative when there is none
	EOSTokenIDs           []int32 // each ends a response
}

// QKVBias reports whether the query, key and value projections have biases.
func (c Config) QKVBias() bool { return c.Architecture == Qwen2 }

// QueryWidth is the width of all query heads together.
func (c Config) QueryWidth() int { return c.NumAttentionHeads * c.HeadDim }

// KeyValueWidth is the width of all key heads together, and of all value heads.
func (c Config) KeyValueWidth() int { return c.NumKeyValueHeads * c.HeadDim }

// Validate collects everything that is out of range, as one data error.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.Architecture == Qwen2 || c.Architecture == Llama,
		"the architecture %q is not implemented; %s and %s are", c.Architecture, Qwen2, Llama)
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
	check(c.HeadDim%2 == 0, "head_dim is %d; rotary embedding needs it even", c.HeadDim)
	check(c.NumKeyValueHeads <= 0 || c.NumAttentionHeads%c.NumKeyValueHeads == 0,
		"num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumAttentionHeads, c.NumKeyValueHeads)
	check(c.RMSNormEps > 0 && c.RMSNormEps < 1, "rms_norm_eps is %g; it must lie between 0 and 1", c.RMSNormEps)
	check(c.RopeTheta > 1 && !math.IsInf(c.RopeTheta, 0), "rope_theta is %g; it must be above 1", c.RopeTheta)
	check(int(c.BOSTokenID) < c.VocabSize, "bos_token_id is %d; the vocabulary has %d", c.BOSTokenID, c.VocabSize)
	for _, id := range c.EOSTokenIDs {
		check(id >= 0 && int(id) < c.VocabSize, "eos_token_id is %d; the vocabulary has %d", id, c.VocabSize)
	}
	if len(faults) > 0 {
		return exit.Dataf("%w", errors.Join(faults...))
	}
	return nil
}

// ParameterCount is the number of trained parameters; a tied head counts once.
func ParameterCount(c Config) int {
	n := 0
	for _, t := range Layout(c) {
		n += t.Elements()
	}
	return n
}

// FLOPsPerToken is the work of training on one token of sequences of S tokens,
// forward and backward, in floating-point operations:
//
//	6·N_mat + 6·L·(Hq·dh)·S
//
// with N_mat the parameters of the blocks' matrices and of the head (the
// gather of the embedding is free) and causal attention over S/2 keys on
// average. Forward alone is a third of it.
func FLOPsPerToken(c Config, sequenceTokens int) float64 {
	block := c.HiddenSize*(2*c.QueryWidth()+2*c.KeyValueWidth()) + 3*c.HiddenSize*c.IntermediateSize
	matrices := float64(c.NumHiddenLayers*block + c.VocabSize*c.HiddenSize)
	return 6*matrices + 6*float64(c.NumHiddenLayers*c.QueryWidth())*float64(sequenceTokens)
}

// configJSON is the part of config.json that matters. Fields that would change
// the model's results, were they ignored, are read to be refused.
type configJSON struct {
	Architectures         []Architecture  `json:"architectures"`
	ModelType             string          `json:"model_type"`
	VocabSize             int             `json:"vocab_size"`
	HiddenSize            int             `json:"hidden_size"`
	IntermediateSize      int             `json:"intermediate_size"`
	NumHiddenLayers       int             `json:"num_hidden_layers"`
	NumAttentionHeads     int             `json:"num_attention_heads"`
	NumKeyValueHeads      int             `json:"num_key_value_heads"`
	HeadDim               int             `json:"head_dim"`
	MaxPositionEmbeddings int             `json:"max_position_embeddings"`
	RMSNormEps            float64         `json:"rms_norm_eps"`
	RopeTheta             float64         `json:"rope_theta"`
	TieWordEmbeddings     bool            `json:"tie_word_embeddings"`
	HiddenAct             string          `json:"hidden_act"`
	InitializerRange      float64         `json:"initializer_range"`
	AttentionDropout      float64         `json:"attention_dropout"`
	TorchDType            string          `json:"torch_dtype"`
	UseCache              bool            `json:"use_cache"`
	BOSTokenID            *int32          `json:"bos_token_id"`
	EOSTokenID            json.RawMessage `json:"eos_token_id"`

	AttentionBias     bool            `json:"attention_bias,omitempty"`
	MLPBias           bool            `json:"mlp_bias,omitempty"`
	UseSlidingWindow  bool            `json:"use_sliding_window,omitempty"`
	LayerTypes        []string        `json:"layer_types,omitempty"`
	Quantization      json.RawMessage `json:"quantization_config,omitempty"`
	RopeScaling       *ropeJSON       `json:"rope_scaling,omitempty"`
	RopeParameters    *ropeJSON       `json:"rope_parameters,omitempty"` // transformers 5
	PretrainingTP     int             `json:"pretraining_tp,omitempty"`
	PartialRotaryPart *float64        `json:"partial_rotary_factor,omitempty"`
}

type ropeJSON struct {
	Theta    float64 `json:"rope_theta"`
	Type     string  `json:"rope_type"`
	OldStyle string  `json:"type"`
}

func (r *ropeJSON) plain() bool {
	return r == nil || (r.Type == "" || r.Type == "default") && (r.OldStyle == "" || r.OldStyle == "default")
}

// unsupported names the first setting that the engine would not honour.
func (f *configJSON) unsupported() string {
	if len(f.Architectures) != 1 || f.Architectures[0] != Qwen2 && f.Architectures[0] != Llama {
		return fmt.Sprintf("architectures is %q; %s and %s are implemented", f.Architectures, Qwen2, Llama)
	}
	for _, layer := range f.LayerTypes {
		if layer != "full_attention" {
			return fmt.Sprintf("layer_types has %q; only full_attention is implemented", layer)
		}
	}
	switch {
	case f.HiddenAct != "" && f.HiddenAct != "silu":
		return fmt.Sprintf("hidden_act is %q; only silu is implemented", f.HiddenAct)
	case f.AttentionBias || f.MLPBias:
		return "attention_bias or mlp_bias is set; only the biases of Qwen2 are implemented"
	case f.UseSlidingWindow:
		return "use_sliding_window is set; only full attention is implemented"
	case len(f.Quantization) > 0 && string(f.Quantization) != "null":
		return "quantization_config is set; only plain weights are implemented"
	case !f.RopeScaling.plain() || !f.RopeParameters.plain():
		return "the rotary embedding is scaled; only the default one is implemented"
	case f.PartialRotaryPart != nil && *f.PartialRotaryPart != 1:
		return "partial_rotary_factor is set; only full rotary embedding is implemented"
	case f.AttentionDropout != 0:
		return "attention_dropout is set; dropout is not implemented"
	case f.PretrainingTP > 1:
		return "pretraining_tp is set; only 1 is implemented"
	}
	return ""
}

// ParseConfig reads the bytes of a config.json. A model that is not
// implemented exactly is a data error of one sentence.
func ParseConfig(raw []byte) (Config, error) {
	var f configJSON
	if err := json.Unmarshal(raw, &f); err != nil {
		return Config{}, exit.Dataf("not a config.json: %w", err)
	}
	if reason := f.unsupported(); reason != "" {
		return Config{}, exit.Dataf("this model is not implemented: %s", reason)
	}
	c := Config{
		Architecture:          f.Architectures[0],
		VocabSize:             f.VocabSize,
		HiddenSize:            f.HiddenSize,
		IntermediateSize:      f.IntermediateSize,
		NumHiddenLayers:       f.NumHiddenLayers,
		NumAttentionHeads:     f.NumAttentionHeads,
		NumKeyValueHeads:      f.NumKeyValueHeads,
		HeadDim:               f.HeadDim,
		MaxPositionEmbeddings: f.MaxPositionEmbeddings,
		RMSNormEps:            f.RMSNormEps,
		RopeTheta:             f.RopeTheta,
		TieWordEmbeddings:     f.TieWordEmbeddings,
		BOSTokenID:            -1,
	}
	if f.RopeParameters != nil && f.RopeParameters.Theta != 0 {
		c.RopeTheta = f.RopeParameters.Theta
	}
	if c.RopeTheta == 0 {
		c.RopeTheta = 10_000 // the default of both architectures
	}
	if c.NumKeyValueHeads == 0 {
		c.NumKeyValueHeads = c.NumAttentionHeads
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	if f.BOSTokenID != nil {
		c.BOSTokenID = *f.BOSTokenID
	}
	ids, err := parseTokenIDs(f.EOSTokenID)
	if err != nil {
		return Config{}, exit.Dataf("eos_token_id: %w", err)
	}
	c.EOSTokenIDs = ids
	return c, c.Validate()
}

// parseTokenIDs reads null, one id or a list of ids.
func parseTokenIDs(raw json.RawMessage) ([]int32, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '[' {
		var ids []int32
		err := json.Unmarshal(raw, &ids)
		return ids, err
	}
	var id int32
	err := json.Unmarshal(raw, &id)
	return []int32{id}, err
}

// tokenIDsJSON is the reverse of parseTokenIDs.
func tokenIDsJSON(ids []int32) json.RawMessage {
	var value any = ids
	switch len(ids) {
	case 0:
		value = nil
	case 1:
		value = ids[0]
	}
	raw, _ := json.Marshal(value) // numbers always marshal
	return raw
}

func (c Config) bosJSON() *int32 {
	if c.BOSTokenID < 0 {
		return nil
	}
	id := c.BOSTokenID
	return &id
}

// JSON is the config.json of a policy with float32 weights.
func (c Config) JSON() []byte {
	modelType := "llama"
	if c.Architecture == Qwen2 {
		modelType = "qwen2"
	}
	return indentJSON(configJSON{
		Architectures:         []Architecture{c.Architecture},
		ModelType:             modelType,
		VocabSize:             c.VocabSize,
		HiddenSize:            c.HiddenSize,
		IntermediateSize:      c.IntermediateSize,
		NumHiddenLayers:       c.NumHiddenLayers,
		NumAttentionHeads:     c.NumAttentionHeads,
		NumKeyValueHeads:      c.NumKeyValueHeads,
		HeadDim:               c.HeadDim,
		MaxPositionEmbeddings: c.MaxPositionEmbeddings,
		RMSNormEps:            c.RMSNormEps,
		RopeTheta:             c.RopeTheta,
		TieWordEmbeddings:     c.TieWordEmbeddings,
		HiddenAct:             "silu",
		InitializerRange:      initStd,
		TorchDType:            "float32",
		UseCache:              true,
		BOSTokenID:            c.bosJSON(),
		EOSTokenID:            tokenIDsJSON(c.EOSTokenIDs),
	})
}

// generationJSON is the generation_config.json of a policy.
func (c Config) generationJSON() []byte {
	return indentJSON(struct {
		BOSTokenID *int32          `json:"bos_token_id,omitempty"`
		EOSTokenID json.RawMessage `json:"eos_token_id,omitempty"`
		DoSample   bool            `json:"do_sample"`
	}{c.bosJSON(), tokenIDsJSON(c.EOSTokenIDs), true})
}

func indentJSON(value any) []byte {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err) // the values above always marshal
	}
	return append(raw, '\n')
}
