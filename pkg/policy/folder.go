package policy

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/plainfile"
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

// Save writes config.json, generation_config.json and model.safetensors into
// an existing folder. The tensors are those of Layout, in its order. The same
// arguments give the same bytes. Sealing the files is the caller's business.
func Save(folder string, c Config, tensors []Tensor) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := matchLayout(Layout(c), tensors); err != nil {
		return exit.Bugf("saving a policy to %q: %w", folder, err)
	}
	if err := writeConfig(folder, c); err != nil {
		return err
	}
	return writeTensors(filepath.Join(folder, WeightsFile), tensors, map[string]string{"format": "pt"})
}

// writeConfig writes config.json and generation_config.json.
func writeConfig(folder string, c Config) error {
	if err := os.WriteFile(filepath.Join(folder, ConfigFile), c.JSON(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, GenerationFile), c.generationJSON(), 0o644)
}

// matchLayout compares names, shapes and sizes.
func matchLayout(layout, tensors []Tensor) error {
	if len(layout) != len(tensors) {
		return fmt.Errorf("%d tensors given; the model has %d", len(tensors), len(layout))
	}
	for i, want := range layout {
		got := tensors[i]
		if got.Name != want.Name || !slices.Equal(got.Shape, want.Shape) || len(got.Data) != want.Elements() {
			return fmt.Errorf("tensor %d is %q %v with %d elements; %q %v was expected", i, got.Name, got.Shape, len(got.Data), want.Name, want.Shape)
		}
	}
	return nil
}

func writeTensors(path string, tensors []Tensor, metadata map[string]string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := make([]safetensors.Tensor, len(tensors))
	for i, t := range tensors {
		out[i] = safetensors.Tensor{Name: t.Name, Shape: t.Shape, DType: t.DType, Data: t.Data}
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := safetensors.Write(buffered, out, metadata); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}

// maxConfigBytes is the longest config.json that is read.
const maxConfigBytes = 16 << 20

// LoadConfig reads the config.json of a model folder.
func LoadConfig(folder string) (Config, error) {
	path := filepath.Join(folder, ConfigFile)
	raw, err := plainfile.Read(path, maxConfigBytes)
	if err != nil {
		return Config{}, err
	}
	c, err := ParseConfig(raw)
	if err != nil {
		return Config{}, exit.Dataf("reading %q: %w", path, err)
	}
	return c, nil
}

// readTensors fills tensors with the data of the file, which must have these
// tensors and no others.
func readTensors(f *safetensors.File, path string, tensors []Tensor) error {
	wanted := map[string]bool{}
	for i := range tensors {
		t := &tensors[i]
		wanted[t.Name] = true
		info, ok := f.Lookup(t.Name)
		if !ok {
			return exit.Dataf("reading %q: there is no tensor %q", path, t.Name)
		}
		if err := checkInfo(info, t.Shape); err != nil {
			return exit.Dataf("reading %q: %w", path, err)
		}
		t.DType, t.Data = info.DType, make([]float32, t.Elements())
		if err := f.Float32To(t.Data, t.Name); err != nil {
			return err
		}
	}
	for _, info := range f.Tensors() {
		if !wanted[info.Name] {
			return exit.Dataf("reading %q: tensor %q belongs to no part of the model", path, info.Name)
		}
	}
	return nil
}

// SaveOptimizer writes the optimizer's state, the moments and the number of
// steps taken, into an existing folder.
func SaveOptimizer(folder string, tensors []Tensor, steps int) error {
	return writeTensors(filepath.Join(folder, OptimizerFile), tensors,
		map[string]string{"format": "pt", "steps": strconv.Itoa(steps)})
}

// LoadOptimizer reads what SaveOptimizer wrote, in its order. Whether it is the
// state of a policy is for Engine.LoadOptimizerState to say.
func LoadOptimizer(folder string) (tensors []Tensor, steps int, err error) {
	path := filepath.Join(folder, OptimizerFile)
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	steps, err = strconv.Atoi(f.Metadata["steps"])
	if err != nil || steps < 0 {
		return nil, 0, exit.Dataf("reading %q: the metadata has no number of steps", path)
	}
	for _, info := range f.Tensors() {
		if !info.DType.Float() {
			return nil, 0, exit.Dataf("reading %q: tensor %q is %s; moments and master weights are F32 or BF16", path, info.Name, info.DType)
		}
		t := Tensor{Name: info.Name, Shape: info.Shape, DType: info.DType, Data: make([]float32, info.Elements())}
		if err := f.Float32To(t.Data, t.Name); err != nil {
			return nil, 0, err
		}
		if err := checkFinite(t.Data, t.Name, 0); err != nil {
			return nil, 0, exit.Dataf("reading %q: %w", path, err)
		}
		tensors = append(tensors, t)
	}
	return tensors, steps, nil
}

// Digest is the sha256 of a folder's model.safetensors, in hexadecimal.
func Digest(folder string) (string, error) {
	f, err := os.Open(filepath.Join(folder, WeightsFile))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
