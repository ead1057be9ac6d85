package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/local"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Machine is a few nodes that are simulated by processes of this machine.
type Machine struct {
	Nodes    int
	Cores    int    // of each
	Binaries string // folder of the binaries; empty finds them on PATH
	Version  string // of Lathe
}

func (p Machine) String() string {
	return plural.Count(p.Nodes, "simulated node") + " of " + plural.Count(p.Cores, "core")
}

// Carry implements [Place].
func (p Machine) Carry(ctx context.Context, run *rundir.Run, what Disturbances) (Events, error) {
	m := newMachine(p.Nodes, p.Cores, what)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	driver := &drive.Driver{Run: run, Launcher: m, Attempt: seal.AttemptFromEnv(), Binaries: p.Binaries, Version: p.Version}
	var disturbing sync.WaitGroup
	disturbing.Go(func() { m.what.inTurn(ctx, tick, m.preempt, m.loseNode) })
	err := driver.Drive(ctx)
	cancel()
	disturbing.Wait()
	err = errors.Join(err, m.Close())
	return m.Events, err
}

// machine launches tasks on simulated nodes, and disturbs them.
type machine struct {
	*local.Pool
	nodes int

	mu       sync.Mutex
	running  map[string]*running // by task
	overruns map[string]int      // of the time limit, by task
	*tally
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
	m := &machine{Pool: local.New(nodes * cores), nodes: nodes, running: map[string]*running{}, overruns: map[string]int{}, tally: newTally(what)}
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
	m.Attempts++
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
		m.Longest = max(m.Longest, worked)
	case executor.CausePreempted, executor.CauseTimeout, executor.CauseNodeFail:
		if result.Cause == executor.CauseTimeout {
			m.overruns[name]++
		}
		m.note(Hit{Cause: result.Cause, Task: name, Stage: r.stage, Node: nodeName(r.node), LostSeconds: worked.Seconds(), Killed: result.Signal == "SIGKILL"}, result.End)
	case executor.CauseStopped: // with the rehearsal, which was given up
	default:
		m.OwnFailures++
	}
}

func nodeName(node int) string { return fmt.Sprintf("node%d", node) }

// tick is how often a disturbance that is due looks for somebody to disturb.
const tick = 10 * time.Millisecond

// targets are the tasks at work that have not been disturbed.
func (m *machine) targets() []target {
	var all []target
	for name, r := range m.running {
		if !r.told {
			all = append(all, target{task: name, stage: r.stage, node: nodeName(r.node)})
		}
	}
	return all
}

// preempt reports whether there was a task to preempt.
func (m *machine) preempt() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	victim, found := m.leastHit(m.targets())
	if found {
		m.hit(m.running[victim.task], executor.CausePreempted)
	}
	return found
}

// loseNode reports whether there was a node with a task.
func (m *machine) loseNode() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	victims := m.busiestNode(m.targets())
	for _, victim := range victims {
		m.hit(m.running[victim.task], executor.CauseNodeFail)
	}
	return len(victims) > 0
}
