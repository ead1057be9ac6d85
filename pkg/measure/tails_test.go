package measure

import (
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// An array of 100 tasks: 96 take 10 s, three 20 s and one 100 s. Half are there
// after 10 s, 95 after 10 s, 97 after 20 s, all after 100 s.
func TestTails(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	task := func(n graph.Node, shard, seconds int, host string) finishedTask {
		return finishedTask{
			Task: graph.Task{Node: n, Shard: shard}, span: span{began, began.Add(time.Duration(seconds) * time.Second)},
			outputs: []output{{manifest: seal.Manifest{Host: host}}},
		}
	}
	var tasks []finishedTask
	rollout := graph.Node{Stage: graph.StageRollout, Iteration: 1}
	for shard := range 100 {
		seconds, host := 10, "n1"
		switch {
		case shard == 99:
			seconds, host = 100, "n2"
		case shard >= 96:
			seconds = 20
		}
		tasks = append(tasks, task(rollout, shard, seconds, host))
	}
	tasks = append(tasks, task(graph.Node{Stage: graph.StageLearn, Iteration: 1}, 0, 50, "n1")) // no array
	got := tails(tasks)
	if len(got) != 1 {
		t.Fatalf("%d stages have tails: %+v", len(got), got)
	}
	if g := got[0]; g.Arrays != 1 || g.MedianSeconds != 10 || g.P95Seconds != 10 || g.LastSeconds != 100 || g.QuorumSeconds != 80 || g.Stragglers["n2"] != 1 || len(g.Stragglers) != 1 {
		t.Errorf("the tail is %+v", g)
	}
}

// Of three tasks two waited, 1.5 s and 4 s.
func TestLateFiles(t *testing.T) {
	t.Parallel()
	task := func(shard int, seconds float64) finishedTask {
		f := finishedTask{Task: graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: 2}, Shard: shard}, usage: map[string]float64{}}
		if seconds > 0 {
			f.usage[seal.UsageLateFiles] = seconds
		}
		return f
	}
	if got := lateFiles([]finishedTask{task(0, 0)}); got != nil {
		t.Errorf("nobody waited, and it is %+v", got)
	}
	want := LateFiles{Seconds: 5.5, LongestSeconds: 4, LongestTask: "score-000002-00002"}
	if got := lateFiles([]finishedTask{task(0, 1.5), task(1, 0), task(2, 4)}); got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
