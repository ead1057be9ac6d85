package simulate

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// TestSlowest: an array waits for its slowest task from when half of the tasks that ran
// at once have no more to do. Tasks that come one after the other are no stragglers.
func TestSlowest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what      string
		began, at []float64
		want      float64
	}{
		{"all at once", []float64{0, 0, 0, 0}, []float64{10, 11, 12, 30}, 19},
		{"one after the other", []float64{0, 10, 20}, []float64{10, 20, 30}, 0},
		{"two at a time", []float64{0, 0, 10, 10, 20, 20}, []float64{10, 10, 20, 20, 30, 35}, 5},
		{"two at a time, unequal", []float64{0, 0, 10, 12}, []float64{10, 12, 20, 22}, 2},
	} {
		y := &tally{arrays: map[graph.Node]*ends{}, stages: map[graph.Stage]*Stage{}, several: map[graph.Stage]int{}}
		n := graph.Node{Stage: graph.StageRollout, Iteration: 1}
		y.stages[n.Stage], y.arrays[n] = &Stage{}, &ends{total: len(c.at), at: c.at, began: c.began}
		y.complete(n)
		if got := y.stages[n.Stage].SlowestHours * 3600; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v s, want %v", c.what, got, c.want)
		}
	}
}
