package recipe_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Under auto a run of any length keeps 21 versions at most: version 0, one each so
// often, and the last.
func TestKeepsEvery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keep             recipe.KeepEvery
		iterations, want int
	}{
		{recipe.KeepAuto, 0, 0},
		{recipe.KeepAuto, 20, 0},
		{recipe.KeepAuto, 21, 2},
		{recipe.KeepAuto, 40, 2},
		{recipe.KeepAuto, 41, 5},
		{recipe.KeepAuto, 200, 10},
		{recipe.KeepAuto, 400, 20},
		{recipe.KeepAuto, 401, 50},
		{0, 400, 0},
		{7, 400, 7},
	} {
		s := recipe.Schedule{KeepEvery: c.keep, Iterations: c.iterations}
		if got := s.KeepsEvery(); got != c.want {
			t.Errorf("%v of %d iterations keeps every %d, want %d", c.keep, c.iterations, got, c.want)
		}
	}
	for iterations := range 3000 {
		every := max(1, recipe.Schedule{KeepEvery: recipe.KeepAuto, Iterations: iterations}.KeepsEvery())
		if kept := 1 + (iterations+every-1)/every; kept > 21 {
			t.Fatalf("%d iterations keep %d versions", iterations, kept)
		}
	}
}
