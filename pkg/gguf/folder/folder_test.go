package folder

import (
	"crypto/sha256"
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

	"github.com/lathe-rl/lathe/pkg/checkpoint"
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
	for _, original := range []float64{256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072} {
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
	for off, found := range map[float32]bool{1 + 5e-5: true, 1 + 2e-4: false, 1 - 2e-4: false} { // what float32 may round, and more
		near := factors(32, 1, 4, 8192)
		near[0] *= off
		if _, err := imported(t, with(near), Options{}); (err == nil) != found {
			t.Errorf("a factor is %g times what it should be: %v", off, err)
		}
	}
	for says, edit := range map[string]func(f *gguftest.File){
		"is F32 of shape [31], want F32 of [32]": func(f *gguftest.File) { f.Tensors[len(f.Tensors)-1].Shape = []int{31} },
		"is F16 of shape [32], want F32 of [32]": func(f *gguftest.File) { f.Tensors[len(f.Tensors)-1].Type = 1 },
		`"rope_freqs.weight" belongs to no part of`: func(f *gguftest.File) {
			f.Keys = append(f.Keys, gguftest.Key{Name: "llama.rope.scaling.type", Value: "linear"}, gguftest.Key{Name: "llama.rope.scaling.factor", Value: float32(2)})
		},
	} {
		f := with(factors(32, 1, 4, 8192))
		edit(&f)
		if _, err := imported(t, f, Options{}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	one := factors(1, 1, 4, 8192)
	one[3] = 0.5
	if _, err := imported(t, with(one), Options{}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("factors of 1 and one of 0.5: %v", err)
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
		{key("split.count", "2"), `"split.count" is a string, want an integer`},
		{key("general.architecture", int32(1)), "is an integer, want a string"},
		{key("llama.block_count", uint32(11)), `there is no tensor "blk.1.attn_norm.weight", which models of llama have`},
		{key("llama.block_count", uint32(12)), `"llama.block_count" is 12, and the file has 11 tensors`},
		{key("llama.context_length", uint32(0)), "is 0, want an integer from 1 to 1073741824"},
		{key("llama.context_length", uint32(1<<30+1)), "is 1073741825, want an integer"},
		{key("llama.context_length", []bool{true}), "is [true], want an integer"},
		{key("llama.context_length", []int32{}), "is [], want an integer"},
		{key("llama.attention.value_length", uint32(2)), `"llama.attention.value_length" is 2, and keys have 4`},
		{key("llama.attention.scale", float32(1)), `"llama.attention.scale" is set`},
		{key("llama.attention.causal", false), `"llama.attention.causal" is 0`},
		{key("llama.use_parallel_residual", true), `"llama.use_parallel_residual" is 1`},
		{key("llama.logit_scale", float32(math.NaN())), "is NaN, want a finite number"},
		{key("llama.logit_scale", "1"), "is 1, want a finite number"},
		{key("llama.attention.layer_norm_rms_epsilon", nil), `"llama.attention.layer_norm_rms_epsilon" is missing`},
		{key("llama.rope.scaling.type", uint32(1)), "is an integer, want a string"},
		{key("llama.rope.scaling.type", "yarn"), `"llama.rope.scaling.factor" is missing`},
		{key("llama.rope.scaling.type", "linear"), `"llama.rope.scaling.factor" is missing`},
		{func(f *gguftest.File) {
			*f = sample("llama", gguftest.Key{Name: "llama.attention.key_length", Value: uint32(3)}, gguftest.Key{Name: "llama.attention.value_length", Value: uint32(3)})
		}, `"llama.attention.key_length" is 3, want an even number`},
		{tensor(func(t *gguftest.Tensor) { t.Shape = []int{24} }), "or it has not two dimensions"},
		{func(f *gguftest.File) { f.Tensors[1].Shape = []int{2, 2} }, `tensor "output_norm.weight" has the shape [2 2], want [4]`},
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
		Metadata struct {
			TotalSize int `json:"total_size"`
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(folder, "model.safetensors.index.json")))(t), &index))
	// Bytes: 48 of the embedding and 8 of a norm; 64 of queries; 32 of keys and 32 of values;
	// 64; 8 and 40; 40; 40 and 8.
	want := map[string]int{"model.embed_tokens": 1, "model.layers.0.input_layernorm": 1, "model.norm": 7}
	for name, file := range map[string]int{"self_attn.q": 2, "self_attn.k": 3, "self_attn.v": 3, "self_attn.o": 4, "mlp.gate": 5, "mlp.up": 6, "mlp.down": 7} {
		want["model.layers.0."+name+"_proj"] = file
	}
	want["model.layers.0.post_attention_layernorm"] = 5
	got := map[string]int{}
	for name, file := range index.WeightMap {
		var of int
		must.Get(fmt.Sscanf(file, "model-%05d-of-%05d.safetensors", &of, new(int)))(t)
		if got[strings.TrimSuffix(name, ".weight")] = of; !strings.HasSuffix(file, "-of-00007.safetensors") {
			t.Errorf("%q is in %q", name, file)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || index.Metadata.TotalSize != 384 {
		t.Errorf("%d bytes: %s", index.Metadata.TotalSize, diff)
	}
	for name, file := range index.WeightMap {
		f := must.Get(safetensors.Open(filepath.Join(folder, file)))(t)
		if info, there := f.Lookup(name); !there || info.DType != safetensors.BF16 {
			t.Errorf("%s: %q is %v", file, name, info)
		}
		must.Do(t, f.Close())
	}
}

// TestSource by hand: 96 of the 192 elements of a model are F16 here, and of two types with
// as many the first by name is that of the model.
func TestSource(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		halves []string
		want   string
		f16    int
	}{
		"all":  {nil, "F32", 0},
		"half": {[]string{"token_embd", "blk.0.attn_q", "blk.0.ffn_gate", "blk.0.ffn_up"}, "F16", 24 + 32 + 20 + 20},
		"few":  {[]string{"blk.0.attn_q", "blk.0.ffn_gate", "blk.0.ffn_up"}, "F32", 32 + 20 + 20},
	} {
		f := sample("llama")
		for i := range f.Tensors {
			if tensor := &f.Tensors[i]; slices.Contains(c.halves, strings.TrimSuffix(tensor.Name, ".weight")) {
				tensor.Type, tensor.Data = 1, tensor.Data[:len(tensor.Data)/2]
				clear(tensor.Data)
			}
		}
		types := map[string]int{"F32": 192 - c.f16}
		if c.f16 > 0 {
			types["F16"] = c.f16
		}
		folder := must.Get(imported(t, f, Options{}))(t)
		got := must.Get(ReadSource(folder))(t)
		want := &Source{
			File: "m.gguf", SHA256: fmt.Sprintf("%x", sha256.Sum256(f.Bytes())), Format: "GGUF v3", Architecture: "llama", Type: c.want, Types: types,
			DType: "float32", ModelSHA256: must.Get(checkpoint.Digest(folder))(t),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	folder := t.TempDir()
	if none := must.Get(ReadSource(folder))(t); none != nil {
		t.Errorf("a folder without: %+v", none)
	}
	path := filepath.Join(folder, SourceFile)
	must.Do(t, os.WriteFile(path, []byte("[]"), 0o666))
	if s, err := ReadSource(folder); s != nil || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), SourceFile) {
		t.Errorf("no object: %+v, %v", s, err)
	}
	must.Do(t, os.Remove(path))
	must.Do(t, os.Mkdir(path, 0o777))
	if s, err := ReadSource(folder); s != nil || exitcode.Code(err) != exitcode.Data {
		t.Errorf("a folder of this name: %+v, %v", s, err)
	}
	if err := Write(path, folder, Options{}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a folder as a file: %v", err)
	}
	file := filepath.Join(folder, "m.gguf")
	must.Do(t, os.WriteFile(file, sample("llama").Bytes(), 0o666))
	if err := Write(file, filepath.Join(folder, "none"), Options{}); err == nil || !strings.HasPrefix(err.Error(), "importing ") {
		t.Errorf("into a folder that is not there: %v", err)
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
