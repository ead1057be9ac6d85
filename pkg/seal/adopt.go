package seal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// AdoptSealed adopts a file of a sealed folder, under a name in this one. Its digest is
// the one that it was sealed with, so a bit that has flipped since is found when Commit
// reads the folder back.
func (w *FolderWriter) AdoptSealed(name, folder string, f File) error {
	if err := w.Adopt(name, filepath.Join(folder, filepath.FromSlash(f.Name))); err != nil {
		return err
	}
	if w.known == nil {
		w.known = map[string]File{}
	}
	w.known[name] = File{Name: name, Bytes: f.Bytes, SHA256: f.SHA256}
	return nil
}

// Adopt puts a large file that nobody writes to any more into the folder: a
// second name of the file, which takes no room, or a copy where the file
// system gives it none. Symbolic links are followed.
func (w *FolderWriter) Adopt(name, from string) (err error) {
	to := filepath.Join(w.temp, name)
	if from, err = filepath.EvalSymlinks(from); err != nil {
		return fmt.Errorf("adopting a file: %w", err)
	}
	if link(from, to) == nil {
		return nil
	}
	source, _, err := plainfile.Open(from)
	if err != nil {
		return fmt.Errorf("adopting a file: %w", err)
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("adopting %q: %w", from, err)
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("adopting %q: %w", from, err)
	}
	return nil
}
