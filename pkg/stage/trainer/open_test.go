package trainer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

var silent = stage.Process{Threads: 1, Log: func(string, ...any) {}}

// drawn is the folder of a policy with random weights, beside files that are none of it.
func drawn(t *testing.T) string {
	t.Helper()
	config := policy.Config{
		Architecture: policy.Llama, VocabSize: 8, HiddenSize: 8, IntermediateSize: 8, NumHiddenLayers: 1, NumAttentionHeads: 2, NumKeyValueHeads: 1,
		HeadDim: 4, MaxPositionEmbeddings: 16, RMSNormEps: 1e-6, RopeTheta: 1e4, BOSTokenID: -1, EOSTokenIDs: []int32{1},
	}
	weights, err := policy.Init(config, 1)
	folder := filepath.Join(t.TempDir(), "drawn")
	if err := errors.Join(err, os.Mkdir(folder, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(checkpoint.Save(folder, config, weights), os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte("{}"), 0o666),
		os.WriteFile(filepath.Join(folder, ".hidden.safetensors"), nil, 0o666), os.WriteFile(filepath.Join(folder, "pytorch_model.bin"), nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// names are the files in a folder, without manifests.
func names(t *testing.T, folder string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

// TestTrained opens a policy, takes a step, and saves what comes of it: whole, and as an
// adapter of a policy that lies beside it.
func TestTrained(t *testing.T) {
	t.Parallel()
	from, attempt := drawn(t), seal.AttemptFromEnv()
	adapted := recipe.Policy{Backend: "cpu", LoRA: &recipe.LoRA{Rank: 2, Alpha: 4, Targets: []string{"v_proj", "q_proj"}}}
	o := loss.Optimizer{LearningRate: 0.1, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, Decay: "constant", State: "float32"}
	for _, c := range []struct {
		what  string
		p     recipe.Policy
		base  string
		files []string
	}{
		{"whole", recipe.Policy{Backend: "cpu"}, "", []string{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}},
		{"an adapter", adapted, from, []string{"adapter_config.json", "adapter_model.safetensors", "config.json", "generation_config.json", "tokenizer.json"}},
	} {
		run := t.TempDir()
		engine, base, err := OpenTrained(c.p, 1, silent, o, from, policy.Workload{})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		if base != c.base {
			t.Errorf("%s: it adapts %q, want %q", c.what, base, c.base)
		}
		to, state := filepath.Join(run, "policy", "v1"), filepath.Join(run, "policy", "v1.optim")
		if base != "" {
			base = filepath.Join(run, "policy", "base")
			m, err := SealBase(from, base, attempt, seal.Manifest{Stage: "warm"})
			if got := names(t, base); err != nil || m.Stage != "warm" || !slices.Equal(got, []string{"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}) {
				t.Errorf("%s: the base has %q, %v", c.what, got, err)
			}
		}
		if _, err := TakeStep(engine, o, loss.Value{}, 1, 2, rng.Stream{}); err != nil {
			t.Fatal(err)
		}
		_, err = SavePolicy(engine, from, to, base, attempt, seal.Manifest{PolicyVersion: 1})
		if err := errors.Join(err, SaveOptimizer(engine, state, attempt, seal.Manifest{})); err != nil {
			t.Fatal(err)
		}
		if got := names(t, to); !slices.Equal(got, c.files) {
			t.Errorf("%s: its folder has %q, want %q", c.what, got, c.files)
		}
		again, named, err := OpenTrained(c.p, 1, silent, o, to, policy.Workload{})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if base != "" {
			config, err := os.ReadFile(filepath.Join(to, checkpoint.AdapterConfigFile))
			if err != nil || !strings.Contains(string(config), `"../base"`) || named != base {
				t.Errorf("%s: it names its base %q: %s (%v)", c.what, named, config, err)
			}
		}
		if diff := cmp.Diff(engine.Weights(), again.Weights()); diff != "" {
			t.Errorf("%s: saved and opened (-was +is):\n%.500s", c.what, diff)
		}
		if err := LoadOptimizer(again, state); err != nil {
			t.Fatal(err)
		}
		was, steps := policytest.State(t, engine)
		is, same := policytest.State(t, again)
		if diff := cmp.Diff(was, is); diff != "" || steps != 1 || same != 1 {
			t.Errorf("%s: moments after %d and %d steps (-was +is):\n%.500s", c.what, steps, same, diff)
		}
		if c.base == "" {
			continue
		}
		// An adapter that the recipe does not ask for, or of another shape, is refused.
		other := adapted
		other.LoRA = &recipe.LoRA{Rank: 3, Alpha: 4, Targets: []string{"q_proj", "v_proj"}}
		for p, want := range map[*recipe.Policy]string{{Backend: "cpu"}: "is an adapter, and the recipe has no policy.lora", &other: "is an adapter of shape"} {
			if _, _, err := OpenTrained(*p, 1, silent, o, to, policy.Workload{}); exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	if _, err := SealBase(filepath.Join(from, "nothing"), filepath.Join(t.TempDir(), "x"), attempt, seal.Manifest{}); err == nil {
		t.Error("a base that is not there is copied")
	}
	config, err := checkpoint.LoadConfig(from)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := policy.Init(config, 2)
	to := filepath.Join(t.TempDir(), "whole")
	if _, errSave := SaveWhole(whole, from, to, attempt, seal.Manifest{}); errors.Join(err, errSave) != nil {
		t.Fatal(err, errSave)
	}
	if _, tensors, err := checkpoint.Load(to); err != nil || cmp.Diff(whole, tensors) != "" {
		t.Errorf("saved whole: %v", err)
	}
}

// steps keeps the settings of the steps that it is told to take.
type steps struct {
	policy.Trainer
	taken []policy.AdamW
}

func (s *steps) Step(o policy.AdamW) (policy.StepStats, error) {
	s.taken = append(s.taken, o)
	return policy.StepStats{}, nil
}

// TestTakeStep: the second of four warm-up steps to 0.4 has the rate 0.2, and a value head
// that learns at 0.04 a tenth of it.
func TestTakeStep(t *testing.T) {
	t.Parallel()
	o := loss.Optimizer{LearningRate: 0.4, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.01, MaxGradNorm: 3, Decay: "constant", WarmupSteps: 4}
	var s steps
	for _, value := range []loss.Value{{MaxGradNorm: 2}, {MaxGradNorm: 2, LearningRate: 0.04}} {
		if _, err := TakeStep(&s, o, value, 2, 8, rng.Stream{}); err != nil {
			t.Fatal(err)
		}
	}
	want := policy.AdamW{LearningRate: 0.2, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.01, MaxGradNorm: 3, ValueHead: policy.HeadAdamW{MaxGradNorm: 2}}
	head := want
	head.ValueHead.LearningRate = 0.02
	if diff := cmp.Diff([]policy.AdamW{want, head}, s.taken, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }), cmp.Comparer(func(a, b rng.Stream) bool { return true })); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// TestSequenceNumbers: tokens 1, 2 and 4 of turns 0, 0 and 1 are learned from.
func TestSequenceNumbers(t *testing.T) {
	t.Parallel()
	s := Sequence{Sequence: shard.Sequence{
		TokenIDs: make([]int32, 5), LossMask: []bool{false, true, true, false, true}, Turns: []int32{1, 0, 0, 0, 1},
		TurnAdvantages: []float32{2, -3}, TurnFactors: []float64{0.5, 3}, TurnWeights: []float64{0.25, 0.125}, OldLogProbs: []float32{1, 2, 3, 4, 5},
	}}
	s.SpreadAdvantages()
	spread := slices.Clone(s.Advantages)
	s.ApplyFactors()
	for _, c := range []struct{ what, want, got any }{
		{"advantages", []float32{0, 2, 2, 0, -3}, spread}, {"with factors", []float32{0, 1, 1, 0, -9}, s.Advantages}, {"weights", []float64{0, 0.25, 0.25, 0, 0.125}, s.Weights()},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
	was, own := s.OldLogProbs, []float32{9, 9, 9, 9, 9}
	if s.ReplaceOld(own); s.Sampler != nil || s.OldLogProbs[0] != 9 {
		t.Errorf("of our own engine: %+v", s)
	}
	s.OldLogProbs, s.LogProbSource = was, shard.LogProbsServer
	if s.ReplaceOld(own); !slices.Equal(s.Sampler, was) || s.OldLogProbs[0] != 9 {
		t.Errorf("of a server: %+v", s)
	}
	w := PassesOf(recipe.Schedule{SharedPromptTokens: 3, MicroBatchTokens: 4}).Workload(5)
	if want := (policy.Workload{Longest: 5, Shared: 3, PassTokens: 4}); w != want {
		t.Errorf("workload %+v, want %+v", w, want)
	}
}

type meter struct{ err error }

func (m meter) DeviceUse() (policy.DeviceUse, error) {
	return policy.DeviceUse{Seconds: 1.5, ToDeviceBytes: 7, ToHostBytes: 8}, m.err
}

// TestNoteDevice: what a device did is in the manifest, where there is one.
func TestNoteDevice(t *testing.T) {
	t.Parallel()
	var m seal.Manifest
	if err := NoteDevice(&m, nil); err != nil || m.Usage != nil {
		t.Errorf("without a device: %v, %v", m.Usage, err)
	}
	if err := NoteDevice(&m, meter{}); err != nil || cmp.Diff(map[string]float64{"device_seconds": 1.5, "host_to_device_bytes": 7, "device_to_host_bytes": 8}, m.Usage) != "" {
		t.Errorf("with a device: %v, %v", m.Usage, err)
	}
	if err := NoteDevice(&m, meter{errors.New("gone")}); err == nil {
		t.Error("a device that does not tell")
	}
}
