package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The files of an adapter's folder, as PEFT names them.
const (
	AdapterConfigFile  = "adapter_config.json"
	AdapterWeightsFile = "adapter_model.safetensors"
)

// adapterJSON is adapter_config.json as it is written: what PEFT needs to know
// and what other readers look for.
type adapterJSON struct {
	Base           string   `json:"base_model_name_or_path"`
	Bias           string   `json:"bias"`
	FanInFanOut    bool     `json:"fan_in_fan_out"`
	InferenceMode  bool     `json:"inference_mode"`
	InitWeights    bool     `json:"init_lora_weights"`
	Alpha          float64  `json:"lora_alpha"`
	Dropout        float64  `json:"lora_dropout"`
	ModulesToSave  []string `json:"modules_to_save"`
	PEFTType       string   `json:"peft_type"`
	Rank           int      `json:"r"`
	Targets        []string `json:"target_modules"`
	TaskType       string   `json:"task_type"`
	UseDoRA        bool     `json:"use_dora"`
	RankStabilized bool     `json:"use_rslora"`
}

// IsAdapter reports whether a folder holds an adapter and not a whole policy.
func IsAdapter(folder string) (bool, error) {
	_, err := os.Stat(filepath.Join(folder, AdapterConfigFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return false, exitcode.Dataf("%q is not a policy folder: %w", folder, err)
	}
	return err == nil, err
}

// SaveAdapter writes adapter_config.json and adapter_model.safetensors, which
// PEFT loads, into an existing folder. The same arguments give the same bytes.
func SaveAdapter(folder string, c policy.Config, a policy.Adapter) error {
	if err := matchLayout(policy.LoRALayout(c, a.LoRA), a.Tensors); err != nil {
		return exitcode.Bugf("saving an adapter to %q: %w", folder, err)
	}
	if err := writeAdapterConfig(folder, a); err != nil {
		return err
	}
	return writeTensors(filepath.Join(folder, AdapterWeightsFile), a.Tensors, map[string]string{"format": "pt"})
}

// writeAdapterConfig writes adapter_config.json.
func writeAdapterConfig(folder string, a policy.Adapter) error {
	encoded, err := json.MarshalIndent(adapterJSON{
		Base: filepath.ToSlash(a.Base), Bias: "none", InferenceMode: true, InitWeights: true, Alpha: a.Alpha, PEFTType: "LORA",
		Rank: a.Rank, Targets: a.Targets, TaskType: "CAUSAL_LM", RankStabilized: a.RankStabilized,
	}, "", "  ")
	if err != nil {
		return exitcode.Bugf("saving an adapter to %q: %w", folder, err)
	}
	return os.WriteFile(filepath.Join(folder, AdapterConfigFile), append(encoded, '\n'), 0o644)
}

// AdapterBase is the folder of the policy that an adapter's folder says it
// adapts: a relative path starts at the adapter's folder. What PEFT writes is
// often not a folder, but a model's name.
func AdapterBase(folder string) (string, error) {
	_, _, base, err := loadAdapterConfig(folder)
	if err != nil {
		return "", err
	}
	if base == "" || filepath.IsAbs(base) {
		return base, nil
	}
	return filepath.Join(folder, base), nil
}

// AdaptedConfig reads the configuration of the policy that an adapter's folder
// adapts: that in base or, if base is empty, the one that the folder names. It
// returns the policy's folder too.
func AdaptedConfig(folder, base string) (string, policy.Config, error) {
	if base == "" {
		var err error
		if base, err = AdapterBase(folder); err != nil {
			return "", policy.Config{}, err
		}
	}
	config, err := LoadConfig(base)
	if errors.Is(err, fs.ErrNotExist) {
		return "", policy.Config{}, exitcode.WithHint(exitcode.Dataf("adapter %q: its base %q is not a policy folder: %w", folder, base, err),
			"write the path of the policy that it was trained on into base_model_name_or_path of its %s; a relative path starts at the adapter's folder", AdapterConfigFile)
	}
	return base, config, err
}

// LoadAdapter reads an adapter's folder, by Lathe or by PEFT, for policies of
// a shape. What would change the policy's function in another way than
// [LoRA] says is refused. Dropout acts in training only: it is passed over
// unless train is set, and refused then.
func LoadAdapter(folder string, c policy.Config, train bool) (policy.Adapter, error) {
	stated, dropout, base, err := loadAdapterConfig(folder)
	if err != nil {
		return policy.Adapter{}, err
	}
	if train && dropout != 0 {
		return policy.Adapter{}, exitcode.WithHint(exitcode.Dataf("adapter %q: lora_dropout is %g; training is without dropout", folder, dropout),
			"set lora_dropout to 0 in %s to train without it", AdapterConfigFile)
	}
	path := filepath.Join(folder, AdapterWeightsFile)
	f, err := safetensors.Open(path)
	if err != nil {
		return policy.Adapter{}, err
	}
	a := policy.Adapter{LoRA: stated, Base: base}
	if err = layAdapterOut(&a, f, path, c); err == nil {
		err = readTensors(f, path, a.Tensors)
	}
	for i := range a.Tensors {
		a.Tensors[i].DType = "" // adapters compute, learn and are saved in float32
	}
	return a, errors.Join(err, f.Close())
}

// loadAdapterConfig reads adapter_config.json. The targets are not known from
// it: PEFT writes names, or a pattern.
func loadAdapterConfig(folder string) (stated policy.LoRA, dropout float64, base string, err error) {
	path := filepath.Join(folder, AdapterConfigFile)
	raw, err := plainfile.Read(path, maxConfigBytes)
	if err != nil {
		return policy.LoRA{}, 0, "", err
	}
	stated, dropout, base, err = parseAdapterConfig(raw)
	if err != nil {
		return policy.LoRA{}, 0, "", exitcode.Dataf("reading %q: %w", path, err)
	}
	return stated, dropout, base, nil
}

// changesFunction lists the settings of PEFT (0.21) under which the tensors
// lora_A and lora_B do not say all, or say something else. Each is off when it
// is absent, null, false, zero or empty.
var changesFunction = []string{
	"use_dora", "use_qalora", "use_bdlora", "lora_bias", "fan_in_fan_out", "modules_to_save", "rank_pattern", "alpha_pattern",
	"layers_to_transform", "layer_replication", "trainable_token_indices", "target_parameters", "alora_invocation_tokens",
	"arrow_config", "kasa_config", "monteclora_config", "velora_config",
}

// changesNothing lists the settings of PEFT (0.21) that say how an adapter was
// begun, trained or where it is from, and those that are read here. Another one
// that is set is refused: it may change the function.
var changesNothing = []string{
	"peft_type", "task_type", "base_model_name_or_path", "revision", "peft_version", "auto_mapping", "inference_mode",
	"r", "lora_alpha", "lora_dropout", "use_rslora", "bias", "init_lora_weights", "target_modules", "exclude_modules", "layers_pattern",
	"megatron_config", "megatron_core", "loftq_config", "eva_config", "corda_config", "lora_ga_config", "runtime_config", "qalora_group_size",
	"ensure_weight_tying",
}

// newBase lists the ways to begin that change the base weights too (PEFT's
// init_lora_weights), so that the adapter alone says nothing.
var newBase = []string{"pissa", "olora", "corda", "loftq", "lora_ga"}

func parseAdapterConfig(raw []byte) (stated policy.LoRA, dropout float64, base string, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return policy.LoRA{}, 0, "", exitcode.Dataf("not an adapter's configuration: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch off := slices.Contains([]string{"null", "false", "0", "0.0", "{}", "[]", `""`}, compact(fields[name])); {
		case off || slices.Contains(changesNothing, name):
		case slices.Contains(changesFunction, name):
			return policy.LoRA{}, 0, "", exitcode.Dataf("%s is set, which is not implemented", name)
		default:
			return policy.LoRA{}, 0, "", exitcode.Dataf("%s is set, an unknown setting that may change what the adapter computes", name)
		}
	}
	var c struct {
		PEFTType       string  `json:"peft_type"`
		Base           string  `json:"base_model_name_or_path"`
		Bias           *string `json:"bias"`
		Rank           int     `json:"r"`
		Alpha          float64 `json:"lora_alpha"`
		Dropout        float64 `json:"lora_dropout"`
		RankStabilized bool    `json:"use_rslora"`
		InitWeights    any     `json:"init_lora_weights"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return policy.LoRA{}, 0, "", exitcode.Dataf("not an adapter's configuration: %w", err)
	}
	if c.PEFTType != "LORA" {
		return policy.LoRA{}, 0, "", exitcode.Dataf("peft_type is %q; only LORA is implemented", c.PEFTType)
	}
	if c.Bias != nil && *c.Bias != "none" {
		return policy.LoRA{}, 0, "", exitcode.Dataf("bias is %q; only none is implemented", *c.Bias)
	}
	if name, ok := c.InitWeights.(string); ok {
		for _, method := range newBase {
			if strings.HasPrefix(name, method) {
				return policy.LoRA{}, 0, "", exitcode.Dataf("init_lora_weights is %q, which changes the base's weights too; convert the adapter to a plain one with PEFT (path_initial_model_for_weight_conversion)", name)
			}
		}
	}
	l := policy.LoRA{Rank: c.Rank, Alpha: c.Alpha, RankStabilized: c.RankStabilized, Targets: policy.LoRATargets()}
	return l, c.Dropout, filepath.FromSlash(c.Base), l.Validate()
}

// compact is a JSON value without blanks between its parts.
func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return string(value)
	}
	return b.String()
}

// adapterTensor matches PEFT's names of an adapter's tensors.
var adapterTensor = lazyregexp.New(`^base_model\.model\.model\.layers\.([0-9]{1,7})\.(self_attn|mlp)\.([a-z_]+_proj)\.lora_([AB])\.weight$`)

// layAdapterOut finds out the targets from the names of a file's tensors, and lists what
// the adapter has, without data.
func layAdapterOut(a *policy.Adapter, f *safetensors.File, path string, c policy.Config) error {
	inLayers := map[string]map[int]bool{}
	for _, info := range f.Tensors() {
		part := adapterTensor().FindStringSubmatch(info.Name)
		if part == nil || len(policy.SortTargets(part[3:4])) == 0 {
			return exitcode.Dataf("reading %q: tensor %q is not an adapter's for one of %s", path, info.Name, strings.Join(policy.LoRATargets(), ", "))
		}
		layer, err := strconv.Atoi(part[1])
		if err != nil || layer >= c.NumHiddenLayers {
			return exitcode.Dataf("reading %q: tensor %q is for layer %s; the policy has %d layers", path, info.Name, part[1], c.NumHiddenLayers)
		}
		if inLayers[part[3]] == nil {
			inLayers[part[3]] = map[int]bool{}
		}
		inLayers[part[3]][layer] = true
	}
	var targets []string
	for target, layers := range inLayers {
		if len(layers) != c.NumHiddenLayers {
			return exitcode.Dataf("reading %q: it adapts %s in %d of %d layers; all or none is implemented", path, target, len(layers), c.NumHiddenLayers)
		}
		targets = append(targets, target)
	}
	a.Targets = policy.SortTargets(targets)
	if err := a.Validate(); err != nil {
		return exitcode.Dataf("reading %q: %w", path, err)
	}
	a.Tensors = policy.LoRALayout(c, a.LoRA)
	return nil
}
