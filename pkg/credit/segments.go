package credit

import "github.com/lathe-rl/lathe/pkg/registry"

func init() {
	SegmentsAxis.Register(registry.Choice[Segments]{
		Name: "trajectory", Default: true, Summary: "the whole trace gets one credit",
		Make: func(any) (Segments, error) { return trajectory{}, nil },
	})
	SegmentsAxis.Register(registry.Choice[Segments]{
		Name: "turn", Summary: "each message of the policy gets its own",
		Make: func(any) (Segments, error) { return turnByTurn{}, nil },
	})
}

// trajectory is one segment.
type trajectory struct{}

// Cut leaves the trace whole.
func (trajectory) Cut(t Trace) [][2]int { return [][2]int{{0, t.Turns() - 1}} }

// turnByTurn is a segment for each turn.
type turnByTurn struct{}

// Cut cuts after each turn.
func (turnByTurn) Cut(t Trace) [][2]int {
	cuts := [][2]int{}
	for turn := range t.Turns() {
		cuts = append(cuts, [2]int{turn, turn})
	}
	if len(cuts) == 0 {
		cuts = append(cuts, [2]int{0, -1})
	}
	return cuts
}
