package checkpoint

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// A config.json that is read again says the same. How it is spelled is held too, since the
// classes of transformers ask for that.
func TestConfigRoundTrip(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	for _, change := range []func(*policy.Config){
		func(*policy.Config) {},
		func(c *policy.Config) { c.Architecture, c.QKVBias, c.TieWordEmbeddings = policy.Llama, false, false },
		func(c *policy.Config) { c.BOSTokenID, c.EOSTokenIDs = -1, nil },
		func(c *policy.Config) { c.EOSTokenIDs = []int32{0} },
		func(c *policy.Config) { c.InitializerRange = 0.08 },
		func(c *policy.Config) {
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeYarn, Factor: 4, Original: 16, BetaFast: 20, Exact: true, MScale: 0.7, MScaleAllDim: 0.3}
			c.MaxPositionEmbeddings = 64
		},
		func(c *policy.Config) { c.Layers = []policy.Layer{{}, {Window: 5}} },
		func(c *policy.Config) {
			c.Architecture, c.QKVBias = policy.Mistral, false
			c.Layers = []policy.Layer{{Window: 5}, {Window: 5}}
		},
		func(c *policy.Config) { c.Architecture, c.QKVBias = policy.Mistral, false },
		func(c *policy.Config) {
			c.Architecture, c.OutputBias = policy.SmolLM3, true
			c.Layers = []policy.Layer{{Rope: policy.RopeNone}, {Rope: policy.RopeNone}}
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.Norms, c.QKNorm = policy.Olmo2, false, policy.NormAfter, policy.QKNormAll
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.Norms, c.QKNorm = policy.Olmo3, false, policy.NormAfter, policy.QKNormAll
			c.LocalRopeTheta, c.Layers = 7, []policy.Layer{{Window: 3, Rope: policy.RopeLocal}, {}}
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.Fused, c.HeadDim, c.RotaryDim = policy.Phi3, false, true, 8, 6
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeLong, Factor: 32, Original: 16, ShortFactors: []float64{1, 1, 1.5}, LongFactors: []float64{2, 3, 4}}
		},
		func(c *policy.Config) {
			c.Architecture, c.MLPBias, c.OutputBias = policy.Granite, true, true
			c.EmbeddingScale, c.ResidualScale, c.AttentionScale, c.LogitScale = 12, 0.22, 0.0078125, 8
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.QKNorm = policy.Qwen3MoE, false, policy.QKNormHead
			c.Experts, c.ExpertsPerToken, c.ExpertSize, c.ExpertsNormed = 6, 2, 5, true
			c.Layers = []policy.Layer{{Window: 5, Dense: true}, {Window: 5}}
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.QKNorm = policy.OlmoE, false, policy.QKNormAll
			c.Experts, c.ExpertsPerToken, c.ExpertSize = 3, 3, 12
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.NormOffset, c.Activation, c.EmbeddingScale = policy.Gemma, false, 1, policy.GELUTanh, math.Sqrt(8)
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.Norms, c.NormOffset, c.Activation = policy.Gemma2, false, policy.NormBoth, 1, policy.GELUTanh
			c.EmbeddingScale, c.AttentionScale, c.AttentionCap, c.LogitCap = math.Sqrt(8), 1/math.Sqrt(224), 50, 30
			c.Layers = []policy.Layer{{Window: 4}, {}}
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.Norms, c.NormOffset = policy.Gemma2, false, policy.NormBoth, 1 // with SiLU, which no published one has
			c.EmbeddingScale, c.AttentionScale, c.AttentionCap, c.LogitCap = math.Sqrt(8), 1/math.Sqrt(224), 50, 30
		},
		func(c *policy.Config) {
			c.Architecture, c.QKVBias, c.Norms, c.NormOffset, c.Activation = policy.Gemma3, false, policy.NormBoth, 1, policy.GELUTanh
			c.QKNorm, c.EmbeddingScale, c.AttentionScale, c.LocalRopeTheta = policy.QKNormHead, math.Sqrt(8), 1/math.Sqrt(256), 1e4
			c.Layers = []policy.Layer{{Window: 4, Rope: policy.RopeLocal}, {}}
		},
	} {
		want := testConfig()
		change(&want)
		raw := formatConfig(want)
		must.Do(t, json.Compact(&written, raw))
		written.WriteByte('\n')
		got := must.Get(ParseConfig(raw))(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	golden.Check(t, "testdata/configs.jsonl", written.String())
}

// The layout of config.json that transformers 5 writes.
func TestConfigOfTransformers5(t *testing.T) {
	t.Parallel()
	c, err := ParseConfig([]byte(`{"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
		"bos_token_id":1,"dtype":"float32","eos_token_id":2,"head_dim":8,"hidden_act":"silu","hidden_size":32,
		"initializer_range":0.02,"intermediate_size":48,"max_position_embeddings":64,"mlp_bias":false,"model_type":"llama",
		"num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":4,"pretraining_tp":1,"rms_norm_eps":1e-06,
		"rope_parameters":{"rope_theta":5000.0,"rope_type":"default"},"tie_word_embeddings":false,
		"transformers_version":"5.23.0","use_cache":true,"vocab_size":50}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.RopeTheta != 5000 || c.HeadDim != 8 || c.BOSTokenID != 1 || !cmp.Equal(c.EOSTokenIDs, []int32{2}) {
		t.Errorf("got %+v", c)
	}
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct{ old, new, want string }{
		{`"Qwen2ForCausalLM"`, `"MixtralForCausalLM"`, "MixtralForCausalLM"},
		{`"silu"`, `"gelu"`, `hidden_act is "gelu"`},
		{`"use_cache": true`, `"output_router_logits": true`, "router_aux_loss_coef"},
		{`"use_cache": true`, `"clip_qkv": 8`, "clip_qkv is set"},
		{`"use_cache": true`, `"use_sliding_window": true, "sliding_window": -1, "max_window_layers": 1`, "sliding_window is -1"},
		{`"use_cache": true`, `"layer_types": ["sliding_attention"]`, "layer_types has 1 entries"},
		{`"use_cache": true`, `"layer_types": ["full_attention", "linear_attention"]`, "linear_attention"},
		{`"use_cache": true`, `"layer_types": ["full_attention", "sliding_attention"]`, "another kind of attention"},
		{`"use_cache": true`, `"use_bidirectional_attention": true`, "use_bidirectional_attention"},
		{`"use_cache": true`, `"resid_pdrop": 0.1`, "resid_pdrop"},
		{`"use_cache": true`, `"lm_head_bias": true`, "lm_head_bias"},
		{`"use_cache": true`, `"attention_bias": true`, "attention_bias"},
		{`"use_cache": true`, `"quantization_config": {}`, "quantization_config"},
		{`"use_cache": true`, `"rope_scaling": {"rope_type": "llama3"}`, "factor of rope_type"},
		{`"use_cache": true`, `"rope_parameters": {"rope_type": "proportional"}`, "rope_type is \"proportional\""},
		{`"use_cache": true`, `"partial_rotary_factor": 0.25`, "partial_rotary_factor"},
		{`"use_cache": true`, `"partial_rotary_factor": 0.5`, "an even number"},
		{`"use_cache": true`, `"is_causal": false`, "is_causal is false"},
		{`"use_cache": true`, `"original_max_position_embeddings": 8, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
			"high_freq_factor": 4, "original_max_position_embeddings": 12}`, "original_max_position_embeddings is 12 in the scaling of rotary embedding but 8 beside it"},
		{`"attention_dropout": 0`, `"attention_dropout": 0.1`, "attention_dropout is set; dropout is not implemented: set it to 0"},
		{`"vocab_size": 11`, `"vocab_size": 0`, "vocab_size is 0"},
		{`"vocab_size": 11`, `"vocab_size": "x"`, "not a config.json"},
		{`"num_key_value_heads": 2`, `"num_key_value_heads": 3`, "not a multiple"},
		{`"head_dim": 2`, `"head_dim": 3`, "rotary embedding needs it even"},
		{`"rms_norm_eps": 0.000001`, `"rms_norm_eps": 0`, "rms_norm_eps is 0"},
		{`"rope_theta": 10000`, `"rope_theta": -1`, "rope_theta is -1"},
		{`"bos_token_id": 3`, `"bos_token_id": 11`, "bos_token_id is 11"},
	}
	raw := string(formatConfig(testConfig()))
	for _, test := range tests {
		changed := strings.Replace(raw, test.old, test.new, 1)
		if changed == raw {
			t.Errorf("%s is not in %s", test.old, raw)
			continue
		}
		_, err := ParseConfig([]byte(changed))
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.new, err, test.want)
		}
	}
}

// What a config.json says stays its own: the next one, which leaves it out, has the
// family's default.
func TestConfigsStayApart(t *testing.T) {
	t.Parallel()
	const mistral = `{"model_type":"mistral","vocab_size":11,"hidden_size":8,"intermediate_size":12,"num_hidden_layers":1,"num_attention_heads":4,
		"max_position_embeddings":16,"rms_norm_eps":1e-6`
	for _, test := range []struct {
		own    string
		layers []policy.Layer
	}{
		{`,"sliding_window":512}`, []policy.Layer{{Window: 512}}},
		{`,"sliding_window":null}`, nil},
		{`}`, []policy.Layer{{Window: 4096}}},
	} {
		if c := must.Get(ParseConfig([]byte(mistral + test.own)))(t); !slices.Equal(c.Layers, test.layers) {
			t.Errorf("with %s the layers are %+v, want %+v", test.own, c.Layers, test.layers)
		}
	}
}

// What the settings of single families are refused for, one setting at a time.
func TestFamiliesRefuse(t *testing.T) {
	t.Parallel()
	const shape = `"vocab_size":11,"hidden_size":8,"intermediate_size":12,"num_hidden_layers":2,"num_attention_heads":4,"head_dim":2,
		"max_position_embeddings":16,"rms_norm_eps":1e-6`
	for family, test := range map[string]struct {
		own      string            // what the family needs beside its shape
		refusals map[string]string // by what is added or, of a key that is there, put in its place
	}{
		"qwen3_moe": {`"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":5`, map[string]string{
			`"num_experts":0`:           "num_experts is 0 or missing",
			`"num_local_experts":5`:     "num_experts is 4 but num_local_experts, which means the same, 5",
			`"num_experts":-4`:          "the number of experts is -4",
			`"num_experts_per_tok":5`:   "5 of 4 experts",
			`"moe_intermediate_size":0`: "intermediate size of experts is 0",
			`"mlp_only_layers":[2]`:     "mlp_only_layers has 2",
			`"mlp_only_layers":[-1]`:    "mlp_only_layers has -1",
			`"decoder_sparse_step":0`:   "decoder_sparse_step is 0",
			`"num_hidden_layers":16385`: "num_hidden_layers is 16385",
			`"num_hidden_layers":-1`:    "num_hidden_layers is -1",
			`"use_sliding_window":true`: "",
		}},
		"gemma2": {`"query_pre_attn_scalar":256`, map[string]string{
			`"query_pre_attn_scalar":0`:     "query_pre_attn_scalar is 0",
			`"attn_logit_softcapping":-1`:   "attn_logit_softcapping is -1",
			`"final_logit_softcapping":"x"`: `final_logit_softcapping is "x"`,
			`"attn_logit_softcapping":null`: "",
			`"sliding_window":null`:         "sliding_window is null",
			`"sliding_window":0`:            "sliding_window is 0",
		}},
		"granite": {`"attention_multiplier":1`, map[string]string{
			`"attention_multiplier":0`: "attention_multiplier or logits_scaling is 0",
			`"logits_scaling":0`:       "attention_multiplier or logits_scaling is 0",
		}},
		"smollm3": {`"no_rope_layer_interval":2`, map[string]string{
			`"no_rope_layers":[1]`:       "no_rope_layers has 1 entries; num_hidden_layers is 2",
			`"no_rope_layer_interval":0`: "no_rope_layer_interval is 0",
			`"no_rope_layers":[1,0]`:     "",
		}},
		"phi3": {`"pad_token_id":0`, map[string]string{
			`"attention_bias":true`: "which models of type phi3 do not have",
			`"mlp_bias":true`:       "which models of type phi3 do not have",
			`"rope_scaling":{"type":"longrope","factor":3,"short_factor":[1],"long_factor":[1]}`: "the factor of rope_type longrope is 3",
		}},
	} {
		refusals := maps.Clone(test.refusals)
		refusals[`"use_cache":true`] = "" // as it is
		for added, want := range refusals {
			key, _, _ := strings.Cut(added, ":")
			var kept []string
			for _, setting := range strings.Split(shape+","+test.own, ",") {
				if !strings.HasPrefix(strings.TrimSpace(setting), key+":") {
					kept = append(kept, setting)
				}
			}
			_, err := ParseConfig([]byte(`{"model_type":"` + family + `",` + strings.Join(append(kept, added), ",") + "}"))
			switch {
			case want == "" && err != nil:
				t.Errorf("%s with %s: %v", family, added, err)
			case want != "" && (exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), want)):
				t.Errorf("%s with %s: got %v, want %q", family, added, err, want)
			}
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(formatConfig(testConfig()))
	f.Add([]byte(`{"architectures":["LlamaForCausalLM"],"eos_token_id":[1,2]}`))
	scaled := testConfig()
	scaled.Architecture, scaled.QKVBias, scaled.QKNorm = policy.Qwen3, false, policy.QKNormHead
	scaled.RopeScaling = policy.RopeScaling{Type: policy.RopeLlama3, Factor: 8, LowFrequencyFactor: 1, HighFrequencyFactor: 4, Original: 64}
	f.Add(formatConfig(scaled))
	f.Add(bytes.Replace(formatConfig(scaled), []byte("rope_scaling"), []byte("rope_parameters"), 1))
	f.Add(bytes.Replace(formatConfig(testConfig()), []byte(`"use_cache"`), []byte(`"rope_scaling":{"type":"linear","factor":2},"layer_types":["full_attention"],"use_cache"`), 1))
	for _, name := range []string{"olmo3", "phi4-mini", "granite", "gemma2", "gemma3", "smollm3", "qwen3-moe-dense", "olmoe", "gemma"} {
		raw, err := os.ReadFile(filepath.Join("..", "policy", "testdata", "families", name, ConfigFile))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseConfig(raw)
		if err != nil {
			if exitcode.Code(err) != exitcode.Data {
				t.Fatalf("code %d for %v", exitcode.Code(err), err)
			}
			return
		}
		c.InitializerRange = c.InitStd() // what is written
		again, err := ParseConfig(formatConfig(c))
		if err != nil || !cmp.Equal(c, again) {
			t.Fatalf("%+v came back as %+v, %v", c, again, err)
		}
	})
}

// Settings that are there and change nothing, and defaults that depend on the
// family.
func TestConfigOfFamilies(t *testing.T) {
	t.Parallel()
	shape := `"vocab_size":11,"hidden_size":8,"intermediate_size":12,"num_hidden_layers":2,"num_attention_heads":4,
		"max_position_embeddings":16,"rms_norm_eps":1e-6,`
	for _, test := range []struct {
		name, raw string
		want      func(c *policy.Config)
	}{
		{"plain Llama", `"architectures":["LlamaForCausalLM"],"model_type":"llama"`, func(*policy.Config) {}},
		{"Llama without architectures", `"model_type":"llama"`, func(*policy.Config) {}},
		{"SmolLM3 with products in parts", `"model_type":"smollm3","pretraining_tp":2,"no_rope_layers":[1,1],"tie_word_embeddings":false,"rope_theta":10000`, func(c *policy.Config) { c.Architecture = policy.SmolLM3 }},
		{"window not in use", `"model_type":"qwen2","use_sliding_window":false,"sliding_window":4,"max_window_layers":1`, func(c *policy.Config) { c.Architecture, c.QKVBias = policy.Qwen2, true }},
		{"window after the last layer", `"model_type":"qwen2","use_sliding_window":true,"sliding_window":4,"max_window_layers":2`, func(c *policy.Config) { c.Architecture, c.QKVBias = policy.Qwen2, true }},
		{"window of null", `"model_type":"qwen2","use_sliding_window":true,"sliding_window":null,"max_window_layers":0`, func(c *policy.Config) { c.Architecture, c.QKVBias = policy.Qwen2, true }},
		{"layers all full", `"model_type":"qwen2","use_sliding_window":true,"layer_types":["full_attention","full_attention"]`, func(c *policy.Config) { c.Architecture, c.QKVBias = policy.Qwen2, true }},
		{"Qwen3 with heads of 128", `"model_type":"qwen3","attention_bias":false`, func(c *policy.Config) { c.Architecture, c.QKNorm, c.HeadDim = policy.Qwen3, policy.QKNormHead, 128 }},
		{"Gemma with the GELU of its first files", `"model_type":"gemma","hidden_act":"gelu","head_dim":4`, func(c *policy.Config) {
			c.Architecture, c.NormOffset, c.Activation, c.HeadDim = policy.Gemma, 1, policy.GELUTanh, 4
			c.EmbeddingScale, c.TieWordEmbeddings = math.Sqrt(8), true
		}},
		{"every second layer with experts, by the name of transformers 5", `"model_type":"qwen3_moe","num_local_experts":8,"num_experts_per_tok":3,
			"moe_intermediate_size":5,"decoder_sparse_step":2,"sliding_window":4`, func(c *policy.Config) {
			c.Architecture, c.QKNorm, c.Experts, c.ExpertsPerToken, c.ExpertSize = policy.Qwen3MoE, policy.QKNormHead, 8, 3, 5
			c.Layers = []policy.Layer{{Dense: true}, {}}
		}},
		{"theta beside", `"model_type":"llama","rope_theta":5.5`, func(c *policy.Config) { c.RopeTheta = 5.5 }},
		{"theta inside", `"model_type":"llama","rope_theta":5.5,"rope_parameters":{"rope_theta":6.5,"rope_type":"default"}`, func(c *policy.Config) { c.RopeTheta = 6.5 }},
		{"range of random weights", `"model_type":"llama","initializer_range":0.0625`, func(c *policy.Config) { c.InitializerRange = 0.0625 }},
		{"scaling of nothing", `"model_type":"llama","rope_scaling":null,"quantization_config":null`, func(*policy.Config) {}},
		{"old spelling of old", `"model_type":"llama","rope_scaling":{"type":"linear","factor":2.0}`, func(c *policy.Config) {
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeLinear, Factor: 2}
		}},
		{"old spelling", `"model_type":"llama","rope_theta":500000.0,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
			"original_max_position_embeddings":8192,"rope_type":"llama3"}`, func(c *policy.Config) {
			c.RopeTheta = 500_000
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeLlama3, Factor: 32, LowFrequencyFactor: 1, HighFrequencyFactor: 4, Original: 8192}
		}},
		{"original length beside", `"model_type":"llama","original_max_position_embeddings":8,"is_causal":true,
			"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,"rope_type":"llama3"}`, func(c *policy.Config) {
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeLlama3, Factor: 32, LowFrequencyFactor: 1, HighFrequencyFactor: 4, Original: 8}
		}},
		{"new spelling", `"model_type":"llama","rope_parameters":{"rope_theta":500000.0,"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,"rope_type":"llama3"}`, func(c *policy.Config) {
			c.RopeTheta = 500_000
			c.RopeScaling = policy.RopeScaling{Type: policy.RopeLlama3, Factor: 32, LowFrequencyFactor: 1, HighFrequencyFactor: 4, Original: 16}
		}},
	} {
		want := policy.Config{
			Architecture: policy.Llama, VocabSize: 11, HiddenSize: 8, IntermediateSize: 12, NumHiddenLayers: 2, NumAttentionHeads: 4,
			NumKeyValueHeads: 4, HeadDim: 2, MaxPositionEmbeddings: 16, RMSNormEps: 1e-6, RopeTheta: 10_000, BOSTokenID: -1,
		}
		test.want(&want)
		got, err := ParseConfig([]byte("{" + shape + test.raw + "}"))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}
