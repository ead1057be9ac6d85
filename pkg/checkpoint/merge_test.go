package checkpoint

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// mergeFolders makes a base, in a type and division, and an adapter of it with
// a B that is not zero.
func mergeFolders(t *testing.T, d safetensors.DType, maxFileBytes int64) (base, adapter string) {
	t.Helper()
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	base, adapter = filepath.Join(dir, "base"), filepath.Join(dir, "adapter")
	for _, folder := range []string{whole, base, adapter} {
		must.Do(t, os.Mkdir(folder, 0o777))
	}
	weights := must.Get(policy.Init(adapterConfig(), 2))(t)
	must.Do(t, Save(whole, adapterConfig(), weights))
	must.Do(t, os.WriteFile(filepath.Join(whole, "tokenizer.json"), []byte("{}"), 0o666))
	must.Do(t, Convert(whole, base, d, maxFileBytes))
	a := newTestAdapter(t)
	for _, tensor := range a.Tensors {
		if strings.Contains(tensor.Name, "lora_B") {
			for i := range tensor.Data {
				tensor.Data[i] = float32(math.Sin(float64(i + 1)))
			}
		}
	}
	must.Do(t, SaveAdapter(adapter, adapterConfig(), a))
	return base, adapter
}

// The merged matrices are W + s·B·A, within rounding of float32 and then of
// the base's type; all else is the base's.
func TestMerge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		dtype        safetensors.DType
		maxFileBytes int64
	}{
		"float32":           {safetensors.F32, 0},
		"bfloat16":          {safetensors.BF16, 0},
		"float16 in shards": {safetensors.F16, 300},
	} {
		t.Run(name, func(t *testing.T) {
			base, adapter := mergeFolders(t, test.dtype, test.maxFileBytes)
			out := t.TempDir()
			must.Do(t, Merge(adapter, "", out))
			config, was := must.Get2(Load(base))(t)
			_, is := must.Get2(Load(out))(t)
			a := must.Get(LoadAdapter(adapter, config, false))(t)
			factors := map[string]policy.Tensor{}
			for _, f := range a.Tensors {
				factors[f.Name] = f
			}
			changed := 0
			for i, tensor := range is {
				if tensor.DType != test.dtype {
					t.Errorf("%s is %s", tensor.Name, tensor.DType)
				}
				prefix := "base_model.model." + strings.TrimSuffix(tensor.Name, "weight")
				down, up := factors[prefix+"lora_A.weight"], factors[prefix+"lora_B.weight"]
				for j, got := range tensor.Data {
					want := float64(was[i].Data[j])
					if down.Data != nil {
						columns := tensor.Shape[1]
						for k := range a.Rank {
							want += 3 / math.Sqrt(2) * float64(up.Data[j/columns*a.Rank+k]) * float64(down.Data[k*columns+j%columns])
						}
						changed++
					}
					// Half an ulp of the type, and a few of float32.
					ulp := map[safetensors.DType]float64{safetensors.F32: 0, safetensors.BF16: 1.0 / 256, safetensors.F16: 1.0 / 2048}[test.dtype]
					if limit := math.Abs(want)*ulp + 1e-6; math.Abs(float64(got)-want) > limit {
						t.Fatalf("%s[%d] is %g, want %g", tensor.Name, j, got, want)
					}
				}
			}
			// q, v and down of two layers.
			if want := 2 * (8*8 + 4*8 + 8*12); changed != want {
				t.Errorf("%d elements changed, want %d", changed, want)
			}
			for _, file := range []string{"tokenizer.json", ConfigFile, GenerationFile} {
				if sum(t, out, file) != sum(t, base, file) {
					t.Errorf("%s is not the base's", file)
				}
			}
			if _, err := os.Stat(filepath.Join(out, AdapterConfigFile)); err == nil {
				t.Error("the merged policy is still an adapter")
			}
		})
	}
}

func sum(t *testing.T, folder, name string) string {
	t.Helper()
	digest := must.Get(sumFile(filepath.Join(folder, name)))(t)
	return digest
}

// A piece of a matrix is merged as the whole is, wherever it starts and ends.
func TestMergeInPieces(t *testing.T) {
	t.Parallel()
	base, adapter := mergeFolders(t, safetensors.F32, 0)
	source := must.Get(Open(base))(t)
	defer source.Close()
	a := must.Get(LoadAdapter(adapter, source.Config(), false))(t)
	m := newMerged(source, a)
	for index, tensor := range source.Tensors() {
		whole := make([]float32, tensor.Elements())
		must.Do(t, m.Float32To(whole, index, 0))
		for _, size := range []int{1, 5, 8, 19} {
			for from := 0; from < len(whole); from += size {
				piece := make([]float32, min(size, len(whole)-from))
				must.Do(t, m.Float32To(piece, index, from))
				for i, got := range piece {
					if got != whole[from+i] {
						t.Fatalf("%s[%d] in pieces of %d differs", tensor.Name, from+i, size)
					}
				}
			}
		}
	}
}

func TestMergeRefused(t *testing.T) {
	t.Parallel()
	base, adapter := mergeFolders(t, safetensors.F32, 0)
	if err := Merge(base, "", t.TempDir()); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "it is not an adapter") {
		t.Errorf("a whole policy: %v", err)
	}
	if err := Merge(adapter, filepath.Join(base, "none"), t.TempDir()); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "not a policy folder") {
		t.Errorf("no base: %v", err)
	}
	if err := Merge(adapter, base, t.TempDir()); err != nil {
		t.Errorf("a base that is given: %v", err)
	}
}

// A value head goes where its policy goes: a critic that is lost would begin
// again at zero, and nobody would be told.
func TestValueHeadIsCarried(t *testing.T) {
	t.Parallel()
	base, adapter := mergeFolders(t, safetensors.F32, 0)
	head := policy.ValueHeadLayout(adapterConfig())
	for i := range head.Shape[1] {
		head.Data = append(head.Data, float32(i+1))
	}
	whole, merged := t.TempDir(), t.TempDir()
	for _, err := range []error{SaveValueHead(adapter, head), Merge(adapter, base, merged), Convert(merged, whole, safetensors.BF16, 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, folder := range map[string]string{"merged": merged, "converted": whole} {
		got, err := LoadValueHead(folder, adapterConfig())
		if err != nil || !slices.Equal(got, head.Data) {
			t.Errorf("%s: the value head is %v, %v; want %v", name, got, err, head.Data)
		}
	}
}
