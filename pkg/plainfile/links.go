package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// mostLinks is how many links a path may lead through, as the kernel has it.
const mostLinks = 40

// CheckLinks refuses to write to a path that a stranger's link leads elsewhere. A
// link is followed that is this user's or root's, or whose target belongs to the
// owner of the link: nobody can lead what is written into files of a third. What
// is not there yet leads nowhere.
func CheckLinks(path string) error {
	whole := path // not cleaned: what is before .. may be a link
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		whole = here + "/" + path
	}
	at, rest := "/", strings.Split(whole, "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0]) // of .. too: what is before it is no link any more
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return nil // whoever writes there finds out
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if err := checkLink(path, next, owner(info)); err != nil {
			return err
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > mostLinks {
			return nil
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return nil
}

func checkLink(path, link string, own int) error {
	if own == os.Geteuid() || own == 0 {
		return nil
	}
	if target, err := os.Stat(link); err == nil && owner(target) == own {
		return nil
	}
	return exitcode.WithHint(exitcode.Usagef("writing %q: %q is a link of user %d, and leads to what is not theirs", path, link, own),
		"remove the link, or make it yourself if you want it")
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// Create opens a file to write, with its folder: what is there is truncated, or
// added to with os.O_APPEND. No link is taken for the file.
func Create(path string, flag int) (*os.File, error) {
	if err := CheckLinks(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	if flag&os.O_APPEND == 0 {
		flag |= os.O_TRUNC
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW|flag, 0o666)
}

// Remove removes a file, if it is there and no stranger's link leads to its folder. A
// link is removed, and not what it leads to.
func Remove(path string) error {
	err := CheckLinks(filepath.Dir(path))
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Write writes a file as [Create] opens it.
func Write(path string, content []byte) error {
	f, err := Create(path, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
