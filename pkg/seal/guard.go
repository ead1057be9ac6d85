package seal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// CheckOutput reports whether a guarded writer may write a file or folder to
// path, as far as that is known before its contents are: there tells that
// something sealed is there, which the same contents may be written to again.
// What nobody of ours sealed is a usage error, and is not read.
func CheckOutput(path string, kind Kind) (there bool, err error) {
	path = filepath.Clean(path)
	m, _, err := readManifest(path)
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case absent && !exists(path):
		return false, nil
	case absent && len(promised(path)) == 0, errors.Is(err, ErrDamaged):
		return false, foreignOutput(path)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return false, exitcode.Usagef("%q cannot be written: %w", path, err)
	case err == nil && m.Kind != kind:
		return false, exitcode.WithHint(exitcode.Usagef("%q already exists and is a sealed %s", path, m.Kind), "name another path")
	case err != nil && !absent:
		return false, err
	}
	agreed, raw, data, err := look(path, (*tempFile)(nil), Manifest{Bytes: -1}) // nothing is placed
	if err != nil || agreed != nil {
		return agreed != nil, err
	}
	if !ours(path, raw, data) {
		return false, otherContents(path)
	}
	return false, nil
}

// ours reports whether what has the name path, and is not sealed, is unfinished
// work: a manifest whose data is gone, or data whose manifest did not get its
// name. raw and data are what look found.
func ours(path string, raw []byte, data string) bool {
	if raw != nil {
		if m, err := parseManifest(raw); err != nil || m.Name != filepath.Base(path) {
			return false
		}
	}
	return data == "" || slices.ContainsFunc(promised(path), func(m Manifest) bool { return m.SHA256 == data })
}

// promised lists the manifests of path that have a temporary name still. A
// writer has its manifest ready before the data gets its name, so data that was
// left between the two steps has one.
func promised(path string) (manifests []Manifest) {
	dir, name := filepath.Dir(path), filepath.Base(ManifestPath(path))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if t, ok := parseTemp(entry.Name()); !ok || t.name != name {
			continue
		}
		if m, _, err := readManifestAt(filepath.Join(dir, entry.Name()), path); err == nil {
			manifests = append(manifests, m)
		}
	}
	return manifests
}

func foreignOutput(path string) error {
	return exitcode.WithHint(exitcode.Usagef("%q already exists and was not sealed", path), "name another path")
}

func otherContents(path string) error {
	return exitcode.WithHint(exitcode.Usagef("%q already exists with different contents", path),
		"name another path, or remove %s and %s", path, ManifestPath(path))
}
