package seal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What lies in the place of a sealed file or folder and is neither is damage,
// which a repair removes, and no failure of the file system. A file that has
// another size, however large, is not read to find that out.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"a link to itself": func(path string) error { return os.Symlink(path, path) },
		"a device":         func(path string) error { return os.Symlink("/dev/zero", path) },
		"a pipe":           func(path string) error { return syscall.Mkfifo(path, 0o640) },
		"a sparse giant": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o640), os.Truncate(path, 4<<40))
		},
	} {
		for _, kind := range []Kind{KindFile, KindFolder} {
			path := filepath.Join(t.TempDir(), "sealed")
			if kind == KindFile {
				if _, err := WriteBytes(path, []byte("content"), AttemptFromEnv(), Manifest{}); err != nil {
					t.Fatal(err)
				}
			} else {
				w, err := CreateFolder(path, AttemptFromEnv())
				if err == nil {
					err = os.WriteFile(filepath.Join(w.Path(), "part"), []byte("content"), 0o640)
				}
				if err == nil {
					_, err = w.Commit(Manifest{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.RemoveAll(path), put(path)); err != nil {
				t.Skipf("%s: %v", name, err)
			}
			if _, err := Verify(t.Context(), path, Options{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s in the place of a %s: %v", name, kind, err)
			}
			if _, sealed, err := Check(t.Context(), path, Options{}); sealed || err != nil {
				t.Errorf("%s in the place of a %s: sealed %v, %v", name, kind, sealed, err)
			}
		}
	}
}
