package command

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// In a log a line says how many tasks ran at once since the last, not how many run in the
// moment in which one has ended; and the warm start is named as such.
func TestLogLine(t *testing.T) {
	r := &rundir.Run{Dir: graph.Dir(t.TempDir()), Recipe: recipe.Defaults()}
	r.Graph = graph.Graph{Dir: r.Dir, Recipe: r.Recipe}
	r.Graph.Recipe.WarmStart.Steps, r.Graph.Recipe.WarmStart.Chunk = 300, 100
	var out strings.Builder
	w := &watcher{out: &out, run: r, started: time.Now(), resumed: -1}
	task := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}}
	w.said = time.Now()
	w.watch(drive.Progress{Event: "launched", Task: task, Running: 2})
	w.said = time.Time{}
	w.watch(drive.Progress{Event: "done", Task: task, Running: 0})
	if line := out.String(); !strings.Contains(line, " 2 running") {
		t.Errorf("got %q", line)
	}
	out.Reset()
	w.said = time.Time{}
	w.watch(drive.Progress{Event: "launched", Task: graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: 2}}, Running: 1})
	if line := out.String(); !strings.Contains(line, "warm start  warm-000002 of 3 checkpoints  1 finished, 1 running") {
		t.Errorf("got %q", line)
	}
}

// A warm start of half an hour is no part of the time that iterations take.
func TestRateWithoutWarmStart(t *testing.T) {
	r := &rundir.Run{Dir: graph.Dir(t.TempDir()), Recipe: recipe.Defaults()}
	r.Recipe.Schedule.Iterations = 10
	now := time.Now()
	w := &watcher{out: io.Discard, run: r, started: now.Add(-30 * time.Minute), resumed: -1}
	launched := func(n graph.Node) { w.watch(drive.Progress{Event: "launched", Task: graph.Task{Node: n}}) }
	launched(graph.Node{Stage: graph.StageWarm, Iteration: 1})
	launched(graph.Node{Stage: graph.StageEvaluate})
	if !w.began.IsZero() {
		t.Fatal("the warm start was taken for an iteration")
	}
	launched(graph.Node{Stage: graph.StageRollout, Iteration: 1})
	w.began = now.Add(-20 * time.Second)
	w.watch(drive.Progress{Event: "done", Task: graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: 2}}})
	if line := w.line(now, false); !strings.Contains(line, "10.0 s/iteration  about 1m20s left") {
		t.Errorf("got %q", line)
	}
	// Evaluations may be left after the last iteration; then nothing is.
	w.done = 10
	if line := w.line(now, false); strings.Contains(line, "left") {
		t.Errorf("got %q", line)
	}
	w.most, w.finished = 2, 28
	if line := w.line(now, true); !strings.Contains(line, "iteration 10/10  done  28 finished  30m0s") || strings.Contains(line, "running") {
		t.Errorf("got %q", line)
	}
}

// A task that waits for a slow program is named, once every so often, and in the warm
// start and elsewhere alike; a note that nobody writes any more is none.
func TestSlowProgramInProgress(t *testing.T) {
	r := &rundir.Run{Dir: graph.Dir(t.TempDir()), Recipe: recipe.Defaults()}
	now := time.Now()
	for shard, written := range []time.Time{now, now.Add(-time.Second), now.Add(-time.Hour)} {
		task := graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 1}, Shard: shard}
		rundir.WriteWait(r.Dir, task, seal.Attempt{Host: "n1"}, rundir.Wait{Message: "the program ./slow hangs", Time: written})
	}
	for _, terminal := range []bool{false, true} {
		var out strings.Builder
		w := &watcher{out: &out, terminal: terminal, run: r, started: now, resumed: -1, stage: "score-000001"}
		want := "lathe: score-000001-00000 is waiting on n1: the program ./slow hangs; and 1 more task\n"
		w.show(true)
		w.show(true)
		if n := strings.Count(out.String(), want); n != 1 {
			t.Errorf("terminal %v: %d times in %q", terminal, n, out.String())
		}
		w.told, w.looked = now.Add(-logEvery), now.Add(-lookEvery)
		w.show(true)
		if n := strings.Count(out.String(), want); n != 2 {
			t.Errorf("terminal %v, later: %d times in %q", terminal, n, out.String())
		}
	}
}

// A log of the warm start says how many tasks have ended, the loss, and how long the rest
// takes at most.
func TestWarmStartLine(t *testing.T) {
	r := &rundir.Run{Dir: graph.Dir(t.TempDir()), Recipe: recipe.Defaults()}
	r.Graph = graph.Graph{Dir: r.Dir, Recipe: r.Recipe}
	r.Graph.Recipe.WarmStart.Steps, r.Graph.Recipe.WarmStart.Chunk = 300, 100
	task := graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: 1}}
	m := r.Graph.Expected(task)
	m.Metrics = map[string]float64{"loss": 1.25, "optimizer_steps": 100}
	folder, err := seal.CreateFolder(r.Dir.Warm(1), seal.AttemptFromEnv())
	if err == nil {
		_, err = folder.Commit(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w := &watcher{out: io.Discard, run: r, started: now.Add(-40 * time.Second), resumed: -1}
	w.watch(drive.Progress{Event: "launched", Task: task, Running: 1})
	w.watch(drive.Progress{Event: "done", Task: task})
	if line := w.line(now, false); !strings.Contains(line, "1 finished, ") || !strings.Contains(line, "  loss 1.250  about 1m20s of the warm start left at most") {
		t.Errorf("got %q", line)
	}
}
