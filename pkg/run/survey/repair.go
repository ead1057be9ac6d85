package survey

import (
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// queued visits the tasks that make the files in the repair queue, and reports
// whether all are done.
func (w *walk) queued() bool {
	if w.repairs == nil {
		w.fail(w.readRepairs())
	}
	done := true
	for _, t := range w.repairs {
		if t.OfTraces() {
			done = w.task(t) && done
		} else {
			done = w.visit(t.Node) && done
		}
	}
	return done
}

// readRepairs finds the tasks that make what is in the repair queue. What no
// task makes, the report makes.
func (s *Surveyor) readRepairs() error {
	s.repairs = []graph.Task{}
	if s.told {
		return nil
	}
	files, err := rundir.ReadRepairs(s.Dir)
	if err != nil || len(files) == 0 {
		return err
	}
	for _, file := range files {
		if t, known := s.TaskOf(s.Dir.Join(filepath.FromSlash(file))); known && t.Stage != graph.StageMetrics {
			s.repairs = append(s.repairs, t)
		}
	}
	return nil
}

// task is visit for a single shard of rollouts or scores: others of its array
// may have been left out for good.
func (w *walk) task(t graph.Task) bool {
	if w.look(t.Node).is(t.Shard) {
		return true
	}
	ready := w.readable(t)
	if t.Judges() {
		ready = w.task(graph.Task{Node: t.Sampling(), Shard: t.Shard}) && ready
	}
	if t.Wave > 0 {
		before := t.InWave(t.Wave - 1)
		ready = w.task(graph.Task{Node: before.Sampling(), Shard: t.Shard}) && ready
		ready = w.task(graph.Task{Node: before.Judging(), Shard: t.Shard}) && ready
	}
	if ready {
		w.offer(t)
	}
	return false
}

// historyReadable reports whether the rollouts and scores of iterations before k
// that are queued for repair are there again: the plans that iteration k makes
// may go on from any of them.
func (w *walk) historyReadable(k int) bool {
	if w.repairs == nil {
		w.fail(w.readRepairs())
	}
	done := true
	for _, t := range w.repairs {
		if (t.Stage == graph.StageRollout || t.Stage == graph.StageScore) && t.Iteration < k {
			done = w.task(t) && done
		}
	}
	return done
}

// batchReadable reports whether everything that iteration k was closed with is
// there, and visits what is not.
func (w *walk) batchReadable(k int) bool {
	c, done, err := w.Closing(w.ctx, k)
	w.fail(err)
	for _, ref := range c.Reads() {
		done = w.judged(graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}, ref.Shard) && done
	}
	return done
}
