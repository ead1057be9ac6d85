package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// writeAll writes files into a new folder.
func writeAll(t testing.TB, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644))
	}
	return folder
}

func read(t testing.TB, folder, name string) string {
	t.Helper()
	raw := must.Get(os.ReadFile(filepath.Join(folder, name)))(t)
	return string(raw)
}

func names(t testing.TB, folder string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(folder))(t)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// foreignFolder is a policy in bfloat16, with two norms in float32, over three
// files, with a configuration and other files that Lathe did not write.
func foreignFolder(t testing.TB) string {
	t.Helper()
	c := testConfig()
	c.Architecture, c.QKVBias, c.QKNorm = policy.Qwen3, false, policy.QKNormHead
	weights := must.Get(policy.Init(c, 3))(t)
	config := strings.Replace(string(formatConfig(c)), `"torch_dtype": "float32"`, `"zz": {"b":1,  "a":[1e3]}, "torch_dtype" :   "bfloat16"`, 1)
	folder := writeAll(t, map[string]string{
		ConfigFile:       config,
		GenerationFile:   `{"eos_token_id": [5, 6], "top_k": 20}`,
		"tokenizer.json": "{}",
		"LICENSE":        "free",
		"model.bin":      "pickled",
		".hidden":        "",
	})
	must.Do(t, os.Symlink("LICENSE", filepath.Join(folder, "link.txt")))
	must.Do(t, os.Mkdir(filepath.Join(folder, "original"), 0o755))
	for i := range weights {
		weights[i].DType = safetensors.BF16
		if strings.HasSuffix(weights[i].Name, "layernorm.weight") {
			weights[i].DType = safetensors.F32
		}
	}
	files := make([]plannedFile, 3)
	for i := range files {
		files[i].name, files[i].metadata = fmt.Sprintf("part-%c.safetensors", 'c'-i), map[string]string{"format": "pt", "who": "me"}
	}
	for i := range slices.Backward(weights) { // the order within a file is not that of Layout
		files[i%3].add(i, weights[i].Name, weights[i])
	}
	must.Do(t, writePlanned(folder, files, true, inMemory(weights)))
	return folder
}

// A policy that is written back unchanged has the same bytes in every file.
func TestSaveLikeKeepsEverything(t *testing.T) {
	t.Parallel()
	from, to := foreignFolder(t), t.TempDir()
	c, weights := must.Get2(Load(from))(t)
	if diff := cmp.Diff([]int32{5, 6}, c.EOSTokenIDs); diff != "" {
		t.Errorf("tokens that end a response: %s", diff)
	}
	must.Do(t, SaveLike(to, from, weights))
	want := []string{
		"LICENSE", ConfigFile, GenerationFile, "link.txt", IndexFile, "part-a.safetensors", "part-b.safetensors", "part-c.safetensors", "tokenizer.json",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, to)); diff != "" {
		t.Error(diff)
	}
	for _, name := range want {
		if read(t, from, name) != read(t, to, name) {
			t.Errorf("%s has changed:\n%s\n%s", name, read(t, from, name), read(t, to, name))
		}
	}
}

// What is read and written file by file has the same bytes in every file, an adapter's and
// a value head's too.
func TestPartsKeepEverything(t *testing.T) {
	t.Parallel()
	_, adapter := mergeFolders(t, safetensors.F32, 0)
	for name, from := range map[string]string{"weights in three files": foreignFolder(t), "an adapter": adapter} {
		bare := must.Get(OpenParts(from, false))(t)
		must.Do(t, bare.Close())
		head := policy.ValueHeadLayout(bare.Config())
		for i := range head.Elements() {
			head.Data = append(head.Data, float32(i+1))
		}
		must.Do(t, SaveValueHead(from, head))
		must.Do(t, os.WriteFile(filepath.Join(from, "tokenizer.json"), []byte("{}"), 0o644))
		p := must.Get(OpenParts(from, true))(t)
		if tensor, file := p.Tensors[len(p.Tensors)-1], p.Files[len(p.Files)-1]; tensor.Name != policy.ValueHeadName || file.Name != ValueHeadFile {
			t.Errorf("%s: the last tensor is %q, in %q", name, tensor.Name, file.Name)
		}
		to := t.TempDir()
		for i := range p.Files {
			must.Do(t, p.WriteFile(to, i, p.Float32To))
		}
		base := ""
		if p.Adapter() != nil {
			base = p.adapter.Base
		}
		must.Do(t, p.WriteRest(to, base))
		must.Do(t, p.Close())
		for _, file := range names(t, to) {
			if read(t, from, file) != read(t, to, file) {
				t.Errorf("%s: %s has changed", name, file)
			}
		}
		want := []string{"tokenizer.json"}
		for _, part := range p.Files {
			want = append(want, part.Name)
		}
		for _, file := range want {
			if !slices.Contains(names(t, to), file) {
				t.Errorf("%s: %s is missing", name, file)
			}
		}
	}
}

