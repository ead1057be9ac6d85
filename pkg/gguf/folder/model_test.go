package folder

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/gguf"
	"github.com/lathe-rl/lathe/pkg/gguf/gguftest"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// opened is a file as it is read.
func opened(t *testing.T, f gguftest.File) *gguf.File {
	t.Helper()
	content := f.Bytes()
	return must.Get(gguf.Read(bytes.NewReader(content), int64(len(content)), "m.gguf"))(t)
}

// TestConfig: config.json of every architecture, and what keys change in it. nil for a
// field that is not there.
func TestConfig(t *testing.T) {
	t.Parallel()
	base := map[string]any{
		"architectures": []any{"LlamaForCausalLM"}, "model_type": "llama", "vocab_size": 6.0, "hidden_size": 4.0, "intermediate_size": 5.0, "num_hidden_layers": 1.0,
		"num_attention_heads": 2.0, "num_key_value_heads": 1.0, "head_dim": 4.0, "max_position_embeddings": 32.0, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
		"tie_word_embeddings": true, "hidden_act": "silu", "initializer_range": 0.02, "attention_dropout": 0.0, "torch_dtype": "float32", "use_cache": true,
		"bos_token_id": 3.0, "eos_token_id": 3.0, "pad_token_id": nil, "attention_bias": false,
	}
	gemma := map[string]any{"architectures": []any{"GemmaForCausalLM"}, "model_type": "gemma", "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}
	gemma2 := map[string]any{
		"architectures": []any{"Gemma2ForCausalLM"}, "model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
		"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "sliding_window": 32.0, "layer_types": []any{"sliding_attention"}, "query_pre_attn_scalar": 4.0,
	}
	gemma3 := map[string]any{
		"architectures": []any{"Gemma3ForCausalLM"}, "model_type": "gemma3_text", "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
		"attn_logit_softcapping": nil, "final_logit_softcapping": nil, "sliding_window": 32.0, "layer_types": []any{"sliding_attention"}, "query_pre_attn_scalar": 4.0,
		"rope_local_base_freq": 10000.0,
	}
	type changes map[string]any
	with := func(of map[string]any, more changes) map[string]any {
		all := maps.Clone(of)
		maps.Copy(all, more)
		return all
	}
	for _, c := range []struct {
		architecture string
		keys         changes // without the architecture
		want         map[string]any
		without      string // a field that is not there
	}{
		{"llama", nil, nil, "rope_scaling"},
		{"qwen2", nil, changes{"architectures": []any{"Qwen2ForCausalLM"}, "model_type": "qwen2"}, "attention_bias"},
		{"qwen3", nil, changes{"architectures": []any{"Qwen3ForCausalLM"}, "model_type": "qwen3"}, ""},
		{"gemma", nil, gemma, ""},
		{"gemma2", nil, gemma2, ""},
		{"gemma2", changes{"attn_logit_softcapping": float32(20), "final_logit_softcapping": float32(10), "attention.sliding_window": nil}, with(gemma2, changes{"attn_logit_softcapping": 20.0, "final_logit_softcapping": 10.0, "sliding_window": 4096.0}), ""},
		{"gemma3", nil, gemma3, ""},
		{"gemma3", changes{"final_logit_softcapping": float32(10), "attention.sliding_window_pattern": uint32(1), "rope.freq_base_swa": float32(5000)}, with(gemma3, changes{"final_logit_softcapping": 10.0, "layer_types": []any{"full_attention"}, "rope_local_base_freq": 5000.0}), ""},
		{"llama", changes{"rope.freq_base": 0.1, "attention.layer_norm_rms_epsilon": float32(1e-6), "rope.scaling.type": "none", "split.count": uint16(1)}, changes{"rope_theta": 0.1, "rms_norm_eps": 1e-6}, "rope_scaling"},
		{"llama", changes{"rope.freq_base": uint32(7), "attention.sliding_window": nil, "attention.head_count": []int32{2, 2}, "expert_count": false, "attention.causal": true}, changes{"rope_theta": 7.0}, ""},
		{"llama", changes{"rope.scaling.type": "linear", "rope.scaling.factor": float32(1)}, nil, "rope_scaling"},
		{"llama", changes{"rope.scaling.type": "linear", "rope.scaling.factor": float32(2)}, changes{"rope_scaling": map[string]any{"rope_type": "linear", "factor": 2.0}}, ""},
		{"llama", changes{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(8)}, changes{"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8.0}}, ""},
		{"llama", changes{"attention.sliding_window": uint32(33)}, nil, ""},
	} {
		var keys []gguftest.Key
		for name, value := range c.keys {
			if name != "split.count" {
				name = c.architecture + "." + name
			}
			keys = append(keys, gguftest.Key{Name: name, Value: value})
		}
		m, err := readModel(opened(t, sample(c.architecture, keys...)))
		if err != nil {
			t.Errorf("%s, %v: %v", c.architecture, c.keys, err)
			continue
		}
		want := with(base, c.want)
		if delete(want, c.without); c.without == "rope_scaling" {
			delete(want, "rope_scaling")
		}
		if diff := cmp.Diff(want, plain(t, m.configJSON(&tokenizer{bos: 3, eos: 3, pad: -1}, safetensors.F32))); diff != "" {
			t.Errorf("%s, %v (-want +got):\n%s", c.architecture, c.keys, diff)
		}
	}
	missing := func(f gguf.Metadata) *keys { return &keys{Metadata: f, architecture: "a"} }
	k := missing(gguf.Metadata{"a.heads": int64(1 << 30)})
	if k.size("heads") != 1<<30 || k.err != nil || k.sizeOr("none", 7) != 7 || k.size("none") != 1 || k.err == nil {
		t.Errorf("sizes: %v", k.err)
	}
	k = missing(gguf.Metadata{"a.f": float64(float32(0.1)), "a.yes": true, "a.no": false})
	if k.number("f") != 0.1 || k.numberOr("yes", 5) != 1 || k.numberOr("no", 5) != 0 || k.numberOr("none", 5) != 5 || k.err != nil || k.number("none") != 1 || k.err == nil {
		t.Errorf("numbers: %v", k.err)
	}
}

// TestHeads: without keys of their own keys and values have as many heads as queries, each
// of an equal part of the width: 4 / 2.
func TestHeads(t *testing.T) {
	t.Parallel()
	f := sample("llama", gguftest.Key{Name: "llama.attention.head_count_kv"}, gguftest.Key{Name: "llama.attention.key_length"}, gguftest.Key{Name: "llama.attention.value_length"})
	for i := range f.Tensors {
		switch tensor := &f.Tensors[i]; tensor.Name {
		case "blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight":
			tensor.Shape, tensor.Data = []int{4, 4}, make([]byte, 64)
		}
	}
	f.Tensors = append(f.Tensors,
		gguftest.Tensor{Name: "output.weight", Shape: []int{6, 4}, Data: make([]byte, 96)},
		gguftest.Tensor{Name: "blk.0.attn_rot_embd", Shape: []int{1}, Data: make([]byte, 4)}) // of old files
	m := must.Get(readModel(opened(t, f)))(t)
	all := m.tensors()
	if last := all[len(all)-1]; m.kvHeads != 2 || m.headWidth != 2 || m.tied || len(all) != 12 || last.to != "lm_head.weight" || !slices.Equal(last.shape, []int{6, 4}) {
		t.Errorf("%+v, %d tensors, the last %+v", m, len(all), last)
	}
}

// TestLargest: query_pre_attn_scalar of the largest Gemma 2 (27B: 4608 / 32 = 144) and Gemma 3
// (27B: 5376 / 32 = 168) is not the width of a head, 128; of others it is. Every second and
// every sixth layer attends to all tokens.
func TestLargest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings               func(*keys, *model)
		layers, hidden, scalar int
		full                   []int
	}{
		{gemma2Settings, 46, 4608, 144, nil},
		{gemma2Settings, 42, 3584, 128, nil},
		{gemma2Settings, 62, 5376, 128, nil},
		{gemma3Settings, 62, 5376, 168, nil},
		{gemma3Settings, 46, 4608, 128, nil},
		{gemma2Settings, 5, 1, 128, []int{1, 3}},
		{gemma3Settings, 13, 1, 128, []int{5, 11}},
	} {
		m := &model{layers: c.layers, hidden: c.hidden, heads: 32, headWidth: 128, more: map[string]any{}}
		k := &keys{Metadata: gguf.Metadata{"a.attention.sliding_window": int64(9)}, architecture: "a"}
		c.settings(k, m)
		var full []int
		for i, kind := range m.more["layer_types"].([]string) {
			if kind == "full_attention" {
				full = append(full, i)
			}
		}
		if k.err != nil || m.more["query_pre_attn_scalar"] != c.scalar || c.full != nil && !slices.Equal(full, c.full) {
			t.Errorf("%d layers: %v, layers %v attend to all; %v", c.layers, m.more["query_pre_attn_scalar"], full, k.err)
		}
	}
}

// TestStops: generation_config.json names the one token that ends a response, or all.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		t    tokenizer
		want map[string]any
	}{
		{tokenizer{bos: -1, eos: -1, pad: -1, eot: -1}, map[string]any{}},
		{tokenizer{bos: 0, eos: 0, pad: 0, eot: -1}, map[string]any{"bos_token_id": 0.0, "pad_token_id": 0.0, "eos_token_id": 0.0}},
		{tokenizer{bos: -1, eos: 2, pad: 1, eot: 2}, map[string]any{"pad_token_id": 1.0, "eos_token_id": 2.0}},
		{tokenizer{bos: 1, eos: 2, pad: -1, eot: 0}, map[string]any{"bos_token_id": 1.0, "eos_token_id": []any{2.0, 0.0}}},
	} {
		if diff := cmp.Diff(c.want, plain(t, (&model{}).generationJSON(&c.t))); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.t, diff)
		}
	}
	if optional(0) != 0 || optional(-1) != nil {
		t.Errorf("%v, %v", optional(0), optional(-1))
	}
}

