package paper

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/webpage/webpagetest"
)

// Nothing of any paper's page is cut off, with methods, tasks and folders whose names are
// long.
func TestPagesInBrowser(t *testing.T) {
	t.Parallel()
	answers, graded := t.TempDir(), t.TempDir()
	for i := range 2 {
		long := strings.Repeat("folder", 20)
		for _, name := range []string{"a-method-with-quite-a-long-name", "another-method-that-has-a-longer-name-still"} {
			made(t, filepath.Join(answers, name, long, fmt.Sprint(i)), byHand(float64(i)), "name="+name, fmt.Sprintf("seed=%d", i))
			made(t, filepath.Join(graded, name, long, fmt.Sprint(i)), programs, "name="+name, fmt.Sprintf("seed=%d", i), "evaluation.steps=3", "evaluation.seconds=40")
		}
	}
	var pages []string
	for _, name := range Names() {
		for of, folder := range map[string]string{"answers": answers, "programs": graded} {
			out := filepath.Join(t.TempDir(), name+"-"+of)
			if err := Write(out, papersOf(t, name, folder)); err != nil {
				t.Fatal(err)
			}
			pages = append(pages, filepath.Join(out, "index.html"))
		}
	}
	webpagetest.Check(t, pages...)
}
