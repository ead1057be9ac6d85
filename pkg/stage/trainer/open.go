package trainer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// OpenTrained opens a policy for training. Under policy.lora it is an adapter,
// a new one if the folder holds a whole policy; base is then the folder of the
// policy that it adapts, and else empty. A new adapter is drawn from the seed.
func OpenTrained(p recipe.Policy, seed uint64, process stage.Process, o loss.Optimizer, folder string, workload policy.Workload) (engine *policy.Engine, base string, err error) {
	defer phase.Enter(phase.Load)()
	options := EngineOptions(p, process, o, true, workload)
	wanted := p.LoRA
	adapted, err := checkpoint.IsAdapter(folder)
	if err != nil {
		return nil, "", err
	}
	switch {
	case adapted && wanted == nil:
		return nil, "", exitcode.WithHint(exitcode.Usagef("policy %q is an adapter, and the recipe has no policy.lora", folder),
			"give the recipe the policy.lora that the adapter was trained with, or make one policy of adapter and base")
	case adapted:
		if base, err = checkpoint.AdapterBase(folder); err != nil {
			return nil, "", err
		}
	case wanted != nil:
		config, err := checkpoint.LoadConfig(folder)
		if err != nil {
			return nil, "", err
		}
		adapter, err := policy.InitAdapter(config, LoRAOf(*wanted), seed)
		if err != nil {
			return nil, "", err
		}
		options.Adapter, base = &adapter, folder
	}
	if engine, err = backend.Open(folder, options); err != nil {
		return nil, "", err
	}
	if wanted == nil {
		return engine, base, nil
	}
	lora, err := LoRAOf(*wanted).For(engine.Config())
	if err != nil {
		return nil, "", errors.Join(err, engine.Close())
	}
	if !reflect.DeepEqual(*engine.Adapter(), lora) {
		return nil, "", errors.Join(exitcode.Usagef("policy %q is an adapter of shape %+v, and the recipe's policy.lora is %+v",
			folder, *engine.Adapter(), *wanted), engine.Close())
	}
	return engine, base, nil
}

// LoRAOf is the adapter that a recipe asks for.
func LoRAOf(l recipe.LoRA) policy.LoRA {
	return policy.LoRA{Rank: l.Rank, Alpha: l.Alpha, Targets: policy.SortTargets(l.Targets), RankStabilized: l.RankStabilized}
}

// SealBase seals a copy of the policy that the run's adapters adapt. The
// weights take no room where the file system has links.
func SealBase(from, to string, attempt seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return seal.Manifest{}, err
	}
	return sealed(to, attempt, m, func(folder *seal.FolderWriter) error {
		for _, entry := range entries {
			name := entry.Name()
			if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".safetensors") && name != checkpoint.IndexFile {
				continue
			}
			if err := folder.Adopt(name, filepath.Join(from, name)); err != nil {
				return fmt.Errorf("copying the policy %q: %w", from, err)
			}
		}
		if err := checkpoint.CarryFiles(folder.Path(), from); err != nil {
			return fmt.Errorf("copying the policy %q: %w", from, err)
		}
		return nil
	})
}

// SavePolicy seals an engine's trained weights as a policy folder like the one
// that they came from, with its other files. An adapter's folder names its base
// relative to itself.
func SavePolicy(engine *policy.Engine, from, to, base string, attempt seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	weights, head := policy.SplitValueHead(engine.Weights())
	if err := engine.Err(); err != nil {
		return seal.Manifest{}, fmt.Errorf("reading the weights: %w", err)
	}
	return sealed(to, attempt, m, func(w *seal.FolderWriter) error {
		folder := w.Path()
		if head != nil {
			if err := checkpoint.SaveValueHead(folder, *head); err != nil {
				return err
			}
		}
		lora := engine.Adapter()
		if lora == nil {
			return checkpoint.SaveLike(folder, from, weights)
		}
		named, err := Relative(to, base)
		if err != nil {
			return err
		}
		if err := checkpoint.SaveAdapter(folder, engine.Config(), policy.Adapter{LoRA: *lora, Base: named, Tensors: weights}); err != nil {
			return err
		}
		return checkpoint.CarryFiles(folder, from)
	})
}

// SaveWhole seals weights as a policy folder like the one that they came from.
func SaveWhole(weights []policy.Tensor, from, to string, attempt seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	return sealed(to, attempt, m, func(w *seal.FolderWriter) error { return checkpoint.SaveLike(w.Path(), from, weights) })
}

// sealed seals a folder that write fills.
func sealed(path string, attempt seal.Attempt, m seal.Manifest, write func(folder *seal.FolderWriter) error) (seal.Manifest, error) {
	folder, err := seal.CreateFolder(path, attempt)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer folder.Abort()
	if err := write(folder); err != nil {
		return seal.Manifest{}, err
	}
	return folder.Commit(m)
}

// Relative is the path of to as seen from a folder, as adapters name their base.
func Relative(from, to string) (string, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	if to, err = filepath.Abs(to); err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}