// Weights in another type change the files of weights and two words of
// config.json.
func TestSaveLikeInAnotherType(t *testing.T) {
	t.Parallel()
	from, to := foreignFolder(t), t.TempDir()
	_, weights := must.Get2(Load(from))(t)
	for i := range weights {
		weights[i].DType = ""
		weights[i].Data[0] += 0.125
	}
	must.Do(t, SaveLike(to, from, weights))
	want := strings.Replace(read(t, from, ConfigFile), `"torch_dtype" :   "bfloat16"`, `"torch_dtype" :   "float32"`, 1)
	if diff := cmp.Diff(want, read(t, to, ConfigFile)); diff != "" {
		t.Error(diff)
	}
	_, again := must.Get2(Load(to))(t)
	for i := range weights {
		weights[i].DType = safetensors.F32
	}
	if diff := cmp.Diff(weights, again); diff != "" {
		t.Error(diff)
	}
}

// A head that is stored although it is tied is written back with the
// embedding's new numbers, frequencies of rotary embedding are not.
func TestSaveLikeWithStoredTiedHead(t *testing.T) {
	t.Parallel()
	c := testConfig()
	weights := must.Get(policy.Init(c, 3))(t)
	from, to := writeAll(t, map[string]string{ConfigFile: string(formatConfig(c))}), t.TempDir()
	const frequencies = "model.layers.1.self_attn.rotary_emb.inv_freq"
	stored := append(slices.Clone(weights), policy.Tensor{Name: policy.HeadName, Shape: weights[0].Shape, Data: weights[0].Data},
		policy.Tensor{Name: frequencies, Shape: []int{1}, Data: []float32{1}})
	must.Do(t, writeTensors(filepath.Join(from, WeightsFile), stored, nil))
	weights[0].Data = slices.Clone(weights[0].Data)
	weights[0].Data[5] = 7
	must.Do(t, SaveLike(to, from, weights))
	f := must.Get(safetensors.Open(filepath.Join(to, WeightsFile)))(t)
	defer f.Close()
	head := make([]float32, weights[0].Elements())
	if err := f.Float32To(head, policy.HeadName); err != nil || head[5] != 7 || f.Metadata["format"] != "pt" {
		t.Errorf("element 5 of the head is %g, metadata %v, %v", head[5], f.Metadata, err)
	}
	if _, there := f.Lookup(frequencies); there {
		t.Errorf("%s is stored again", frequencies)
	}
}

func TestSaveRefusesWhatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	c := testConfig()
	weights, err := policy.Init(c, 3)
	if err != nil {
		t.Fatal(err)
	}
	weights[1].Data[3] = float32(math.NaN())
	err = Save(t.TempDir(), c, weights)
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), weights[1].Name) || !strings.Contains(err.Error(), "element 3 is NaN") {
		t.Errorf("got %v", err)
	}
}

func TestDigestOfSeveralFiles(t *testing.T) {
	t.Parallel()
	folder := foreignFolder(t)
	var lines bytes.Buffer
	for _, name := range []string{"part-a.safetensors", "part-b.safetensors", "part-c.safetensors"} {
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256([]byte(read(t, folder, name))), name)
	}
	want := sha256.Sum256(lines.Bytes())
	got, err := Digest(folder)
	if err != nil || got != hex.EncodeToString(want[:]) {
		t.Errorf("got %s, %v; want %x", got, err, want)
	}
}

