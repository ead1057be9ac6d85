package checkpoint

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// damage spoils one thing of a good folder.
type damage func(t *testing.T, folder string)

// content replaces a file.
func content(name, text string) damage {
	return func(t *testing.T, folder string) {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
}

// replaced replaces the first occurrence of a text in a file.
func replaced(name, old, new string) damage {
	return func(t *testing.T, folder string) {
		text := read(t, folder, name)
		if !strings.Contains(text, old) {
			t.Fatalf("%s does not contain %s", name, old)
		}
		content(name, strings.Replace(text, old, new, 1))(t, folder)
	}
}

// header replaces a text in the header of a weights file, whose length is
// corrected.
func header(name, old, new string) damage {
	return func(t *testing.T, folder string) {
		raw := read(t, folder, name)
		n := binary.LittleEndian.Uint64([]byte(raw))
		text, data := raw[8:8+n], raw[8+n:]
		if !strings.Contains(text, old) {
			t.Fatalf("the header of %s does not contain %s: %s", name, old, text)
		}
		content(name, encode(strings.Replace(text, old, new, 1), data))(t, folder)
	}
}

func encode(header, data string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + data
}

// claims makes the first eight bytes claim a header of n bytes.
func claims(name string, n uint64) damage {
	return func(t *testing.T, folder string) {
		content(name, string(binary.LittleEndian.AppendUint64(nil, n))+read(t, folder, name)[8:])(t, folder)
	}
}

// cut leaves the first bytes of a file, or all but the last if n is negative.
func cut(name string, n int) damage {
	return func(t *testing.T, folder string) {
		text := read(t, folder, name)
		if n < 0 {
			n += len(text)
		}
		content(name, text[:n])(t, folder)
	}
}

// more adds a byte to a file.
func more(name string) damage {
	return func(t *testing.T, folder string) { content(name, read(t, folder, name)+"x")(t, folder) }
}

// instead puts something else in the place of a file.
func instead(name string, make func(path string) error) damage {
	return func(t *testing.T, folder string) {
		path := filepath.Join(folder, name)
		must.Do(t, os.RemoveAll(path))
		must.Do(t, make(path))
	}
}

func nothing(string) error          { return nil }
func aFolder(path string) error     { return os.Mkdir(path, 0o755) }
func aPipe(path string) error       { return syscall.Mkfifo(path, 0o644) }
func aLoop(path string) error       { return os.Symlink(filepath.Base(path), path) }
func zeros(path string) error       { return os.Symlink("/dev/zero", path) }
func linkNowhere(path string) error { return os.Symlink("nowhere", path) }

// sparse makes a file of n bytes that takes no room.
func sparse(n int64) func(path string) error {
	return func(path string) error {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
		return os.Truncate(path, n)
	}
}

// stored replaces the weights of a folder of one file by the same with one
// number changed.
func stored(tensor, element int, d safetensors.DType, x float32) damage {
	return func(t *testing.T, folder string) {
		_, weights := must.Get2(Load(folder))(t)
		weights[tensor].DType, weights[tensor].Data[element] = d, x
		must.Do(t, writeTensors(filepath.Join(folder, WeightsFile), weights, nil))
	}
}

// tensors replaces the weights of a folder of one file by what change makes of
// them.
func tensors(change func(weights []policy.Tensor) []policy.Tensor) damage {
	return func(t *testing.T, folder string) {
		_, weights := must.Get2(Load(folder))(t)
		must.Do(t, writeTensors(filepath.Join(folder, WeightsFile), change(weights), nil))
	}
}

const (
	shardA = "part-a.safetensors"
	deep   = 200_000 // levels of brackets
)

func nested(before, after string) string {
	return before + strings.Repeat("[", deep) + strings.Repeat("]", deep) + after
}

// zero is a variable because a constant cannot be divided by zero.
var zero float32

// Every damaged or hostile folder is one data error that names the file and
// says what is wrong, found in bounded time and memory.
func TestHostileFolders(t *testing.T) {
	for name, test := range map[string]struct {
		damage damage
		file   string // that the error names
		want   string
	}{
		"no weights":                    {instead(WeightsFile, nothing), WeightsFile, "neither"},
		"empty weights":                 {content(WeightsFile, ""), WeightsFile, "0 bytes are too few"},
		"seven bytes":                   {cut(WeightsFile, 7), WeightsFile, "7 bytes are too few"},
		"weights cut in the header":     {cut(WeightsFile, 500), WeightsFile, "the header claims"},
		"weights cut in the data":       {cut(WeightsFile, -1), WeightsFile, "cut short"},
		"weights with more at the end":  {more(WeightsFile), WeightsFile, "bytes of no tensor"},
		"header of 2^60 bytes":          {claims(WeightsFile, 1<<60), WeightsFile, "the header claims 1152921504606846976 bytes"},
		"header of 2^64-1 bytes":        {claims(WeightsFile, 1<<64-1), WeightsFile, "the header claims 18446744073709551615 bytes"},
		"header of 99 MB":               {claims(WeightsFile, 99_000_000), WeightsFile, "the header claims 99000000 bytes"},
		"header of zero bytes":          {claims(WeightsFile, 0), WeightsFile, "not a JSON object"},
		"header of a list":              {content(WeightsFile, encode("[]", "")), WeightsFile, "not a JSON object"},
		"header of nothing":             {content(WeightsFile, encode("", "")), WeightsFile, "not a JSON object"},
		"header cut in a string":        {content(WeightsFile, encode(`{"a`, "")), WeightsFile, "not valid JSON"},
		"header nested deeply":          {content(WeightsFile, encode(nested(`{"a":`, "}"), "")), WeightsFile, `tensor "a"`},
		"metadata nested deeply":        {content(WeightsFile, encode(nested(`{"__metadata__":`, "}"), "")), WeightsFile, "__metadata__"},
		"metadata of numbers":           {header(WeightsFile, `{"format":"pt"}`, `{"format":7}`), WeightsFile, "__metadata__"},
		"tensor without type":           {header(WeightsFile, `"dtype":"F32",`, ``), WeightsFile, "dtype, shape and two data_offsets"},
		"tensor of no known type":       {header(WeightsFile, `"F32"`, `"F5"`), WeightsFile, `dtype "F5"`},
		"tensor that is null":           {header(WeightsFile, `{"__metadata__"`, `{"a":null,"__metadata__"`), WeightsFile, "dtype, shape"},
		"negative dimension":            {header(WeightsFile, `[11,8]`, `[-11,8]`), WeightsFile, "out of range"},
		"negative dimensions":           {header(WeightsFile, `[11,8]`, `[-11,-8]`), WeightsFile, "out of range"},
		"dimensions that overflow":      {header(WeightsFile, `[11,8]`, `[4294967296,4294967296]`), WeightsFile, "out of range"},
		"dimensions that wrap to right": {header(WeightsFile, `[11,8]`, `[11,8,2305843009213693953]`), WeightsFile, "out of range"},
		"dimension beyond int64":        {header(WeightsFile, `[11,8]`, `[11,99999999999999999999]`), WeightsFile, "embed_tokens"},
		"dimension with a fraction":     {header(WeightsFile, `[11,8]`, `[11,8.5]`), WeightsFile, "embed_tokens"},
		"reversed offsets":              {header(WeightsFile, `[0,352]`, `[352,0]`), WeightsFile, "do not span"},
		"negative offsets":              {header(WeightsFile, `[0,352]`, `[-352,0]`), WeightsFile, "do not span"},
		"offsets beyond the file":       {header(WeightsFile, `[0,352]`, `[9007199254740992,9007199254741344]`), WeightsFile, "hole or overlap"},
		"overlapping offsets":           {header(WeightsFile, `[352,384]`, `[320,352]`), WeightsFile, "hole or overlap"},
		"hole between tensors":          {header(WeightsFile, `[352,384]`, `[356,388]`), WeightsFile, "hole or overlap"},
		"one offset":                    {header(WeightsFile, `[0,352]`, `[0]`), WeightsFile, "two data_offsets"},
		"tensor twice in the header":    {header(WeightsFile, `"model.norm.weight"`, `"model.embed_tokens.weight"`), WeightsFile, "appears twice"},
		"tensor with another name":      {header(WeightsFile, `"model.norm.weight"`, `"model.norm.height"`), WeightsFile, `no tensor "model.norm.weight"`},
		"name that is not UTF-8":        {header(WeightsFile, `"model.norm.weight"`, "\"model.norm.\xff\""), WeightsFile, `no tensor "model.norm.weight"`},
		"transposed matrix":             {header(WeightsFile, `[11,8]`, `[8,11]`), WeightsFile, "has shape [8 11]; [11 8] was expected"},
		"flat matrix":                   {header(WeightsFile, `[11,8]`, `[88]`), WeightsFile, "has shape [88]; [11 8] was expected"},
		"integers":                      {header(WeightsFile, `"F32"`, `"I32"`), WeightsFile, "is I32"},
		"two integers in each":          {header(WeightsFile, `"F32","shape":[11,8]`, `"I64","shape":[11,4]`), WeightsFile, "has shape [11 4]"},
		"eight-bit floats":              {header(WeightsFile, `"F32","shape":[11,8]`, `"F8_E4M3","shape":[44,8]`), WeightsFile, "has shape [44 8]"},
		"double precision":              {header(WeightsFile, `"F32","shape":[8],"data_offsets":[352,384]`, `"F64","shape":[4],"data_offsets":[352,384]`), WeightsFile, "has shape [4]"},
		"NaN":                           {stored(3, 5, safetensors.F32, zero/zero), WeightsFile, `tensor "model.layers.0.self_attn.k_proj.weight": element 5 is NaN`},
		"infinity in bfloat16":          {stored(0, 87, safetensors.BF16, 1/zero), WeightsFile, `tensor "model.embed_tokens.weight": element 87 is +Inf`},
		"negative infinity in float16":  {stored(2, 0, safetensors.F16, -1/zero), WeightsFile, "element 0 is -Inf"},
		"tensor too few":                {tensors(func(w []policy.Tensor) []policy.Tensor { return w[1:] }), WeightsFile, `no tensor "model.embed_tokens.weight"`},
		"tensor too many":               {tensors(func(w []policy.Tensor) []policy.Tensor { return append(w, policy.Tensor{Name: "x", Shape: []int{0}}) }), WeightsFile, `tensor "x" belongs to no part`},
		"weights of experts": {tensors(func(w []policy.Tensor) []policy.Tensor {
			w[9].Name = "model.layers.0.mlp.experts.0.up_proj.weight"
			return w
		}), WeightsFile, "no tensor"},
		"tied head that differs": {tensors(func(w []policy.Tensor) []policy.Tensor {
			return append(w, policy.Tensor{Name: policy.HeadName, Shape: w[0].Shape, Data: make([]float32, len(w[0].Data))})
		}), WeightsFile, "lm_head.weight differs from"},
		"tied head of another shape": {tensors(func(w []policy.Tensor) []policy.Tensor {
			return append(w, policy.Tensor{Name: policy.HeadName, Shape: []int{1}, Data: make([]float32, 1)})
		}), WeightsFile, "lm_head.weight"},
		"weights are a folder":           {instead(WeightsFile, aFolder), WeightsFile, "a folder, not a file"},
		"weights are a pipe":             {instead(WeightsFile, aPipe), WeightsFile, "a pipe, not a file"},
		"weights are a loop of links":    {instead(WeightsFile, aLoop), WeightsFile, "too many levels"},
		"weights are a link to nowhere":  {instead(WeightsFile, linkNowhere), WeightsFile, "neither"},
		"weights are a device":           {instead(WeightsFile, zeros), WeightsFile, "a device, not a file"},
		"weights are 1 TB of zeros":      {instead(WeightsFile, sparse(1<<40)), WeightsFile, "not a JSON object"},
		"config is missing":              {instead(ConfigFile, nothing), ConfigFile, "no such file"},
		"config is empty":                {content(ConfigFile, ""), ConfigFile, "not a config.json"},
		"config is text":                 {content(ConfigFile, "hello"), ConfigFile, "not a config.json"},
		"config is a list":               {content(ConfigFile, "[]"), ConfigFile, "not a config.json"},
		"config is null":                 {content(ConfigFile, "null"), ConfigFile, "not implemented"},
		"config nested deeply":           {content(ConfigFile, nested(`{"x":`, "}")), ConfigFile, "not a config.json"},
		"config is 17 MB":                {instead(ConfigFile, sparse(17<<20)), ConfigFile, "at most 16777216 are read"},
		"config is a folder":             {instead(ConfigFile, aFolder), ConfigFile, "a folder, not a file"},
		"config is a pipe":               {instead(ConfigFile, aPipe), ConfigFile, "a pipe, not a file"},
		"config is a loop of links":      {instead(ConfigFile, aLoop), ConfigFile, "too many levels"},
		"config is a device":             {instead(ConfigFile, zeros), ConfigFile, "a device, not a file"},
		"sixteen million layers":         {replaced(ConfigFile, `"num_hidden_layers": 2`, `"num_hidden_layers": 16777215`), ConfigFile, "it has 16777215 layers, but the weights have 26 tensors"},
		"one layer more":                 {replaced(ConfigFile, `"num_hidden_layers": 2`, `"num_hidden_layers": 3`), WeightsFile, `no tensor "model.layers.2.input_layernorm.weight"`},
		"one layer fewer":                {replaced(ConfigFile, `"num_hidden_layers": 2`, `"num_hidden_layers": 1`), WeightsFile, "belongs to no part of the model"},
		"a vocabulary of 2^40":           {replaced(ConfigFile, `"vocab_size": 11`, `"vocab_size": 1099511627776`), ConfigFile, "vocab_size is 1099511627776"},
		"a vocabulary of 2^70":           {replaced(ConfigFile, `"vocab_size": 11`, `"vocab_size": 1180591620717411303424`), ConfigFile, "vocab_size"},
		"an MLP of 2^24":                 {replaced(ConfigFile, `"intermediate_size": 12`, `"intermediate_size": 16777215`), WeightsFile, "has shape [12 8]; [16777215 8] was expected"},
		"sizes beyond all models":        {content(ConfigFile, strings.NewReplacer(`"vocab_size": 11`, `"vocab_size": 16777215`, `"hidden_size": 8`, `"hidden_size": 16777215`).Replace(string(formatConfig(testConfig())))), ConfigFile, "parameters; the limit is 2^48"},
		"a negative size":                {replaced(ConfigFile, `"hidden_size": 8`, `"hidden_size": -8`), ConfigFile, "hidden_size is -8"},
		"a size with a fraction":         {replaced(ConfigFile, `"hidden_size": 8`, `"hidden_size": 8.5`), ConfigFile, "hidden_size"},
		"no heads":                       {replaced(ConfigFile, `"num_attention_heads": 4`, `"num_attention_heads": 0`), ConfigFile, "num_attention_heads is 0"},
		"heads that cannot be shared":    {replaced(ConfigFile, `"num_key_value_heads": 2`, `"num_key_value_heads": 3`), ConfigFile, "not a multiple"},
		"an odd head":                    {replaced(ConfigFile, `"head_dim": 2`, `"head_dim": 3`), ConfigFile, "rotary embedding needs it even"},
		"theta beyond float64":           {replaced(ConfigFile, `"rope_theta": 10000`, `"rope_theta": 1e999`), ConfigFile, "rope_theta"},
		"an architecture with experts":   {replaced(ConfigFile, `"Qwen2ForCausalLM"`, `"Qwen3MoeForCausalLM"`), ConfigFile, "Qwen3MoeForCausalLM"},
		"another model_type":             {replaced(ConfigFile, `"model_type": "qwen2"`, `"model_type": "gemma3"`), ConfigFile, `model_type "gemma3"`},
		"two architectures":              {replaced(ConfigFile, `"Qwen2ForCausalLM"`, `"Qwen2ForCausalLM", "LlamaForCausalLM"`), ConfigFile, "architectures is"},
		"a sliding window of nothing":    {replaced(ConfigFile, `"use_cache": true`, `"use_sliding_window": true, "sliding_window": 0, "max_window_layers": 1`), ConfigFile, "sliding_window is 0"},
		"layers with a sliding window":   {replaced(ConfigFile, `"use_cache": true`, `"layer_types": ["full_attention", "sliding_attention"]`), ConfigFile, "sliding_attention"},
		"quantised weights":              {replaced(ConfigFile, `"use_cache": true`, `"quantization_config": {"bits": 4}`), ConfigFile, "quantization_config is set"},
		"another scaling":                {replaced(ConfigFile, `"use_cache": true`, `"rope_scaling": {"type": "ntk", "factor": 4.0}`), ConfigFile, `rope_type is "ntk"`},
		"YaRN without turns":             {replaced(ConfigFile, `"use_cache": true`, `"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 1, "beta_slow": 2}`), ConfigFile, "beta_fast 1 and beta_slow 2"},
		"LongRoPE of other heads":        {replaced(ConfigFile, `"use_cache": true`, `"rope_scaling": {"type": "longrope", "short_factor": [1, 2], "long_factor": [1]}`), ConfigFile, "2 short and 1 long factors; a head has 1 pairs"},
		"unknown rotary setting":         {replaced(ConfigFile, `"use_cache": true`, `"rope_parameters": {"rope_type": "default", "mrope_section": [1, 2]}`), ConfigFile, "mrope_section"},
		"scaling without a factor":       {replaced(ConfigFile, `"use_cache": true`, `"rope_scaling": {"rope_type": "linear"}`), ConfigFile, "factor of rope_type"},
		"scaling over zero tokens":       {replaced(ConfigFile, `"use_cache": true`, `"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 0}`), ConfigFile, "original_max_position_embeddings is 0"},
		"scaling with equal frequencies": {replaced(ConfigFile, `"use_cache": true`, `"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 9}`), ConfigFile, "low_freq_factor 4 and high_freq_factor 4"},
		"biases of attention":            {replaced(ConfigFile, `"use_cache": true`, `"attention_bias": true`), ConfigFile, "attention_bias or mlp_bias"},
		"stop token outside":             {replaced(GenerationFile, `1,`, `11,`), GenerationFile, "eos_token_id is 11; the vocabulary has 11"},
		"stop tokens of text":            {content(GenerationFile, `{"eos_token_id": "x"}`), GenerationFile, "eos_token_id"},
		"generation_config is text":      {content(GenerationFile, "hello"), GenerationFile, "not a generation_config.json"},
		"generation_config is a pipe":    {instead(GenerationFile, aPipe), GenerationFile, "a pipe, not a file"},
		"generation_config is a folder":  {instead(GenerationFile, aFolder), GenerationFile, "a folder, not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			c := testConfig()
			weights := must.Get(policy.Init(c, 7))(t)
			must.Do(t, Save(folder, c, weights))
			test.damage(t, folder)
			checkRefused(t, folder, test.file, test.want)
		})
	}

	for name, test := range map[string]struct {
		damage damage
		file   string
		want   string
	}{
		"index is text":                 {content(IndexFile, "hello"), IndexFile, "not an index"},
		"index is empty":                {content(IndexFile, ""), IndexFile, "not an index"},
		"index without a map":           {content(IndexFile, `{"metadata": {}}`), IndexFile, "no weight_map"},
		"index with a list":             {content(IndexFile, `{"weight_map": ["a"]}`), IndexFile, "no weight_map"},
		"index with an empty map":       {content(IndexFile, `{"weight_map": {}}`), IndexFile, "lists no tensors"},
		"index with numbers":            {content(IndexFile, `{"weight_map": {"a": 1}}`), IndexFile, `the file of tensor "a"`},
		"index nested deeply":           {content(IndexFile, nested(`{"weight_map": `, "}")), IndexFile, "not an index"},
		"index of 200 MB":               {instead(IndexFile, sparse(200<<20)), IndexFile, "at most 100000000 are read"},
		"index is a folder":             {instead(IndexFile, aFolder), IndexFile, "a folder, not a file"},
		"index is a pipe":               {instead(IndexFile, aPipe), IndexFile, "a pipe, not a file"},
		"index is a loop of links":      {instead(IndexFile, aLoop), IndexFile, "too many levels"},
		"path out of the folder":        {replaced(IndexFile, `"part-a.safetensors"`, `"../../etc/passwd.safetensors"`), IndexFile, "not the plain name"},
		"absolute path":                 {replaced(IndexFile, `"part-a.safetensors"`, `"/etc/passwd.safetensors"`), IndexFile, "not the plain name"},
		"parent folder":                 {replaced(IndexFile, `"part-a.safetensors"`, `".."`), IndexFile, "not the plain name"},
		"empty path":                    {replaced(IndexFile, `"part-a.safetensors"`, `""`), IndexFile, "not the plain name"},
		"path of another kind":          {replaced(IndexFile, `"part-a.safetensors"`, `"tokenizer.json"`), IndexFile, "not the plain name"},
		"path with a zero byte":         {replaced(IndexFile, `"part-a.safetensors"`, `"a\u0000.safetensors"`), IndexFile, "not the plain name"},
		"path that is not UTF-8":        {replaced(IndexFile, `"part-a.safetensors"`, "\"a\xff.safetensors\""), IndexFile, "not the plain name"},
		"path of 10,000 letters":        {replaced(IndexFile, `"part-a.safetensors"`, `"`+strings.Repeat("a", 10_000)+`.safetensors"`), "aaa.safetensors", "file name too long"},
		"file that is not there":        {replaced(IndexFile, `"part-a.safetensors"`, `"absent.safetensors"`), "absent.safetensors", "no such file"},
		"tensor in another file":        {replaced(IndexFile, `"part-a.safetensors"`, `"part-b.safetensors"`), shardA, "puts in \"part-b.safetensors\""},
		"tensor that is nowhere":        {replaced(IndexFile, `"weight_map": {`, `"weight_map": {"x": "part-a.safetensors",`), shardA, `no tensor "x"`},
		"tensor twice in the index":     {replaced(IndexFile, `"weight_map": {`, `"weight_map": {"model.norm.weight": "part-b.safetensors",`), IndexFile, "appears twice"},
		"tensor in two files":           {inTwoFiles, "part-b.safetensors", `holds the tensor "model.norm.weight", which`},
		"tensor that the index has not": {replaced(IndexFile, `"model.norm.weight"`, `"model.norm.height"`), "part-", `holds the tensor "model.norm.weight"`},
		"shard cut short":               {cut(shardA, -10), shardA, "cut short"},
		"shard of nothing":              {content(shardA, ""), shardA, "0 bytes are too few"},
		"shard missing":                 {instead(shardA, nothing), shardA, "no such file"},
		"shard is a folder":             {instead(shardA, aFolder), shardA, "a folder, not a file"},
		"shard is a pipe":               {instead(shardA, aPipe), shardA, "a pipe, not a file"},
		"shard is a loop of links":      {instead(shardA, aLoop), shardA, "too many levels"},
		"shard claims 2^60":             {claims(shardA, 1<<60), shardA, "the header claims"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := foreignFolder(t)
			test.damage(t, folder)
			checkRefused(t, folder, test.file, test.want)
		})
	}
}

