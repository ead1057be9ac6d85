package advance

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

func TestStops(t *testing.T) {
	t.Parallel()
	three := 3
	for _, c := range []struct {
		pause rundir.Pause
		node  string // end of a job's name
		want  bool
	}{
		{rundir.Pause{}, "rollout-000003", false},
		{rundir.Pause{Stop: true}, "rollout-000003", true},
		{rundir.Pause{Stop: true}, "learn-000003-step001", true},
		{rundir.Pause{Stop: true}, "gate", false}, // no task
		{rundir.Pause{Stop: true, Stage: "rollout"}, "rollout-000003-w02", true},
		{rundir.Pause{Stop: true, Stage: "rollout"}, "evalrollout-000003", false},
		{rundir.Pause{Stop: true, Iteration: &three}, "score-000003", true},
		{rundir.Pause{Stop: true, Iteration: &three}, "score-000004", false},
		{rundir.Pause{Stop: true, Stage: "score", Iteration: &three}, "rollout-000003", false},
		{rundir.Pause{Stage: "score", Iteration: &three}, "score-000003", false},
	} {
		if got := stops(c.pause, c.node); got != c.want {
			t.Errorf("%+v stops %s: %v, want %v", c.pause, c.node, got, c.want)
		}
	}
}
