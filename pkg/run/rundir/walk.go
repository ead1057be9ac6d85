package rundir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// Walk visits everything in the folder of a run, in the order of names, as
// [filepath.WalkDir] does. Unlike that it follows links: the run itself may be
// one, and folders in it may have been moved to other disks. A folder that it is
// in already it does not enter again. What is removed meanwhile is left out.
// [fs.SkipDir] leaves out a folder.
func Walk(ctx context.Context, d graph.Dir, visit fs.WalkDirFunc) error {
	info, err := os.Stat(string(d))
	if err != nil {
		return err
	}
	w := walk{ctx: ctx, visit: visit, inside: map[inode]bool{}}
	return w.folder(filepath.Clean(string(d)), info)
}

type walk struct {
	ctx    context.Context
	visit  fs.WalkDirFunc
	inside map[inode]bool // folders from the root to the one that is visited
}

// inode tells folders apart, whatever their names.
type inode struct{ device, number uint64 }

func inodeOf(info fs.FileInfo) inode {
	stat := info.Sys().(*syscall.Stat_t)
	return inode{uint64(stat.Dev), stat.Ino}
}

func (w walk) folder(path string, info fs.FileInfo) error {
	if w.inside[inodeOf(info)] {
		return nil
	}
	w.inside[inodeOf(info)] = true
	defer delete(w.inside, inodeOf(info))
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.visit(path, fs.FileInfoToDirEntry(info), nil); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return w.visit(path, fs.FileInfoToDirEntry(info), err)
	}
	for _, entry := range entries {
		if err := w.entry(filepath.Join(path, entry.Name()), entry); err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}

func (w walk) entry(path string, entry fs.DirEntry) error {
	if !entry.IsDir() && entry.Type()&fs.ModeSymlink == 0 {
		return w.visit(path, entry, w.ctx.Err())
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && entry.IsDir():
		return nil
	case err != nil || !info.IsDir(): // a link to a file, or to nothing
		return w.visit(path, entry, nil)
	}
	return w.folder(path, info)
}