// inTwoFiles puts the last norm of one file into another one too.
func inTwoFiles(t *testing.T, folder string) {
	norm := policy.Tensor{Name: "model.norm.weight", Shape: []int{8}, Data: make([]float32, 8)}
	for _, name := range []string{shardA, "part-b.safetensors"} {
		f := must.Get(safetensors.Open(filepath.Join(folder, name)))(t)
		var all []policy.Tensor
		for _, info := range f.Tensors() {
			one := policy.Tensor{Name: info.Name, Shape: info.Shape, DType: info.DType, Data: make([]float32, info.Elements())}
			must.Do(t, f.Float32To(one.Data, info.Name))
			if info.Name != norm.Name {
				all = append(all, one)
			}
		}
		f.Close()
		must.Do(t, writeTensors(filepath.Join(folder, name), append(all, norm), nil))
	}
	index := read(t, folder, IndexFile)
	for _, name := range []string{"part-b.safetensors", "part-c.safetensors"} {
		index = strings.Replace(index, `"model.norm.weight": "`+name+`"`, `"model.norm.weight": "`+shardA+`"`, 1)
	}
	content(IndexFile, index)(t, folder)
}

// checkRefused loads a folder and wants one data error within 10 seconds and
// 64 MB.
func checkRefused(t *testing.T, folder, file, want string) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan error, 1)
	go func() {
		_, _, err := Load(folder)
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("still not refused after 10 seconds")
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
		t.Errorf("%d bytes were allocated", taken)
	}
	if exitcode.Code(err) != exitcode.Data {
		t.Fatalf("code %d for %v", exitcode.Code(err), err)
	}
	if message := err.Error(); !strings.Contains(message, want) || !strings.Contains(message, file) || !strings.Contains(message, folder) {
		t.Errorf("%q does not say %q of %q", message, want, file)
	}
}
