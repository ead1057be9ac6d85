package shardtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// FullDisk has each of writes fill a disk of 96 KiB in the middle of a file: exit
// code 74 whatever the encoder makes of the error, nothing half sealed. A small
// file, which small writes, has room afterwards.
func FullDisk(t *testing.T, writes map[string]func(path string) error, small func(path string) error) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96k"); err != nil {
		t.Skipf("cannot mount a small file system (%v): run this test as root to rehearse a full disk", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	for name, write := range writes {
		path := filepath.Join(dir, name)
		err := write(path)
		if exitcode.Code(err) != exitcode.IO || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want exit code 74", name, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 0 {
			t.Errorf("%s: left behind %v, %v", name, entries, err)
		}
	}
	if err := small(filepath.Join(dir, "small")); err != nil {
		t.Errorf("with room: %v", err)
	}
}