func TestConvert(t *testing.T) {
	t.Parallel()
	from := foreignFolder(t)
	_, want := must.Get2(Load(from))(t)
	for _, test := range []struct {
		dtype     safetensors.DType
		fileBytes int64
		config    string
		files     int
	}{
		{"", 0, "bfloat16", 1},
		{safetensors.F32, 0, "float32", 1},
		{safetensors.F16, 600, "float16", 0},
		{safetensors.BF16, 1, "bfloat16", len(want)},
	} {
		to := t.TempDir()
		must.Do(t, Convert(from, to, test.dtype, test.fileBytes))
		_, got := must.Get2(Load(to))(t)
		for i, g := range got {
			// The weights are bfloat16 from 0.02·normal, which float16 holds too,
			// but for those below 2^-14, which it rounds.
			for j, x := range g.Data {
				if d := x - want[i].Data[j]; d > 0x1p-24 || d < -0x1p-24 {
					t.Fatalf("%s[%d] is %g, was %g", g.Name, j, x, want[i].Data[j])
				}
			}
			if test.dtype != "" && g.DType != test.dtype || test.dtype == "" && g.DType != want[i].DType {
				t.Errorf("%s is %s", g.Name, g.DType)
			}
		}
		if !strings.Contains(read(t, to, ConfigFile), `"`+test.config+`"`) {
			t.Errorf("config.json does not say %s: %s", test.config, read(t, to, ConfigFile))
		}
		shards, _ := filepath.Glob(filepath.Join(to, "*.safetensors"))
		if test.files > 0 && len(shards) != test.files {
			t.Errorf("%d files, want %d", len(shards), test.files)
		}
		for _, path := range shards {
			f := must.Get(safetensors.Open(path))(t)
			if test.fileBytes > 0 && len(f.Tensors()) > 1 && f.DataBytes() > test.fileBytes {
				t.Errorf("%s has %d bytes", path, f.DataBytes())
			}
			f.Close()
		}
		if read(t, to, "tokenizer.json") != "{}" {
			t.Error("the tokenizer was not carried along")
		}
	}
	if err := Convert(from, t.TempDir(), "I8", 0); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("I8: %v", err)
	}
	if err := Convert(from, t.TempDir(), "", -1); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("-1 bytes: %v", err)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	a := foreignFolder(t)
	_, weights, err := Load(a)
	if err != nil {
		t.Fatal(err)
	}
	converted := t.TempDir()
	must.Do(t, Convert(a, converted, "", 0))
	d, err := Diff(a, converted)
	if err != nil || !d.Equal() || d.Same != len(weights) {
		t.Errorf("a folder and the same in one file: %+v, %v", d, err)
	}

	// Element 1 of the first tensor goes from x to x+2, element 2 to 0; the
	// last tensor becomes float32.
	b := t.TempDir()
	x := weights[0].Data[1]
	weights[0].Data[1] += 2
	weights[0].Data[2] = 0
	weights[0].DType = safetensors.F32
	weights[len(weights)-1].DType = safetensors.F32
	must.Do(t, SaveLike(b, a, weights))
	if d, err = Diff(a, b); err != nil || d.Equal() {
		t.Fatalf("%+v, %v", d, err)
	}
	if d.Changed != 2 || len(d.Differ) != 2 || d.Same != len(weights)-2 || d.MaxRel != 1 || d.MaxAbs != float64(x+2)-float64(x) {
		t.Errorf("%+v", d)
	}
	if raw, err := json.Marshal(d); err != nil || !strings.Contains(string(raw), `"dtype_b":"F32"`) {
		t.Errorf("%s, %v", raw, err)
	}

	// Another shape: two layers against one, and an untied head.
	c := testConfig()
	c.NumHiddenLayers, c.TieWordEmbeddings, c.IntermediateSize = 1, false, 14
	other, err := policy.Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	must.Do(t, Save(folder, c, other))
	if d, err = Diff(a, folder); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(d.OnlyB, policy.HeadName) || !slices.Contains(d.OnlyB, "model.layers.0.self_attn.q_proj.bias") ||
		!slices.Contains(d.OnlyA, "model.layers.1.mlp.up_proj.weight") || !slices.Contains(d.OnlyA, "model.layers.0.self_attn.q_norm.weight") {
		t.Errorf("%+v", d)
	}
	otherShapes := 0
	for _, one := range d.Differ {
		if !slices.Equal(one.ShapeA, one.ShapeB) {
			otherShapes++
			if one.Changed != 0 || one.MaxAbs != 0 {
				t.Errorf("numbers of two shapes are compared: %+v", one)
			}
		}
	}
	if otherShapes != 3 { // gate_proj, up_proj and down_proj of the layer that both have
		t.Errorf("%d tensors have another shape, want 3", otherShapes)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	folder := foreignFolder(t)
	x := must.Get(Inspect(folder))(t)
	sum := must.Get(Digest(folder))(t)
	// 2 layers of 2 norms of 8 are float32, 32 parameters; the rest is bfloat16.
	if x.Family != "Qwen3" || x.Files != 3 || x.Stored[safetensors.F32] != 32 || x.Stored[safetensors.BF16] != x.Parameters-32 ||
		x.WeightBytes != int64(2*x.Parameters+2*32) || x.SHA256 != sum || len(x.FLOPs) != 1 || x.FLOPs[0].SequenceTokens != 16 {
		t.Errorf("%+v", x)
	}
}

// What stands beside the weights comes along byte for byte: the chat templates
// in their folder too, other folders, hidden files and weights of other
// formats not, and nothing is written over.
func TestCarryFiles(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write := func(folder, name, content string) {
		path := filepath.Join(folder, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must.Do(t, os.WriteFile(path, []byte(content), 0o666))
	}
	for _, name := range []string{"tokenizer.json", "LICENSE", "config.json", "additional_chat_templates/tools.jinja", ".git/config", "runs/log", "pytorch_model.bin"} {
		write(from, name, "source's "+name)
	}
	write(to, "config.json", "own")
	must.Do(t, CarryFiles(to, from))
	for name, want := range map[string]string{
		"tokenizer.json": "source's tokenizer.json", "LICENSE": "source's LICENSE", "config.json": "own",
		"additional_chat_templates/tools.jinja": "source's additional_chat_templates/tools.jinja",
		".git/config":                           "", "runs/log": "", "pytorch_model.bin": "",
	} {
		content, err := os.ReadFile(filepath.Join(to, name))
		if (err == nil) != (want != "") || string(content) != want {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
}
