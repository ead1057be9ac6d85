package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// family is what config.json means for one architecture.
type family struct {
	architecture policy.Architecture
	modelType    string
	defaults     string // a config.json of the keys that may be left out
	windows      windows
	localRope    bool // layers with a window have a rope_theta of their own and no scaling
	pads         bool // transformers takes a token for pad_token_id where that is left out, of which a vocabulary may have none
	parts        policy.Config
	biases       func(f *configJSON, c *policy.Config) // nil: none, whatever the keys say
	more         func(f *configJSON, c *policy.Config) error
}

// windows says which layers see a sliding window.
type windows int

const (
	noWindows   windows = iota
	allWindows          // all layers, if sliding_window is not null
	switched            // those of layer_types, or from max_window_layers on, if use_sliding_window is set
	withoutRope         // those of layer_types, or those without rotary embedding, if use_sliding_window is set
	byLayerType         // those of layer_types
)

// families are what can be read and written.
var families = []family{
	{architecture: policy.Llama, modelType: "llama", biases: allBiases},
	{
		architecture: policy.Mistral, modelType: "mistral", windows: allWindows,
		defaults: `{"sliding_window": 4096}`,
	},
	{
		architecture: policy.Qwen2, modelType: "qwen2", windows: switched, parts: policy.Config{QKVBias: true},
		defaults: `{"sliding_window": 4096}`,
	},
	{
		architecture: policy.Qwen3, modelType: "qwen3", windows: switched, parts: policy.Config{QKNorm: policy.QKNormHead},
		defaults: `{"sliding_window": 4096, "head_dim": 128}`, biases: attentionBiases,
	},
	{
		architecture: policy.Qwen3MoE, modelType: "qwen3_moe", windows: allWindows, parts: policy.Config{QKNorm: policy.QKNormHead},
		defaults: `{"sliding_window": 4096, "decoder_sparse_step": 1}`, biases: attentionBiases, more: qwenExperts,
	},
	{
		architecture: policy.OlmoE, modelType: "olmoe", pads: true, biases: attentionBiases, more: olmoExperts,
		parts: policy.Config{QKNorm: policy.QKNormAll},
	},
	{
		architecture: policy.SmolLM3, modelType: "smollm3", pads: true, windows: withoutRope, biases: allBiases,
		defaults: `{"rope_theta": 2000000, "no_rope_layer_interval": 4, "tie_word_embeddings": true}`,
	},
	{
		architecture: policy.Olmo2, modelType: "olmo2", pads: true, biases: attentionBiases,
		parts: policy.Config{Norms: policy.NormAfter, QKNorm: policy.QKNormAll},
	},
	{
		architecture: policy.Olmo3, modelType: "olmo3", pads: true, biases: attentionBiases, windows: byLayerType, localRope: true,
		parts:    policy.Config{Norms: policy.NormAfter, QKNorm: policy.QKNormAll},
		defaults: `{"rope_theta": 500000, "sliding_window": 4096, "sliding_window_pattern": 4}`,
	},
	{
		architecture: policy.Phi3, modelType: "phi3", pads: true, windows: allWindows, parts: policy.Config{Fused: true},
		defaults: `{"original_max_position_embeddings": 4096}`,
	},
	{
		architecture: policy.Granite, modelType: "granite", biases: allBiases, more: graniteScales,
		defaults: `{"embedding_multiplier": 1, "residual_multiplier": 1, "attention_multiplier": 1, "logits_scaling": 1}`,
	},
	{
		architecture: policy.Gemma, modelType: "gemma", pads: true, biases: attentionBiases, more: scaledEmbeddings,
		parts:    policy.Config{NormOffset: 1},
		defaults: `{"head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true}`,
	},
	{
		architecture: policy.Gemma2, modelType: "gemma2", pads: true, biases: attentionBiases, windows: byLayerType, more: gemmaScales,
		parts: policy.Config{Norms: policy.NormBoth, NormOffset: 1},
		defaults: `{"sliding_window": 4096, "sliding_window_pattern": 2, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
			"query_pre_attn_scalar": 256, "attn_logit_softcapping": 50, "final_logit_softcapping": 30}`,
	},
	{
		architecture: policy.Gemma3, modelType: "gemma3_text", pads: true, biases: attentionBiases, windows: byLayerType, localRope: true, more: gemmaScales,
		parts: policy.Config{Norms: policy.NormBoth, NormOffset: 1, QKNorm: policy.QKNormHead},
		defaults: `{"sliding_window": 4096, "sliding_window_pattern": 6, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
			"query_pre_attn_scalar": 256, "rope_theta": 1000000, "rope_local_base_freq": 10000}`,
	},
}

