package learn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// openTrained opens a policy for training. Under policy.lora it is an adapter,
// a new one if the folder holds a whole policy; base is then the folder of the
// policy that it adapts, and else empty.
func openTrained(job stage.Job, o recipe.Optimizer, folder string) (engine policy.Engine, base string, err error) {
	options := engineOptions(job, o, true)
	wanted := job.Recipe.Policy.LoRA
	adapted, err := policy.IsAdapter(folder)
	if err != nil {
		return nil, "", err
	}
	switch {
	case adapted && wanted == nil:
		return nil, "", exit.WithHint(exit.Usagef("policy %q is an adapter, and the recipe has no policy.lora", folder),
			"give the recipe the policy.lora that the adapter was trained with, or make one policy of adapter and base")
	case adapted:
		if base, err = policy.AdapterBase(folder); err != nil {
			return nil, "", err
		}
	case wanted != nil:
		config, err := policy.LoadConfig(folder)
		if err != nil {
			return nil, "", err
		}
		adapter, err := policy.InitAdapter(config, loraOf(*wanted), job.Recipe.Seed)
		if err != nil {
			return nil, "", err
		}
		options.Adapter, base = &adapter, folder
	}
	if engine, err = backend.Open(folder, options); err != nil {
		return nil, "", err
	}
	if wanted != nil && !reflect.DeepEqual(*engine.Adapter(), loraOf(*wanted)) {
		return nil, "", errors.Join(exit.Usagef("policy %q is an adapter of shape %+v, and the recipe's policy.lora is %+v",
			folder, *engine.Adapter(), *wanted), engine.Close())
	}
	return engine, base, nil
}

func loraOf(l recipe.LoRA) policy.LoRA {
	return policy.LoRA{Rank: l.Rank, Alpha: l.Alpha, Targets: policy.SortTargets(l.Targets), RankStabilized: l.RankStabilized}
}

// sealBase seals a copy of the policy that the run's adapters adapt: its
// configuration, weights and tokenizer. The weights take no room where the file
// system has links.
func sealBase(ctx context.Context, from, to string, attempt seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	folder, err := seal.CreateFolder(to, attempt)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer folder.Abort()
	entries, err := os.ReadDir(from)
	if err != nil {
		return seal.Manifest{}, err
	}
	for _, entry := range entries {
		name, path := entry.Name(), filepath.Join(from, entry.Name())
		if err := ctx.Err(); err != nil {
			return seal.Manifest{}, err
		}
		info, err := os.Stat(path) // model caches are made of links
		if err != nil {
			return seal.Manifest{}, err
		}
		if !info.Mode().IsRegular() || strings.HasPrefix(name, ".") || otherFormat(name) {
			continue
		}
		if strings.HasSuffix(name, ".safetensors") {
			err = folder.Adopt(name, path)
		} else {
			err = copyFile(filepath.Join(folder.Path(), name), path)
		}
		if err != nil {
			return seal.Manifest{}, fmt.Errorf("copying the policy %q: %w", from, err)
		}
	}
	return folder.Commit(m)
}

// otherFormat reports whether a file holds weights in a form that is not read
// here.
func otherFormat(name string) bool {
	switch filepath.Ext(name) {
	case ".bin", ".pt", ".pth", ".gguf", ".onnx", ".msgpack", ".h5":
		return true
	}
	return false
}

func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o666)
}

// SavePolicy seals an engine's trained weights as a policy folder, with the
// configuration, tokenizer and chat files of the folder it came from. An
// adapter's folder names its base relative to itself.
func SavePolicy(engine policy.Engine, from, to, base string, attempt seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	lora := engine.Adapter()
	if lora == nil {
		return saveWhole(engine.Config(), engine.Weights(), from, to, attempt, m)
	}
	named, err := relative(to, base)
	if err != nil {
		return seal.Manifest{}, err
	}
	return saveLike(from, to, attempt, m, func(folder string) error {
		return policy.SaveAdapter(folder, engine.Config(), policy.Adapter{LoRA: *lora, Base: named, Tensors: engine.Weights()})
	})
}

func saveWhole(config policy.Config, weights []policy.Tensor, from, to string, attempt seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	return saveLike(from, to, attempt, m, func(folder string) error { return policy.Save(folder, config, weights) })
}

// saveLike seals a folder with what write puts there, and with the other files
// of the folder that it came from.
func saveLike(from, to string, attempt seal.Attempt, m seal.Manifest, write func(folder string) error) (seal.Manifest, error) {
	folder, err := seal.CreateFolder(to, attempt)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer folder.Abort()
	if err := write(folder.Path()); err != nil {
		return seal.Manifest{}, err
	}
	if err := copyCompanions(folder.Path(), from); err != nil {
		return seal.Manifest{}, fmt.Errorf("carrying the tokenizer of %q along: %w", filepath.Base(from), err)
	}
	return folder.Commit(m)
}

// relative is the path of to as seen from a folder.
func relative(from, to string) (string, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	if to, err = filepath.Abs(to); err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

// copyCompanions copies what a policy folder holds besides configuration and
// weights: tokenizer, chat format, licence.
func copyCompanions(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if !entry.Type().IsRegular() || strings.Contains(name, ".safetensors") || strings.HasPrefix(name, ".") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(to, name)); !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				return err
			}
			continue // written anew
		}
		if err := copyFile(filepath.Join(to, name), filepath.Join(from, name)); err != nil {
			return err
		}
	}
	return nil
}
