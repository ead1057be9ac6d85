// Package plainfile opens files that were written by others, and regular files
// only. A folder, a pipe, a socket or a device under the expected name is a
// data error that names it: none of them blocks the caller or gives bytes
// without end. Symbolic links are followed, as model caches are made of them.
package plainfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// KindError is the cause when something other than a file has a name.
type KindError struct {
	Path string
	Kind string // for example "a pipe"
}

func (e *KindError) Error() string {
	return fmt.Sprintf("reading %q: it is %s, not a file", e.Path, e.Kind)
}

// MaxDocument bounds what is read as one document, JSON or YAML, in bytes.
const MaxDocument = 64 << 20

// Open opens a regular file and returns its size. A file that is not there is
// a data error which still is fs.ErrNotExist, so that a caller can tell.
func Open(path string) (f *os.File, size int64, err error) {
	f, info, err := OpenAny(path)
	if err != nil {
		return nil, size, openError(err)
	}
	if info.IsDir() {
		return nil, size, errors.Join(exitcode.Dataf("%w", &KindError{path, "a folder"}), f.Close())
	}
	if err := checkPointer(f, info.Size(), path); err != nil {
		return nil, size, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// pointerStart is how a git-LFS pointer begins, which a clone without git-LFS has
// in the place of a large file.
const pointerStart = "version https://git-lfs.github.com/spec/"

// checkPointer refuses a git-LFS pointer.
func checkPointer(f *os.File, size int64, path string) error {
	const longest = 1024 // bytes of a pointer, by git-LFS's specification
	if size < int64(len(pointerStart)) || size >= longest {
		return nil
	}
	start := make([]byte, len(pointerStart))
	if _, err := f.ReadAt(start, 0); err != nil {
		return fmt.Errorf("reading %q: %w", path, err)
	}
	if string(start) != pointerStart {
		return nil
	}
	return exitcode.WithHint(exitcode.Dataf("reading %q: it is a git-LFS pointer, not the file itself", path),
		"run git lfs pull in the repository that it is from, or download the file itself")
}

// OpenAny opens a regular file or a folder. The error is that of [os.Open], or a
// [KindError].
func OpenAny(path string) (*os.File, fs.FileInfo, error) {
	// Without O_NONBLOCK the open of a pipe waits for a writer. Regular files
	// ignore the flag.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return nil, nil, &KindError{path, "a socket"}
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &KindError{path, kind(info.Mode())}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, info, nil
}

// openError makes data errors of those that lie in what was found at a path
// and not in the file system.
func openError(err error) error {
	var other *KindError
	if errors.As(err, &other) {
		return exitcode.Dataf("%w", err)
	}
	for _, cause := range []error{fs.ErrNotExist, syscall.ELOOP, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.EINVAL} {
		if errors.Is(err, cause) {
			return exitcode.Dataf("reading a file: %w", err)
		}
	}
	return fmt.Errorf("reading a file: %w", err)
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// Read returns the content of a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, exitcode.Dataf("reading %q: it has %d bytes; at most %d are read", path, size, limit)
	}
	// One byte more than the limit shows a file that grows meanwhile.
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, err)
	}
	if int64(len(content)) > limit {
		return nil, exitcode.Dataf("reading %q: it has more than %d bytes", path, limit)
	}
	return content, nil
}

// Digest is the SHA-256 of a regular file, hexadecimal.
func Digest(path string) (string, error) {
	f, _, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return "", fmt.Errorf("reading %q: %w", path, err)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// ReadFields returns the fields of a JSON object in a regular file of at most
// limit bytes; none where there is no file.
func ReadFields(path string, limit int64) (fields map[string]json.RawMessage, err error) {
	raw, err := Read(path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, exitcode.Dataf("reading %q: %w", path, err)
	}
	return fields, nil
}
