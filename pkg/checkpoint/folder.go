// Package checkpoint reads and writes model folders in Hugging Face's layout:
// config.json, weights in safetensors files, low-rank adapters in PEFT's
// layout, a value head, and the optimizer's state. What an engine is given and
// gives back are package policy's tensors.
package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// The files of a policy's folder beside those of the tokenizer.
const (
	ConfigFile     = "config.json"
	GenerationFile = "generation_config.json"
	WeightsFile    = "model.safetensors"
	IndexFile      = "model.safetensors.index.json" // of weights in several files
	OptimizerFile  = "optimizer.safetensors"        // in the folder of the optimizer's state
)

// CheckFolder reports a folder without a policy, and where one is that may be meant.
func CheckFolder(folder string) error {
	_, err := os.Stat(filepath.Join(folder, ConfigFile))
	if err == nil {
		return nil
	}
	err = exitcode.Dataf("%q is not a policy folder: %w", folder, err)
	for _, inner := range []string{"policy", "snapshots"} { // of a run, and of a download that huggingface_hub keeps
		entries, _ := os.ReadDir(filepath.Join(folder, inner)) // what cannot be read holds none to name
		for _, e := range slices.Backward(entries) {
			found := filepath.Join(folder, inner, e.Name())
			if _, none := os.Stat(filepath.Join(found, ConfigFile)); none == nil {
				return exitcode.WithHint(err, "it holds policies; name one of them, such as %s", found)
			}
		}
	}
	if adapter, _ := IsAdapter(folder); adapter {
		return exitcode.WithHint(err, "it holds an adapter without its tokenizer and configuration: lathe policy merge makes a whole policy of it and its base")
	}
	return exitcode.WithHint(err, "a policy folder is in Hugging Face layout: %s, %s, tokenizer.json", ConfigFile, WeightsFile)
}

func writeTensors(path string, tensors []policy.Tensor, metadata map[string]string) error {
	return WriteFile(path, func(w io.Writer) error {
		out := make([]safetensors.Tensor, len(tensors))
		for i, t := range tensors {
			out[i] = safetensors.Tensor{Name: t.Name, Shape: t.Shape, DType: t.DType, Data: t.Data}
		}
		return safetensors.Write(w, out, metadata)
	})
}

// maxConfigBytes is the longest config.json that is read.
const maxConfigBytes = 16 << 20

// LoadConfig reads the config.json of a model folder, and the tokens that end
// a response from generation_config.json, where it has them.
func LoadConfig(folder string) (policy.Config, error) {
	path := filepath.Join(folder, ConfigFile)
	raw, err := plainfile.Read(path, maxConfigBytes)
	if err != nil {
		return policy.Config{}, err
	}
	c, err := ParseConfig(raw)
	if err != nil {
		return policy.Config{}, exitcode.Dataf("reading %q: %w", path, err)
	}
	path = filepath.Join(folder, GenerationFile)
	raw, err = plainfile.Read(path, maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return policy.Config{}, err
	}
	if err := setGeneration(&c, raw); err != nil {
		return policy.Config{}, exitcode.Dataf("reading %q: %w", path, err)
	}
	return c, nil
}

// readTensors fills tensors with the data of the file, which must have these
// tensors and no others, all finite.
func readTensors(f *safetensors.File, path string, tensors []policy.Tensor) error {
	wanted := map[string]bool{}
	for i := range tensors {
		t := &tensors[i]
		wanted[t.Name] = true
		info, ok := f.Lookup(t.Name)
		if !ok {
			return exitcode.Dataf("reading %q: there is no tensor %q", path, t.Name)
		}
		if err := checkInfo(info, t.Shape); err != nil {
			return exitcode.Dataf("reading %q: %w", path, err)
		}
		t.DType, t.Data = info.DType, make([]float32, t.Elements())
		if err := f.Float32To(t.Data, t.Name); err != nil {
			return err
		}
		if err := policy.CheckFinite(t.Data, t.Name, 0); err != nil {
			return exitcode.Dataf("reading %q: %w", path, err)
		}
	}
	for _, info := range f.Tensors() {
		if !wanted[info.Name] {
			return exitcode.Dataf("reading %q: tensor %q belongs to no part of the model", path, info.Name)
		}
	}
	return nil
}

// pieceElements is how much of a state is in memory at a time: 1 MiB.
const pieceElements = 1 << 18

// SaveOptimizer writes the optimizer's state, the moments and the number of
// steps taken, into an existing folder.
func SaveOptimizer(folder string, state policy.State, steps int) error {
	tensors := state.Tensors()
	file, err := CreateOptimizerPart(folder, OptimizerFile, tensors, steps)
	if err != nil {
		return err
	}
	return file.Close(func() error {
		piece := make([]float32, pieceElements)
		for i, t := range tensors {
			for from := 0; from < t.Elements(); from += len(piece) {
				values := piece[:min(len(piece), t.Elements()-from)]
				if err := state.Float32To(values, i, from); err != nil {
					return fmt.Errorf("reading the optimizer's state: %w", err)
				}
				if err := file.Put(i, from, values); err != nil {
					return err
				}
			}
		}
		return nil
	}())
}

// sumFile is the sha256 of a file.
func sumFile(path string) (string, error) {
	f, _, err := plainfile.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("reading %q: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
