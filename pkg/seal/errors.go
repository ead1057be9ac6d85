package seal

import (
	"errors"
	"slices"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// What a reader of a sealed file may have to branch on. Both come wrapped in
// an error of kind exitcode.Data that names the file and how to fix it.
var (
	// ErrNotSealed: there is no manifest, so the file is not done.
	ErrNotSealed = errors.New("not sealed")
	// ErrDamaged: manifest and data do not agree, or one of them cannot be
	// what was sealed.
	ErrDamaged = errors.New("damaged")
)

func damaged(path, detail string) error {
	return exitcode.WithHint(exitcode.Dataf("%q is %w: %s", path, ErrDamaged, detail),
		"remove %s and its manifest %s and run the same command again: it will be rebuilt", path, ManifestPath(path))
}

// misplaced makes damage of an error that says that something else lies in the
// place of a file or a folder: a file in that of a folder, a link to itself.
func misplaced(path string, err error) error {
	if isAny(err, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP) && !errors.Is(err, ErrDamaged) {
		return damaged(path, err.Error())
	}
	return err
}

// isAny reports whether an error is one of several of the system.
func isAny(err error, of ...syscall.Errno) bool {
	return slices.ContainsFunc(of, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// Unwritable reports whether nothing was written because the folder is only read: it is
// another user's, or its file system is mounted so.
func Unwritable(err error) bool {
	return isAny(err, syscall.EROFS, syscall.EACCES, syscall.EPERM)
}

func notSealed(path, detail string) error {
	return exitcode.WithHint(exitcode.Dataf("%q is %w: %s", path, ErrNotSealed, detail),
		"run the stage that makes it; a file without a manifest is unfinished work and is replaced")
}
