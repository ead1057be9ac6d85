// Package closing says with which shards an iteration is closed, and which
// shards are late, given up or carried into a later iteration. Every other
// package asks here.
//
// With oversampling the decision depends on what was done first, so it is sealed
// and a replay reads it instead of deciding again.
package closing

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Closing is close.json: which shards an iteration was closed with. Every shard
// of the iteration is in one of the three lists, each in ascending order.
type Closing struct {
	Iteration int   `json:"iteration"`
	Shards    int   `json:"shards"`   // of the iteration's rollout and score arrays
	Included  []int `json:"included"` // shards of this iteration
	Late      []int `json:"late"`     // not done yet: carried into a later iteration
	LeftOut   []int `json:"left_out"` // failed for good
	Carried   []Ref `json:"carried"`  // late shards of earlier iterations that are done now
}

// Ref names a shard of an iteration.
type Ref struct {
	Iteration int `json:"iteration"`
	Shard     int `json:"shard"`
}

// empty is a closing without a shard. Its lists are written as [] and not null.
func empty(k, shards int) Closing {
	return Closing{Iteration: k, Shards: shards, Included: []int{}, Late: []int{}, LeftOut: []int{}, Carried: []Ref{}}
}

// Includes reports whether the iteration was closed with one of its shards.
func (c Closing) Includes(shard int) bool { return among(c.Included, shard) }

// IsLate reports whether one of the iteration's shards was not done.
func (c Closing) IsLate(shard int) bool { return among(c.Late, shard) }

// Lost reports whether one of the iteration's shards was left out.
func (c Closing) Lost(shard int) bool { return among(c.LeftOut, shard) }

func among(ascending []int, shard int) bool {
	_, found := slices.BinarySearch(ascending, shard)
	return found
}

// Reads lists the shards that are folded into the iteration's batch: its own,
// then those of earlier iterations.
func (c Closing) Reads() []Ref {
	var refs []Ref
	for _, shard := range c.Included {
		refs = append(refs, Ref{c.Iteration, shard})
	}
	return append(refs, c.Carried...)
}

// Read reads close.json of iteration k.
func Read(ctx context.Context, d graph.Dir, k int, o seal.Options) (Closing, error) {
	var c Closing
	_, err := seal.ReadJSON(ctx, d.Close(k), o, &c)
	return c, err
}

// Seal writes close.json of an iteration.
func Seal(r *rundir.Run, c Closing, attempt seal.Attempt, version string) error {
	m := r.Graph.Expected(graph.Task{Node: graph.Node{Stage: graph.StageClose, Iteration: c.Iteration}})
	m.Started, m.BinaryVersion = time.Now(), version
	_, err := seal.WriteJSON(r.Dir.Close(c.Iteration), c, attempt, m)
	return err
}

// History is the closings of a run, by iteration.
type History map[int]Closing

// ReadHistory reads the closings of iterations 1 to last that are sealed.
func ReadHistory(ctx context.Context, d graph.Dir, last int, o seal.Options) (History, error) {
	h := History{}
	for k := 1; k <= last; k++ {
		if _, sealed, err := seal.Check(ctx, d.Close(k), o); err != nil {
			return h, err
		} else if !sealed {
			continue
		}
		c, err := Read(ctx, d, k, o)
		switch {
		case errors.Is(err, seal.ErrNotSealed), errors.Is(err, seal.ErrDamaged):
		case err != nil:
			return h, err
		default:
			h[k] = c
		}
	}
	return h, nil
}

// Outstanding lists the late shards of iterations before k that no iteration
// before k has carried, in their order. It ends at the first iteration whose
// closing is not known.
func (h History) Outstanding(k int) []Ref {
	var late []Ref
	for i := 1; i < k; i++ {
		c, known := h[i]
		if !known {
			break
		}
		late = c.Outstanding(late)
	}
	return late
}

// Outstanding is what is outstanding after an iteration was closed, by what was
// before.
func (c Closing) Outstanding(before []Ref) []Ref {
	carried := map[Ref]bool{}
	for _, ref := range c.Carried {
		carried[ref] = true
	}
	var after []Ref
	for _, ref := range before {
		if !carried[ref] {
			after = append(after, ref)
		}
	}
	for _, shard := range c.Late {
		after = append(after, Ref{c.Iteration, shard})
	}
	return after
}

// LeftOut reports the shards that a finished run did without as an error of kind
// exitcode.LeftOut.
func LeftOut(ctx context.Context, r *rundir.Run) error {
	history, err := ReadHistory(ctx, r.Dir, r.Recipe.Schedule.Iterations, r.Graph.Reading(0))
	if err != nil {
		return err
	}
	n := 0
	for _, c := range history {
		n += len(c.LeftOut)
	}
	if n > 0 {
		return exitcode.LeftOutf("the run is done without %s that used up their attempts", plural.Count(n, "shard"))
	}
	return nil
}
