package env

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// TestDraw: n are drawn, or all there are; both parts are in order and together
// are everything.
func TestDraw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := make([]int, rapid.IntRange(0, 30).Draw(t, "things"))
		for i := range all {
			all[i] = i
		}
		n := rapid.IntRange(0, 40).Draw(t, "n")
		drawn, left := Draw(all, n, rng.New(rapid.Uint64().Draw(t, "seed"), rng.PurposeTest, 0, "draw", 0))
		together := append(slices.Clone(drawn), left...)
		if len(drawn) != min(n, len(all)) || !slices.IsSorted(drawn) || !slices.IsSorted(left) || !slices.Equal(slices.Sorted(slices.Values(together)), all) {
			t.Fatalf("%d of %d: %v and %v", n, len(all), drawn, left)
		}
	})
}
