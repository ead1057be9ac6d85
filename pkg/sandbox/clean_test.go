package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClean: whatever is in a folder goes, and nothing else.
func TestClean(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	answers := filepath.Join(outside, "answers.csv")
	for _, c := range []struct {
		what string
		make func(t *testing.T, dir string)
	}{
		{"nothing", func(*testing.T, string) {}},
		{"files and folders", func(t *testing.T, dir string) {
			for i := range 3000 {
				fatal(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
			}
			fatal(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o700))
			fatal(t, os.WriteFile(filepath.Join(dir, "a/b/c/d"), nil, 0))
		}},
		{"names that Clean would take", func(t *testing.T, dir string) {
			fatal(t, os.MkdirAll(filepath.Join(dir, "a/b/lathe-clean-1"), 0o700))
			fatal(t, os.MkdirAll(filepath.Join(dir, "lathe-clean-1/x/y"), 0o700))
			fatal(t, os.WriteFile(filepath.Join(dir, "lathe-clean-2"), nil, 0o600))
		}},
		{"folders that nobody may open", func(t *testing.T, dir string) {
			for _, mode := range []os.FileMode{0, 0o300, 0o500, 0o400} {
				inner := filepath.Join(dir, fmt.Sprint(mode), "in/in")
				fatal(t, os.MkdirAll(inner, 0o700))
				fatal(t, os.WriteFile(filepath.Join(inner, "x"), nil, 0o600))
				for range 3 {
					fatal(t, os.Chmod(inner, mode))
					inner = filepath.Dir(inner)
				}
			}
		}},
		{"links out", func(t *testing.T, dir string) {
			fatal(t, os.Symlink(outside, filepath.Join(dir, "folder")))
			fatal(t, os.Symlink(answers, filepath.Join(dir, "file")))
			fatal(t, os.Link(answers, filepath.Join(dir, "hard")))
			fatal(t, os.Symlink("folder", filepath.Join(dir, "loop")))
		}},
		{"a pipe", func(t *testing.T, dir string) { fatal(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600)) }},
		{"3000 folders in each other", func(t *testing.T, dir string) {
			at, err := unix.Open(dir, unix.O_PATH, 0)
			fatal(t, err)
			for range 3000 {
				fatal(t, unix.Mkdirat(at, "deeper", 0o700))
				next, err := unix.Openat(at, "deeper", unix.O_PATH, 0)
				fatal(t, err)
				unix.Close(at)
				at = next
			}
			unix.Close(at)
		}},
		{"what is immutable", func(t *testing.T, dir string) {
			if os.Getuid() != 0 {
				return // who is not root cannot make such
			}
			fatal(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700))
			fatal(t, os.WriteFile(filepath.Join(dir, "a/f"), nil, 0o600))
			for mark, name := range map[string]string{"+i": "a/f", "+a": "a/b"} {
				if out, err := exec.Command("chattr", mark, filepath.Join(dir, name)).CombinedOutput(); err != nil {
					t.Logf("chattr: %s", out) // a file system without
				}
			}
			_ = exec.Command("chattr", "+i", filepath.Join(dir, "a")).Run()
		}},
	} {
		fatal(t, os.WriteFile(answers, []byte("id\n"), 0o600))
		dir := t.TempDir()
		c.make(t, dir)
		if err := Clean(dir); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %d are left, %v", c.what, len(left), err)
		}
		if text, err := os.ReadFile(answers); err != nil || string(text) != "id\n" {
			t.Errorf("%s: the file outside is %q, %v", c.what, text, err)
		}
	}
	if err := Clean(filepath.Join(outside, "nothing")); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a folder that is not there: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	fatal(t, os.Symlink(outside, link))
	if err := Clean(link); err == nil {
		t.Error("a link is cleaned as if it were the folder")
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
