package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Clean empties a folder in which a program has written and which nobody uses any
// more: folders that nobody may open are opened, folders nested deeper than paths
// may be long are brought up first, links are removed and not followed, and marks
// that keep root from removing files are taken off. The folder itself stays. It
// opens one folder at a time and renames each at most once.
func Clean(dir string) error {
	root, err := openFolder(unix.AT_FDCWD, dir)
	if err != nil {
		return fmt.Errorf("cleaning %q: %w", dir, err)
	}
	defer root.Close()
	c := cleaner{root: root}
	for more := true; more; {
		if _, err = root.Seek(0, io.SeekStart); err == nil {
			more, err = c.empty(root)
		}
		if err != nil {
			return fmt.Errorf("cleaning %q: %w", dir, err)
		}
	}
	return nil
}

type cleaner struct {
	root *os.File
	next int // number of the next folder that is brought up
}

// empty removes what is in a folder. Of folders that are not empty, those in the
// root are emptied, and others become the root's. It reports whether there was any.
func (c *cleaner) empty(folder *os.File) (some bool, err error) {
	at := int(folder.Fd())
	for {
		names, err := folder.Readdirnames(1024)
		if errors.Is(err, io.EOF) {
			return some, nil
		}
		if err != nil {
			return some, err
		}
		for _, name := range names {
			some = true
			if err := c.remove(folder, at, name); err != nil {
				return some, fmt.Errorf("%q: %w", name, err)
			}
		}
	}
}

func (c *cleaner) remove(folder *os.File, at int, name string) error {
	err := unlink(at, name)
	if err == unix.EPERM && unmark(folder, at, name) {
		err = unlink(at, name)
	}
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.ENOTEMPTY && err != unix.EEXIST && err != unix.EACCES {
		return err
	}
	inner, err := openFolder(at, name)
	if err != nil {
		return err
	}
	defer inner.Close()
	if err := unix.Fchmod(int(inner.Fd()), 0o700); err != nil { // to be moved too, as it holds where it is
		return err
	}
	if at != int(c.root.Fd()) {
		return c.bringUp(at, name)
	}
	if _, err := c.empty(inner); err != nil {
		return err
	}
	if err := unlink(at, name); err != unix.ENOTEMPTY { // some list less than all of a folder that is being changed
		return err
	}
	return nil
}

// bringUp moves a folder into the root, under a name that is free there.
func (c *cleaner) bringUp(at int, name string) error {
	for {
		c.next++
		err := unix.Renameat2(at, name, int(c.root.Fd()), fmt.Sprintf("lathe-clean-%d", c.next), unix.RENAME_NOREPLACE)
		if err != unix.EEXIST {
			return err
		}
	}
}

// unlink removes a file, a link or an empty folder.
func unlink(at int, name string) error {
	err := unix.Unlinkat(at, name, 0)
	if err == unix.EISDIR || err == unix.EPERM { // the second in POSIX, of a folder
		if folder := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); folder != unix.ENOTDIR {
			return folder
		}
	}
	return err
}

// kept are the marks of files that keep them (ioctl_iflags(2)): immutable, and to
// be appended to alone. Root sets them and takes them off.
const kept = 0x10 | 0x20

// unmark takes the marks off a file and the folder that it is in, and reports
// whether there were any that it could.
func unmark(folder *os.File, at int, name string) bool {
	folderToo := unmarkFile(int(folder.Fd()))
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return folderToo
	}
	defer unix.Close(fd)
	return unmarkFile(fd) || folderToo
}

func unmarkFile(fd int) bool {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&kept == 0 {
		return false
	}
	flags &^= kept
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, uintptr(unsafe.Pointer(&flags)))
	return errno == 0
}
