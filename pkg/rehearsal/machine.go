package rehearsal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/local"
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

// Hit is one attempt at a task that a disturbance ended before its work was done.
type Hit struct {
	Cause       executor.Cause `json:"cause"` // preempted, timeout or node_fail
	Task        string         `json:"task"`
	Stage       string         `json:"stage"`
	Node        int            `json:"node"`         // from 0
	AtSeconds   float64        `json:"at_seconds"`   // since the run began
	LostSeconds float64        `json:"lost_seconds"` // that the attempt had worked
	Killed      bool           `json:"killed"`       // it did not stop by itself
}

// machine is a few nodes that are simulated by processes of this machine: it
// launches tasks on them, and disturbs them.
type machine struct {
	*local.Pool
	nodes int
	what  Disturbances
	began time.Time

	mu       sync.Mutex
	running  map[string]*running // by task
	overruns map[string]int      // of the time limit, by task
	hits     []Hit
	attempts int
	failures int            // attempts that ended otherwise
	longest  time.Duration  // of an attempt that came to its end
	stages   map[string]int // hits by stage
	tasks    map[string]int // hits by task, time limits aside
}

// running is a task at work.
type running struct {
	stage string
	node  int
	start time.Time
	tell  chan executor.Cause
	told  bool
	limit *time.Timer // nil for none
}

// newMachine has so many nodes of so many cores.
func newMachine(nodes, cores int, what Disturbances) *machine {
	m := &machine{
		Pool: local.New(nodes * cores), nodes: nodes, what: what, began: time.Now(),
		running: map[string]*running{}, overruns: map[string]int{}, stages: map[string]int{}, tasks: map[string]int{},
	}
	m.Interrupt = m.begin
	return m
}

func nameOf(array executor.Array, shard int) string {
	return fmt.Sprintf("%s-%05d", array.Name(), shard)
}

// begin puts a task that starts on the node with the fewest.
func (m *machine) begin(array executor.Array, shard int) <-chan executor.Cause {
	m.mu.Lock()
	defer m.mu.Unlock()
	load := make([]int, m.nodes)
	for _, r := range m.running {
		load[r.node]++
	}
	r := &running{stage: array.Stage, start: time.Now(), tell: make(chan executor.Cause, 1)}
	for node := range load {
		if load[node] < load[r.node] {
			r.node = node
		}
	}
	name := nameOf(array, shard)
	if m.what.TimeLimit > 0 {
		r.limit = time.AfterFunc(m.what.TimeLimit<<min(m.overruns[name], mostDoublings), func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.hit(r, executor.CauseTimeout)
		})
	}
	m.attempts++
	m.running[name] = r
	return r.tell
}

// mostDoublings bounds the time limit of a retry, as on Slurm.
const mostDoublings = 4

// hit disturbs a task, unless it has been disturbed already.
func (m *machine) hit(r *running, cause executor.Cause) {
	if !r.told {
		r.told = true
		r.tell <- cause
	}
}

// Launch starts a task as the pool does, and counts how it ends.
func (m *machine) Launch(ctx context.Context, array executor.Array, done func(executor.Result)) error {
	return m.Pool.Launch(ctx, array, func(result executor.Result) {
		m.ended(nameOf(array, result.Shard), result)
		done(result)
	})
}

func (m *machine) ended(name string, result executor.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, began := m.running[name]
	if !began {
		return
	}
	delete(m.running, name)
	if r.limit != nil {
		r.limit.Stop()
	}
	worked := result.End.Sub(result.Start)
	switch result.Cause {
	case executor.CauseOK:
		m.longest = max(m.longest, worked)
	case executor.CausePreempted, executor.CauseTimeout, executor.CauseNodeFail:
		if result.Cause == executor.CauseTimeout {
			m.overruns[name]++
		} else {
			m.tasks[name]++
		}
		m.stages[r.stage]++
		m.hits = append(m.hits, Hit{
			Cause: result.Cause, Task: name, Stage: r.stage, Node: r.node,
			AtSeconds: result.End.Sub(m.began).Seconds(), LostSeconds: worked.Seconds(), Killed: result.Signal == "SIGKILL",
		})
	default:
		m.failures++
	}
}

// tick is how often a disturbance that is due looks for somebody to disturb.
const tick = 10 * time.Millisecond

// disturb preempts tasks and loses nodes until the context ends. Each preemption
// takes the running task whose stage has been hit least, so that every stage has its
// turn; each node that is lost is the one with the most tasks.
func (m *machine) disturb(ctx context.Context) {
	look := time.NewTicker(tick)
	defer look.Stop()
	preempted, lost := m.began, m.began
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-look.C:
			if every := m.what.PreemptEvery; every > 0 && now.Sub(preempted) >= every && m.preempt() {
				preempted = now
			}
			if every := m.what.LoseNodeEvery; every > 0 && now.Sub(lost) >= every && m.loseNode() {
				lost = now
			}
		}
	}
}

// preempt reports whether there was a task to preempt.
func (m *machine) preempt() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var victim *running
	for name, r := range m.running {
		if m.spared(name, r) {
			continue
		}
		if !r.told && (victim == nil || m.stages[r.stage] < m.stages[victim.stage]) {
			victim = r
		}
	}
	if victim == nil {
		return false
	}
	m.hit(victim, executor.CausePreempted)
	return true
}

// loseNode reports whether there was a node with a task.
func (m *machine) loseNode() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	load, busiest := make([]int, m.nodes), 0
	for name, r := range m.running {
		if m.spared(name, r) {
			load[r.node] -= len(m.running) // the node is spared with it
		} else if !r.told {
			load[r.node]++
		}
	}
	for node := range load {
		if load[node] > load[busiest] {
			busiest = node
		}
	}
	if load[busiest] <= 0 {
		return false
	}
	for _, r := range m.running {
		if r.node == busiest {
			m.hit(r, executor.CauseNodeFail)
		}
	}
	return true
}

// spared reports whether a task that runs has been hit often enough.
func (m *machine) spared(name string, r *running) bool {
	return m.what.MostHits > 0 && !r.told && m.tasks[name] >= m.what.MostHits
}