// geluTanh is policy.GELUTanh as config.json names it.
const geluTanh = "gelu_pytorch_tanh"

// read is what a config.json says, and leaves out, of the family.
func (k family) read(raw []byte) (f configJSON, err error) {
	if k.defaults != "" {
		if err := json.Unmarshal([]byte(k.defaults), &f); err != nil {
			return f, exitcode.Bugf("defaults of %s: %w", k.modelType, err)
		}
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, exitcode.Dataf("not a config.json: %w", err)
	}
	return f, nil
}

// familyOf finds the family by the first name of architectures or, where there is
// none, by model_type; both must mean the same.
func familyOf(f *configJSON) (family, error) {
	var names []string
	for _, known := range families {
		a := known.architecture
		named := slices.Equal(f.Architectures, []policy.Architecture{a})
		if named && (f.ModelType == "" || f.ModelType == known.modelType) || len(f.Architectures) == 0 && f.ModelType == known.modelType {
			return known, nil
		}
		names = append(names, string(a))
	}
	return family{}, fmt.Errorf("architectures is %q and model_type %q; these are implemented: %s", f.Architectures, f.ModelType, strings.Join(names, ", "))
}

// config is the shape that a config.json of the family describes.
func (k family) config(f *configJSON) (policy.Config, error) {
	if reason := f.unsupported(); reason != "" {
		return policy.Config{}, fmt.Errorf("%s", reason)
	}
	c := k.parts
	c.Architecture, c.VocabSize, c.HiddenSize, c.IntermediateSize = k.architecture, f.VocabSize, f.HiddenSize, f.IntermediateSize
	c.NumHiddenLayers, c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim = f.NumHiddenLayers, f.NumAttentionHeads, f.NumKeyValueHeads, f.HeadDim
	c.MaxPositionEmbeddings, c.RMSNormEps, c.InitializerRange = f.MaxPositionEmbeddings, f.RMSNormEps, f.InitializerRange
	c.TieWordEmbeddings, c.BOSTokenID = f.TieWordEmbeddings, -1
	if c.NumKeyValueHeads == 0 {
		c.NumKeyValueHeads = c.NumAttentionHeads
	}
	if c.HeadDim == 0 && c.NumAttentionHeads > 0 {
		c.HeadDim = c.HiddenSize / c.NumAttentionHeads
	}
	if err := f.activation(&c); err != nil {
		return policy.Config{}, err
	}
	switch {
	case k.biases != nil:
		k.biases(f, &c)
	case f.AttentionBias || f.MLPBias:
		return policy.Config{}, fmt.Errorf("attention_bias or mlp_bias is set, which models of type %s do not have", k.modelType)
	}
	if k.more != nil {
		if err := k.more(f, &c); err != nil {
			return policy.Config{}, err
		}
	}
	if err := f.rope(&c, k.localRope); err != nil {
		return policy.Config{}, err
	}
	return c, f.layers(&c, k)
}

// activation reads the function of the MLP's gates.
func (f *configJSON) activation(c *policy.Config) error {
	key, value := "hidden_act", f.HiddenAct
	if f.HiddenActivation != "" {
		key, value = "hidden_activation", f.HiddenActivation // of Gemma, which passes hidden_act over
	}
	if value == "gelu" && c.Architecture == policy.Gemma {
		value = geluTanh // as transformers takes the first files of Gemma
	}
	switch value {
	case "", "silu":
	case geluTanh:
		c.Activation = policy.GELUTanh
	default:
		return fmt.Errorf("%s is %q; silu and %s are implemented", key, value, geluTanh)
	}
	return nil
}

