package recipe_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config/configtest"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

func TestBadRecipes(t *testing.T) {
	t.Parallel()
	configtest.Bad(t, "testdata/bad", func(path string) error {
		_, err := recipe.Load(path, nil)
		return err
	})
}

func TestGoodRecipes(t *testing.T) {
	t.Parallel()
	for _, path := range append(configtest.Glob(t, "testdata/good/*.yaml"), configtest.Glob(t, "testdata/good/overlays/*.yaml")...) {
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
	t.Parallel()
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
