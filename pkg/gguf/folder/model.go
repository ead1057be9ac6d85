package folder

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/gguf"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// model is the shape of a model, and what config.json says besides.
type model struct {
	family
	name                                             string // of the architecture, in the file
	layers, hidden, inner, heads, kvHeads, headWidth int
	vocabulary, positions                            int
	normEps, ropeTheta                               float64
	ropeScaling                                      map[string]any // nil for none
	tied                                             bool
	more                                             map[string]any // settings of one family
}

// family is what the models of an architecture have in common.
type family struct {
	class, kind  string // in config.json
	biases       bool   // of the projections of queries, keys and values
	headNorms    bool   // of queries and keys
	postNorms    bool   // after attention and after the feed-forward network
	permuted     bool   // rows of queries and keys, for the rotary embedding of llama.cpp
	normsPlusOne bool   // weights of norms are stored with 1 added
	activation   string
	settings     func(k *keys, m *model) // fills more
}

const gelu = "gelu_pytorch_tanh"

// families are the architectures that are imported, as files name them.
var families = map[string]family{
	"llama":  {class: "LlamaForCausalLM", kind: "llama", permuted: true, activation: "silu", settings: plainSettings},
	"qwen2":  {class: "Qwen2ForCausalLM", kind: "qwen2", biases: true, activation: "silu", settings: plainSettings},
	"qwen3":  {class: "Qwen3ForCausalLM", kind: "qwen3", headNorms: true, activation: "silu", settings: plainSettings},
	"gemma":  {class: "GemmaForCausalLM", kind: "gemma", normsPlusOne: true, activation: gelu, settings: plainSettings},
	"gemma2": {class: "Gemma2ForCausalLM", kind: "gemma2", postNorms: true, normsPlusOne: true, activation: gelu, settings: gemma2Settings},
	"gemma3": {class: "Gemma3ForCausalLM", kind: "gemma3_text", postNorms: true, headNorms: true, normsPlusOne: true, activation: gelu, settings: gemma3Settings},
}

// neutral are settings that no model here has, with the value that changes nothing.
var neutral = map[string]float64{
	"expert_count": 0, "attention.clamp_kqv": 0, "attention.max_alibi_bias": 0, "attention.causal": 1, "use_parallel_residual": 0,
	"logit_scale": 1, "residual_scale": 1, "embedding_scale": 1, "rope.scaling.attn_factor": 1, "rope.scaling.yarn_log_multiplier": 0,
	"decoder_start_token_id": -1, "pooling_type": 0,
}

// readModel reads the shape of a model from the metadata.
func readModel(f *gguf.File) (*model, error) {
	n, _, err := gguf.Get[int64](f.Metadata, "split.count")
	if err != nil {
		return nil, err
	}
	if n > 1 {
		return nil, fmt.Errorf("it is one of %d files of a model: join them with llama-gguf-split --merge, of llama.cpp", n)
	}
	name, _, err := gguf.Get[string](f.Metadata, "general.architecture")
	if err != nil {
		return nil, err
	}
	fam, known := families[name]
	if !known {
		return nil, fmt.Errorf("the architecture %.100q is not implemented: llama, qwen2, qwen3, gemma, gemma2 and gemma3 are", name)
	}
	k := &keys{Metadata: f.Metadata, architecture: name}
	m := &model{
		family: fam, name: name, layers: k.size("block_count"), hidden: k.size("embedding_length"), inner: k.size("feed_forward_length"),
		heads: k.size("attention.head_count"), positions: k.size("context_length"),
		normEps: k.number("attention.layer_norm_rms_epsilon"), ropeTheta: k.numberOr("rope.freq_base", 10_000), more: map[string]any{},
	}
	if k.err != nil {
		return nil, k.err
	}
	m.kvHeads = k.sizeOr("attention.head_count_kv", m.heads)
	m.headWidth = k.sizeOr("attention.key_length", m.hidden/m.heads)
	if width := k.sizeOr("attention.value_length", m.headWidth); width != m.headWidth {
		k.fail("attention.value_length", "is %d, and keys have %d", width, m.headWidth)
	}
	if width := k.sizeOr("rope.dimension_count", m.headWidth); width != m.headWidth {
		k.fail("rope.dimension_count", "is %d, and heads have %d: partial rotary embedding is not implemented", width, m.headWidth)
	}
	if m.headWidth%2 != 0 {
		k.fail("attention.key_length", "is %d, want an even number", m.headWidth)
	}
	for key, value := range neutral {
		if got := k.numberOr(key, value); got != value {
			k.fail(key, "is %g, which is not implemented", got)
		}
	}
	if _, there := f.Metadata[name+".attention.scale"]; there {
		k.fail("attention.scale", "is set, which is not implemented")
	}
	m.readRope(k)
	m.settings(k, m)
	if k.err != nil {
		return nil, k.err
	}
	return m, m.readTensors(f)
}

