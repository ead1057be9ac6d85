package env_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/env"
)

// By hand: of eight places in the order 0 4 2 6 1 5 3 7 of their reversed bits,
// the costliest row takes the first, the next the fifth.
func TestSpread(t *testing.T) {
	t.Parallel()
	cost := func(x int) float64 { return float64(x) }
	for _, c := range []struct{ rows, want []int }{
		{nil, nil},
		{[]int{3, 3, 3}, []int{3, 3, 3}},
		{[]int{1, 2}, []int{2, 1}},
		{[]int{1, 2, 3, 4, 5, 6, 7, 8}, []int{8, 4, 6, 2, 7, 3, 5, 1}},
		{[]int{5, 4, 3, 2, 1}, []int{5, 2, 3, 1, 4}}, // places 0 4 2 1 3
	} {
		if diff := cmp.Diff(c.want, env.Spread(c.rows, cost)); diff != "" {
			t.Errorf("%v: %s", c.rows, diff)
		}
	}
}

// Shards of any number have about the same cost: of n rows that cost 1 to n, no
// shard of contiguous rows exceeds the mean by as much as the costliest two rows,
// where contiguous shards of rows in their order come to nearly twice the mean.
func TestSpreadShards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "rows")
		shards := rapid.IntRange(1, n).Draw(t, "shards")
		rows := make([]int, n)
		for i := range rows {
			rows[i] = i + 1
		}
		spread := env.Spread(rows, func(x int) float64 { return float64(x) })
		if sorted := slices.Sorted(slices.Values(spread)); !slices.Equal(sorted, rows) {
			t.Fatalf("%v is no order of %d rows", spread, n)
		}
		mean := float64(n*(n+1)) / 2 / float64(shards)
		for s := range shards {
			sum := 0
			for _, x := range spread[s*n/shards : (s+1)*n/shards] {
				sum += x
			}
			if float64(sum) > mean+2*float64(n) {
				t.Fatalf("shard %d of %d of %d rows costs %d, the mean is %.1f", s, shards, n, sum, mean)
			}
		}
	})
}
