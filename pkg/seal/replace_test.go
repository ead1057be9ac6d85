package seal

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func TestReplaceUnsealed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "report", "index.html")
	for _, content := range []string{"first", "second, longer", ""} {
		must.Do(t, Replace(path, []byte(content), Attempt{}))
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("content %q, %v, want %q", got, err, content)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v, want the file alone", entries, err)
	}
}

// Where links are refused the file is renamed.
//
// Alone: it replaces link, which the package shares.
func TestReplaceUnsealedWithoutLinks(t *testing.T) {
	defer func() { link = os.Link }()
	link = func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM} }
	path := filepath.Join(t.TempDir(), "summary.json")
	for _, content := range []string{"first", "second"} {
		must.Do(t, Replace(path, []byte(content), Attempt{}))
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "second" {
		t.Errorf("content %q, %v", got, err)
	}
}
