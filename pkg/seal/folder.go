package seal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
)

// FolderWriter fills one folder that is to be sealed as a whole.
type FolderWriter struct {
	path    string
	temp    string
	attempt Attempt
	started time.Time
	done    bool
	known   map[string]File // files whose digest is known, by name
}

// CreateFolder makes a temporary folder beside path. Fill [FolderWriter.Path]
// and end with [FolderWriter.Commit] or [FolderWriter.Abort].
func CreateFolder(path string, a Attempt) (*FolderWriter, error) {
	path = filepath.Clean(path)
	temp, err := a.takeTemp(path, func(temp string) error { return os.Mkdir(temp, 0o777) })
	if err != nil {
		return nil, err
	}
	return &FolderWriter{path: path, temp: temp, attempt: a, started: a.now()}, nil
}

// Path is the temporary folder to fill, with files and folders whose names
// do not begin with a dot.
func (w *FolderWriter) Path() string { return w.temp }

// Abort drops the folder. It does nothing after Commit.
func (w *FolderWriter) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	return removeAll(w.temp)
}

// Commit seals the folder and returns the manifest that is in place: the
// given one, completed, or an earlier writer's that seals the same name. Every file is read
// back once, after it has been made durable: its digest is that of what was read, or, of
// an adopted file, compared with it.
func (w *FolderWriter) Commit(m Manifest) (Manifest, error) {
	defer phase.Enter(phase.Seal)()
	if w.done {
		return Manifest{}, exitcode.Bugf("sealing %q: the writer is closed", w.path)
	}
	w.done = true
	c := &tempFolder{path: w.path, temp: w.temp, attempt: w.attempt}
	defer c.remove()
	if len(w.known) == 0 { // else the digests of some files are not of what is read here
		info, err := os.Lstat(w.temp)
		if err != nil {
			return Manifest{}, fmt.Errorf("writing %q: %w", w.path, err)
		}
		c.measured = info
	}
	if err := syncTree(w.temp); err != nil {
		return Manifest{}, fmt.Errorf("writing %q: %w", w.path, err)
	}
	d, err := measureFolder(context.Background(), w.temp, w.known)
	if err != nil {
		return Manifest{}, fmt.Errorf("writing %q: %w", w.path, err)
	}
	m.fill(w.path, w.attempt, w.started, d)
	return publish(w.path, c, m, w.attempt)
}

// Place gives the folder its name without a manifest, for what people ask for
// outside of runs. A path that is taken is a usage error.
func (w *FolderWriter) Place() error {
	if w.done {
		return exitcode.Bugf("placing %q: the writer is closed", w.path)
	}
	w.done = true
	t := &tempFolder{path: w.path, temp: w.temp, attempt: w.attempt}
	defer t.remove()
	if err := syncTree(w.temp); err != nil {
		return fmt.Errorf("writing %q: %w", w.path, err)
	}
	won, err := t.put()
	if err == nil && !won {
		return exitcode.Usagef("%q already exists", w.path)
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", w.path, err)
	}
	return syncFolder(filepath.Dir(w.path))
}

// syncTree makes every file and folder below root durable. A name that
// begins with a dot would be left out of the digest and a link leads out of
// the folder, so both are errors.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != root && strings.HasPrefix(entry.Name(), ".") {
			return exitcode.Bugf("%q begins with a dot and cannot be sealed", entry.Name())
		}
		if entry.IsDir() {
			return syncFolder(name)
		}
		if !entry.Type().IsRegular() {
			return exitcode.Bugf("%q is neither a file nor a folder and cannot be sealed", entry.Name())
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// tempFolder is a finished folder under its temporary name.
type tempFolder struct {
	path    string // final
	temp    string
	attempt Attempt
	gone    bool // renamed away

	measured fs.FileInfo // of the folder whose files are all digested as they are on disk; nil for other folders
}

func (t *tempFolder) held() bool { return !t.gone }

func (t *tempFolder) placed() bool {
	if !t.gone || t.measured == nil {
		return false
	}
	info, err := os.Lstat(t.path)
	return err == nil && os.SameFile(info, t.measured)
}

// put renames the folder to its final name. Renaming a folder never replaces
// one that holds files.
func (t *tempFolder) put() (won bool, err error) {
	err = os.Rename(t.temp, t.path)
	switch {
	case err == nil:
		t.gone = true
		return true, nil
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	}
	return false, err
}

// replace moves what has the final name aside, takes the name and removes
// what it moved.
func (t *tempFolder) replace() error {
	aside := t.attempt.tempPath(t.path)
	if err := os.Rename(t.path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := t.put()
	return errors.Join(err, removeAll(aside))
}

func (t *tempFolder) remove() error {
	if t.gone {
		return nil
	}
	t.gone = true
	return removeAll(t.temp)
}
