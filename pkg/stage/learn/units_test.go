package learn

import (
	"slices"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
)

// Units are listed once each and in order, of two optimizer steps with as many units as a
// recipe may have, each of two record batches, in a time that goes with their number.
//
// Alone: its time is bounded.
func TestUnitsOf(t *testing.T) {
	const most = 1 << 16
	l := &learner{batch: &arrowfile.Batch{}}
	var want []unit
	for step := range 2 {
		for number := range most {
			r := arrowfile.BatchRecord{OptimizerStep: int32(1 - step), Unit: int32(number)}
			l.batch.Layout = append(l.batch.Layout, r, r)
			if number%2 == 0 {
				want = append(want, unit{step, number})
			}
		}
	}
	began := cputime.Spent(t, false)
	got := l.unitsOf(func(u unit) bool { return u.number%2 == 0 })
	if cost := cputime.Spent(t, false) - began; !slices.Equal(got, want) || cost > 2*time.Second {
		t.Errorf("%d units are listed for %v, want %d", len(got), cost, len(want))
	}
}
