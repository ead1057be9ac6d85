// Package plainfile opens files that were written by others, and regular files
// only. A folder, a pipe, a socket or a device under the expected name is a
// data error that names it: none of them blocks the caller or gives bytes
// without end. Symbolic links are followed, as model caches are made of them.
package plainfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Open opens a regular file and returns its size. A file that is not there is
// a data error which still is fs.ErrNotExist, so that a caller can tell.
func Open(path string) (*os.File, int64, error) {
	// Without O_NONBLOCK the open of a pipe waits for a writer. Regular files
	// ignore the flag.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, openError(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.Join(exitcode.Dataf("reading %q: it is %s, not a file", path, kind(info.Mode())), f.Close())
	}
	return f, info.Size(), nil
}

// openError makes data errors of those that lie in what was found at a path
// and not in the file system.
func openError(err error) error {
	for _, cause := range []error{fs.ErrNotExist, syscall.ELOOP, syscall.ENOTDIR, syscall.ENXIO, syscall.ENAMETOOLONG, syscall.EINVAL} {
		if errors.Is(err, cause) {
			return exitcode.Dataf("reading a file: %w", err)
		}
	}
	return fmt.Errorf("reading a file: %w", err)
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
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
