package paper

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/compare"
	"github.com/lathe-rl/lathe/pkg/measure"
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

// Methods whose policies before training are alike share a line of it, behind their own;
// each has its own where they are not.
func TestLineBeforeTraining(t *testing.T) {
	t.Parallel()
	number := func(method, when string, x, y float64) Number {
		return Number{Method: method, When: when, X: measure.On(x), Spread: compare.Spread{Seeds: 1, Mean: y}}
	}
	numbers := []Number{
		number("a", beforeTraining, 0, 1), number("a", beforeTraining, 1, 2), number("a", afterTraining, 0, 3),
		number("b", beforeTraining, 0, 1), number("b", beforeTraining, 1, 2), number("b", afterTraining, 0, 5),
	}
	names := func() (names []string) {
		for _, l := range lines(numbers).Lines {
			names = append(names, fmt.Sprintf("%s %g", l.Name, l.Points[len(l.Points)-1].Y))
		}
		return names
	}
	if got, want := names(), []string{"a 3", "b 5", "before training 2"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	numbers[4].Mean = 4
	if got, want := names(), []string{"a 3", "b 5", "a, before training 2", "b, before training 4"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}
