package simulate

import (
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// submission is an array of tasks that was handed to Slurm.
type submission struct {
	*node
	arrays []*array
}

// array is a job array.
type array struct {
	*submission
	shards   []int
	waiting  []int // indices that have not started
	runs     int   // tasks
	left     int   // tasks that have not ended
	throttle int
	after    *array // that it waits for
	from     float64
	limit    float64 // of time, in seconds; 0 for none
	gates    []*gate
	queued   bool    // it stands in the queue
	wait     attempt // stands for those of its tasks that wait
}

// gate is a job that advances the run when what it waits for has come.
type gate struct {
	arrays  int  // that have not ended, of those that it follows
	first   bool // it follows the first end among tasks
	due     bool // what it waits for has come
	started bool
}

// follow puts a gate behind the ends of arrays.
func (s *simulation) follow(arrays []*array) *gate {
	g := &gate{}
	for _, a := range arrays {
		if a.left > 0 {
			g.arrays++
			a.gates = append(a.gates, g)
		}
	}
	s.gatesWait++
	s.tally.gate()
	if g.arrays == 0 {
		s.come(g)
	}
	return g
}

// come has what a gate waits for come: it starts after a while.
func (s *simulation) come(g *gate) {
	if g.due {
		return
	}
	g.due = true
	s.agenda.note(event{at: s.now + s.draw(s.Durations.gate, "gate"), what: gateStarts, gate: g})
}

// draw draws a wait.
func (s *simulation) draw(w wait, name string) float64 {
	s.drawn++
	return w.at(rng.New(s.Seed, rng.PurposeSimulate, 0, name, 0), s.drawn)
}

// submitReady hands to Slurm what is ready, and gates behind it.
func (s *simulation) submitReady(ready []graph.Task) error {
	budget := -1
	if s.Limits.MaxSubmit > 0 {
		queued := s.queued + s.gatesWait
		budget = advance.Room(s.Limits.MaxSubmit, queued, queued, 1)
	}
	groups, _ := advance.Within(advance.ByNode(s.idle(ready), nil), budget)
	fresh := false // something was submitted whose shards do not wait for each other
	for _, tasks := range groups {
		sub, err := s.submit(tasks)
		if err != nil {
			return err
		}
		if sub.byShard {
			fresh = true
		} else {
			s.follow(sub.arrays)
		}
	}
	s.startQueued()
	s.submissions = slices.DeleteFunc(s.submissions, func(sub *submission) bool {
		return !slices.ContainsFunc(sub.arrays, func(a *array) bool { return a.left > 0 })
	})
	watched := s.lastGate != nil && s.lastGate.first && !s.lastGate.started
	if watched && !fresh && s.gatesWait > 0 {
		return nil
	}
	live := s.watch()
	switch {
	case len(live) > 0 && (!watched || fresh):
		g := &gate{first: true}
		s.gatesWait++
		s.tally.gate()
		for _, t := range live {
			s.watchers[t] = append(s.watchers[t], g)
		}
		s.lastGate = g
	case s.gatesWait == 0:
		var all []*array
		for _, sub := range s.submissions {
			all = append(all, sub.arrays...)
		}
		s.lastGate = s.follow(all)
	}
	return nil
}

// idle are those of tasks that neither wait nor run.
func (s *simulation) idle(tasks []graph.Task) []graph.Task {
	return slices.DeleteFunc(tasks, func(t graph.Task) bool { return s.node(t.Node).attempts[t.Shard] != nil })
}

// watch lists the tasks whose ends a gate follows, those that run first.
func (s *simulation) watch() []graph.Task {
	var running, pending []graph.Task
	for _, sub := range s.submissions {
		if !sub.byShard || len(running) >= advance.MostWatched {
			continue
		}
		for _, a := range sub.arrays {
			for _, shard := range a.shards {
				t := graph.Task{Node: sub.Node, Shard: shard}
				switch run := sub.attempts[shard]; {
				case run == &a.wait:
					pending = append(pending, t)
				case run != nil && run.array == a:
					running = append(running, t)
				}
			}
		}
	}
	return advance.Watched(running, pending)
}

// submit hands the tasks of a node to Slurm.
func (s *simulation) submit(tasks []graph.Task) (*submission, error) {
	n := s.node(tasks[0].Node)
	sub := &submission{node: n}
	var shards []int
	overruns := 0
	for _, t := range tasks {
		shards = append(shards, t.Shard)
		overruns = max(overruns, n.troubled[t.Shard].overruns)
	}
	slices.Sort(shards)
	planned := &rundir.Run{Dir: s.Graph.Dir, Identity: rundir.Identity{RunID: "RUN"}, Recipe: s.Graph.Recipe, Graph: s.Graph}
	asked := drive.ArrayOf(planned, n.Node, shards, 0, "", s.Site.Monitor)
	asked.LogDir = filepath.Clean("/" + asked.LogDir)
	asked.Minutes = advance.Longer(asked.Minutes, overruns, s.Site.MaxMinutes)
	profile, err := s.Site.Stage(asked.SiteStage())
	if err != nil {
		return nil, err
	}
	chunks, err := slurm.Plan(asked, s.Limits, profile.Throttle)
	if err != nil {
		return nil, err
	}
	s.tally.submitted(n.Stage, len(chunks))
	for _, c := range chunks {
		a := &array{
			submission: sub, shards: c.Shards, left: len(c.Shards), throttle: c.Throttle, limit: 60 * float64(asked.Minutes),
			from: s.now + s.draw(s.Durations.queue, "queue"),
		}
		a.wait.array = a
		for i, shard := range c.Shards {
			a.waiting = append(a.waiting, i)
			n.attempts[shard] = &a.wait
		}
		if c.After >= 0 {
			a.after = sub.arrays[c.After]
		}
		if a.from > s.now {
			s.agenda.note(event{at: a.from, what: arrayMayStart})
		}
		sub.arrays = append(sub.arrays, a)
		s.enqueue(a)
		s.queued += len(c.Shards)
	}
	s.submissions = append(s.submissions, sub)
	s.tally.queue(s.queued)
	return sub, nil
}

// enqueue gives an array its turn after those that were submitted before, of those
// that ask for the same: GPUs, or cores alone.
func (s *simulation) enqueue(a *array) {
	of := 0
	if a.gpus > 0 {
		of = 1
	}
	if !a.queued {
		a.queued = true
		s.queue[of] = append(s.queue[of], a)
	}
}

// startQueued starts tasks of the queue where there is room, in the order in which
// they were submitted. One for which there is none holds up what comes after it.
func (s *simulation) startQueued() {
	for of := range s.queue {
		s.queue[of] = slices.DeleteFunc(s.queue[of], func(a *array) bool {
			a.queued = len(a.waiting) > 0
			return !a.queued
		})
		for _, a := range s.queue[of] {
			if !s.startArray(a) {
				break
			}
		}
	}
}

// startArray starts what of an array may start, and reports whether there was room.
func (s *simulation) startArray(a *array) bool {
	if a.from > s.now || a.after != nil && a.after.left > 0 {
		return true
	}
	for len(a.waiting) > 0 && (a.throttle == 0 || a.runs < a.throttle) {
		place, ok := s.room.take(a.cpus, a.gpus)
		if !ok {
			return false
		}
		run := s.start(a.node, a.shards[a.waiting[0]], a.limit)
		run.array, run.index, run.place = a, a.waiting[0], place
		a.waiting = a.waiting[1:]
		a.runs++
	}
	return true
}

// left is the end of an attempt in the queue. A preempted one comes to its turn again
// where the site requeues; any other end is the task's.
func (s *simulation) left(run *attempt, cause executor.Cause) {
	a := run.array
	if cause == executor.CausePreempted && s.Site.Requeue && run.troubled[run.shard].tries < advance.MaxAttemptsAtAll {
		a.waiting = append(a.waiting, run.index)
		a.attempts[run.shard] = &a.wait
		s.enqueue(a)
		return
	}
	s.gone(a, run.shard)
}

// gone takes a task out of the queue.
func (s *simulation) gone(a *array, shard int) {
	a.attempts[shard] = nil
	s.queued--
	if a.byShard {
		t := graph.Task{Node: a.Node, Shard: shard}
		for _, g := range s.watchers[t] {
			s.come(g)
		}
		delete(s.watchers, t)
	}
	if a.left--; a.left > 0 {
		return
	}
	for _, g := range a.gates {
		if g.arrays--; g.arrays == 0 {
			s.come(g)
		}
	}
}

// cancel takes back a task, whether it runs or waits.
func (s *simulation) cancel(a *array, index int) {
	if run := a.attempts[a.shards[index]]; run != &a.wait {
		s.stop(run, executor.CauseCancelled)
		return
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(i int) bool { return i == index })
	s.gone(a, a.shards[index])
}
