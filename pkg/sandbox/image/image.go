// Package image opens the root that programs see: a folder, a SquashFS file, or a SIF file of
// Apptainer. What is no folder is unpacked once into a cache by the digest of its file
// system, since an ordinary user cannot mount one.
package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// Open returns the folder that a program takes for its root: the folder of that path,
// with its links followed, or the one that the file of that path was unpacked into,
// below lathe/images of the user's cache. Errors are of bad files (exitcode.Data) and of
// what this host lacks (exitcode.Unavailable).
func Open(ctx context.Context, path string) (root string, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return "", exitcode.WithHint(exitcode.Unavailablef("no image on this machine: %w", err), "put the image there, or name another one")
	}
	if info, err := os.Stat(real); err == nil && info.IsDir() {
		return real, checkRoot(real)
	}
	f, size, err := plainfile.Open(real)
	if err != nil {
		return "", err
	}
	defer f.Close()
	part, err := squashFS(f, size)
	if err != nil {
		return "", exitcode.WithHint(exitcode.Dataf("image %q: %w", path, err),
			`an image is a folder, a SquashFS file ("mksquashfs FOLDER FILE") or a SIF file ("apptainer build FILE.sif SOURCE")`)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", exitcode.WithHint(exitcode.Unavailablef("image %q: nowhere to unpack it: %w", path, err), "set XDG_CACHE_HOME")
	}
	c := cached{folder: filepath.Join(cache, "lathe", "images"), image: real, part: part, find: program}
	if root, err = c.open(ctx, f); err != nil {
		return "", fmt.Errorf("unpacking image %q: %w", path, err)
	}
	return root, checkRoot(root)
}

// checkRoot refuses a folder in which no program can be.
func checkRoot(root string) error {
	for _, name := range []string{"usr", "bin", "lib", "opt"} {
		if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.IsDir() {
			return nil
		}
	}
	return exitcode.Dataf("image %q is the root of no system: it has none of usr, bin, lib and opt", root)
}

// cached is an image with where it is unpacked.
type cached struct {
	folder string // of all images of this user
	image  string
	part   section
	find   func(names ...string) (path string, ok bool) // the first of programs that is there
}

// open unpacks the image unless somebody has. Of several processes one unpacks, and the
// others wait for it. What a process that was killed has left is unpacked again.
func (c cached) open(ctx context.Context, f *os.File) (root string, err error) {
	if err := os.MkdirAll(c.folder, 0o700); err != nil {
		return "", err
	}
	digest, err := c.digest(f)
	if err != nil {
		return "", err
	}
	root, done := filepath.Join(c.folder, digest), filepath.Join(c.folder, digest+".done")
	lock, err := plainfile.Create(filepath.Join(c.folder, digest+".lock"), os.O_APPEND)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOLCK) {
		return "", fmt.Errorf("locking %q: %w", lock.Name(), err)
	}
	if _, err := os.Stat(done); err == nil {
		return root, nil
	}
	if err := os.RemoveAll(root); err != nil {
		return "", err
	}
	if err := c.unpack(ctx, root); err != nil {
		return "", errors.Join(err, os.RemoveAll(root))
	}
	return root, plainfile.Write(done, []byte(c.image+"\n"))
}

// digest is the SHA-256 of the file system. It is kept, as long as nothing of the file's
// size, times and number changes, since an image has gigabytes.
func (c cached) digest(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	own := info.Sys().(*syscall.Stat_t)
	state := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %d %d %d", c.image, own.Dev, own.Ino, own.Size, info.ModTime().UnixNano(), own.Ctim.Nano()))
	kept := filepath.Join(c.folder, hex.EncodeToString(state[:16])+".sha256")
	if text, err := plainfile.Read(kept, 2*sha256.Size); err == nil && len(text) == 2*sha256.Size {
		return string(text), nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, c.part.offset, c.part.size)); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	return digest, plainfile.Write(kept, []byte(digest))
}

// unpack unpacks the file system into a folder that is not there: by unsquashfs, or by
// Apptainer where that alone is installed.
func (c cached) unpack(ctx context.Context, root string) error {
	var cmd *exec.Cmd
	if path, ok := c.find("unsquashfs"); ok {
		// Devices, which only root can make, and what is not a program's to know are left out.
		cmd = exec.CommandContext(ctx, path, "-no-progress", "-no-xattrs", "-offset", fmt.Sprint(c.part.offset), "-dest", root, c.image)
	} else if path, ok := c.find("apptainer", "singularity"); ok {
		cmd = exec.CommandContext(ctx, path, "build", "--sandbox", root, c.image)
	} else {
		return exitcode.WithHint(exitcode.Unavailablef("neither unsquashfs nor apptainer is installed"), "install squashfs-tools, or unpack the image and name the folder")
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	err := cmd.Run()
	if code := exitError(err); code == notAll {
		return nil
	}
	if err != nil {
		return exitcode.Unavailablef("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(said.Bytes()[max(0, said.Len()-mostSaid):]))
	}
	return nil
}

// notAll is how unsquashfs ends that could not make everything as it is in the image, as
// device files and owners by a user who is not root.
const notAll = 2

// mostSaid bounds what is shown of a complaint, in bytes.
const mostSaid = 2 << 10

func exitError(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// program finds the first of the programs that is there. Jobs may lack the folders of
// the system's administrator in their PATH.
func program(names ...string) (path string, ok bool) {
	for _, name := range names {
		for _, where := range []string{name, "/usr/sbin/" + name, "/sbin/" + name, "/usr/local/bin/" + name} {
			if path, err := exec.LookPath(where); err == nil {
				return path, true
			}
		}
	}
	return "", false
}
