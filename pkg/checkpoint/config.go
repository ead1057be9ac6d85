package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// modelTypes are the names of the architectures in config.json's model_type.
var modelTypes = map[policy.Architecture]string{policy.Llama: "llama", policy.Qwen2: "qwen2", policy.Qwen3: "qwen3"}

// configJSON is the part of config.json that matters. Fields that would change
// the model's results, were they ignored, are read to be refused.
type configJSON struct {
	Architectures         []policy.Architecture `json:"architectures"`
	ModelType             string                `json:"model_type"`
	VocabSize             int                   `json:"vocab_size"`
	HiddenSize            int                   `json:"hidden_size"`
	IntermediateSize      int                   `json:"intermediate_size"`
	NumHiddenLayers       int                   `json:"num_hidden_layers"`
	NumAttentionHeads     int                   `json:"num_attention_heads"`
	NumKeyValueHeads      int                   `json:"num_key_value_heads"`
	HeadDim               int                   `json:"head_dim"`
	MaxPositionEmbeddings int                   `json:"max_position_embeddings"`
	RMSNormEps            float64               `json:"rms_norm_eps"`
	RopeTheta             float64               `json:"rope_theta"`
	TieWordEmbeddings     bool                  `json:"tie_word_embeddings"`
	HiddenAct             string                `json:"hidden_act"`
	InitializerRange      float64               `json:"initializer_range"`
	AttentionDropout      float64               `json:"attention_dropout"`
	TorchDType            string                `json:"torch_dtype"`
	UseCache              bool                  `json:"use_cache"`
	BOSTokenID            *int32                `json:"bos_token_id"`
	EOSTokenID            json.RawMessage       `json:"eos_token_id"`

	AttentionBias     bool            `json:"attention_bias,omitempty"`
	MLPBias           bool            `json:"mlp_bias,omitempty"`
	UseSlidingWindow  bool            `json:"use_sliding_window,omitempty"`
	SlidingWindow     json.RawMessage `json:"sliding_window,omitempty"`
	MaxWindowLayers   *int            `json:"max_window_layers,omitempty"`
	LayerTypes        []string        `json:"layer_types,omitempty"`
	Quantization      json.RawMessage `json:"quantization_config,omitempty"`
	Compression       json.RawMessage `json:"compression_config,omitempty"`
	RopeScaling       json.RawMessage `json:"rope_scaling,omitempty"`
	RopeParameters    json.RawMessage `json:"rope_parameters,omitempty"` // transformers 5
	PretrainingTP     int             `json:"pretraining_tp,omitempty"`
	PartialRotaryPart *float64        `json:"partial_rotary_factor,omitempty"`
	Causal            *bool           `json:"is_causal,omitempty"`
	Original          *int            `json:"original_max_position_embeddings,omitempty"`
}

// architecture is the first name of architectures or, where there is none,
// that of model_type; both must mean the same.
func (f *configJSON) architecture() (policy.Architecture, error) {
	for _, a := range []policy.Architecture{policy.Llama, policy.Qwen2, policy.Qwen3} {
		named := slices.Equal(f.Architectures, []policy.Architecture{a})
		if named && (f.ModelType == "" || f.ModelType == modelTypes[a]) || len(f.Architectures) == 0 && f.ModelType == modelTypes[a] {
			return a, nil
		}
	}
	return "", fmt.Errorf("architectures is %q and model_type %q; %s, %s and %s are implemented", f.Architectures, f.ModelType, policy.Llama, policy.Qwen2, policy.Qwen3)
}

// unsupported names the first setting that the engine would not honour.
func (f *configJSON) unsupported() string {
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
	case f.Causal != nil && !*f.Causal:
		return "is_causal is false; only causal attention is implemented"
	case f.windowed():
		return "use_sliding_window is set; only full attention is implemented"
	case isSet(f.Quantization) || isSet(f.Compression):
		return "quantization_config is set; only plain weights are implemented"
	case f.PartialRotaryPart != nil && *f.PartialRotaryPart != 1:
		return "partial_rotary_factor is set; only full rotary embedding is implemented"
	case f.AttentionDropout != 0:
		return "attention_dropout is set; dropout is not implemented"
	case f.PretrainingTP > 1:
		return "pretraining_tp is set; only 1 is implemented"
	}
	return ""
}

