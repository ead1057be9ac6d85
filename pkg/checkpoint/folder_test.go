package checkpoint

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

func testConfig() policy.Config {
	return policy.Config{
		Architecture: policy.Qwen2, QKVBias: true, VocabSize: 11, HiddenSize: 8, IntermediateSize: 12, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 2, MaxPositionEmbeddings: 16,
		RMSNormEps: 1e-6, InitializerRange: 0.02, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: 3, EOSTokenIDs: []int32{1, 2},
	}
}

// FuzzParseIndex holds that any bytes give an index of plain names or an
// error.
func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}`))
	f.Add([]byte(`{"weight_map":[]}`))
	f.Add([]byte(`{"weight_map":{"a":"` + "\xff" + `.safetensors"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		x, err := parseIndex(raw)
		if err != nil {
			return
		}
		for tensor, file := range x.fileOf {
			if !slices.Contains(x.files, file) || filepath.Base(file) != file || !filepath.IsLocal(file) {
				t.Fatalf("tensor %q is in %q; the files are %q", tensor, file, x.files)
			}
		}
		if len(x.files) == 0 || len(x.files) > len(x.fileOf) || !slices.IsSorted(x.files) {
			t.Fatalf("%d tensors in %q", len(x.fileOf), x.files)
		}
	})
}

func TestFolderRoundTrip(t *testing.T) {
	t.Parallel()
	c := testConfig()
	weights := must.Get(policy.Init(c, 7))(t)
	folder := t.TempDir()
	must.Do(t, Save(folder, c, weights))
	first := must.Get(Digest(folder))(t)
	// Pinned: the bytes of a new policy are part of every run's identity.
	if want := "972c428156b32ccd50f42787faaf5b217853f49f4fa5120321705265c7473c11"; first != want {
		t.Errorf("digest of the initial weights is %s, want %s", first, want)
	}
	gotConfig, gotWeights := must.Get2(Load(folder))(t)
	if diff := cmp.Diff(c, gotConfig); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(weights, gotWeights); diff != "" {
		t.Error(diff)
	}
	must.Do(t, Save(folder, gotConfig, gotWeights))
	if second, _ := Digest(folder); second != first {
		t.Errorf("saving again changed the digest to %s", second)
	}
	other := must.Get(policy.Init(c, 8))(t)
	if cmp.Equal(weights, other) {
		t.Error("two seeds gave the same weights")
	}
}

