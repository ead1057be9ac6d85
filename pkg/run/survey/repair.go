package survey

import (
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
		if t.Stage == graph.StageRollout || t.Stage == graph.StageScore {
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
	files, err := rundir.ReadRepairs(s.Dir)
	if err != nil || len(files) == 0 {
		return err
	}
	makers := s.Makers()
	for _, file := range files {
		if t, known := makers[file]; known {
			s.repairs = append(s.repairs, t)
		}
	}
	return nil
}

// task is visit for a single rollout or score shard: others of its array may
// have been left out for good.
func (w *walk) task(t graph.Task) bool {
	if w.is(t) {
		return true
	}
	ready := w.visit(w.PlanMaker(t.Iteration))
	if t.Stage == graph.StageScore {
		ready = w.task(graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: t.Iteration}, Shard: t.Shard}) && ready
	} else {
		ready = w.visit(w.LastLearn(w.RolloutVersion(t.Iteration))) && ready
	}
	switch {
	case w.GaveUp(t):
		w.stuck(t)
	case ready:
		w.ready(t)
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
		// Both are read, so a score that is there does not do for its rollout.
		done = w.task(graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}, Shard: ref.Shard}) && done
		done = w.task(graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: ref.Iteration}, Shard: ref.Shard}) && done
	}
	return done
}