// readRope reads the scaling of the rotary embedding.
func (m *model) readRope(k *keys) {
	kind, _, err := gguf.Get[string](k.Metadata, m.name+".rope.scaling.type")
	if err != nil {
		k.err = err
		return
	}
	switch kind {
	case "", "none":
	case "linear":
		if factor := k.number("rope.scaling.factor"); factor != 1 {
			m.ropeScaling = map[string]any{"rope_type": kind, "factor": factor}
		}
	case "yarn":
		m.ropeScaling = map[string]any{
			"rope_type": kind, "factor": k.number("rope.scaling.factor"),
			"original_max_position_embeddings": k.size("rope.scaling.original_context_length"),
		}
	default:
		k.fail("rope.scaling.type", "is %q; none, linear and yarn are implemented", kind)
	}
}

// plainSettings refuses a window: every layer of these models attends to all tokens.
func plainSettings(k *keys, m *model) {
	if window := k.sizeOr("attention.sliding_window", m.positions); window < m.positions {
		k.fail("attention.sliding_window", "is %d, which is not implemented for %s", window, m.name)
	}
}

// layerTypes lists which layers attend to a window: all but every nth.
func layerTypes(layers, every int) []string {
	types := make([]string, layers)
	for i := range types {
		types[i] = "sliding_attention"
		if (i+1)%every == 0 {
			types[i] = "full_attention"
		}
	}
	return types
}

// scalarOf is query_pre_attn_scalar, which files do not have: the width of a head, but for
// the largest model of a generation, as llama.cpp tells them apart.
func (m *model) scalarOf(layersOfLargest int) int {
	if m.layers == layersOfLargest {
		return m.hidden / m.heads
	}
	return m.headWidth
}

func gemma2Settings(k *keys, m *model) {
	m.more["attn_logit_softcapping"] = k.numberOr("attn_logit_softcapping", 50)
	m.more["final_logit_softcapping"] = k.numberOr("final_logit_softcapping", 30)
	m.more["sliding_window"] = k.sizeOr("attention.sliding_window", 4096)
	m.more["layer_types"] = layerTypes(m.layers, 2)
	m.more["query_pre_attn_scalar"] = m.scalarOf(46)
}

func gemma3Settings(k *keys, m *model) {
	m.more["attn_logit_softcapping"] = nil
	m.more["final_logit_softcapping"] = nil
	if limit := k.numberOr("final_logit_softcapping", 0); limit != 0 {
		m.more["final_logit_softcapping"] = limit
	}
	m.more["sliding_window"] = k.size("attention.sliding_window")
	m.more["layer_types"] = layerTypes(m.layers, k.sizeOr("attention.sliding_window_pattern", 6))
	m.more["query_pre_attn_scalar"] = m.scalarOf(62)
	m.more["rope_local_base_freq"] = k.numberOr("rope.freq_base_swa", 10_000)
}

// keys reads the settings of an architecture and remembers the first error.
type keys struct {
	gguf.Metadata
	architecture string
	err          error
}

