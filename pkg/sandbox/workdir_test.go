package sandbox

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// TestWorkFolders: what a killed process has left is swept, and nothing that somebody
// holds or that is no work folder.
func TestWorkFolders(t *testing.T) {
	t.Parallel()
	held, err := NewWorkFolder("test")
	fatal(t, err)
	defer held.Remove()
	fatal(t, os.WriteFile(filepath.Join(held.Path, "f"), nil, 0o600))
	within := t.TempDir()
	for _, path := range []string{"lathe-work-mle-1/in/in", "lathe-work-mle-2", "lathe-mle-3", "other"} {
		fatal(t, os.MkdirAll(filepath.Join(within, path), 0o700))
	}
	fatal(t, os.WriteFile(filepath.Join(within, "lathe-work-file"), nil, 0o600))
	fatal(t, os.Symlink(held.Path, filepath.Join(within, "lathe-work-link")))
	syscall.ForkLock.RLock() // a child that another test starts would hold the lock too, until it executes its program
	fork := sync.OnceFunc(syscall.ForkLock.RUnlock)
	defer fork()
	lock, err := lockFolder(filepath.Join(within, "lathe-work-mle-2"))
	fatal(t, err)
	sweepWork(within)
	sweepWork(filepath.Dir(held.Path))
	for path, want := range map[string]bool{"lathe-work-mle-1": false, "lathe-work-mle-2": true, "lathe-mle-3": true, "other": true, "lathe-work-file": true, "lathe-work-link": true} {
		if _, err := os.Lstat(filepath.Join(within, path)); (err == nil) != want {
			t.Errorf("after a sweep, that %s is there is %v", path, err == nil)
		}
	}
	if _, err := os.Stat(filepath.Join(held.Path, "f")); err != nil {
		t.Errorf("a folder that is held: %v", err)
	}
	fatal(t, lock.Close()) // as the end of its process does
	fork()
	sweepWork(within)
	if _, err := os.Lstat(lock.Name()); err == nil {
		t.Error("a folder that nobody holds any more is not swept")
	}
	fatal(t, held.Remove())
	if _, err := os.Lstat(held.Path); err == nil {
		t.Error("a folder that is removed is there")
	}
}