// windowed reports whether any layer attends through a sliding window. The
// layers from max_window_layers on do if use_sliding_window is set and
// sliding_window is not null, unless layer_types says for each what it does.
func (f *configJSON) windowed() bool {
	if !f.UseSlidingWindow || string(f.SlidingWindow) == "null" || len(f.LayerTypes) > 0 {
		return false
	}
	first := 28 // the default of both Qwen2Config and Qwen3Config
	if f.MaxWindowLayers != nil {
		first = *f.MaxWindowLayers
	}
	return first < f.NumHiddenLayers
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// ropeJSON is rope_scaling, or rope_parameters of transformers 5.
type ropeJSON struct {
	Factor              float64  `json:"factor,omitempty"`
	HighFrequencyFactor float64  `json:"high_freq_factor,omitempty"`
	LowFrequencyFactor  float64  `json:"low_freq_factor,omitempty"`
	Original            *int     `json:"original_max_position_embeddings,omitempty"`
	Type                string   `json:"rope_type,omitempty"`
	OldType             string   `json:"type,omitempty"`
	Theta               float64  `json:"rope_theta,omitempty"`
	PartialRotaryPart   *float64 `json:"partial_rotary_factor,omitempty"`
}

// rope reads θ and the scaling as transformers 5 does: of rope_scaling and
// rope_parameters the first that is not empty counts, and a θ in it counts
// before the one beside it.
func (f *configJSON) rope() (theta float64, scaling policy.RopeScaling, err error) {
	theta = f.RopeTheta
	if theta == 0 {
		theta = 10_000 // the default of all architectures
	}
	raw := f.RopeScaling
	if !isSet(raw) || string(raw) == "{}" {
		raw = f.RopeParameters
	}
	if !isSet(raw) {
		return theta, policy.RopeScaling{}, nil
	}
	var r ropeJSON
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields() // a setting that is not known may change results
	if err := decoder.Decode(&r); err != nil {
		return 0, policy.RopeScaling{}, fmt.Errorf("rotary embedding (rope_scaling, rope_parameters): %w", err)
	}
	if r.Theta != 0 {
		theta = r.Theta
	}
	if r.PartialRotaryPart != nil && *r.PartialRotaryPart != 1 {
		return 0, policy.RopeScaling{}, fmt.Errorf("partial_rotary_factor is set; only full rotary embedding is implemented")
	}
	if r.Type == "" {
		r.Type = r.OldType
	}
	switch policy.RopeType(r.Type) {
	case "", "default":
	case policy.RopeLinear:
		scaling = policy.RopeScaling{Type: policy.RopeLinear, Factor: r.Factor}
	case policy.RopeLlama3:
		scaling = policy.RopeScaling{
			Type: policy.RopeLlama3, Factor: r.Factor, LowFrequencyFactor: r.LowFrequencyFactor, HighFrequencyFactor: r.HighFrequencyFactor,
			Original: f.MaxPositionEmbeddings,
		}
		if r.Original != nil && f.Original != nil && *r.Original != *f.Original {
			// Transformers 5 takes the one beside the scaling, transformers 4 the one in it.
			return 0, policy.RopeScaling{}, fmt.Errorf("original_max_position_embeddings is %d in the scaling of rotary embedding but %d beside it; they must agree",
				*r.Original, *f.Original)
		}
		if original := cmp.Or(r.Original, f.Original); original != nil {
			scaling.Original = *original
		}
	default:
		return 0, policy.RopeScaling{}, fmt.Errorf("rope_type is %q; default, %s and %s are implemented", r.Type, policy.RopeLinear, policy.RopeLlama3)
	}
	return theta, scaling, nil
}

// ParseConfig reads the bytes of a config.json. A model that is not
// implemented exactly is a data error of one sentence.
func ParseConfig(raw []byte) (policy.Config, error) {
	var f configJSON
	if err := json.Unmarshal(raw, &f); err != nil {
		return policy.Config{}, exitcode.Dataf("not a config.json: %w", err)
	}
	architecture, err := f.architecture()
	if err != nil {
		return policy.Config{}, exitcode.Dataf("this model is not implemented: %w", err)
	}
	if reason := f.unsupported(); reason != "" {
		return policy.Config{}, exitcode.Dataf("this model is not implemented: %s", reason)
	}
	theta, scaling, err := f.rope()
	if err != nil {
		return policy.Config{}, exitcode.Dataf("this model is not implemented: %w", err)
	}
	c := policy.Config{
		Architecture:          architecture,
		VocabSize:             f.VocabSize,
		HiddenSize:            f.HiddenSize,
		IntermediateSize:      f.IntermediateSize,
		NumHiddenLayers:       f.NumHiddenLayers,
		NumAttentionHeads:     f.NumAttentionHeads,
		NumKeyValueHeads:      f.NumKeyValueHeads,
		HeadDim:               f.HeadDim,
		MaxPositionEmbeddings: f.MaxPositionEmbeddings,
		RMSNormEps:            f.RMSNormEps,
		InitializerRange:      f.InitializerRange,
		RopeTheta:             theta,
		RopeScaling:           scaling,
		TieWordEmbeddings:     f.TieWordEmbeddings,
		BOSTokenID:            -1,
	}
	if c.NumKeyValueHeads == 0 {
		c.NumKeyValueHeads = c.NumAttentionHeads
	}
	if c.HeadDim == 0 && architecture == policy.Qwen3 {
		c.HeadDim = 128 // Qwen3Config's default, whatever the other sizes
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	if f.BOSTokenID != nil {
		c.BOSTokenID = *f.BOSTokenID
	}
	if c.EOSTokenIDs, err = parseTokenIDs(f.EOSTokenID); err != nil {
		return policy.Config{}, exitcode.Dataf("eos_token_id: %w", err)
	}
	return c, c.Validate()
}

// setGeneration takes the tokens that end a response from the bytes of a
// generation_config.json, as transformers does when it generates: instruct
// models have some that config.json does not name.
func setGeneration(c *policy.Config, raw []byte) error {
	var f struct {
		EOSTokenID json.RawMessage `json:"eos_token_id"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("not a generation_config.json: %w", err)
	}
	ids, err := parseTokenIDs(f.EOSTokenID)
	if err != nil {
		return fmt.Errorf("eos_token_id: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	c.EOSTokenIDs = ids
	return c.Validate()
}

// parseTokenIDs reads null, one id or a list of ids.
func parseTokenIDs(raw json.RawMessage) ([]int32, error) {
	if !isSet(raw) {
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

func bosJSON(c policy.Config) *int32 {
	if c.BOSTokenID < 0 {
		return nil
	}
	id := c.BOSTokenID
	return &id
}

// formatConfig is the config.json of a policy with float32 weights.
func formatConfig(c policy.Config) []byte {
	return indentJSON(configJSON{
		Architectures:         []policy.Architecture{c.Architecture},
		ModelType:             modelTypes[c.Architecture],
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
		InitializerRange:      c.InitStd(),
		TorchDType:            "float32",
		UseCache:              true,
		BOSTokenID:            bosJSON(c),
		EOSTokenID:            tokenIDsJSON(c.EOSTokenIDs),
		RopeScaling:           ropeScalingJSON(c.RopeScaling),
	})
}

// ropeScalingJSON is the value of rope_scaling; nil when there is none.
func ropeScalingJSON(r policy.RopeScaling) json.RawMessage {
	if r.Type == policy.RopeDefault {
		return nil
	}
	f := ropeJSON{Type: string(r.Type), Factor: r.Factor, LowFrequencyFactor: r.LowFrequencyFactor, HighFrequencyFactor: r.HighFrequencyFactor}
	if r.Type == policy.RopeLlama3 {
		f.Original = &r.Original
	}
	raw, _ := json.Marshal(f) // finite numbers always marshal
	return raw
}

// generationJSON is the generation_config.json of a policy.
func generationJSON(c policy.Config) []byte {
	return indentJSON(struct {
		BOSTokenID *int32          `json:"bos_token_id,omitempty"`
		EOSTokenID json.RawMessage `json:"eos_token_id,omitempty"`
		DoSample   bool            `json:"do_sample"`
	}{bosJSON(c), tokenIDsJSON(c.EOSTokenIDs), true})
}

func indentJSON(value any) []byte {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err) // the values above always marshal
	}
	return append(raw, '\n')
}