func attentionBiases(f *configJSON, c *policy.Config) {
	c.QKVBias, c.OutputBias = f.AttentionBias, f.AttentionBias
}

func allBiases(f *configJSON, c *policy.Config) {
	attentionBiases(f, c)
	c.MLPBias = f.MLPBias
}

func graniteScales(f *configJSON, c *policy.Config) error {
	c.EmbeddingScale, c.ResidualScale = f.EmbeddingMultiplier, f.ResidualMultiplier
	c.AttentionScale, c.LogitScale = f.AttentionMultiplier, f.LogitsScaling
	for _, scale := range []float64{c.EmbeddingScale, c.ResidualScale, c.AttentionScale, c.LogitScale} {
		if scale == 0 {
			return fmt.Errorf("embedding_multiplier, residual_multiplier, attention_multiplier or logits_scaling is 0; they must be positive")
		}
	}
	return nil
}

func scaledEmbeddings(_ *configJSON, c *policy.Config) error {
	c.EmbeddingScale = math.Sqrt(float64(c.HiddenSize))
	return nil
}

// qwenExperts reads which experts there are, in which layers, and whether all layers
// have the window.
func qwenExperts(f *configJSON, c *policy.Config) error {
	if !f.UseSlidingWindow {
		f.SlidingWindow = nil
	}
	if f.SparseStep < 1 {
		return fmt.Errorf("decoder_sparse_step is %d; it must be positive", f.SparseStep)
	}
	for _, layer := range f.DenseLayers {
		if layer < 0 || layer >= c.NumHiddenLayers {
			return fmt.Errorf("mlp_only_layers has %d; the layers are 0 to %d", layer, c.NumHiddenLayers-1)
		}
	}
	c.ExpertSize = f.ExpertSize
	return f.experts(c)
}

// olmoExperts reads the experts of OLMoE, which all layers have.
func olmoExperts(f *configJSON, c *policy.Config) error {
	f.SparseStep, f.DenseLayers, c.ExpertSize = 1, nil, c.IntermediateSize
	return f.experts(c)
}

// experts reads what the routers do.
func (f *configJSON) experts(c *policy.Config) error {
	if f.NumExperts != 0 && f.NumLocalExperts != 0 && f.NumExperts != f.NumLocalExperts {
		return fmt.Errorf("num_experts is %d but num_local_experts, which means the same, %d", f.NumExperts, f.NumLocalExperts)
	}
	c.Experts = cmp.Or(f.NumExperts, f.NumLocalExperts)
	if c.Experts == 0 {
		return fmt.Errorf("num_experts is 0 or missing; a mixture needs experts")
	}
	c.ExpertsPerToken, c.ExpertsNormed = f.ExpertsPerToken, f.ExpertsNormed
	return nil
}

func gemmaScales(f *configJSON, c *policy.Config) error {
	if err := scaledEmbeddings(f, c); err != nil {
		return err
	}
	if !(f.QueryScalar > 0) {
		return fmt.Errorf("query_pre_attn_scalar is %g; it must be positive", f.QueryScalar)
	}
	c.AttentionScale = 1 / math.Sqrt(f.QueryScalar)
	for _, cap := range []struct {
		key string
		raw json.RawMessage
		to  *float64
	}{{"attn_logit_softcapping", f.AttentionCap, &c.AttentionCap}, {"final_logit_softcapping", f.LogitCap, &c.LogitCap}} {
		if !isSet(cap.raw) {
			continue
		}
		if err := json.Unmarshal(cap.raw, cap.to); err != nil || !(*cap.to > 0) {
			return fmt.Errorf("%s is %s; it must be a positive number or null", cap.key, cap.raw)
		}
	}
	return nil
}

