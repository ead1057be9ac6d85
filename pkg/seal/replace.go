package seal

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

// Replace writes a file that is not sealed, in the place of whatever has its
// name: a report, which is made again whenever somebody asks. A reader finds
// the old bytes or the new ones, never a part of either.
func Replace(path string, content []byte, a Attempt) error {
	path = filepath.Clean(path)
	t, err := newTempFile(path, a, content)
	if err != nil {
		return err
	}
	if err := errors.Join(t.replace(), t.remove()); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

// ReplaceJSON is [Replace] of a value as a line of JSON.
func ReplaceJSON(path string, v any, a Attempt) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Replace(path, append(content, '\n'), a)
}