// TestReadPart by hand: rows of a head of width 4 are stored as 0, 2, 1, 3, and element 100 ·
// row + column is read from the middle of a row on. Of a norm that is stored with 1 added, 3
// is 2; of a bias it is not.
func TestReadPart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		architecture, name string
		from, n            int
		want               []float32
	}{
		{"llama", "blk.0.attn_q.weight", 2, 7, []float32{2, 3, 200, 201, 202, 203, 100}},
		{"llama", "blk.0.attn_q.weight", 29, 3, []float32{701, 702, 703}},
		{"llama", "blk.0.attn_v.weight", 3, 2, []float32{3, 100}},
		{"qwen2", "blk.0.attn_q.weight", 3, 2, []float32{3, 100}},
		{"qwen2", "blk.0.attn_q.bias", 1, 2, []float32{3, 3}},
		{"llama", "blk.0.ffn_norm.weight", 1, 2, []float32{3, 3}},
		{"gemma", "output_norm.weight", 1, 2, []float32{2, 2}},
		{"gemma3", "blk.0.attn_q_norm.weight", 0, 1, []float32{2}},
		{"gemma3", "blk.0.post_ffw_norm.weight", 0, 1, []float32{2}},
		{"gemma", "token_embd.weight", 3, 2, []float32{3, 100}},
	} {
		f := opened(t, sample(c.architecture))
		all := must.Get(readModel(f))(t).tensors()
		at := slices.IndexFunc(all, func(t tensor) bool { return t.from == c.name })
		info, _ := f.Lookup(c.name)
		got := make([]float32, c.n)
		must.Do(t, all[at].read(f, info, got, c.from))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s from %d on is %v, want %v", c.architecture, c.name, c.from, got, c.want)
		}
	}
}