// layers reads what layers differ in.
func (f *configJSON) layers(c *policy.Config, k family) error {
	n := c.NumHiddenLayers
	windowed := k.windows != noWindows && (k.windows != switched || f.UseSlidingWindow) || len(f.LayerTypes) > 0
	if n < 0 || !windowed && c.Experts == 0 {
		return nil
	}
	if n > maxLayers {
		return fmt.Errorf("num_hidden_layers is %d; models of type %s may have %d", n, k.modelType, maxLayers)
	}
	layers := make([]policy.Layer, n)
	if k.windows == withoutRope {
		if err := f.readNoRope(layers); err != nil {
			return err
		}
	}
	for i := range layers {
		layers[i].Dense = c.Experts > 0 && (slices.Contains(f.DenseLayers, i) || (i+1)%f.SparseStep != 0)
	}
	sliding, err := f.sliding(layers, k)
	if err != nil {
		return err
	}
	if slices.Contains(sliding, true) {
		window := 0
		if !isSet(f.SlidingWindow) || json.Unmarshal(f.SlidingWindow, &window) != nil || window < 1 {
			return fmt.Errorf("sliding_window is %s; layers with a window need a positive number", orNull(f.SlidingWindow))
		}
		for i := range layers {
			if sliding[i] {
				layers[i].Window = window
				if k.localRope {
					layers[i].Rope = policy.RopeLocal
				}
			}
		}
	}
	if slices.ContainsFunc(layers, func(l policy.Layer) bool { return l != policy.Layer{} }) {
		c.Layers = layers
	}
	return nil
}

// maxLayers bounds the lists of layers that a config.json can make.
const maxLayers = 1 << 14

func orNull(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	return string(raw)
}

// readNoRope reads which layers are without rotary embedding.
func (f *configJSON) readNoRope(layers []policy.Layer) error {
	if f.NoRopeLayers != nil && len(f.NoRopeLayers) != len(layers) {
		return fmt.Errorf("no_rope_layers has %d entries; num_hidden_layers is %d", len(f.NoRopeLayers), len(layers))
	}
	if f.NoRopeLayers == nil && f.NoRopeInterval < 1 {
		return fmt.Errorf("no_rope_layer_interval is %d; it must be positive", f.NoRopeInterval)
	}
	for i := range layers {
		with := f.NoRopeInterval < 1 || (i+1)%f.NoRopeInterval != 0
		if f.NoRopeLayers != nil {
			with = f.NoRopeLayers[i] != 0
		}
		if !with {
			layers[i].Rope = policy.RopeNone
		}
	}
	return nil
}

// sliding says which layers have a window.
func (f *configJSON) sliding(layers []policy.Layer, k family) ([]bool, error) {
	said := make([]bool, len(layers))
	for i, layer := range f.LayerTypes {
		switch {
		case len(f.LayerTypes) != len(layers):
			return nil, fmt.Errorf("layer_types has %d entries; num_hidden_layers is %d", len(f.LayerTypes), len(layers))
		case layer != fullAttention && layer != slidingAttention:
			return nil, fmt.Errorf("layer_types has %q; %s and %s are implemented", layer, fullAttention, slidingAttention)
		}
		said[i] = layer == slidingAttention
	}
	stated := len(f.LayerTypes) > 0
	sliding := slices.Clone(said)
	for i := range sliding {
		switch k.windows {
		case noWindows:
			sliding[i] = false
		case allWindows:
			sliding[i] = isSet(f.SlidingWindow)
		case switched:
			first := 28 // the default of both Qwen2Config and Qwen3Config
			if f.MaxWindowLayers != nil {
				first = *f.MaxWindowLayers
			}
			sliding[i] = f.UseSlidingWindow && isSet(f.SlidingWindow) && (said[i] || !stated && i >= first)
		case withoutRope:
			sliding[i] = f.UseSlidingWindow && isSet(f.SlidingWindow) && (said[i] || !stated && layers[i].Rope == policy.RopeNone)
		case byLayerType:
			sliding[i] = said[i] || !stated && (f.SlidingPattern < 1 || (i+1)%f.SlidingPattern != 0)
		}
	}
	if stated && !slices.Equal(said, sliding) {
		return nil, fmt.Errorf("layer_types has %s where models of type %s, with this sliding_window, have another kind of attention", f.LayerTypes, k.modelType)
	}
	return sliding, nil
}

