package learn_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// By hand: files of 100, 60 and 40 elements, the largest tensor 30. Two tasks own the first,
// and the other two: 100 elements each to add up, with a partial sum of the largest tensor for
// each of the three levels of 4 units: 4·(100 + 3·30). What applies them holds pieces alone.
func TestHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		models int64
		tasks  int
		sum    int64
	}{
		"two tasks":       {1, 2, 4 * (100 + 90)},
		"one":             {1, 1, 4 * (200 + 90)},
		"more than files": {1, 9, 4 * (100 + 90)},
		"a critic":        {2, 2, 4 * (200 + 90)},
	} {
		sum, apply := learn.Parts{Files: []int64{100, 60, 40}, Largest: 30, Models: c.models}.Held(4, c.tasks)
		if sum != c.sum || apply != 16<<20 {
			t.Errorf("%s: %d and %d bytes, want %d and 16 MiB", name, sum, apply, c.sum)
		}
	}
}
