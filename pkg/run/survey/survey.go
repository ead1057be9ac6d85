// Package survey looks at the files of a run and finds what is missing, what of
// that can be made now, and which iterations can be closed.
//
// It works backwards from the goals, as make does, so a sealed result is never
// looked behind. Looking is kept apart from deciding: an [Inventory] remembers
// what it has seen, and a survey of what is known costs no system call.
package survey

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Result is what a survey found.
type Result struct {
	Done  bool         // every goal is sealed
	Ready []graph.Task // missing, with everything they read sealed; most urgent first
	// Closable lists iterations whose shards allow closing, with the decision.
	Closable []closing.Closing
	// Stuck lists nodes that can never be done: too many shards gave up.
	Stuck []Stuck
	// Counts says, for each node that was looked at, how many shards are
	// sealed. Nodes that everything later has made unnecessary to look at are
	// left out.
	Counts map[graph.Node]Count
	// Due is when the next iteration is closed with what is done of it, if its
	// shards do not allow that before; zero for none.
	Due time.Time
}

// Stuck is a node that can never be done.
type Stuck struct {
	Node   graph.Node
	Shards []int
	Reason string
}

// Count is the number of sealed shards of a node.
type Count struct{ Sealed, Total int }

// Surveyor finds what is missing from a run.
type Surveyor struct {
	*Inventory
	// GaveUp reports whether a task has used up its attempts.
	GaveUp func(graph.Task) bool
	// Broken reports whether a task that gave up failed in a way that says
	// nothing about the task: damaged input, a missing device, our bug. No
	// quorum covers that.
	Broken func(graph.Task) bool
	Clock  Clock

	repairs []graph.Task // in the repair queue; nil before it was read
}

// New returns a surveyor that believes in every task.
func New(g graph.Graph) *Surveyor { return Of(NewInventory(g)) }

// Of returns a surveyor of an inventory that believes in every task.
func Of(v *Inventory) *Surveyor {
	never := func(graph.Task) bool { return false }
	s := &Surveyor{Inventory: v, GaveUp: never, Broken: never}
	s.Clock = Clock{Now: time.Now, Began: s.began}
	return s
}

// Refresh forgets what was missing and what was queued for repair.
func (s *Surveyor) Refresh() {
	s.Inventory.Refresh()
	s.repairs = nil
}

// walk is one survey.
type walk struct {
	*Surveyor
	ctx     context.Context
	result  Result
	visited map[graph.Node]bool // node -> done
	offered map[graph.Task]bool // among the ready
	sampled map[graph.Node][]progress
	err     error
}

// fail keeps the first error.
func (w *walk) fail(err error) { w.err = cmp.Or(w.err, err) }

// stopped reports whether nobody waits for the survey any more: a run may have
// a million shards.
func (w *walk) stopped() bool { return w.ctx.Err() != nil }

// look is what is known of a node, with the error kept.
func (w *walk) look(n graph.Node) *array {
	a, err := w.array(w.ctx, n)
	w.fail(err)
	if n.Stage != graph.StageClose {
		w.result.Counts[n] = Count{Sealed: a.count, Total: a.total}
	}
	return a
}

// ready lists a task once.
func (w *walk) ready(t graph.Task) {
	if !w.offered[t] {
		w.offered[t] = true
		w.result.Ready = append(w.result.Ready, t)
	}
}

// stuck notes a task without which the run cannot be done.
func (w *walk) stuck(t graph.Task) {
	w.result.Stuck = append(w.result.Stuck, Stuck{Node: t.Node, Shards: []int{t.Shard}, Reason: "its attempts are used up"})
}

// Survey finds what is to be done with what is known, and looks at what was not
// looked at since the last refresh. An error means that a file could not be read
// for a reason other than not being there.
func (s *Surveyor) Survey(ctx context.Context) (Result, error) {
	w := &walk{
		Surveyor: s, ctx: ctx, visited: map[graph.Node]bool{}, offered: map[graph.Task]bool{}, sampled: map[graph.Node][]progress{},
		result: Result{Counts: map[graph.Node]Count{}, Done: true},
	}
	for _, goal := range s.Goals() {
		if !w.visit(goal) {
			w.result.Done = false
		}
	}
	w.late()
	if !w.queued() {
		w.result.Done = false
	}
	slices.SortStableFunc(w.result.Ready, func(a, b graph.Task) int {
		return cmp.Or(cmp.Compare(a.Urgency(), b.Urgency()), cmp.Compare(b.Wave, a.Wave))
	})
	w.fail(ctx.Err())
	return w.result, w.err
}

// visit finds out whether a node is done, and what is to be done for it.
func (w *walk) visit(n graph.Node) bool {
	if done, seen := w.visited[n]; seen {
		return done
	}
	if w.stopped() {
		return false
	}
	w.visited[n] = false // a cycle would be a bug; this keeps it from recursing for ever
	done := w.node(n)
	w.visited[n] = done
	return done
}

func (w *walk) node(n graph.Node) bool {
	a := w.look(n)
	if a.done() {
		return true
	}
	switch n.Stage {
	case graph.StageClose:
		w.close(n.Iteration)
		return false
	case graph.StageEvaluate:
		w.evaluate(n, a)
		return false
	}
	ready := true
	for _, need := range w.Needs(n) {
		ready = w.visit(need) && ready
	}
	switch {
	case ready && n.Stage == graph.StageBuffer && n.Iteration > 0:
		ready = w.batchReadable(n.Iteration)
		ready = w.historyReadable(n.Iteration) && ready
	case n.OfUpdate():
		ready = w.samplers(n.Iteration) && ready
	}
	for shard := 0; ready && shard < a.total; shard++ {
		if !a.is(shard) {
			w.offer(graph.Task{Node: n, Shard: shard})
		}
	}
	return false
}

