package learn_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// By hand: files of 100, 60 and 40 elements, the largest tensor 30. Two tasks own the first,
// and the other two: 100 elements each to add up, with partial sums of the largest tensor. Two
// shards of 4 units have a block each, of which the first waits. Of 7 units they have [0,2) and 2,
// and 3, [4,6) and 6: [0,2) and 2 wait for 3, then [0,4) and [4,6) for 6. What applies them holds
// pieces alone.
func TestHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		models int64
		units  int
		shards int
		tasks  int
		sum    int64
	}{
		"two tasks":       {1, 4, 2, 2, 4 * (100 + 30)},
		"one":             {1, 4, 2, 1, 4 * (200 + 30)},
		"one shard":       {1, 4, 1, 1, 4 * 200},
		"odd units":       {1, 7, 2, 2, 4 * (100 + 60)},
		"more than files": {1, 4, 2, 9, 4 * (100 + 30)},
		"a critic":        {2, 4, 2, 2, 4 * (200 + 30)},
	} {
		sum, apply := learn.Parts{Files: []int64{100, 60, 40}, Largest: 30, Models: c.models}.Held(c.units, c.shards, c.tasks)
		if sum != c.sum || apply != 16<<20 {
			t.Errorf("%s: %d and %d bytes, want %d and 16 MiB", name, sum, apply, c.sum)
		}
	}
}
