package seal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// writeFolder seals a folder with the given files, by relative name.
func writeFolder(t *testing.T, path string, files map[string]string) (Manifest, error) {
	t.Helper()
	w := must.Get(CreateFolder(path, testAttempt))(t)
	for name, text := range files {
		file := filepath.Join(w.Path(), name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o777))
		put(t, file, []byte(text))
	}
	return w.Commit(Manifest{})
}

var policyFiles = map[string]string{"config.json": "{}", "a/x": "1", "a.b": "22", "a/b/y": ""}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "policy", "v000001")
	m := must.Get(writeFolder(t, path, policyFiles))(t)
	want := []File{{"a.b", 2, shaOf("22")}, {"a/b/y", 0, shaOf("")}, {"a/x", 1, shaOf("1")}, {"config.json", 2, shaOf("{}")}}
	if d := cmp.Diff(want, m.Files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	list := shaOf("22") + " 2 \"a.b\"\n" + shaOf("") + " 0 \"a/b/y\"\n" + shaOf("1") + " 1 \"a/x\"\n" + shaOf("{}") + " 2 \"config.json\"\n"
	if m.Kind != KindFolder || m.Bytes != 5 || m.SHA256 != shaOf(list) || m.ContentSHA256 != m.SHA256 {
		t.Errorf("manifest %+v", m)
	}
	if got, want := names(t, filepath.Dir(path)), []string{"v000001", "v000001.json"}; !cmp.Equal(got, want) {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
	for _, read := range []string{"Read", "Verify"} {
		for _, typed := range []string{path, path + "/", dir + "/./policy//v000001/"} { // as a shell completes it
			if err := readers[read](typed, Options{}); err != nil {
				t.Errorf("%s of %s: %v", read, typed, err)
			}
			if _, sealed, err := Check(t.Context(), typed, Options{}); !sealed || err != nil {
				t.Errorf("Check of %s: %v", typed, err)
			}
		}
	}
	if err := readers["Open"](path, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open of a folder: %v", err)
	}
	second, err := writeFolder(t, path, map[string]string{"other": "x"})
	if err != nil || !cmp.Equal(second, m) {
		t.Errorf("the second writer did not lose: %v", err)
	}
	put(t, filepath.Join(path, ".nfs0001"), []byte("x"))
	if err := readers["Verify"](path, Options{}); err != nil {
		t.Errorf("with a file system's own name inside: %v", err)
	}
}

func TestFolderDamage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(path string)
		want  string
		cheap bool // Read notices too
	}{
		"file missing":     {func(path string) { os.Remove(filepath.Join(path, "a/x")) }, "a/x is missing", true},
		"file cut":         {func(path string) { put(t, filepath.Join(path, "a.b"), []byte("2")) }, "a.b has 1 bytes, sealed were 2", true},
		"file changed":     {func(path string) { put(t, filepath.Join(path, "a.b"), []byte("23")) }, "a.b has sha256 ", false},
		"file more":        {func(path string) { put(t, filepath.Join(path, "extra"), nil) }, "extra was not sealed with the folder", false},
		"gone":             {func(path string) { os.RemoveAll(path) }, "v000001", true},
		"a file":           {func(path string) { os.RemoveAll(path); put(t, path, nil) }, "", true},
		"manifest flipped": {func(path string) { put(t, ManifestPath(path), []byte("{}")) }, "cut short", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "v000001")
			must.Get(writeFolder(t, path, policyFiles))(t)
			c.spoil(path)
			err := readers["Verify"](path, Options{})
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("Verify: %v", err)
			}
			if err := readers["Read"](path, Options{}); c.cheap && !errors.Is(err, ErrDamaged) && !errors.Is(err, syscall.ENOTDIR) {
				t.Errorf("Read: %v", err)
			}
			if _, err := writeFolder(t, path, policyFiles); err != nil {
				t.Fatalf("the next attempt: %v", err)
			}
			if err := readers["Verify"](path, Options{}); err != nil {
				t.Errorf("after the next attempt: %v", err)
			}
			if got := names(t, filepath.Dir(path)); len(got) != 2 {
				t.Errorf("left behind: %q", got)
			}
		})
	}
}

func TestFolderWithoutManifest(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string){
		"adopted":  func(string) {},
		"replaced": func(path string) { os.Remove(filepath.Join(path, "a.b")) },
		"empty":    func(path string) { os.RemoveAll(path); os.Mkdir(path, 0o777) },
	} {
		path := filepath.Join(t.TempDir(), "v000001")
		must.Get(writeFolder(t, path, policyFiles))(t)
		os.Remove(ManifestPath(path))
		spoil(path)
		if _, err := writeFolder(t, path, policyFiles); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := readers["Verify"](path, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := names(t, filepath.Dir(path)); len(got) != 2 {
			t.Errorf("%s: left behind %q", name, got)
		}
	}
}

func TestFolderRefusesWhatItCannotSeal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "v000001")
	if _, err := writeFolder(t, path, map[string]string{".hidden": "x"}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a name with a dot: %v, want our bug", err)
	}
	w, err := CreateFolder(path, testAttempt)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.Symlink("/dev/null", filepath.Join(w.Path(), "link")))
	if _, err := w.Commit(Manifest{}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a symbolic link: %v, want our bug", err)
	}
	w, err = CreateFolder(path, testAttempt)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(w.Path(), "x"), nil)
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// A placed folder has its files and no manifest; a taken name stays as it is.
func TestPlace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model")
	place := func(content string) error {
		w := must.Get(CreateFolder(path, Attempt{}))(t)
		must.Do(t, os.WriteFile(filepath.Join(w.Path(), "config.json"), []byte(content), 0o666))
		return w.Place()
	}
	must.Do(t, place("first"))
	if err := place("second"); exitcode.Code(err) != exitcode.Usage {
		t.Fatalf("placing on a taken name: %v", err)
	}
	content, err := os.ReadFile(filepath.Join(path, "config.json"))
	if err != nil || string(content) != "first" {
		t.Fatalf("%q, %v", content, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v is left beside the folder, %v", entries, err)
	}
}

// A folder that its writer has put in place is read back once, when it is digested; one that
// somebody else put there, or whose files came with their digests, is read again.
func TestPlacedFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	folder := func(name string) *tempFolder {
		temp := filepath.Join(dir, name)
		must.Do(t, os.Mkdir(temp, 0o777))
		must.Do(t, os.WriteFile(filepath.Join(temp, "file"), []byte(name), 0o666))
		return &tempFolder{path: path, temp: temp, attempt: testAttempt, measured: must.Get(os.Lstat(temp))(t)}
	}
	own, other := folder("own"), folder("other")
	if own.placed() {
		t.Error("it has not been put in place")
	}
	if won := must.Get(own.put())(t); !won || !own.placed() || other.placed() {
		t.Errorf("put in place: %v, own %v, other %v", won, own.placed(), other.placed())
	}
	must.Do(t, other.replace())
	if own.placed() || !other.placed() {
		t.Errorf("replaced: own %v, other %v", own.placed(), other.placed())
	}
	other.measured = nil
	if other.placed() {
		t.Error("its digests are not of what was read back")
	}
}
