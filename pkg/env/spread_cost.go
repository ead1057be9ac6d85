package env

import (
	"cmp"
	"math/bits"
	"slices"
)

// Spread orders rows so that any part of them that stands together costs about
// its share of all: shards of any number are then about equally long, and the
// order does not depend on their number. The rows, by cost, take the places
// whose numbers have their bits in reverse order (the sequence of van der Corput,
// 1935). Rows that all cost the same stay as they are.
func Spread[T any](rows []T, cost func(T) float64) []T {
	byCost := slices.Clone(rows)
	slices.SortStableFunc(byCost, func(a, b T) int { return cmp.Compare(cost(b), cost(a)) })
	if n := len(rows); n == 0 || cost(byCost[0]) == cost(byCost[n-1]) {
		return rows
	}
	places := make([]int, len(rows))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(bits.Reverse64(uint64(a)), bits.Reverse64(uint64(b))) })
	spread := make([]T, len(rows))
	for i, place := range places {
		spread[place] = byCost[i]
	}
	return spread
}

// SpreadByCost is Spread by what the tasks of rows cost, and the rows as they are where
// all cost the same.
func SpreadByCost[T any](tasks *TaskSet, rows []T, taskID func(T) string) []T {
	if tasks.Cost == nil {
		return rows
	}
	return Spread(rows, func(row T) float64 { return tasks.Cost(taskID(row)) })
}
