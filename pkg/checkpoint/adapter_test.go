package checkpoint

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

func adapterConfig() policy.Config {
	return policy.Config{
		Architecture: policy.Llama, VocabSize: 10, HiddenSize: 8, IntermediateSize: 12, NumHiddenLayers: 2,
		NumAttentionHeads: 4, NumKeyValueHeads: 2, HeadDim: 2, MaxPositionEmbeddings: 8,
		RMSNormEps: 1e-6, RopeTheta: 1e4, TieWordEmbeddings: true, BOSTokenID: -1,
	}
}

func newTestAdapter(t *testing.T) policy.Adapter {
	t.Helper()
	a := must.Get(policy.InitAdapter(adapterConfig(), policy.LoRA{Rank: 2, Alpha: 3, Targets: []string{"q_proj", "v_proj", "down_proj"}, RankStabilized: true}, 1))(t)
	a.Base = filepath.Join("..", "base")
	return a
}

func TestAdapterFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "v000001")
	must.Do(t, os.Mkdir(folder, 0o777))
	if is, err := IsAdapter(folder); is || err != nil {
		t.Errorf("an empty folder is an adapter: %v", err)
	}
	file := filepath.Join(folder, "file")
	must.Do(t, os.WriteFile(file, nil, 0o640))
	if is, err := IsAdapter(file); is || exitcode.Code(err) != exitcode.Data {
		t.Errorf("a file is an adapter: %v, %v", is, err)
	}
	must.Do(t, os.Remove(file))
	a := newTestAdapter(t)
	must.Do(t, SaveAdapter(folder, adapterConfig(), a))
	if is, err := IsAdapter(folder); !is || err != nil {
		t.Errorf("the folder is no adapter: %v", err)
	}
	got := must.Get(LoadAdapter(folder, adapterConfig(), true))(t)
	if diff := cmp.Diff(a, got); diff != "" {
		t.Error(diff)
	}
	if got, err := AdapterBase(folder); got != filepath.Join(folder, "..", "base") || err != nil {
		t.Errorf("base %q, %v", got, err)
	}
	a.Base = "/models/base"
	must.Do(t, SaveAdapter(folder, adapterConfig(), a))
	if got, err := AdapterBase(folder); got != a.Base || err != nil {
		t.Errorf("base %q, %v", got, err)
	}
}

