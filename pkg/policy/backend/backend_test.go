package backend

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	config := policy.Config{
		Architecture: policy.Llama, VocabSize: 10, HiddenSize: 8, IntermediateSize: 8, NumHiddenLayers: 1,
		NumAttentionHeads: 2, NumKeyValueHeads: 1, HeadDim: 4, MaxPositionEmbeddings: 8,
		RMSNormEps: 1e-6, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: -1,
	}
	weights, err := policy.Init(config, 1)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := checkpoint.Save(folder, config, weights); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", Auto, CPU} {
		engine, err := Open(folder, Options{Backend: name, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := engine.Config(); got.VocabSize != 10 || got.Architecture != policy.Llama {
			t.Errorf("%q: config %+v", name, got)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct {
		options Options
		code    int
	}{
		{Options{Backend: CUDA}, exitcode.Unavailable},
		{Options{Backend: "tpu"}, exitcode.Usage},
		{Options{Threads: -1}, exitcode.Usage},
		{Options{Compute: "float16"}, exitcode.Usage},
		{Options{Compute: "bfloat16", Backend: CUDA}, exitcode.Usage},
	} {
		if _, err := Open(folder, test.options); exitcode.Code(err) != test.code {
			t.Errorf("%+v: code %d (%v), want %d", test.options, exitcode.Code(err), err, test.code)
		}
	}
}

// What auto computes in depends on what the weights are, or are rounded to.
func TestCompute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stored  safetensors.DType
		options Options
		want    safetensors.DType
	}{
		{safetensors.F32, Options{Compute: Auto}, safetensors.F32},
		{safetensors.BF16, Options{Compute: Auto}, safetensors.BF16},
		{safetensors.BF16, Options{Compute: Auto, DType: Auto}, safetensors.BF16},
		{safetensors.BF16, Options{Compute: Auto, DType: "float32"}, safetensors.F32},
		{safetensors.F32, Options{Compute: Auto, DType: "bfloat16"}, safetensors.BF16},
		{safetensors.F32, Options{Compute: "bfloat16"}, safetensors.BF16},
		{safetensors.BF16, Options{}, ""}, // float32
	} {
		source := policy.InMemory(policy.Config{}, []policy.Tensor{{DType: c.stored}})
		if got := c.options.compute(source); got != c.want {
			t.Errorf("weights in %s, %+v: %q, want %q", c.stored, c.options, got, c.want)
		}
	}
}

// An adapter's folder opens with the policy that it names, wherever the two
// lie, or with another that is given.
func TestOpenAdapter(t *testing.T) {
	t.Parallel()
	config := policy.Config{
		Architecture: policy.Llama, VocabSize: 10, HiddenSize: 8, IntermediateSize: 8, NumHiddenLayers: 1,
		NumAttentionHeads: 2, NumKeyValueHeads: 1, HeadDim: 4, MaxPositionEmbeddings: 8,
		RMSNormEps: 1e-6, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: -1,
	}
	weights, err := policy.Init(config, 1)
	if err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	base, version := filepath.Join(run, "base"), filepath.Join(run, "v000001")
	for _, folder := range []string{base, version} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkpoint.Save(base, config, weights); err != nil {
		t.Fatal(err)
	}
	adapter, err := policy.InitAdapter(config, policy.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := Open(base, Options{Threads: 1, Train: true, Adapter: &adapter})
	if err != nil {
		t.Fatal(err)
	}
	if fresh.Adapter() == nil || len(fresh.Weights()) != 2 || len(fresh.Gradients()) != 2 {
		t.Errorf("a new adapter of q_proj: %v with %d tensors", fresh.Adapter(), len(fresh.Weights()))
	}
	adapter.Base = "../base"
	if err := checkpoint.SaveAdapter(version, config, adapter); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(run, moved); err != nil {
		t.Fatal(err)
	}
	version = filepath.Join(moved, "v000001")
	engine, err := Open(version, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := engine.Adapter(); got == nil || got.Rank != 2 || len(engine.Weights()) != 2 {
		t.Errorf("adapter %+v with %d tensors", got, len(engine.Weights()))
	}
	if err := os.Rename(filepath.Join(moved, "base"), filepath.Join(moved, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(version, Options{}); exitcode.Code(err) != exitcode.Data {
		t.Errorf("without its base: %v", err)
	}
	if _, err := Open(version, Options{Base: filepath.Join(moved, "elsewhere")}); err != nil {
		t.Errorf("with another base: %v", err)
	}
	if _, err := Open(version, Options{Base: filepath.Join(moved, "elsewhere"), Adapter: &adapter}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("an adapter of an adapter: %v", err)
	}
}
