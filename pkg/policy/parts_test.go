package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The number of parameters is that of the layout's elements, of every family;
// plain families have no parts, and the composed ones have all there are.
func TestPartsAndCounts(t *testing.T) {
	t.Parallel()
	seen := map[policy.Part]bool{}
	count := func(name string, c policy.Config) {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		n := 0
		for _, tensor := range policy.Layout(c) {
			n += tensor.Elements()
		}
		if got := policy.ParameterCount(c); got != n {
			t.Errorf("%s: %d parameters, but the layout has %d", name, got, n)
		}
	}
	for name, c := range policytest.Families() {
		count(name, c)
		if parts := c.Parts(); len(parts) != 0 {
			t.Errorf("%s has parts %v", name, parts)
		}
	}
	for name, c := range policytest.Composed() {
		count(name, c)
		for _, part := range c.Parts() {
			seen[part] = true
		}
	}
	if len(seen) != 19 {
		t.Errorf("the shapes have %d parts: %v", len(seen), seen)
	}
}

// Of 10 tokens, a window of 4 shows 1+2+3+4·7 = 34 keys in all: 3.4 each in place
// of the 5.5 that S/2 stands for.
func TestWindowsInCounts(t *testing.T) {
	t.Parallel()
	c := policytest.Tiny()
	whole := policy.FLOPsPerToken(c, 10)
	c.Layers = []policy.Layer{{Window: 4}, {Window: 40}}
	// 6·(Hq·dh)·(10 - (2·4 - 16/10)) with four heads of 6
	if got := whole - policy.FLOPsPerToken(c, 10); got < 518.39 || got > 518.41 {
		t.Errorf("a window saves %g operations, want 518.4", got)
	}
	without := c
	without.Layers = nil
	if got := policy.DecodeFLOPsPerToken(without, 10) - policy.DecodeFLOPsPerToken(c, 10); got != 4*24*6 {
		t.Errorf("a window saves %g operations of decoding, want 576", got)
	}
	after := policytest.Composed()["gemma2"]
	before := after
	before.Norms = policy.NormBefore
	// Two states of 20 numbers and two factors more, of each of two layers.
	if got := policy.MemoryOf(after, safetensors.F32).KeptBytes - policy.MemoryOf(before, safetensors.F32).KeptBytes; got != 4*2*42 {
		t.Errorf("norms after branches keep %d bytes more, want 336", got)
	}
}

// Of five experts that have 3·20·11 weights each, a token goes to two; the router has
// 5·20. The other layer has an MLP of 3·20·27.
func TestExpertsInCounts(t *testing.T) {
	t.Parallel()
	c := policytest.Composed()["qwen3-moe"]
	dense := c
	dense.Layers = []policy.Layer{{Dense: true}, {Dense: true}}
	if got, want := policy.ParameterCount(c)-policy.ParameterCount(dense), 5*660+100-1620; got != want {
		t.Errorf("experts add %d parameters, want %d", got, want)
	}
	if got, want := policy.DecodeFLOPsPerToken(c, 10)-policy.DecodeFLOPsPerToken(dense, 10), 2*(2*660+100-1620.0); got != want {
		t.Errorf("experts add %g operations a token, want %g", got, want)
	}
	// Gates and ups of two experts in place of the MLP's; probabilities of five, and
	// four numbers for each of the two.
	got := policy.MemoryOf(c, safetensors.F32).KeptBytes - policy.MemoryOf(dense, safetensors.F32).KeptBytes
	if want := int64(4 * (2*2*11 - 2*27 + 5 + 4*2)); got != want {
		t.Errorf("experts keep %d bytes a token, want %d", got, want)
	}
}

// Adapters change attention alone where there are experts.
func TestAdapterOfExperts(t *testing.T) {
	t.Parallel()
	c := policytest.Composed()["olmoe"]
	l := policy.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj", "o_proj"}}
	if a, err := policy.InitAdapter(c, l, 1); err != nil || len(a.Tensors) != 2*2*2 {
		t.Errorf("%d tensors, %v", len(a.Tensors), err)
	}
	l.Targets = []string{"q_proj", "up_proj"}
	if _, err := policy.InitAdapter(c, l, 1); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "up_proj") {
		t.Errorf("adapter of experts: %v", err)
	}
}

// An adapter of fused projections names all that are fused, and then the tensor.
func TestAdapterOfFusedProjections(t *testing.T) {
	t.Parallel()
	c := policytest.Composed()["phi3"]
	a, err := policy.InitAdapter(c, policy.LoRA{Rank: 2, Alpha: 4, Targets: policy.LoRATargets()}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"o_proj", "down_proj", "qkv_proj", "gate_up_proj"}, a.Targets); diff != "" {
		t.Error(diff)
	}
	if !slices.ContainsFunc(a.Tensors, func(x policy.Tensor) bool {
		return x.Name == "base_model.model.model.layers.1.self_attn.qkv_proj.lora_B.weight" && slices.Equal(x.Shape, []int{64, 2})
	}) {
		t.Errorf("no B of fused projections among %v", a.Tensors)
	}
	if _, err := policy.InitAdapter(c, policy.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj"}}, 1); exitcode.Code(err) != exitcode.Data {
		t.Errorf("one of three: %v", err)
	}
	plain := policy.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj"}}
	if got, err := plain.For(policytest.Tiny()); err != nil || !slices.Equal(got.Targets, plain.Targets) {
		t.Errorf("of a plain policy: %v, %v", got, err)
	}
}