func (k *keys) fail(key, format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf("metadata: \"%s.%s\" %s", k.architecture, key, fmt.Sprintf(format, args...))
	}
}

const maxSize = 1 << 30

// sizeOr reads a size above zero. A list with one for each layer is one where all agree.
func (k *keys) sizeOr(key string, missing int) int {
	value, there := k.Metadata[k.architecture+"."+key]
	if !there {
		return missing
	}
	if list, is := value.([]int64); is && len(list) > 0 {
		if slices.Min(list) != slices.Max(list) {
			k.fail(key, "is not the same for every layer, which is not implemented")
		}
		value = list[0]
	}
	n, is := value.(int64)
	if !is || n < 1 || n > maxSize {
		k.fail(key, "is %v, want an integer from 1 to %d", value, maxSize)
		return 1
	}
	return int(n)
}

func (k *keys) size(key string) int {
	if _, there := k.Metadata[k.architecture+"."+key]; !there {
		k.fail(key, "is missing")
		return 1
	}
	return k.sizeOr(key, 1)
}

// numberOr reads a number or a bool. One of float32 is the decimal number that it stands
// for: 1e-05 and not 9.999999747378752e-06.
func (k *keys) numberOr(key string, missing float64) float64 {
	value, there := k.Metadata[k.architecture+"."+key]
	if !there {
		return missing
	}
	switch value := value.(type) {
	case int64:
		return float64(value)
	case bool:
		if value {
			return 1
		}
		return 0
	case float64:
		if short, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', -1, 32), 64); err == nil && float64(float32(short)) == value {
			value = short
		}
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			return value
		}
	}
	k.fail(key, "is %v, want a finite number", value)
	return missing
}

func (k *keys) number(key string) float64 {
	if _, there := k.Metadata[k.architecture+"."+key]; !there {
		k.fail(key, "is missing")
		return 1
	}
	return k.numberOr(key, 1)
}

// dtypeNames are the types of weights as config.json names them.
var dtypeNames = map[safetensors.DType]string{safetensors.F32: "float32", safetensors.F16: "float16", safetensors.BF16: "bfloat16"}

func (m *model) configJSON(t *tokenizer, d safetensors.DType) map[string]any {
	config := map[string]any{
		"architectures": []string{m.class}, "model_type": m.kind, "vocab_size": m.vocabulary, "hidden_size": m.hidden,
		"intermediate_size": m.inner, "num_hidden_layers": m.layers, "num_attention_heads": m.heads, "num_key_value_heads": m.kvHeads,
		"head_dim": m.headWidth, "max_position_embeddings": m.positions, "rms_norm_eps": m.normEps, "rope_theta": m.ropeTheta,
		"tie_word_embeddings": m.tied, "hidden_act": m.activation, "initializer_range": 0.02, "attention_dropout": 0.0,
		"torch_dtype": dtypeNames[d], "use_cache": true, "bos_token_id": optional(t.bos), "eos_token_id": optional(t.eos), "pad_token_id": optional(t.pad),
	}
	if m.ropeScaling != nil {
		config["rope_scaling"] = m.ropeScaling
	}
	if m.normsPlusOne {
		config["hidden_activation"] = m.activation // Gemma's name of it
	}
	if !m.biases {
		config["attention_bias"] = false
	}
	for key, value := range m.more {
		config[key] = value
	}
	return config
}

// generationJSON names every token that ends a response: a chat model has some that
// config.json does not name.
func (m *model) generationJSON(t *tokenizer) map[string]any {
	config := map[string]any{}
	if t.bos >= 0 {
		config["bos_token_id"] = t.bos
	}
	if t.pad >= 0 {
		config["pad_token_id"] = t.pad
	}
	switch stops := t.stops(); len(stops) {
	case 0:
	case 1:
		config["eos_token_id"] = stops[0]
	default:
		config["eos_token_id"] = stops
	}
	return config
}

// optional is null for a token that is not there.
func optional(id int) any {
	if id < 0 {
		return nil
	}
	return id
}
