package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// WorkFolder is a new folder in that of temporary files, for one program, which
// [WorkFolder.Remove] empties and removes. Its owner holds a lock on it until then or
// until its end, whatever that is: what killed processes have left is swept as the
// next folder of the same prefix is made.
type WorkFolder struct {
	Path string // without links
	lock *os.File
}

// workPrefix begins the names of work folders.
const workPrefix = "lathe-work-"

// sweptOnce sweeps the folder of temporary files.
var sweptOnce = sync.OnceFunc(func() { sweepWork(os.TempDir()) })

// NewWorkFolder makes a folder that is named for what it is for.
func NewWorkFolder(name string) (*WorkFolder, error) {
	sweptOnce()
	within, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return nil, err
	}
	for {
		path, err := os.MkdirTemp(within, workPrefix+name+"-")
		if err != nil {
			return nil, err
		}
		// Where there are no locks, the folder is nobody's to sweep.
		lock, err := lockFolder(path)
		if errors.Is(err, errGone) {
			continue // another process took it for one that was left
		}
		return &WorkFolder{path, lock}, nil
	}
}

// errGone is that of a folder that another process is removing, or has removed.
var errGone = errors.New("the folder is gone")

// Remove removes the folder with all that is in it.
func (w *WorkFolder) Remove() error {
	err := errors.Join(Clean(w.Path), os.Remove(w.Path))
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
	}
	return err
}

// lockFolder locks a folder, if nobody has and it is still there.
func lockFolder(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	folder := os.NewFile(uintptr(fd), path)
	var locked, there unix.Stat_t
	switch err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = errGone
	case err == nil && (unix.Fstat(fd, &locked) != nil || unix.Lstat(path, &there) != nil || locked.Ino != there.Ino):
		err = errGone
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

// sweepWork removes this user's work folders that nobody holds.
func sweepWork(within string) {
	left, _ := filepath.Glob(filepath.Join(within, workPrefix+"*")) // the pattern is right
	for _, path := range left {
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) != nil || int(stat.Uid) != os.Getuid() || stat.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if lock, err := lockFolder(path); err == nil {
			w := WorkFolder{path, lock}
			_ = w.Remove() // what cannot be removed stays, and is nobody's
		}
	}
}
