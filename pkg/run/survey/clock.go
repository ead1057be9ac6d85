package survey

import (
	"context"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Clock is the time by which iterations are closed (schedule.close_after_seconds).
type Clock struct {
	Now func() time.Time
	// Began is when the first rollout of an iteration began; zero while that is
	// not known.
	Began func(ctx context.Context, k int) (time.Time, error)
}

// began is the earliest start in the manifests of an iteration's rollouts that were
// sealed when it was first asked for: what every process that advances the run can
// read, whenever it was started. It is the clock of the nodes that sampled.
func (v *Inventory) began(ctx context.Context, k int) (time.Time, error) {
	if at, known := v.beginnings[k]; known {
		return at, nil
	}
	rollouts := graph.Node{Stage: graph.StageRollout, Iteration: k}
	a, err := v.array(ctx, rollouts)
	if err != nil {
		return time.Time{}, err
	}
	var first time.Time
	for shard := range a.total {
		if !a.is(shard) {
			continue
		}
		m, err := seal.Read(ctx, v.Dir.Sampled(rollouts, shard), v.Reading(0))
		if err != nil {
			return time.Time{}, err
		}
		if first.IsZero() || m.Started.Before(first) {
			first = m.Started
		}
	}
	if !first.IsZero() {
		v.beginnings[k] = first
	}
	return first, nil
}

// Dropped reports whether a task is of a shard that its iteration was closed without
// and that no later one takes.
func (v *Inventory) Dropped(ctx context.Context, t graph.Task) (bool, error) {
	if !v.MayBeLate() || v.Carries() || t.HeldOut() || !t.OfTraces() {
		return false, nil
	}
	c, closed, err := v.Closing(ctx, t.Iteration)
	return closed && c.IsLate(t.Shard), err
}

// overdue reports whether iteration k is closed with what is done of it. If it will
// be, the result says when.
func (w *walk) overdue(k int, shards []progress) bool {
	seconds := w.Recipe.Schedule.CloseAfterSeconds
	if seconds == 0 || !slices.ContainsFunc(shards, func(p progress) bool { return p.ended }) {
		return false
	}
	began, err := w.Clock.Began(w.ctx, k)
	if w.fail(err); err != nil || began.IsZero() {
		return false
	}
	due := began.Add(time.Duration(seconds * float64(time.Second)))
	if !w.Clock.Now().Before(due) {
		return true
	}
	if w.result.Due.IsZero() || due.Before(w.result.Due) {
		w.result.Due = due
	}
	return false
}
