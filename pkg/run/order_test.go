package run_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// TestOneCoreEvaluatesInTime: on a single core a version is measured before the second
// iteration after it begins, and comes to the same bytes as on two.
func TestOneCoreEvaluatesInTime(t *testing.T) {
	const iterations = 4
	settings := []string{fmt.Sprintf("schedule.iterations=%d", iterations), "evaluation.every=1", "evaluation.problems=4", "warm_start.steps=2"}
	run := func(cores int) (*rundir.Run, []graph.Node) {
		opened, m := stage(t, settings...)
		m.cores = cores
		var order []graph.Node
		if err := m.drive(func(p drive.Progress) {
			if p.Event == "launched" {
				order = append(order, p.Task.Node)
			}
		}); err != nil {
			t.Fatal(err)
		}
		return opened, order
	}
	one, order := run(1)
	for version := range iterations - 1 {
		measured := slices.Index(order, node(graph.StageEvaluate, version))
		if later := slices.Index(order, node(graph.StageRollout, version+2)); measured < 0 || later >= 0 && measured > later {
			t.Errorf("v%06d is measured by task %d, and iteration %d begins with task %d: %v", version, measured, version+2, later, order)
		}
		if next := slices.Index(order, node(graph.StageLearn, version+1)); measured < next {
			t.Errorf("v%06d is measured by task %d, before iteration %d learns by task %d", version, measured, version+1, next)
		}
	}
	two, _ := run(2)
	for version := range iterations + 1 {
		for _, path := range []func(graph.Dir) string{
			func(d graph.Dir) string { return d.Policy(version) },
			func(d graph.Dir) string { return d.Evaluation(version, 0) },
		} {
			if got, want := digest(t, path(one.Dir)), digest(t, path(two.Dir)); got != want {
				t.Errorf("%s on one core is %s, on two %s", one.Dir.Rel(path(one.Dir)), got, want)
			}
		}
	}
}
