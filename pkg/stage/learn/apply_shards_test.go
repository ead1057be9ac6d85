package learn_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// By hand: files of 100, 60 and 40 elements, the largest tensor 30. Two tasks own the first,
// and the other two: 100 elements each to add up, with a partial sum of the largest tensor for
// each of the three levels of 4 units: 4·(100 + 3·30). Of the largest file two moments and a
// master, and a tensor's gradient twice: 4·(3·100 + 2·30).
func TestHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kept, models int64
		tasks        int
		sum, apply   int64
	}{
		"two tasks":              {3, 1, 2, 4 * (100 + 90), 4 * 360},
		"one":                    {3, 1, 1, 4 * (200 + 90), 4 * 360},
		"more than files":        {3, 1, 9, 4 * (100 + 90), 4 * 360},
		"float32 has no masters": {2, 1, 3, 4 * (100 + 90), 4 * 260},
		"a critic":               {3, 2, 2, 4 * (200 + 90), 4 * 360},
	} {
		sum, apply := learn.Parts{Files: []int64{100, 60, 40}, Largest: 30, Kept: c.kept, Models: c.models}.Held(4, c.tasks)
		if sum != c.sum || apply != c.apply {
			t.Errorf("%s: %d and %d bytes, want %d and %d", name, sum, apply, c.sum, c.apply)
		}
	}
}