// offer lists a task that is ready and that the run cannot be without.
func (w *walk) offer(t graph.Task) {
	if w.GaveUp(t) {
		w.stuck(t)
		return
	}
	w.ready(t)
}

// samplers reports whether the policies that sampled the late shards of a batch and
// what waited for it are there, if the learner asks them for log-probabilities that
// a server may not have given.
func (w *walk) samplers(k int) bool {
	if w.Recipe.Rollout.Remote == nil || !w.Carries() && !w.Waits(k-1) {
		return true
	}
	iterations, err := w.sampledFor(k)
	switch {
	case errors.Is(err, seal.ErrNotSealed), errors.Is(err, seal.ErrDamaged):
		return true // what makes it again is looked at with the batch
	case err != nil:
		w.fail(err)
		return false
	}
	there := true
	for _, iteration := range iterations {
		there = w.visit(w.LastLearn(w.RolloutVersion(iteration))) && there
	}
	return there
}

// sampledFor lists the earlier iterations that sampled some of a batch.
func (w *walk) sampledFor(k int) ([]int, error) {
	c, _, err := w.Closing(w.ctx, k)
	if err != nil {
		return nil, err
	}
	var iterations []int
	for _, ref := range c.Carried {
		iterations = append(iterations, ref.Iteration)
	}
	if !w.Waits(k-1) || w.told {
		return iterations, nil
	}
	waiting, _, err := shard.Read[shard.Waiting](w.ctx, w.Dir.Waiting(k-1), w.Reading(0))
	for _, row := range waiting {
		iterations = append(iterations, int(row.IterationSampled))
	}
	slices.Sort(iterations)
	return slices.Compact(iterations), err
}

// close decides whether iteration k can be closed with what is sealed.
func (w *walk) close(k int) {
	rollouts := graph.Node{Stage: graph.StageRollout, Iteration: k}
	shards := w.sample(rollouts, nil)
	if shards == nil {
		return // the iteration has not begun
	}
	if recovered, err := w.recoverable(k); err != nil || recovered {
		w.fail(err)
		return
	}
	// Iterations that overlap are closed in their order, so that no late shard
	// is carried into two of them.
	if w.Carries() {
		if closed := w.closed(k); closed < k-1 {
			w.visit(graph.Node{Stage: graph.StageClose, Iteration: closed + 1})
			return
		}
	}
	overdue := w.overdue(k, shards)
	decision := closing.Decide(w.Graph, k, overdue, func(shard int) closing.Progress {
		sampled, judged := shards[shard].tasks(rollouts, shard)
		switch {
		case shards[shard].ended:
			return closing.Done
		case w.Broken(judged) || w.Broken(sampled):
			return closing.Broken
		case w.GaveUp(judged) || w.GaveUp(sampled):
			return closing.GaveUp
		}
		return closing.Open
	})
	if decision.Stuck != nil {
		_, first := shards[decision.Stuck[0]].tasks(rollouts, decision.Stuck[0])
		w.result.Stuck = append(w.result.Stuck, Stuck{Node: first.Node, Shards: decision.Stuck, Reason: decision.Reason})
	}
	if decision.Closing == nil || w.err != nil {
		return
	}
	// Late shards of earlier iterations that are done now come along.
	for _, ref := range w.outstanding(k) {
		if w.progress(graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}, ref.Shard).ended {
			decision.Closing.Carried = append(decision.Closing.Carried, ref)
		}
	}
	w.result.Closable = append(w.result.Closable, *decision.Closing)
}

// recoverable finds the closing of iteration k again if its batch was made and its
// close.json is lost.
func (w *walk) recoverable(k int) (bool, error) {
	for _, path := range []string{w.Dir.Batch(k), w.Dir.Ledger(k), w.Dir.State(k)} {
		there, err := w.Inventory.listed(seal.ManifestPath(path))
		if err != nil {
			return false, err
		}
		if !there {
			continue
		}
		c, found, err := closing.Recover(w.ctx, w.Graph, k)
		if err == nil && found {
			w.result.Closable = append(w.result.Closable, c)
		}
		return found, err
	}
	return false, nil
}

// closed is the number of iterations before k that are closed, without a gap.
func (w *walk) closed(k int) int {
	closed, err := w.Closed(w.ctx, k)
	w.fail(err)
	return closed
}

// outstanding lists the late shards of iterations before k that no closed
// iteration before k has carried.
func (w *walk) outstanding(k int) []closing.Ref {
	if !w.Carries() {
		return nil
	}
	return w.outstandingBefore(w.closed(k) + 1)
}

// late adds the tasks of late shards as long as there is an iteration left to
// carry them into. They go before what is newer, else a machine that is never
// idle would never do them.
func (w *walk) late() {
	last := w.Recipe.Schedule.Iterations
	if !w.Carries() || w.result.Done || w.look(graph.Node{Stage: graph.StageClose, Iteration: last}).done() {
		return
	}
	next := w.closed(last) + 1
	if next < last && w.look(graph.Node{Stage: graph.StageBuffer, Iteration: next}).done() {
		w.visit(graph.Node{Stage: graph.StageClose, Iteration: next}) // it was closed: its record comes first
	}
	for _, ref := range w.outstanding(last) {
		rollouts := graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}
		if p := w.progress(rollouts, ref.Shard); !p.ended && !w.GaveUp(p.next) && w.readable(p.next) {
			w.ready(p.next)
		}
	}
}
