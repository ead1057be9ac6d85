package seal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// mountSmall mounts a file system of 64 KiB in memory.
func mountSmall(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system (%v): run this test as root to rehearse a full disk", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

// A full disk ends with exit code 74, leaves nothing behind, at whichever
// step it fills up, and the same work succeeds once there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := mountSmall(t)
	path := filepath.Join(dir, "x")
	filler := filepath.Join(dir, "filler")
	const page = 4096 // what tmpfs counts in
	failed := 0
	for used := 0; used <= 64<<10; used += page {
		put(t, filler, make([]byte, used))
		// The data needs one page, the manifest another.
		_, err := WriteBytes(path, make([]byte, page), testAttempt, Manifest{})
		switch {
		case err == nil:
			if err := readers["Verify"](path, Options{}); err != nil {
				t.Fatalf("with %d bytes used: %v", used, err)
			}
		case exitcode.Code(err) != exitcode.IO || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path):
			t.Fatalf("with %d bytes used: %v, want exit code 74", used, err)
		default:
			failed++
			if got := names(t, dir); len(got) != 1 {
				t.Fatalf("with %d bytes used: left behind %q", used, got)
			}
		}
		must.Do(t, Remove(path))
	}
	if failed < 2 {
		t.Errorf("the disk was full %d times, expected for data and for manifest", failed)
	}
	put(t, filler, nil)
	write(t, path, "text")
}

func TestFullDiskFolder(t *testing.T) {
	t.Parallel()
	dir := mountSmall(t)
	path := filepath.Join(dir, "v000001")
	w := must.Get(CreateFolder(path, testAttempt))(t)
	put(t, filepath.Join(w.Path(), "config.json"), []byte("{}"))
	put(t, filepath.Join(dir, "filler"), make([]byte, 60<<10)) // all that is left
	if _, err := w.Commit(Manifest{}); exitcode.Code(err) != exitcode.IO {
		t.Errorf("no room for the manifest: %v, want exit code 74", err)
	} else if Unwritable(err) {
		t.Error("a full disk is said to be unwritable")
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "filler")))
	if _, err := writeFolder(t, path, policyFiles); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	dir := mountSmall(t)
	path := filepath.Join(dir, "x")
	write(t, path, "text")
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("cannot remount read-only: %v", err)
	}
	if _, _, err := Open(t.Context(), path, Options{}); err != nil {
		t.Errorf("reading: %v", err)
	}
	for name, create := range map[string]func() error{
		"file":   func() error { _, err := Create(path+"2", testAttempt); return err },
		"folder": func() error { _, err := CreateFolder(path+"2", testAttempt); return err },
		"claim":  func() error { _, _, err := Claim(path+"2", nil, testAttempt); return err },
		"remove": func() error { return Remove(path) },
	} {
		if err := create(); exitcode.Code(err) != exitcode.IO || !errors.Is(err, syscall.EROFS) || !Unwritable(err) {
			t.Errorf("%s: %v, want exit code 74, and that it is unwritable", name, err)
		}
	}
}

// TestOpenOnNFS: of a file that a process of this host has open NFS keeps another name,
// .nfs0001 for one, which cannot be removed before it is closed. So its folder stays; what
// was in it is pruned, removed or replaced all the same. A file under a mount is as stubborn.
func TestOpenOnNFS(t *testing.T) {
	t.Parallel()
	dir := mountSmall(t)
	path := filepath.Join(dir, "v000001")
	stays := filepath.Join(path, ".nfs0001")
	open := func() {
		t.Helper()
		_ = must.Get(writeFolder(t, path, policyFiles))(t)
		put(t, stays, nil)
		must.Do(t, syscall.Mount(stays, stays, "", syscall.MS_BIND, ""))
	}
	closed := func() {
		t.Helper()
		left := must.Get(filepath.Glob(filepath.Join(dir, "*v000001*", ".nfs0001")))(t)
		if len(left) != 1 {
			t.Fatalf("left are %q, want .nfs0001", left)
		}
		must.Do(t, syscall.Unmount(left[0], 0))
	}
	open()
	for range 2 {
		if _, err := Prune(t.Context(), path); err != nil {
			t.Errorf("pruning: %v", err)
		}
	}
	_ = must.Get(writeFolder(t, path, policyFiles))(t) // in the place of what stays
	if err := readers["Verify"](path, Options{}); err != nil {
		t.Errorf("made again: %v", err)
	}
	closed()
	must.Get(Sweep(dir, SweepOptions{LiveJobs: map[string]bool{}}))(t)
	must.Do(t, Remove(path))
	open()
	if err := Remove(path); err != nil {
		t.Errorf("removing: %v", err)
	}
	closed()
	must.Do(t, os.RemoveAll(path))
	open() // a folder that holds anything else is not removed
	put(t, filepath.Join(path, "held"), nil)
	must.Do(t, syscall.Mount(filepath.Join(path, "held"), filepath.Join(path, "held"), "", syscall.MS_BIND, ""))
	if _, err := Prune(t.Context(), path); !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("pruning what cannot be removed: %v", err)
	}
	must.Do(t, syscall.Unmount(filepath.Join(path, "held"), 0))
	closed()
}