// What an adapter's folder says that we cannot follow is one clear error.
func TestAdapterRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setting string // of adapter_config.json
		change  func(tensors []safetensors.Tensor) []safetensors.Tensor
		train   bool
		want    string // "" for accepted
	}{
		"as PEFT writes it":        {setting: `"alpha_pattern": {}, "layers_to_transform": null, "peft_version": "0.21.2", "loftq_config": {}`},
		"dropout when sampling":    {setting: `"lora_dropout": 0.05`},
		"a pattern for targets":    {setting: `"target_modules": ".*_proj"`},
		"another good beginning":   {setting: `"init_lora_weights": "gaussian"`},
		"dropout when training":    {setting: `"lora_dropout": 0.05`, train: true, want: "lora_dropout is 0.05"},
		"DoRA":                     {setting: `"use_dora": true`, want: "use_dora is set"},
		"VeLoRA":                   {setting: `"velora_config": {"x": 1}`, want: "velora_config is set"},
		"unknown":                  {setting: `"use_other": true`, want: "use_other is set, an unknown setting"},
		"trained biases":           {setting: `"bias": "lora_only"`, want: `bias is "lora_only"`},
		"biases of the adapter":    {setting: `"lora_bias": true`, want: "lora_bias is set"},
		"whole modules":            {setting: `"modules_to_save": ["lm_head"]`, want: "modules_to_save is set"},
		"ranks by module":          {setting: `"rank_pattern": {"q_proj": 4}`, want: "rank_pattern is set"},
		"alphas by module":         {setting: `"alpha_pattern": {"q_proj": 4}`, want: "alpha_pattern is set"},
		"transposed weights":       {setting: `"fan_in_fan_out": true`, want: "fan_in_fan_out is set"},
		"trained tokens":           {setting: `"trainable_token_indices": [1]`, want: "trainable_token_indices is set"},
		"a changed base":           {setting: `"init_lora_weights": "pissa_niter_4"`, want: "changes the base's weights"},
		"another method":           {setting: `"peft_type": "IA3"`, want: `peft_type is "IA3"`},
		"no rank":                  {setting: `"r": 0`, want: "rank is 0"},
		"another rank":             {setting: `"r": 4`, want: "shape [2 8]; [4 8] was expected"},
		"no number":                {setting: `"lora_alpha": "x"`, want: "not an adapter's configuration"},
		"no JSON":                  {setting: `}`, want: "not an adapter's configuration"},
		"a tensor of the head":     {change: renamed("base_model.model.lm_head.lora_A.weight"), want: "base_model.model.lm_head.lora_A.weight"},
		"an adapted norm":          {change: renamed("base_model.model.model.layers.0.mlp.x_proj.lora_A.weight"), want: "is not an adapter's"},
		"the wrong module":         {change: renamed("base_model.model.model.layers.0.mlp.q_proj.lora_A.weight"), want: "there is no tensor"},
		"one layer too many":       {change: renamed("base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight"), want: "for layer 7; the policy has 2"},
		"one layer only":           {change: without("layers.1.mlp"), want: "adapts down_proj in 1 of 2 layers"},
		"no B":                     {change: without("layers.1.self_attn.v_proj.lora_B"), want: "there is no tensor"},
		"nothing":                  {change: without(""), want: "no targets"},
		"a number that is not one": {change: spoiled, want: "every weight must be a finite number"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			a := newTestAdapter(t)
			must.Do(t, SaveAdapter(folder, adapterConfig(), a))
			if test.setting != "" {
				path := filepath.Join(folder, AdapterConfigFile)
				content := must.Get(os.ReadFile(path))(t)
				// The last of two settings of one name counts.
				content = append(content[:len(content)-3], []byte(",\n"+test.setting+"}")...)
				must.Do(t, os.WriteFile(path, content, 0o666))
			}
			if test.change != nil {
				var stored []safetensors.Tensor
				for _, tensor := range a.Tensors {
					stored = append(stored, safetensors.Tensor{Name: tensor.Name, Shape: tensor.Shape, Data: tensor.Data})
				}
				f := must.Get(os.Create(filepath.Join(folder, AdapterWeightsFile)))(t)
				must.Do(t, safetensors.Write(f, test.change(stored), nil))
				must.Do(t, f.Close())
			}
			_, err := LoadAdapter(folder, adapterConfig(), test.train)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), folder)):
				t.Errorf("code %d, error %v; want one with %q", exitcode.Code(err), err, test.want)
			}
		})
	}
}

func renamed(name string) func([]safetensors.Tensor) []safetensors.Tensor {
	return func(tensors []safetensors.Tensor) []safetensors.Tensor {
		tensors[0].Name = name
		return tensors
	}
}

func without(part string) func([]safetensors.Tensor) []safetensors.Tensor {
	return func(tensors []safetensors.Tensor) (rest []safetensors.Tensor) {
		for _, tensor := range tensors {
			if !strings.Contains(tensor.Name, part) {
				rest = append(rest, tensor)
			}
		}
		return rest
	}
}

func spoiled(tensors []safetensors.Tensor) []safetensors.Tensor {
	tensors[1].Data[3] = float32(math.NaN())
	return tensors
}

func FuzzParseAdapterConfig(f *testing.F) {
	f.Add([]byte(`{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "base_model_name_or_path": "x"}`))
	f.Add([]byte(`{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_dora": true, "init_lora_weights": "pissa"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, _, _, err := parseAdapterConfig(raw)
		if err == nil && l.Validate() != nil {
			t.Errorf("%s: accepted, and is not valid", raw)
		}
	})
}
