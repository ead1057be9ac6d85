package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// A value head is a linear function of the hidden state from which a token is
// predicted, after the last norm: the value that a critic gives to the
// sequence so far. It lies in a file of its own beside the model, which loads
// elsewhere as if it were not there.
const (
	ValueHeadFile = "value_head.safetensors"
	ValueHeadName = "score.weight" // of shape (1, hidden)
)

// ValueHeadLayout is the value head by name and shape, without data.
func ValueHeadLayout(c Config) Tensor {
	return Tensor{Name: ValueHeadName, Shape: []int{1, c.HiddenSize}, DType: safetensors.F32}
}

// NewValueHead is a value head that gives every state the value 0: the first
// advantages are those without a critic, and nothing random flows into the
// policy.
func NewValueHead(c Config) []float32 { return make([]float32, c.HiddenSize) }

// SplitValueHead takes the value head, if there is one, from the trained
// tensors of an engine, of which it is the last.
func SplitValueHead(trained []Tensor) (rest []Tensor, head *Tensor) {
	if last := len(trained) - 1; last >= 0 && trained[last].Name == ValueHeadName {
		return trained[:last], &trained[last]
	}
	return trained, nil
}

// SaveValueHead writes a value head into a policy's folder.
func SaveValueHead(folder string, head Tensor) error {
	if err := checkFinite(head.Data, head.Name, 0); err != nil {
		return err
	}
	return writeTensors(filepath.Join(folder, ValueHeadFile), []Tensor{head}, map[string]string{"format": "pt"})
}

// LoadValueHead reads the value head of a policy's folder; nil if it has none.
func LoadValueHead(folder string, c Config) ([]float32, error) {
	path := filepath.Join(folder, ValueHeadFile)
	f, err := safetensors.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head := []Tensor{ValueHeadLayout(c)}
	if err := errors.Join(readTensors(f, path, head), f.Close()); err != nil {
		return nil, err
	}
	if err := checkFinite(head[0].Data, head[0].Name, 0); err != nil {
		return nil, exitcode.Dataf("reading %q: %w", path, err)
	}
	return head[0].Data, nil
}

// carryValueHead copies the value head of a policy's folder, if it has one, to
// a folder of the same policy in another form.
func carryValueHead(to, from string) error {
	err := copyFile(filepath.Join(to, ValueHeadFile), filepath.Join(from, ValueHeadFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("carrying %q along: %w", ValueHeadFile, err)
	}
	return nil
}
