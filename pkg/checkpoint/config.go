package checkpoint

import (
	"encoding/json"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

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
	HiddenAct             string                `json:"hidden_act,omitempty"`
	HiddenActivation      string                `json:"hidden_activation,omitempty"` // of Gemma
	InitializerRange      float64               `json:"initializer_range"`
	AttentionDropout      float64               `json:"attention_dropout"`
	TorchDType            string                `json:"torch_dtype"`
	UseCache              bool                  `json:"use_cache"`
	BOSTokenID            *int32                `json:"bos_token_id"`
	EOSTokenID            json.RawMessage       `json:"eos_token_id"`
	PadTokenID            json.RawMessage       `json:"pad_token_id,omitempty"`

	AttentionBias     bool            `json:"attention_bias,omitempty"`
	MLPBias           bool            `json:"mlp_bias,omitempty"`
	UseSlidingWindow  bool            `json:"use_sliding_window,omitempty"`
	SlidingWindow     json.RawMessage `json:"sliding_window,omitempty"`
	SlidingPattern    int             `json:"sliding_window_pattern,omitempty"` // every so many layers one is without a window
	MaxWindowLayers   *int            `json:"max_window_layers,omitempty"`
	LayerTypes        []string        `json:"layer_types,omitempty"`
	NoRopeLayers      []int           `json:"no_rope_layers,omitempty"` // 0 for a layer without rotary embedding
	NoRopeInterval    int             `json:"no_rope_layer_interval,omitempty"`
	Quantization      json.RawMessage `json:"quantization_config,omitempty"`
	Compression       json.RawMessage `json:"compression_config,omitempty"`
	RopeScaling       json.RawMessage `json:"rope_scaling,omitempty"`
	RopeParameters    json.RawMessage `json:"rope_parameters,omitempty"` // transformers 5
	RopeLocalBase     float64         `json:"rope_local_base_freq,omitempty"`
	PartialRotaryPart *float64        `json:"partial_rotary_factor,omitempty"`
	Causal            *bool           `json:"is_causal,omitempty"`
	Bidirectional     bool            `json:"use_bidirectional_attention,omitempty"`
	HeadBias          bool            `json:"lm_head_bias,omitempty"`
	ResidualDropout   float64         `json:"resid_pdrop,omitempty"`
	EmbeddingDropout  float64         `json:"embd_pdrop,omitempty"`
	Original          *int            `json:"original_max_position_embeddings,omitempty"`

	EmbeddingMultiplier float64         `json:"embedding_multiplier,omitempty"`
	ResidualMultiplier  float64         `json:"residual_multiplier,omitempty"`
	AttentionMultiplier float64         `json:"attention_multiplier,omitempty"`
	LogitsScaling       float64         `json:"logits_scaling,omitempty"`
	QueryScalar         float64         `json:"query_pre_attn_scalar,omitempty"`
	AttentionCap        json.RawMessage `json:"attn_logit_softcapping,omitempty"`
	LogitCap            json.RawMessage `json:"final_logit_softcapping,omitempty"`

	NumExperts      int      `json:"num_experts,omitempty"`
	NumLocalExperts int      `json:"num_local_experts,omitempty"` // the same, of transformers 5
	ExpertsPerToken int      `json:"num_experts_per_tok,omitempty"`
	ExpertSize      int      `json:"moe_intermediate_size,omitempty"`
	ExpertsNormed   bool     `json:"norm_topk_prob,omitempty"`
	SparseStep      int      `json:"decoder_sparse_step,omitempty"` // every so many layers one has experts
	DenseLayers     []int    `json:"mlp_only_layers,omitempty"`     // and none of these
	RouterLogits    bool     `json:"output_router_logits,omitempty"`
	ClipQKV         *float64 `json:"clip_qkv,omitempty"`
}

// unsupported names the first setting that no family's policies honour.
func (f *configJSON) unsupported() string {
	switch {
	case f.Causal != nil && !*f.Causal:
		return "is_causal is false; only causal attention is implemented"
	case f.Bidirectional:
		return "use_bidirectional_attention is set; only causal attention is implemented"
	case isSet(f.Quantization) || isSet(f.Compression):
		return "quantization_config is set; only plain weights are implemented"
	case f.AttentionDropout != 0:
		return "attention_dropout is set; dropout is not implemented: set it to 0 to train without"
	case f.ResidualDropout != 0 || f.EmbeddingDropout != 0:
		return "resid_pdrop or embd_pdrop is set; dropout is not implemented: set both to 0 to train without"
	case f.HeadBias:
		return "lm_head_bias is set; heads with a bias are not implemented"
	case f.RouterLogits:
		return "output_router_logits is set; the loss of routers that comes with it (router_aux_loss_coef) is not implemented: set it to false to train without"
	case f.ClipQKV != nil:
		return "clip_qkv is set; queries, keys and values that are clipped are not implemented"
	}
	return ""
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// ParseConfig reads the bytes of a config.json. A model that is not
// implemented exactly is a data error of one sentence.
func ParseConfig(raw []byte) (policy.Config, error) {
	var named configJSON
	if err := json.Unmarshal(raw, &named); err != nil {
		return policy.Config{}, exitcode.Dataf("not a config.json: %w", err)
	}
	family, err := familyOf(&named)
	if err != nil {
		return policy.Config{}, exitcode.Dataf("this model is not implemented: %w", err)
	}
	f, err := family.read(raw)
	if err != nil {
		return policy.Config{}, err
	}
	c, err := family.config(&f)
	if err != nil {
		return policy.Config{}, exitcode.Dataf("this model is not implemented: %w", err)
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
	f := configJSON{
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
		InitializerRange:      c.InitStd(),
		TorchDType:            "float32",
		UseCache:              true,
		BOSTokenID:            bosJSON(c),
		EOSTokenID:            tokenIDsJSON(c.EOSTokenIDs),
	}
	writeRope(&f, c)
	writeFamily(&f, c)
	return indentJSON(f)
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
	raw, _ := json.MarshalIndent(value, "", "  ") // the values above always marshal
	return append(raw, '\n')
}