// TestNames: the names of a layer's tensors in the folder, where architectures differ.
func TestNames(t *testing.T) {
	t.Parallel()
	const plain = "input_layernorm q_proj k_proj v_proj o_proj post_attention_layernorm gate_proj up_proj down_proj"
	for architecture, want := range map[string]string{
		"llama": plain, "gemma": plain,
		"qwen2":  "input_layernorm q_proj k_proj v_proj q_proj.bias k_proj.bias v_proj.bias o_proj post_attention_layernorm gate_proj up_proj down_proj",
		"qwen3":  "input_layernorm q_proj k_proj v_proj q_norm k_norm o_proj post_attention_layernorm gate_proj up_proj down_proj",
		"gemma2": "input_layernorm q_proj k_proj v_proj o_proj post_attention_layernorm pre_feedforward_layernorm post_feedforward_layernorm gate_proj up_proj down_proj",
		"gemma3": "input_layernorm q_proj k_proj v_proj q_norm k_norm o_proj post_attention_layernorm pre_feedforward_layernorm post_feedforward_layernorm gate_proj up_proj down_proj",
	} {
		folder := must.Get(imported(t, sample(architecture), Options{DType: safetensors.F16}))(t)
		f := must.Get(safetensors.Open(filepath.Join(folder, "model.safetensors")))(t)
		var names []string
		for _, tensor := range must.Get(readModel(opened(t, sample(architecture))))(t).tensors() {
			if info, there := f.Lookup(tensor.to); !there || info.DType != safetensors.F16 || !slices.Equal(info.Shape, tensor.shape) {
				t.Errorf("%s: %q is %+v", architecture, tensor.to, info)
			}
			if layer, is := strings.CutPrefix(tensor.to, "model.layers.0."); is {
				names = append(names, strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(layer, ".weight"), "self_attn."), "mlp."))
			}
		}
		must.Do(t, f.Close())
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", architecture, got, want)
		}
		if config := fields(t, folder, "config.json"); config["torch_dtype"] != "float16" {
			t.Errorf("%s: weights are %v", architecture, config["torch_dtype"])
		}
	}
}
