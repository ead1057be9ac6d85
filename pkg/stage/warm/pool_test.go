package warm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Every epoch holds each row once, and where a warm start is cut into checkpoints
// changes nothing.
func TestPoolOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed, rows := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 20).Draw(t, "rows")
		last := rows * rapid.IntRange(1, 4).Draw(t, "epochs")
		whole := poolOrder(seed, rows, 0, last)
		for epoch := 0; epoch < last; epoch += rows {
			for i, at := range slices.Sorted(slices.Values(whole[epoch : epoch+rows])) {
				if i != at {
					t.Fatalf("epoch of %d rows: %v", rows, whole[epoch:epoch+rows])
				}
			}
		}
		cut := rapid.IntRange(0, last).Draw(t, "cut")
		if parts := slices.Concat(poolOrder(seed, rows, 0, cut), poolOrder(seed, rows, cut, last)); !slices.Equal(parts, whole) {
			t.Fatalf("in one piece %v, in two %v", whole, parts)
		}
	})
}
