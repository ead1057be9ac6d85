package policy

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func adapterConfig() Config {
	return Config{
		Architecture: Llama, VocabSize: 10, HiddenSize: 8, IntermediateSize: 12, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 2, MaxPositionEmbeddings: 8,
		RMSNormEps: 1e-6, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: -1,
	}
}

func TestLoRALayout(t *testing.T) {
	t.Parallel()
	c := adapterConfig()
	c.NumHiddenLayers = 1
	var got []string
	for _, tensor := range LoRALayout(c, LoRA{Rank: 3, Alpha: 1, Targets: LoRATargets()}) {
		shape, _ := json.Marshal(tensor.Shape)
		got = append(got, strings.TrimPrefix(tensor.Name, "base_model.model.model.layers.0.")+string(shape))
	}
	want := []string{
		"self_attn.q_proj.lora_A.weight[3,8]", "self_attn.k_proj.lora_A.weight[3,8]", "self_attn.v_proj.lora_A.weight[3,8]",
		"self_attn.q_proj.lora_B.weight[8,3]", "self_attn.k_proj.lora_B.weight[4,3]", "self_attn.v_proj.lora_B.weight[4,3]",
		"self_attn.o_proj.lora_A.weight[3,8]", "self_attn.o_proj.lora_B.weight[8,3]",
		"mlp.gate_proj.lora_A.weight[3,8]", "mlp.up_proj.lora_A.weight[3,8]",
		"mlp.gate_proj.lora_B.weight[12,3]", "mlp.up_proj.lora_B.weight[12,3]",
		"mlp.down_proj.lora_A.weight[3,12]", "mlp.down_proj.lora_B.weight[8,3]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A uniform in ±1/sqrt(in) has the variance 1/(3·in); B is zero. The numbers
// of a tensor do not depend on the other tensors.
func TestInitAdapter(t *testing.T) {
	t.Parallel()
	c := adapterConfig()
	c.HiddenSize, c.IntermediateSize = 64, 300
	c.HeadDim = 16
	all, err := InitAdapter(c, LoRA{Rank: 16, Alpha: 32, Targets: LoRATargets()}, 7)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string][]float32{}
	for _, tensor := range all.Tensors {
		byName[tensor.Name] = tensor.Data
		in := float64(tensor.Shape[1])
		squares, largest := 0.0, 0.0
		for _, x := range tensor.Data {
			squares += float64(x) * float64(x)
			largest = max(largest, math.Abs(float64(x)))
		}
		variance := squares / float64(len(tensor.Data))
		switch {
		case strings.Contains(tensor.Name, "lora_B"):
			if largest != 0 {
				t.Errorf("%s is not zero", tensor.Name)
			}
		case largest > 1/math.Sqrt(in) || variance < 0.85/(3*in) || variance > 1.15/(3*in):
			t.Errorf("%s: largest %g, variance %g; want at most %g, about %g", tensor.Name, largest, variance, 1/math.Sqrt(in), 1/(3*in))
		}
	}
	some, err := InitAdapter(c, LoRA{Rank: 16, Alpha: 1, Targets: []string{"v_proj"}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range some.Tensors {
		if diff := cmp.Diff(byName[tensor.Name], tensor.Data); diff != "" {
			t.Errorf("%s depends on other targets: %s", tensor.Name, diff)
		}
	}
}

func TestLoRAValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lora LoRA
		want string
	}{
		"good":     {LoRA{Rank: 8, Alpha: 16, Targets: []string{"q_proj", "v_proj"}}, ""},
		"rank":     {LoRA{Rank: 0, Alpha: 16, Targets: []string{"q_proj"}}, "rank is 0"},
		"alpha":    {LoRA{Rank: 8, Alpha: 0, Targets: []string{"q_proj"}}, "alpha is 0"},
		"infinite": {LoRA{Rank: 8, Alpha: math.Inf(1), Targets: []string{"q_proj"}}, "alpha is +Inf"},
		"none":     {LoRA{Rank: 8, Alpha: 16}, "no targets"},
		"unknown":  {LoRA{Rank: 8, Alpha: 16, Targets: []string{"lm_head"}}, "targets are lm_head"},
		"twice":    {LoRA{Rank: 8, Alpha: 16, Targets: []string{"q_proj", "q_proj"}}, "once each"},
		"order":    {LoRA{Rank: 8, Alpha: 16, Targets: []string{"v_proj", "q_proj"}}, "in this order"},
	} {
		err := test.lora.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if got := (LoRA{Rank: 8, Alpha: 16}).Scale(); got != 2 {
		t.Errorf("scale %g, want 16/8", got)
	}
	if got := (LoRA{Rank: 16, Alpha: 2, RankStabilized: true}).Scale(); got != 0.5 {
		t.Errorf("scale %g, want 2/sqrt(16)", got)
	}
}
