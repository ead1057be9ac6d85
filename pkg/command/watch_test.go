package command

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run"
)

// A warm start of half an hour is no part of the time that iterations take.
func TestRateWithoutWarmStart(t *testing.T) {
	r := &run.Run{Dir: run.Dir(t.TempDir()), Recipe: recipe.Defaults()}
	r.Recipe.Schedule.Iterations = 10
	now := time.Now()
	w := &watcher{out: io.Discard, run: r, started: now.Add(-30 * time.Minute), resumed: -1}
	launched := func(n run.Node) { w.watch(run.Progress{Event: "launched", Task: run.Task{Node: n}}) }
	launched(run.Node{Stage: run.StageWarm, Iteration: 1})
	launched(run.Node{Stage: run.StageEvaluate})
	if !w.began.IsZero() {
		t.Fatal("the warm start was taken for an iteration")
	}
	launched(run.Node{Stage: run.StageRollout, Iteration: 1})
	w.began = now.Add(-20 * time.Second)
	w.watch(run.Progress{Event: "done", Task: run.Task{Node: run.Node{Stage: run.StageLearn, Iteration: 2}}})
	if line := w.line(now); !strings.Contains(line, "10.0 s/iteration  about 1m20s left") {
		t.Errorf("got %q", line)
	}
}
