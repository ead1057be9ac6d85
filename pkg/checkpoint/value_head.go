package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// ValueHeadFile holds the value head ([policy.ValueHeadName]). It lies beside
// the model, which loads elsewhere as if it were not there.
const ValueHeadFile = "value_head.safetensors"

// SaveValueHead writes a value head into a policy's folder.
func SaveValueHead(folder string, head policy.Tensor) error {
	if err := policy.CheckFinite(head.Data, head.Name, 0); err != nil {
		return err
	}
	return writeTensors(filepath.Join(folder, ValueHeadFile), []policy.Tensor{head}, map[string]string{"format": "pt"})
}

// LoadValueHead reads the value head of a policy's folder; nil if it has none.
func LoadValueHead(folder string, c policy.Config) ([]float32, error) {
	path := filepath.Join(folder, ValueHeadFile)
	f, err := safetensors.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head := []policy.Tensor{policy.ValueHeadLayout(c)}
	if err := errors.Join(readTensors(f, path, head), f.Close()); err != nil {
		return nil, err
	}
	return head[0].Data, nil
}

// carryValueHead copies the value head of a policy's folder, if it has one, to
// a folder of the same policy in another form.
func carryValueHead(to, from string) error {
	err := copyFile(filepath.Join(to, ValueHeadFile), filepath.Join(from, ValueHeadFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copying %q: %w", ValueHeadFile, err)
	}
	return nil
}
