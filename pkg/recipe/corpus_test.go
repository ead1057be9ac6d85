package recipe_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// messages reads a table of files and the messages that they get: a line
// "== FILE", then the message.
func messages(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	table := map[string]string{}
	for _, section := range strings.Split("\n"+string(text), "\n== ")[1:] {
		name, message, _ := strings.Cut(section, "\n")
		table[name] = strings.TrimSuffix(message, "\n")
	}
	return table
}

// testBad loads every file of a folder that must fail and compares the whole
// message with the folder's table. Adding a check means adding a file.
func testBad(t *testing.T, folder string, load func(path string) error) {
	want := messages(t, folder+"/messages.txt")
	got := map[string]string{}
	for _, path := range glob(t, folder+"/*.yaml") {
		name := filepath.Base(path)
		err := load(path)
		if err == nil {
			t.Errorf("%s loads", name)
			continue
		}
		if code := exitcode.Code(err); code != exitcode.Usage {
			t.Errorf("%s: exit code %d, want %d", name, code, exitcode.Usage)
		}
		got[name] = err.Error()
	}
	if *update {
		names := make([]string, 0, len(got))
		for name := range got {
			names = append(names, name)
		}
		sort.Strings(names)
		var b strings.Builder
		for _, name := range names {
			fmt.Fprintf(&b, "== %s\n%s\n", name, got[name])
		}
		golden(t, folder+"/messages.txt", b.String())
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestBadRecipes(t *testing.T) {
	testBad(t, "testdata/bad", func(path string) error {
		_, err := recipe.Load(path, nil)
		return err
	})
}

func TestBadSites(t *testing.T) {
	testBad(t, "testdata/bad-sites", func(path string) error {
		_, err := recipe.LoadSite(path)
		return err
	})
}

func TestGoodRecipes(t *testing.T) {
	for _, path := range append(glob(t, "testdata/good/*.yaml"), glob(t, "testdata/good/overlays/*.yaml")...) {
		resolved, err := recipe.Load(path, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		again, err := recipe.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resolved.SHA256 != again.SHA256 {
			t.Errorf("%s: two digests: %s and %s", path, resolved.SHA256, again.SHA256)
		}
		back, err := recipe.Parse(resolved.YAML)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if diff := cmp.Diff(&resolved.Recipe, back); diff != "" {
			t.Errorf("%s reads back differently (-want +got):\n%s", path, diff)
		}
	}
}

// A file above the bound is refused before it is parsed; one below it is
// never slow, whatever it holds.
func TestFileBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, []byte("# "+strings.Repeat("x", 64<<10)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := recipe.Load(path, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "the file has more than 64 KiB") {
		t.Errorf("a large file: %v", err)
	}
	for _, text := range []string{
		strings.Repeat("[", 60000), strings.Repeat("{a: ", 15000), strings.Repeat("- ", 30000), strings.Repeat("a: ", 20000),
		strings.Repeat("a:\n", 20000), strings.Repeat("- a\n", 15000), strings.Repeat("? ", 30000), strings.Repeat("\"", 60000),
		strings.Repeat("!a ", 20000), "a: &a [" + strings.Repeat("*a, ", 15000) + "]", strings.Repeat("#\n", 30000),
	} {
		if _, err := recipe.Parse([]byte(text)); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%.20q…: %v, want a usage error", text, err)
		}
	}
	if _, err := recipe.Load("nowhere.yaml", nil); err == nil || err.Error() != `recipe "nowhere.yaml" does not exist` {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := recipe.Load("testdata", nil); err == nil || err.Error() != `"testdata" is a folder, not a YAML file` {
		t.Errorf("a folder: %v", err)
	}
}
