package seal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// PrunedPath is where the manifest of a file or folder lies whose bytes were
// removed to save room.
func PrunedPath(path string) string { return filepath.Clean(path) + prunedSuffix }

const prunedSuffix = ".pruned.json"

// Prune removes the bytes of a sealed file or folder to save room, and keeps
// its manifest beside where it was, under another name: what it was is known,
// and nothing takes it for done. It returns the bytes that are free now.
//
// A kill between the two steps leaves bytes without a manifest, which Prune
// removes when it is called again. What was never sealed is [ErrNotSealed].
func Prune(ctx context.Context, path string) (bytes int64, err error) {
	path = filepath.Clean(path)
	if err := plainfile.CheckLinks(filepath.Dir(path)); err != nil {
		return 0, err
	}
	m, err := Read(ctx, path, Options{})
	switch {
	case errors.Is(err, ErrNotSealed):
		if m, err = ReadPruned(path); err != nil {
			return 0, err
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
	case err != nil:
		return 0, err
	default:
		// The manifest first: with it gone nobody begins to read the bytes.
		err := os.Rename(ManifestPath(path), PrunedPath(path))
		if errors.Is(err, fs.ErrNotExist) {
			_, err = ReadPruned(path) // another process prunes it too
		}
		if err != nil {
			return 0, fmt.Errorf("pruning %q: %w", path, err)
		}
		if err := syncFolder(filepath.Dir(path)); err != nil {
			return 0, fmt.Errorf("pruning %q: %w", path, err)
		}
	}
	if err := removeAll(path); err != nil {
		return 0, fmt.Errorf("pruning %q: %w", path, err)
	}
	return m.Bytes, nil
}

// ReadPruned returns the manifest of what [Prune] removed. It is there even
// when the same was made and sealed again since. Without one the error is
// [ErrNotSealed].
func ReadPruned(path string) (Manifest, error) {
	path = filepath.Clean(path)
	m, _, err := readManifestAt(PrunedPath(path), path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Manifest{}, notSealed(path, "nor was it pruned")
	case err != nil && !errors.Is(err, ErrDamaged):
		return Manifest{}, fmt.Errorf("reading %q: %w", PrunedPath(path), err)
	}
	return m, err
}

// Record is the manifest of what is sealed, or was until it was pruned. What was
// neither costs two failed opens.
func Record(ctx context.Context, path string) (Manifest, error) {
	path = filepath.Clean(path)
	m, _, err := readManifest(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ReadPruned(path)
	case err == nil && compareSizes(path, m) == nil:
		return m, ctx.Err()
	}
	return Read(ctx, path, Options{}) // which says what is wrong
}
