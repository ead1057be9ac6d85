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
	"path/filepath"

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

// SaveOptimizer writes the optimizer's state, the moments and the number of
// steps taken, into an existing folder.
func SaveOptimizer(folder string, tensors []policy.Tensor, steps int) error {
	return SaveOptimizerPart(folder, OptimizerFile, tensors, steps)
}

// LoadOptimizer reads the optimizer's state, of one file or of several: first moments,
// second moments and masters, each in the order of the files. Whether it is the state
// of a policy is for [policy.Trainer] to say.
func LoadOptimizer(folder string) (tensors []policy.Tensor, steps int, err error) {
	s, err := OpenState(folder, func(string) bool { return true })
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, f := range s.files {
		for _, info := range f.Tensors() {
			t := policy.Tensor{Name: info.Name, Shape: info.Shape, DType: info.DType, Data: make([]float32, info.Elements())}
			if err := s.Read(t.Data, t.Name, t, 0); err != nil {
				return nil, 0, err
			}
			tensors = append(tensors, t)
		}
	}
	return tensors, s.Steps, nil
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
