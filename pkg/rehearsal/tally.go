package rehearsal

import (
	"context"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
)

// Disturbances say what happens to the tasks of a run. Zero means never.
type Disturbances struct {
	PreemptEvery  time.Duration // a running task is told to leave its place this often
	LoseNodeEvery time.Duration // all tasks of a node are killed at once this often
	TimeLimit     time.Duration // of a task's first attempt; each overrun doubles it, as on Slurm
	// MostHits bounds how often one task is preempted or loses its node: one that takes
	// longer than what lies between two disturbances would never end. 0 is no bound.
	MostHits int
}

// inTurn runs what is due until the context ends, and looks for it this often.
// Both functions report whether there was anything to disturb.
func (d Disturbances) inTurn(ctx context.Context, look time.Duration, preempt, loseNode func() bool) {
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	preempted, lost := time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			if d.PreemptEvery > 0 && now.Sub(preempted) >= d.PreemptEvery && preempt() {
				preempted = now
			}
			if d.LoseNodeEvery > 0 && now.Sub(lost) >= d.LoseNodeEvery && loseNode() {
				lost = now
			}
		}
	}
}

// Hit is one attempt at a task that a disturbance ended before its work was done.
type Hit struct {
	Cause       executor.Cause `json:"cause"` // preempted, timeout or node_fail
	Task        string         `json:"task"`
	Stage       string         `json:"stage"`
	Node        string         `json:"node"`
	AtSeconds   float64        `json:"at_seconds"`   // since the run began
	LostSeconds float64        `json:"lost_seconds"` // that the attempt had worked
	Killed      bool           `json:"killed"`       // it did not stop by itself, as far as is known
}

// Events are what happened to a run.
type Events struct {
	Began       time.Time
	Hits        []Hit
	Attempts    int           // at tasks, of which some ended otherwise
	OwnFailures int           // attempts that failed though nobody disturbed them
	Longest     time.Duration // of an attempt that came to its end; 0 where that is not known
}

// tally chooses whom to disturb, and counts.
type tally struct {
	Events
	what   Disturbances
	stages map[string]int // hits by stage
	tasks  map[string]int // hits by task, time limits aside
}

func newTally(what Disturbances) *tally {
	return &tally{Events: Events{Began: time.Now()}, what: what, stages: map[string]int{}, tasks: map[string]int{}}
}

func (t *tally) note(h Hit, at time.Time) {
	h.AtSeconds = at.Sub(t.Began).Seconds()
	t.Hits = append(t.Hits, h)
	t.stages[h.Stage]++
	if h.Cause != executor.CauseTimeout {
		t.tasks[h.Task]++
	}
}

// target is a task at work that can be disturbed.
type target struct {
	id    string // of its job on Slurm
	task  string
	stage string
	node  string
	start time.Time
}

// spared reports whether a task has been hit often enough.
func (t *tally) spared(task string) bool {
	return t.what.MostHits > 0 && t.tasks[task] >= t.what.MostHits
}

// leastHit is a task of the stage that has been hit least, so that every stage has its
// turn.
func (t *tally) leastHit(targets []target) (victim target, found bool) {
	for _, at := range targets {
		if !t.spared(at.task) && (!found || t.stages[at.stage] < t.stages[victim.stage]) {
			victim, found = at, true
		}
	}
	return victim, found
}

// busiestNode is the tasks of the node with the most, none of which is to be spared.
func (t *tally) busiestNode(targets []target) []target {
	byNode, spared := map[string][]target{}, map[string]bool{}
	var busiest []target
	for _, at := range targets {
		spared[at.node] = spared[at.node] || t.spared(at.task)
		byNode[at.node] = append(byNode[at.node], at)
	}
	for node, tasks := range byNode {
		if !spared[node] && len(tasks) > len(busiest) {
			busiest = tasks
		}
	}
	return busiest
}
