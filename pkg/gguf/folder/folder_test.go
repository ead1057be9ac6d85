package folder

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gguf/gguftest"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// sample is a model of one layer: width 4, two heads of width 4 for queries and one for
// keys and values, six tokens. Every element of a matrix is 100 times its row plus its
// column, of a norm 3.
func sample(architecture string, more ...gguftest.Key) gguftest.File {
	f := gguftest.File{Keys: []gguftest.Key{{Name: "general.architecture", Value: architecture}}}
	set := func(name string, value any) {
		f.Keys = append(f.Keys, gguftest.Key{Name: strings.ReplaceAll(name, "~", architecture), Value: value})
	}
	for name, n := range map[string]uint32{"block_count": 1, "context_length": 32, "embedding_length": 4, "feed_forward_length": 5, "attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 4, "attention.value_length": 4} {
		set("~."+name, n)
	}
	set("~.attention.layer_norm_rms_epsilon", float32(1e-5))
	set("~.attention.sliding_window", uint32(32))
	set("tokenizer.ggml.model", "gpt2")
	set("tokenizer.ggml.pre", "gpt-2")
	set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "<s>", "<|im_end|>", "[PAD5]"})
	set("tokenizer.ggml.token_type", []int32{1, 1, 1, 3, 3, 5})
	set("tokenizer.ggml.merges", []string{"a b"})
	set("tokenizer.ggml.bos_token_id", uint32(3))
	set("tokenizer.ggml.eos_token_id", uint32(3))
	set("tokenizer.chat_template", "{{ messages }}")
	for _, k := range more {
		f.Keys = slices.DeleteFunc(f.Keys, func(have gguftest.Key) bool { return have.Name == k.Name })
		if k.Value != nil {
			f.Keys = append(f.Keys, k)
		}
	}
	fam := families[architecture]
	add := func(name string, shape ...int) {
		t := gguftest.Tensor{Name: name + ".weight", Shape: shape}
		rows, columns := 1, shape[len(shape)-1]
		if len(shape) == 2 {
			rows = shape[0]
		}
		for row := range rows {
			for column := range columns {
				x := float32(100*row + column)
				if len(shape) == 1 {
					x = 3
				}
				t.Data = append(t.Data, gguftest.Floats(x)...)
			}
		}
		f.Tensors = append(f.Tensors, t)
	}
	add("token_embd", 6, 4)
	add("output_norm", 4)
	for name, shape := range map[string][]int{"attn_norm": {4}, "ffn_norm": {4}, "attn_q": {8, 4}, "attn_k": {4, 4}, "attn_v": {4, 4}, "attn_output": {4, 8}, "ffn_gate": {5, 4}, "ffn_up": {5, 4}, "ffn_down": {4, 5}} {
		add("blk.0."+name, shape...)
	}
	if fam.headNorms {
		add("blk.0.attn_q_norm", 4)
		add("blk.0.attn_k_norm", 4)
	}
	if fam.postNorms {
		add("blk.0.post_attention_norm", 4)
		add("blk.0.post_ffw_norm", 4)
	}
	if fam.biases {
		for name, n := range map[string]int{"q": 8, "k": 4, "v": 4} {
			add("blk.0.attn_"+name, n)
			f.Tensors[len(f.Tensors)-1].Name = "blk.0.attn_" + name + ".bias"
		}
	}
	return f
}

// imported writes a file as a folder.
func imported(t testing.TB, f gguftest.File, o Options) (folder string, err error) {
	t.Helper()
	folder = t.TempDir()
	path := filepath.Join(folder, "m.gguf")
	must.Do(t, os.WriteFile(path, f.Bytes(), 0o666))
	to := filepath.Join(folder, "out")
	must.Do(t, os.Mkdir(to, 0o777))
	return to, Write(path, to, o)
}

func fields(t testing.TB, folder, name string) (fields map[string]any) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(folder, name)))(t), &fields))
	return fields
}

// firstColumn is the row number of each row of a matrix of a folder.
func firstColumn(t testing.TB, folder, name string) (rows []int) {
	t.Helper()
	f := must.Get(safetensors.Open(filepath.Join(folder, "model.safetensors")))(t)
	defer f.Close()
	info, there := f.Lookup(name)
	if !there {
		t.Fatalf("there is no tensor %q", name)
	}
	values := make([]float32, info.Elements())
	must.Do(t, f.Float32To(values, name))
	for at := 0; at < len(values); at += info.Shape[len(info.Shape)-1] {
		rows = append(rows, int(values[at])/100)
	}
	return rows
}

