package cuda

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

const (
	// libraryName is the file that make -C cuda makes.
	libraryName = "liblathe_engine.so"
	// libraryVariable names the library's file in the environment.
	libraryVariable = "LATHE_CUDA_LIB"

	hintBuild = "make -C cuda builds " + libraryName + " where nvcc is; put it beside the binary or into ../lib, or name it in " + libraryVariable
)

// ErrNoLibrary is in the chain of what New returns where no library is in any
// of the places, or where the binary could load none.
var ErrNoLibrary = errors.New("CUDA engine not found")

// candidates are the files in which the library may be: the one that the
// environment names, and no other, or else those beside a binary and in the
// lib folder beside its own.
func candidates(named, binary string) []string {
	if named != "" {
		return []string{named}
	}
	if binary == "" {
		return nil
	}
	folder := filepath.Dir(binary)
	return []string{filepath.Join(folder, libraryName), filepath.Join(filepath.Dir(folder), "lib", libraryName)}
}

// binaryPath is this process's file, links followed; empty if it is not known.
func binaryPath() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// find returns the first candidate that is there.
func find(candidates []string) (string, error) {
	for _, path := range candidates {
		_, err := os.Stat(path)
		if err == nil {
			return filepath.Abs(path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", exitcode.WithHint(exitcode.Unavailablef("the CUDA engine's library %q cannot be read: %w", path, err), hintBuild)
		}
	}
	if len(candidates) == 0 {
		candidates = []string{libraryName}
	}
	return "", exitcode.WithHint(exitcode.Unavailablef("%w: no file %s", ErrNoLibrary, strings.Join(candidates, ", nor ")), hintBuild)
}

// libraryFile is a library that this process has loaded from a file.
type libraryFile struct {
	library
	path   string
	digest string // SHA-256 of the file, hexadecimal
}

// libraries are those that this process has loaded, by path. They stay: what
// CUDA has started in a process cannot be taken out of it.
var libraries struct {
	sync.Mutex
	byPath map[string]libraryFile
}

// openLibrary loads the library of a path or, if that is empty, the one that
// is found.
func openLibrary(path string) (libraryFile, error) {
	if err := usable(); err != nil {
		return libraryFile{}, err
	}
	if path == "" {
		path = os.Getenv(libraryVariable)
	}
	named := path
	path, err := find(candidates(named, binaryPath()))
	if named != "" && errors.Is(err, ErrNoLibrary) {
		return libraryFile{}, exitcode.WithHint(exitcode.Unavailablef("the CUDA engine %q, named by %s or the caller, does not exist", named, libraryVariable), hintBuild)
	}
	if err != nil {
		return libraryFile{}, err
	}
	libraries.Lock()
	defer libraries.Unlock()
	if l, ok := libraries.byPath[path]; ok {
		return l, nil
	}
	digest, err := plainfile.Digest(path)
	if err != nil {
		return libraryFile{}, exitcode.WithHint(exitcode.Unavailablef("the CUDA engine's library cannot be read: %w", err), hintBuild)
	}
	loaded, err := load(path)
	if err != nil {
		return libraryFile{}, err
	}
	if libraries.byPath == nil {
		libraries.byPath = map[string]libraryFile{}
	}
	l := libraryFile{loaded, path, digest}
	libraries.byPath[path] = l
	return l, nil
}
