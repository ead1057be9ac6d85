package seal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// An adopted file is the same file, or a copy where there are no links; a
// symbolic link stands for what it leads to.
//
// Alone: it replaces link, which the package shares.
func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	blob, named := filepath.Join(dir, "blob"), filepath.Join(dir, "model.safetensors")
	must.Do(t, os.WriteFile(blob, []byte("weights"), 0o666))
	must.Do(t, os.Symlink("blob", named))
	for _, linked := range []bool{true, false} {
		if !linked {
			link = func(_, _ string) error { return syscall.EXDEV }
			defer func() { link = os.Link }()
		}
		path := filepath.Join(dir, map[bool]string{true: "linked", false: "copied"}[linked])
		w := must.Get(CreateFolder(path, Attempt{}))(t)
		must.Do(t, w.Adopt("model.safetensors", named))
		link = os.Link // Commit needs it
		if _, err := w.Commit(Manifest{}); err != nil {
			t.Fatal(err)
		}
		adopted := filepath.Join(path, "model.safetensors")
		if content, err := os.ReadFile(adopted); err != nil || string(content) != "weights" {
			t.Errorf("linked %v: %q, %v", linked, content, err)
		}
		if got := sameFile(adopted, blob); got != linked {
			t.Errorf("linked %v: the same file %v", linked, got)
		}
		if _, err := Verify(t.Context(), path, Options{}); err != nil {
			t.Errorf("linked %v: %v", linked, err)
		}
	}
	w := must.Get(CreateFolder(filepath.Join(dir, "none"), Attempt{}))(t)
	defer w.Abort()
	if err := w.Adopt("x", filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there was adopted: %v", err)
	}
}
