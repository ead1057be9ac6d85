package seal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// guarded seals text at path as a person's own.
func guarded(path, text string) error {
	a := testAttempt
	a.Guard = true
	_, err := WriteBytes(path, []byte(text), a, Manifest{PolicyVersion: -1})
	return err
}

// tree reads every file below a folder, those with temporary names left out.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range names(t, dir) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			t.Fatal(err)
		case info.IsDir():
			files[name+"/"] = ""
			for below, text := range tree(t, path) {
				files[name+"/"+below] = text
			}
		case info.Mode().IsRegular() && name[0] != '.':
			files[name] = string(get(t, path))
		}
	}
	return files
}

func TestGuard(t *testing.T) {
	t.Parallel()
	// promise leaves what a writer of text leaves that is killed before its
	// manifest has its name.
	promise := func(t *testing.T, path, text string) {
		write(t, path, text)
		must.Do(t, os.Rename(ManifestPath(path), testAttempt.tempPath(ManifestPath(path))))
	}
	for _, c := range []struct {
		name  string
		make  func(t *testing.T, path string)
		there bool
		check int // exit code of the look before the work
		write int // exit code of the writing
	}{
		{name: "nothing", make: func(*testing.T, string) {}},
		{name: "the same, sealed", there: true, make: func(t *testing.T, path string) { write(t, path, "new") }},
		{name: "other contents, sealed", there: true, write: exitcode.Usage, make: func(t *testing.T, path string) { write(t, path, "old") }},
		{name: "other contents that were changed after", check: exitcode.Usage, write: exitcode.Usage, make: func(t *testing.T, path string) {
			write(t, path, "old")
			put(t, path, []byte("OLD"))
		}},
		{name: "a file of somebody's", check: exitcode.Usage, write: exitcode.Usage, make: func(t *testing.T, path string) { put(t, path, []byte("mine")) }},
		{name: "an empty file of somebody's", check: exitcode.Usage, write: exitcode.Usage, make: func(t *testing.T, path string) { put(t, path, nil) }},
		{name: "something that is no manifest in the manifest's place", check: exitcode.Usage, write: exitcode.Usage, make: func(t *testing.T, path string) {
			put(t, ManifestPath(path), []byte(`{"mine": true}`))
		}},
		{name: "the manifest of another name", check: exitcode.Usage, write: exitcode.Usage, make: func(t *testing.T, path string) {
			write(t, path+"2", "new")
			put(t, ManifestPath(path), get(t, ManifestPath(path+"2")))
		}},
		{name: "a folder of somebody's", check: exitcode.Usage, write: exitcode.Usage, make: func(t *testing.T, path string) {
			must.Do(t, os.MkdirAll(filepath.Join(path, "thesis"), 0o777))
			put(t, filepath.Join(path, "thesis", "a.tex"), []byte("mine"))
		}},
		{name: "a sealed folder", check: exitcode.Usage, write: exitcode.Usage, make: func(t *testing.T, path string) {
			must.Get(writeFolder(t, path, policyFiles))(t)
		}},
		{name: "a manifest whose data is gone", make: func(t *testing.T, path string) {
			write(t, path, "old")
			must.Do(t, os.Remove(path))
		}},
		{name: "what a killed writer left", make: func(t *testing.T, path string) { promise(t, path, "old") }},
		{name: "what a killed writer left, changed after", check: exitcode.Usage, write: exitcode.Usage, make: func(t *testing.T, path string) {
			promise(t, path, "old")
			put(t, path, []byte("mine"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "out")
			c.make(t, path)
			before := tree(t, dir)
			there, err := CheckOutput(path, KindFile)
			if there != c.there || exitcode.Code(err) != c.check {
				t.Errorf("the look says there: %v, %v; want %v and code %d", there, err, c.there, c.check)
			}
			if there, err := CheckOutput(dir+"//out/", KindFile); there != c.there || exitcode.Code(err) != c.check {
				t.Errorf("the look at another spelling of the path says there: %v, %v", there, err)
			}
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("the look changes (-before +after):\n%s", d)
			}
			if err := guarded(path, "new"); exitcode.Code(err) != c.write {
				t.Errorf("the writing ends with %v; want code %d", err, c.write)
			}
			if c.write == 0 {
				if err := readers["Open"](path, Options{}); err != nil || string(get(t, path)) != "new" {
					t.Errorf("after the writing: %v", err)
				}
				return
			}
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("the writing changes (-before +after):\n%s", d)
			}
		})
	}
}

// TestGuardFolder: a folder of somebody's that is there is not replaced by a
// sealed one, not even when it came after the look.
func TestGuardFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	a := testAttempt
	a.Guard = true
	w := must.Get(CreateFolder(path, a))(t)
	put(t, filepath.Join(w.Path(), "weights"), []byte("new"))
	must.Do(t, os.MkdirAll(filepath.Join(path, "thesis"), 0o777))
	if _, err := w.Commit(Manifest{}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("sealing over a folder: %v", err)
	}
	if d := cmp.Diff(map[string]string{"out/": "", "out/thesis/": ""}, tree(t, dir)); d != "" {
		t.Errorf("the folder (-want +got):\n%s", d)
	}
}

func TestCheckOutputBelowAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, nil)
	if _, err := CheckOutput(filepath.Join(file, "out"), KindFile); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("an output below a file: %v", err)
	}
}