// writeFamily is the reverse of familyOf and config.
func writeFamily(f *configJSON, c policy.Config) {
	k := families[slices.IndexFunc(families, func(k family) bool { return k.architecture == c.Architecture })]
	f.Architectures, f.ModelType = []policy.Architecture{k.architecture}, k.modelType
	if k.pads {
		f.PadTokenID = json.RawMessage("null")
	}
	activation := "silu"
	if c.Activation == policy.GELUTanh {
		activation = geluTanh
	}
	if strings.Contains(k.defaults, "hidden_activation") {
		f.HiddenActivation = activation
	} else {
		f.HiddenAct = activation
	}
	if k.biases != nil {
		f.AttentionBias, f.MLPBias = c.QKVBias, c.MLPBias
	}
	switch c.Architecture {
	case policy.Granite:
		f.EmbeddingMultiplier, f.ResidualMultiplier, f.AttentionMultiplier, f.LogitsScaling = c.EmbeddingScale, c.ResidualScale, c.AttentionScale, c.LogitScale
	case policy.Gemma2, policy.Gemma3:
		f.QueryScalar = queryScalar(c.AttentionScale)
		f.AttentionCap, f.LogitCap = capJSON(c.AttentionCap), capJSON(c.LogitCap)
	}
	writeExperts(f, c)
	writeLayers(f, c, k)
}

func writeExperts(f *configJSON, c policy.Config) {
	f.NumExperts, f.ExpertsPerToken, f.ExpertsNormed = c.Experts, c.ExpertsPerToken, c.ExpertsNormed
	if c.Architecture != policy.Qwen3MoE {
		return
	}
	f.ExpertSize, f.SparseStep = c.ExpertSize, 1
	for i := range c.NumHiddenLayers {
		if c.Layer(i).Dense {
			f.DenseLayers = append(f.DenseLayers, i)
		}
		f.UseSlidingWindow = c.Layer(i).Window != 0
	}
}

// queryScalar is the number whose inverse root is the scale.
func queryScalar(scale float64) float64 {
	near := 1 / (scale * scale)
	for _, x := range []float64{math.Round(near), near, math.Nextafter(near, 0), math.Nextafter(near, math.Inf(1))} {
		if 1/math.Sqrt(x) == scale {
			return x
		}
	}
	return near
}

// capJSON is a number with a fraction, as transformers wants it, or null.
func capJSON(cap float64) json.RawMessage {
	if cap == 0 {
		return json.RawMessage("null")
	}
	raw := mustMarshal(cap)
	if !bytes.ContainsAny(raw, ".e") {
		raw = append(raw, ".0"...)
	}
	return raw
}

func writeLayers(f *configJSON, c policy.Config, k family) {
	window := 0
	for i := range c.NumHiddenLayers {
		l, kind := c.Layer(i), fullAttention
		if l.Window != 0 {
			window, kind = l.Window, slidingAttention
		}
		if k.windows == byLayerType || k.windows == switched || k.windows == withoutRope {
			f.LayerTypes = append(f.LayerTypes, kind)
		}
		if k.windows == withoutRope {
			with := 1
			if l.Rope == policy.RopeNone {
				with = 0
			}
			f.NoRopeLayers = append(f.NoRopeLayers, with)
		}
	}
	switch k.windows {
	case switched, withoutRope:
		f.UseSlidingWindow = window != 0
		if window == 0 && k.windows == switched {
			f.LayerTypes = nil // as these families were written before
		}
	case noWindows:
		return
	}
	if window != 0 {
		f.SlidingWindow = mustMarshal(window)
	} else if k.windows == allWindows {
		f.SlidingWindow = json.RawMessage("null")
	}
}
