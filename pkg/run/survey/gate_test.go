package survey_test

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
)

// A node that leaves no outputs, as a controller job, is never taken for done.
func TestNodeWithoutOutputs(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t)
	v := survey.NewInventory(b.Graph)
	task := graph.Task{Node: graph.Node{Stage: "gate"}}
	if done, err := v.Made(t.Context(), task); done || err != nil {
		t.Errorf("done %v, %v", done, err)
	}
}
