package seal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// Of a folder that is read in part, what is read must be as it was sealed, and the rest
// as long.
func TestVerifyFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "v000001")
	m := must.Get(writeFolder(t, path, policyFiles))(t)
	verify := func(names ...string) error {
		asked := []string{}
		got, err := VerifyFiles(t.Context(), path, Options{}, func(name string) bool {
			asked = append(asked, name)
			for _, n := range names {
				if n == name {
					return true
				}
			}
			return false
		})
		if err == nil && (!cmp.Equal(got, m) || !cmp.Equal(asked, []string{"a.b", "a/b/y", "a/x", "config.json"})) {
			t.Errorf("%v was asked for, and the manifest is %+v", asked, got)
		}
		return err
	}
	must.Do(t, verify("a.b", "config.json"))
	put(t, filepath.Join(path, "a.b"), []byte("23"))
	must.Do(t, verify("config.json"))
	if err := verify("a.b"); !errors.Is(err, ErrDamaged) {
		t.Errorf("a flipped bit of a file that is read: %v", err)
	}
	must.Do(t, os.Remove(filepath.Join(path, "a/x")))
	if err := verify("config.json"); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file that is gone: %v", err)
	}
}

// A folder of files that others have sealed has the manifest that it would have if they
// had been written there; what was damaged in between is refused.
func TestAdoptSealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "v000001")
	m := must.Get(writeFolder(t, path, policyFiles))(t)
	gather := func(name string) (Manifest, error) {
		w := must.Get(CreateFolder(filepath.Join(dir, name), testAttempt))(t)
		must.Do(t, os.MkdirAll(filepath.Join(w.Path(), "a/b"), 0o777))
		for _, f := range m.Files[:3] {
			must.Do(t, w.AdoptSealed(f.Name, path, f))
		}
		put(t, filepath.Join(w.Path(), "config.json"), []byte("{}"))
		return w.Commit(Manifest{})
	}
	got := must.Get(gather("whole"))(t)
	if got.SHA256 != m.SHA256 || !cmp.Equal(got.Files, m.Files) || got.Bytes != m.Bytes {
		t.Errorf("gathered %+v, want %+v", got, m)
	}
	must.Do(t, readers["Verify"](filepath.Join(dir, "whole"), Options{}))
	put(t, filepath.Join(path, "a.b"), []byte("23"))
	if got, err := gather("flipped"); err == nil {
		t.Errorf("a flipped bit is sealed: %+v", got)
	}
	put(t, filepath.Join(path, "a.b"), []byte("2"))
	if _, err := gather("cut"); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file that was cut short: %v", err)
	}
}
