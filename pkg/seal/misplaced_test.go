package seal

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// misplacements put something else in the place of a file.
var misplacements = map[string]func(path string) error{
	"a link to itself": func(path string) error { return os.Symlink(path, path) },
	"a device":         func(path string) error { return os.Symlink("/dev/zero", path) },
	"a pipe":           func(path string) error { return syscall.Mkfifo(path, 0o640) },
	"a sparse giant": func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o640), os.Truncate(path, 4<<40))
	},
}

// What lies in the place of a sealed file or folder and is neither is damage,
// which a repair removes, and no failure of the file system. A file that has
// another size, however large, is not read to find that out.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	for name, put := range misplacements {
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

// Sealing takes the place of a file of another size and of a link to nowhere, and
// does not read to the end what has none. What is no file it leaves alone, and
// says so. So it is with the place of the manifest.
func TestSealOverWhatIsMisplaced(t *testing.T) {
	t.Parallel()
	puts := maps.Clone(misplacements)
	puts["a folder"] = func(path string) error { return os.Mkdir(path, 0o750) }
	for name, put := range puts {
		for _, sealed := range []bool{true, false} {
			for _, manifest := range []bool{true, false} {
				path := filepath.Join(t.TempDir(), "sealed")
				if sealed {
					if _, err := WriteBytes(path, []byte("content"), AttemptFromEnv(), Manifest{}); err != nil {
						t.Fatal(err)
					}
				}
				at := path
				if manifest {
					at = ManifestPath(path)
				}
				if err := errors.Join(os.RemoveAll(at), put(at)); err != nil {
					t.Skipf("%s: %v", name, err)
				}
				_, err := WriteBytes(path, []byte("content"), AttemptFromEnv(), Manifest{})
				if name == "a device" || name == "a pipe" || name == "a folder" || manifest && name == "a sparse giant" {
					if exitcode.Code(err) != exitcode.Data {
						t.Errorf("over %s, sealed before %v, manifest %v: %v", name, sealed, manifest, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("over %s, sealed before %v, manifest %v: %v", name, sealed, manifest, err)
				}
				if data, _, err := Open(t.Context(), path, Options{}); err != nil || string(data) != "content" {
					t.Errorf("over %s, sealed before %v, manifest %v: %q, %v", name, sealed, manifest, data, err)
				}
			}
		}
	}
}

// So it is with a folder in which a file has another size.
func TestSealOverAFolderWithAGiant(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sealed")
	write := func() error {
		w, err := CreateFolder(path, AttemptFromEnv())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(w.Path(), "part"), []byte("content"), 0o640); err != nil {
			return err
		}
		_, err = w.Commit(Manifest{})
		return err
	}
	for _, manifest := range []bool{true, false} {
		must.Do(t, write())
		if err := os.Truncate(filepath.Join(path, "part"), 4<<40); err != nil {
			t.Skip(err)
		}
		if !manifest {
			must.Do(t, os.Remove(ManifestPath(path)))
		}
		if err := write(); err != nil {
			t.Errorf("manifest %v: %v", manifest, err)
		}
		if _, err := Verify(t.Context(), path, Options{}); err != nil {
			t.Errorf("manifest %v: %v", manifest, err)
		}
	}
}