func TestLoadFaults(t *testing.T) {
	t.Parallel()
	c := testConfig()
	weights := must.Get(policy.Init(c, 7))(t)
	tests := []struct {
		name   string
		damage func(folder string) error
		code   int
		want   string
	}{
		{"no weights", func(f string) error { return os.Remove(filepath.Join(f, WeightsFile)) }, exitcode.Data, "neither model.safetensors nor"},
		{"weights as an index", func(f string) error {
			return os.Rename(filepath.Join(f, WeightsFile), filepath.Join(f, IndexFile))
		}, exitcode.Data, "not an index of weights"},
		{"cut weights", func(f string) error { return os.Truncate(filepath.Join(f, WeightsFile), 5000) }, exitcode.Data, "cut short"},
		{"broken config", func(f string) error { return os.WriteFile(filepath.Join(f, ConfigFile), []byte("{"), 0o644) }, exitcode.Data, ConfigFile},
		{"other shape", func(f string) error {
			wide := c
			wide.IntermediateSize = 13
			return os.WriteFile(filepath.Join(f, ConfigFile), formatConfig(wide), 0o644)
		}, exitcode.Data, "mlp.gate_proj.weight"},
		{"fewer layers", func(f string) error {
			short := c
			short.NumHiddenLayers = 1
			return os.WriteFile(filepath.Join(f, ConfigFile), formatConfig(short), 0o644)
		}, exitcode.Data, "belongs to no part of the model"},
		{"untied", func(f string) error {
			untied := c
			untied.TieWordEmbeddings = false
			return os.WriteFile(filepath.Join(f, ConfigFile), formatConfig(untied), 0o644)
		}, exitcode.Data, `no tensor "lm_head.weight"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			must.Do(t, Save(folder, c, weights))
			must.Do(t, test.damage(folder))
			_, _, err := Load(folder)
			if err == nil || exitcode.Code(err) != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got code %d, %v; want %d with %q", exitcode.Code(err), err, test.code, test.want)
			}
		})
	}
}

func TestOptimizerRoundTrip(t *testing.T) {
	t.Parallel()
	var tensors []policy.Tensor
	for i, prefix := range []string{"exp_avg.", "exp_avg_sq.", "master."} {
		for j, layout := range policy.Layout(testConfig()) {
			dtype := []safetensors.DType{safetensors.BF16, safetensors.BF16, safetensors.F32}[i]
			moment := policy.Tensor{Name: prefix + layout.Name, Shape: layout.Shape, DType: dtype, Data: make([]float32, layout.Elements())}
			for k := range moment.Data {
				moment.Data[k] = float32(j) + float32(k%4)/4
			}
			tensors = append(tensors, moment)
		}
	}
	long := policy.Tensor{Name: "master.long", Shape: []int{2, pieceElements/2 + 3}, DType: safetensors.F32, Data: make([]float32, pieceElements+6)} // two pieces
	for k := range long.Data {
		long.Data[k] = float32(k)
	}
	tensors = append(tensors, long)
	folder := t.TempDir()
	must.Do(t, SaveOptimizer(folder, policy.StateInMemory(tensors), 12))
	got, steps, err := loadOptimizer(folder)
	if err != nil || steps != 12 {
		t.Fatalf("%d steps, %v", steps, err)
	}
	if diff := cmp.Diff(policy.StateInMemory(tensors), got); diff != "" {
		t.Error(diff)
	}
}

func loadOptimizer(folder string) (policy.StateInMemory, int, error) {
	s, err := OpenState(folder, nil)
	if err != nil {
		return nil, 0, err
	}
	tensors, err := policy.ReadState(s)
	return tensors, s.Steps, errors.Join(err, s.Close())
}

func TestOptimizerFaults(t *testing.T) {
	t.Parallel()
	if _, _, err := loadOptimizer(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder without any file: %v", err)
	}
	behindFile := filepath.Join(writeAll(t, map[string]string{"file": ""}), "file")
	if _, _, err := loadOptimizer(behindFile); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a folder that is a file: %v", err)
	}
	lacking := writeAll(t, map[string]string{"optimizer-00002-of-00002.safetensors": ""})
	if _, _, err := loadOptimizer(lacking); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "\"optimizer.safetensors\" is missing") {
		t.Errorf("a second file alone: %v", err)
	}
	nan := policy.Tensor{Name: "exp_avg.x", Shape: []int{2}, Data: []float32{1, float32(math.NaN())}}
	folder := t.TempDir()
	must.Do(t, SaveOptimizer(folder, policy.StateInMemory{nan}, 1))
	if _, _, err := loadOptimizer(folder); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "exp_avg.x") {
		t.Errorf("a moment that is not a number: %v", err)
	}
	must.Do(t, SaveOptimizer(folder, policy.StateInMemory{}, -1))
	if _, _, err := loadOptimizer(folder); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a negative number of steps: %v", err)
	}
}

func TestSaveRefusesBugs(t *testing.T) {
	t.Parallel()
	c := testConfig()
	weights := must.Get(policy.Init(c, 7))(t)
	if err := Save(t.TempDir(), c, weights[1:]); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a missing tensor: %v", err)
	}
	for name, spoil := range map[string]func(*policy.Tensor){
		"name":     func(w *policy.Tensor) { w.Name = "x" },
		"shape":    func(w *policy.Tensor) { w.Shape = []int{w.Elements()} },
		"elements": func(w *policy.Tensor) { w.Data = w.Data[1:] },
	} {
		wrong := slices.Clone(weights)
		spoil(&wrong[2])
		if err := Save(t.TempDir(), c, wrong); exitcode.Code(err) != exitcode.Bug {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

// TestCheckFolder: of a run the newest policy is named, of a download that huggingface_hub
// keeps its snapshot.
func TestCheckFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"policy", "run/policy/v000000", "run/policy/v000002", "run/policy/v000010.json", "models--a--b/blobs", "models--a--b/snapshots/7ae5"} {
		must.Do(t, os.MkdirAll(filepath.Join(folder, name), 0o777))
	}
	for _, name := range []string{"policy", "run/policy/v000000", "run/policy/v000002", "models--a--b/snapshots/7ae5"} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name, ConfigFile), nil, 0o666))
	}
	must.Do(t, os.Mkdir(filepath.Join(folder, "adapter"), 0o777))
	must.Do(t, os.WriteFile(filepath.Join(folder, "adapter", AdapterConfigFile), nil, 0o666))
	must.Do(t, CheckFolder(filepath.Join(folder, "policy")))
	for name, hint := range map[string]string{
		"run":          "such as " + filepath.Join(folder, "run/policy/v000002"),
		"models--a--b": "such as " + filepath.Join(folder, "models--a--b/snapshots/7ae5"),
		"Qwen/Qwen3":   "a policy folder is in Hugging Face layout: config.json, model.safetensors, tokenizer.json",
		"run/policy":   "a policy folder is in Hugging Face layout",
		"adapter":      "lathe policy merge makes a whole policy",
	} {
		err := CheckFolder(filepath.Join(folder, name))
		if exitcode.Code(err) != exitcode.Data || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(strings.Join(exitcode.Hints(err), " "), hint) {
			t.Errorf("%s: %v, hints %q; want %q", name, err, exitcode.Hints(err), hint)
		}
	}
}