// The rows of queries and keys come back to where Hugging Face has them: a head of width 4
// is stored as 0, 2, 1, 3. Other architectures and tensors are not permuted.
func TestRows(t *testing.T) {
	t.Parallel()
	llama := must.Get(imported(t, sample("llama"), Options{}))(t)
	qwen := must.Get(imported(t, sample("qwen2"), Options{}))(t)
	for _, c := range []struct {
		folder, name string
		want         []int
	}{
		{llama, "q_proj", []int{0, 2, 1, 3, 4, 6, 5, 7}},
		{llama, "k_proj", []int{0, 2, 1, 3}},
		{llama, "v_proj", []int{0, 1, 2, 3}},
		{qwen, "q_proj", []int{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		if got := firstColumn(t, c.folder, "model.layers.0.self_attn."+c.name+".weight"); !slices.Equal(got, c.want) {
			t.Errorf("%s: rows %v, want %v", c.name, got, c.want)
		}
	}
}

// A permutation is undone by llama.cpp's own: (heads, 2, width/2) to (heads, width/2, 2).
func TestPermutedRow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width, heads := 2*rapid.IntRange(1, 64).Draw(t, "half"), rapid.IntRange(1, 8).Draw(t, "heads")
		row := rapid.IntRange(0, width*heads-1).Draw(t, "row")
		head, half, i := row/width, row%width/(width/2), row%(width/2)
		if want := head*width + i*2 + half; permutedRow(row, width) != want {
			t.Fatalf("row %d of heads of %d lies at %d, want %d", row, width, permutedRow(row, width), want)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for architecture, want := range map[string]map[string]any{
		"llama":  {"model_type": "llama", "head_dim": 4.0, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": 6.0, "tie_word_embeddings": true, "hidden_act": "silu", "eos_token_id": 3.0},
		"qwen2":  {"architectures": []any{"Qwen2ForCausalLM"}, "attention_bias": nil},
		"qwen3":  {"model_type": "qwen3", "attention_bias": false},
		"gemma":  {"model_type": "gemma", "hidden_activation": "gelu_pytorch_tanh"},
		"gemma2": {"attn_logit_softcapping": 50.0, "layer_types": []any{"sliding_attention"}, "query_pre_attn_scalar": 4.0, "sliding_window": 32.0},
		"gemma3": {"model_type": "gemma3_text", "rope_local_base_freq": 10000.0, "final_logit_softcapping": nil},
	} {
		folder := must.Get(imported(t, sample(architecture), Options{}))(t)
		got := fields(t, folder, "config.json")
		for key, value := range want {
			if diff := cmp.Diff(value, got[key]); diff != "" {
				t.Errorf("%s: %s: %s", architecture, key, diff)
			}
		}
		f := must.Get(safetensors.Open(filepath.Join(folder, "model.safetensors")))(t)
		norm := make([]float32, 4)
		must.Do(t, f.Float32To(norm, "model.norm.weight"))
		must.Do(t, f.Close())
		if one := strings.HasPrefix(architecture, "gemma"); one != (norm[0] == 2) || !one != (norm[0] == 3) {
			t.Errorf("%s: the norm is %v", architecture, norm)
		}
	}
}

// The scaling of Llama 3 is found from its factors: those of Llama 3.2 (factor 32) with heads
// of width 64, and none where all are 1.
func TestRopeTable(t *testing.T) {
	t.Parallel()
	with := func(factors []float32) gguftest.File {
		f := sample("llama", gguftest.Key{Name: "llama.rope.freq_base", Value: float32(500000)},
			gguftest.Key{Name: "llama.attention.key_length", Value: uint32(64)}, gguftest.Key{Name: "llama.attention.value_length", Value: uint32(64)})
		for i, tensor := range f.Tensors {
			switch name := strings.TrimPrefix(tensor.Name, "blk.0."); name {
			case "attn_q.weight":
				f.Tensors[i].Shape, f.Tensors[i].Data = []int{128, 4}, make([]byte, 4*4*128)
			case "attn_k.weight", "attn_v.weight":
				f.Tensors[i].Shape, f.Tensors[i].Data = []int{64, 4}, make([]byte, 4*4*64)
			case "attn_output.weight":
				f.Tensors[i].Shape, f.Tensors[i].Data = []int{4, 128}, make([]byte, 4*4*128)
			}
		}
		f.Tensors = append(f.Tensors, gguftest.Tensor{Name: "rope_freqs.weight", Shape: []int{len(factors)}, Data: gguftest.Floats(factors...)})
		return f
	}
	factors := func(factor, low, high, original float64) []float32 {
		values := make([]float32, 32)
		for i := range values {
			wavelength := 2 * math.Pi * math.Pow(500000, float64(i)/32)
			switch {
			case wavelength < original/high:
				values[i] = 1
			case wavelength > original/low:
				values[i] = float32(factor)
			default:
				smooth := (original/wavelength - low) / (high - low)
				values[i] = float32(1 / ((1-smooth)/factor + smooth))
			}
		}
		return values
	}
	for _, original := range []float64{8192, 4096} {
		folder := must.Get(imported(t, with(factors(32, 1, 4, original)), Options{}))(t)
		want := map[string]any{"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": original}
		if diff := cmp.Diff(want, fields(t, folder, "config.json")["rope_scaling"]); diff != "" {
			t.Error(diff)
		}
	}
	folder := must.Get(imported(t, with(factors(1, 1, 4, 8192)), Options{}))(t)
	if got := fields(t, folder, "config.json")["rope_scaling"]; got != nil {
		t.Errorf("factors of 1: %v", got)
	}
	if _, err := imported(t, with(factors(8, 2, 3, 8000)), Options{}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "no scaling of rotary embedding") {
		t.Errorf("another scaling: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	key := func(name string, value any) func(*gguftest.File) {
		return func(f *gguftest.File) { *f = sample("llama", gguftest.Key{Name: name, Value: value}) }
	}
	tensor := func(edit func(*gguftest.Tensor)) func(*gguftest.File) {
		return func(f *gguftest.File) { edit(&f.Tensors[0]) }
	}
	for _, c := range []struct {
		edit func(*gguftest.File)
		says string
	}{
		{func(f *gguftest.File) { f.Keys[0].Value = "mamba" }, `the architecture "mamba" is not implemented`},
		{key("split.count", uint16(2)), "one of 2 files"},
		{key("llama.block_count", nil), `"llama.block_count" is missing`},
		{key("llama.block_count", uint32(1<<29)), "block_count"},
		{key("llama.block_count", "two"), "want an integer"},
		{key("llama.expert_count", uint32(8)), `"llama.expert_count" is 8`},
		{key("llama.rope.dimension_count", uint32(2)), "partial rotary"},
		{key("llama.attention.sliding_window", uint32(8)), "sliding_window"},
		{key("llama.rope.scaling.type", "longrope"), "longrope"},
		{key("llama.attention.head_count", []int32{2, 4}), "not the same for every layer"},
		{key("llama.attention.layer_norm_rms_epsilon", float32(math.Inf(1))), "finite"},
		{key("tokenizer.ggml.model", "bert"), `is "bert"; gpt2 and llama`},
		{key("tokenizer.ggml.pre", nil), "name it with --pre"},
		{key("tokenizer.ggml.pre", "chameleon"), `"chameleon" is not implemented`},
		{key("tokenizer.ggml.tokens", []string{"a", "b", "a"}), "3 tokens"},
		{key("tokenizer.ggml.token_type", []int32{1, 1, 1, 3, 3, 9}), "type 9"},
		{key("tokenizer.ggml.merges", []string{"a c"}), "is not a pair of tokens"},
		{key("tokenizer.ggml.eos_token_id", uint32(5)), "eos_token_id"},
		{tensor(func(t *gguftest.Tensor) { t.Type, t.Data = 19, make([]byte, 512) }), "is IQ1_S, which is not implemented"},
		{tensor(func(t *gguftest.Tensor) { t.Name = "other" }), "token_embd"},
		{func(f *gguftest.File) { f.Tensors[3].Name += "x" }, "there is no tensor"},
		{func(f *gguftest.File) {
			f.Tensors = append(f.Tensors, gguftest.Tensor{Name: "blk.0.ssm_in.weight", Shape: []int{1}, Data: gguftest.Floats(1)})
		}, `"blk.0.ssm_in.weight" belongs to no part`},
		{tensor(func(t *gguftest.Tensor) { copy(t.Data[8:], gguftest.Floats(float32(math.NaN()))) }), "element 2 is NaN"},
	} {
		f := sample("llama")
		c.edit(&f)
		if c.says == "3 tokens" {
			c.says = "has 6 entries for 3 tokens"
		}
		_, err := imported(t, f, Options{})
		if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "m.gguf") {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

// Weights in several files are those in one.
func TestShards(t *testing.T) {
	t.Parallel()
	folder := must.Get(imported(t, sample("llama"), Options{DType: safetensors.BF16, MaxFileBytes: 64}))(t)
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(folder, "model.safetensors.index.json")))(t), &index))
	if len(index.WeightMap) != 11 {
		t.Errorf("%d tensors: %v", len(index.WeightMap), index.WeightMap)
	}
	for name, file := range index.WeightMap {
		f := must.Get(safetensors.Open(filepath.Join(folder, file)))(t)
		if info, there := f.Lookup(name); !there || info.DType != safetensors.BF16 {
			t.Errorf("%s: %q is %v", file, name, info)
		}
		must.Do(t, f.Close())
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	folder := must.Get(imported(t, sample("qwen3"), Options{}))(t)
	s := must.Get(ReadSource(folder))(t)
	if s.File != "m.gguf" || len(s.SHA256) != 64 || s.Architecture != "qwen3" || s.Type != "F32" || s.DType != "float32" || s.Format != "GGUF v3" {
		t.Errorf("%+v", s)
	}
	if none := must.Get(ReadSource(t.TempDir()))(t); none != nil {
		t.Errorf("a folder without: %+v", none)
	}
}

// What ends the vocabulary and is unused is left out, added tokens at the end are in no
// vocabulary, and a chat ends at a token that is known by its name.
func TestByteLevel(t *testing.T) {
	t.Parallel()
	folder := must.Get(imported(t, sample("llama"), Options{Pre: "llama-bpe"}))(t)
	file := fields(t, folder, "tokenizer.json")
	model := file["model"].(map[string]any)
	if diff := cmp.Diff(map[string]any{"a": 0.0, "b": 1.0, "ab": 2.0}, model["vocab"]); diff != "" {
		t.Error(diff)
	}
	if got := fmt.Sprint(model["merges"], model["ignore_merges"], len(file["added_tokens"].([]any))); got != "[[a b]] true 2" {
		t.Errorf("merges, ignore_merges and added tokens are %s", got)
	}
	if got := fmt.Sprint(fields(t, folder, "generation_config.json")["eos_token_id"]); got != "[3 4]" {
		t.Errorf("a response ends at %s", got)
	}
	if config := fields(t, folder, "tokenizer_config.json"); config["chat_template"] != "{{ messages }}" || config["bos_token"] != "<s>" {
		t.Errorf("%v", config)
	}
}

// Merges of SentencePiece: abc (score -1) of ab and c before of a and bc, since the longer
// left part comes first; then bc (-2), then ab (-3).
func TestMerges(t *testing.T) {
	t.Parallel()
	pieces := []string{"a", "b", "c", "ab", "bc", "abc"}
	ids := (&tokenizer{pieces: pieces}).ids()
	got := mergesOf(ids, pieces, []float64{-7, -8, -9, -3, -2, -1})
	if want := [][2]string{{"ab", "c"}, {"a", "bc"}, {"b", "c"}, {"a", "b"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A tokenizer of SentencePiece: byte fallback, a space before the text unless the file says
// otherwise, and user-defined tokens with their spaces as SentencePiece has them.
func TestSentencePiece(t *testing.T) {
	t.Parallel()
	tokens, types := []string{"<unk>", "<s>", "</s>", "▁", "  "}, []int32{2, 3, 3, 1, 4}
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, 6)
	}
	scores := make([]float32, len(tokens))
	keys := []gguftest.Key{
		{Name: "tokenizer.ggml.model", Value: "llama"},
		{Name: "tokenizer.ggml.pre", Value: "default"},
		{Name: "tokenizer.ggml.tokens", Value: tokens},
		{Name: "tokenizer.ggml.token_type", Value: types},
		{Name: "tokenizer.ggml.scores", Value: scores},
		{Name: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
	}
	file := func(more ...gguftest.Key) gguftest.File {
		f := sample("gemma", append(slices.Clone(keys), more...)...)
		f.Tensors[0].Shape, f.Tensors[0].Data = []int{len(tokens), 4}, make([]byte, 16*len(tokens))
		return f
	}
	folder := must.Get(imported(t, file(), Options{}))(t)
	got := fields(t, folder, "tokenizer.json")
	model := got["model"].(map[string]any)
	if model["byte_fallback"] != true || model["unk_token"] != "<unk>" || !strings.Contains(fmt.Sprint(got["normalizer"]), "Prepend") {
		t.Errorf("%v, %v", model["byte_fallback"], got["normalizer"])
	}
	if merges := fmt.Sprint(model["merges"]); merges != "[[▁ ▁]]" {
		t.Errorf("merges %s", merges)
	}
	folder = must.Get(imported(t, file(gguftest.Key{Name: "tokenizer.ggml.add_space_prefix", Value: false}), Options{}))(t)
	if got := fields(t, folder, "tokenizer.json"); strings.Contains(fmt.Sprint(got), "Prepend") || strings.Contains(fmt.Sprint(got), "Strip") {
		t.Error("a space is put before the text")
	}
	types[5] = 1
	if _, err := imported(t, file(), Options{}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "255 tokens for bytes") {
		t.Errorf("without byte fallback: %v", err)
	}
}
