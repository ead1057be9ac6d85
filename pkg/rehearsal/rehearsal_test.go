package rehearsal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

func TestMiniature(t *testing.T) {
	t.Parallel()
	r := recipe.Defaults()
	r.WarmStart.Steps, r.Rollout.Prompts = 30, 4
	got := Miniature(r, []string{"evaluation.problems=50", "schedule={iterations: 7}"})
	want := []string{"rollout.shards=2", "warm_start.chunk=50", "evaluation.samples=2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cuts (-want +got):\n%s", diff)
	}
}

// at puts tasks to work on a machine of two nodes, one after the other.
func at(m *machine, stages ...string) (tells []<-chan executor.Cause) {
	for i, stage := range stages {
		tells = append(tells, m.begin(executor.Array{Stage: stage, Iteration: 1}, i))
	}
	return tells
}

// told is what a task was told, if anything.
func told(tell <-chan executor.Cause) executor.Cause {
	select {
	case cause := <-tell:
		return cause
	default:
		return ""
	}
}

func TestPreemptionTakesWhatWasHitLeast(t *testing.T) {
	t.Parallel()
	m := newMachine(2, 1, Disturbances{})
	m.stages["rollout"], m.stages["score"] = 2, 1
	tells := at(m, "rollout", "score")
	if !m.preempt() || told(tells[1]) != executor.CausePreempted || told(tells[0]) != "" {
		t.Error("the first preemption does not take the score")
	}
	if !m.preempt() || told(tells[0]) != executor.CausePreempted {
		t.Error("the second does not take the rollout")
	}
	if m.preempt() {
		t.Error("a task was preempted twice")
	}
}

func TestLostNode(t *testing.T) {
	t.Parallel()
	m := newMachine(2, 1, Disturbances{MostHits: 2})
	if m.loseNode() {
		t.Error("a node without tasks was lost")
	}
	tells := at(m, "rollout", "rollout", "rollout") // on nodes 0, 1 and 0
	m.tasks["rollout-000001-00000"] = 2
	if !m.loseNode() || told(tells[0]) != "" || told(tells[1]) != executor.CauseNodeFail || told(tells[2]) != "" {
		t.Error("the node of a task that was hit often enough is not spared")
	}
	m.tasks["rollout-000001-00000"] = 1
	if !m.loseNode() || told(tells[0]) != executor.CauseNodeFail || told(tells[2]) != executor.CauseNodeFail {
		t.Error("not all tasks of the lost node are killed")
	}
}

func TestMostHit(t *testing.T) {
	t.Parallel()
	if got := mostHit(nil); got != "" {
		t.Errorf("without hits it says %q", got)
	}
	if got := mostHit([]Hit{{Task: "a"}, {Task: "b"}, {Task: "b"}}); !strings.Contains(got, "b was ended most often, 2 times") {
		t.Errorf("it says %q", got)
	}
}
