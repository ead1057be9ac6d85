package sandbox

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// disk looks at the folders that a program may write in, as often as that takes a
// tenth of a core and no more than every looks of processes.
type disk struct {
	full chan struct{}
	done chan struct{}
}

func newDisk(folders []string, limits Limits) *disk {
	d := &disk{full: make(chan struct{}), done: make(chan struct{})}
	if limits.Disk == 0 && limits.Files == 0 {
		return d
	}
	go func() {
		for {
			began := time.Now()
			if newWalker(folders, limits).over() {
				close(d.full)
				return
			}
			select {
			case <-d.done:
				return
			case <-time.After(max(looks, 10*time.Since(began))):
			}
		}
	}()
	return d
}

func (d *disk) stop() { close(d.done) }

// deepest is how deep folders may be nested where disk is bounded: what is deeper
// cannot be looked at with as few descriptors.
const deepest = 256

type inode struct{ device, number uint64 }

// walker adds up files, each once, whatever its names are.
type walker struct {
	inodes map[inode]bool
	bytes  int64
	deep   bool
	limits Limits
}

// newWalker adds up folders, if that is bounded.
func newWalker(folders []string, limits Limits) *walker {
	w := &walker{inodes: map[inode]bool{}, limits: limits}
	if limits.Disk == 0 && limits.Files == 0 {
		return w
	}
	for _, folder := range folders {
		if fd, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			w.walk(os.NewFile(uintptr(fd), folder), 0)
		}
	}
	return w
}

func (w *walker) over() bool {
	return w.deep || w.limits.Disk > 0 && w.bytes > w.limits.Disk || w.limits.Files > 0 && len(w.inodes) > w.limits.Files
}

// walk adds up a folder, which it closes. Links are not followed, and neither are
// folders that become links meanwhile.
func (w *walker) walk(folder *os.File, depth int) {
	defer folder.Close()
	if w.deep = w.deep || depth > deepest; w.deep {
		return
	}
	for !w.over() {
		names, err := folder.Readdirnames(1024)
		if err != nil || len(names) == 0 {
			return
		}
		for _, name := range names {
			var stat unix.Stat_t
			if unix.Fstatat(int(folder.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // it is gone
			}
			if id := (inode{stat.Dev, stat.Ino}); !w.inodes[id] {
				w.inodes[id] = true
				w.bytes += stat.Blocks * 512
			}
			if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			if inner, err := openFolder(int(folder.Fd()), name); err == nil {
				w.walk(inner, depth+1)
			}
		}
	}
}

// openFolder opens a folder in another, never a link, and first gives us the right
// to if it is ours and does not.
func openFolder(at int, name string) (*os.File, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, unix.O_RDONLY|flags, 0)
	if err == unix.EACCES {
		path, errPath := unix.Openat(at, name, unix.O_PATH|flags, 0)
		if errPath != nil {
			return nil, errPath
		}
		defer unix.Close(path)
		if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", path), 0o700); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(at, name, unix.O_RDONLY|flags, 0)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// addUnlinked adds a file that is in no folder, by what it takes on disk.
func addUnlinked(info os.FileInfo, sizes map[string]int64) {
	stat := info.Sys().(*syscall.Stat_t)
	if stat.Nlink > 0 {
		return
	}
	key := fmt.Sprintf("f%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	sizes[key] = stat.Blocks * 512 // better known than by what is mapped of it
}
