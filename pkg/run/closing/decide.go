package closing

import (
	"context"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Progress is how far a shard of an iteration has come.
type Progress int

// How far a shard can have come.
const (
	Open   Progress = iota // something of it is still to be done
	Done                   // its last score is sealed
	GaveUp                 // a task of it has used up its attempts
	Broken                 // a task of it would fail again the same way; no quorum covers that
)

// Decision is what the shards of an iteration allow.
type Decision struct {
	Closing *Closing // nil: the iteration cannot be closed, or not yet
	Stuck   []int    // the shards for which it never can
	Reason  string   // of Stuck
}

// Decide finds out whether an iteration can be closed with what is done of its
// shards, and with which. Of one that is overdue it takes what there is. Nothing is
// carried yet.
func Decide(g graph.Graph, k int, overdue bool, progress func(shard int) Progress) Decision {
	shards := g.Shards(graph.Node{Stage: graph.StageScore, Iteration: k})
	c := empty(k, shards)
	doneRows := 0
	for n := range shards {
		switch progress(n) {
		case Done:
			c.Included = append(c.Included, n)
			first, last := graph.ShardRange(g.PlanRows(), n, shards)
			doneRows += last - first
		case Broken:
			return Decision{Stuck: []int{n}, Reason: "it would fail again the same way"}
		case GaveUp:
			c.LeftOut = append(c.LeftOut, n)
		default:
			c.Late = append(c.Late, n)
		}
	}
	if quorum := g.Recipe.Schedule.Quorum; float64(shards-len(c.LeftOut)) < quorum*float64(shards) {
		return Decision{Stuck: c.LeftOut, Reason: fmt.Sprintf(
			"%s used up all attempts, more than schedule.quorum %g allows", plural.Of(len(c.LeftOut), shards, "shard"), quorum)}
	}
	enough := (overdue || doneRows >= g.Recipe.Rollout.Prompts) && len(c.Included) > 0
	if !enough && len(c.Late) > 0 {
		return Decision{}
	}
	return Decision{Closing: &c}
}

// Recover finds the closing of an iteration whose close.json was lost after its
// batch was made: what the batch was made from is in the manifests. To decide
// again could come to another result, since more is done now. found is false
// when nothing was made of the iteration yet.
func Recover(ctx context.Context, g graph.Graph, k int) (c Closing, found bool, err error) {
	inputs, found, err := batchInputs(ctx, g, k)
	if err != nil || !found {
		return c, false, err
	}
	c = empty(k, g.Shards(graph.Node{Stage: graph.StageScore, Iteration: k}))
	included := map[int]bool{}
	for _, input := range inputs {
		ref, isScore := scoreOf(g.Dir, input.Path)
		switch {
		case !isScore:
		case ref.Iteration == k:
			included[ref.Shard] = true
		default:
			c.Carried = append(c.Carried, ref)
		}
	}
	leftOut, err := leftOut(ctx, g, k, included)
	for n := range c.Shards {
		switch {
		case included[n]:
			c.Included = append(c.Included, n)
		case leftOut[n]:
			c.LeftOut = append(c.LeftOut, n)
		default:
			c.Late = append(c.Late, n)
		}
	}
	return c, err == nil, err
}

// scoreOf tells which shard's scores a path relative to the run holds.
func scoreOf(d graph.Dir, rel string) (ref Ref, ok bool) {
	_, _ = fmt.Sscanf(rel, "iter/%06d/score/%05d.parquet", &ref.Iteration, &ref.Shard)
	return ref, d.Rel(d.Score(ref.Iteration, ref.Shard)) == rel
}

// batchInputs finds what iteration k was folded from in the manifest of
// anything that came out of it.
func batchInputs(ctx context.Context, g graph.Graph, k int) ([]seal.Input, bool, error) {
	for _, path := range []string{g.Dir.Batch(k), g.Dir.Ledger(k), g.Dir.State(k)} {
		if m, sealed, err := seal.Check(ctx, path, g.Reading(0)); err != nil || sealed {
			return m.Inputs, sealed, err
		}
	}
	return nil, false, nil
}

// leftOut tells the shards that an iteration gave up from those that were
// late, by the ledger.
func leftOut(ctx context.Context, g graph.Graph, k int, included map[int]bool) (map[int]bool, error) {
	shards := g.Shards(graph.Node{Stage: graph.StageScore, Iteration: k})
	left := map[int]bool{}
	switch {
	case len(included) == shards || g.Recipe.Schedule.Quorum >= 1:
		return left, nil // then none was given up
	case !g.MayBeLate():
		for n := range shards {
			left[n] = !included[n]
		}
		return left, nil // then none was late
	}
	plan, _, err := shard.Read[shard.Instance](ctx, g.Dir.Plan(k), seal.Options{})
	if err != nil {
		return nil, fmt.Errorf("finding out how iteration %d was closed: %w", k, err)
	}
	ledger, _, err := shard.Read[shard.LedgerRow](ctx, g.Dir.Ledger(k), seal.Options{})
	if err != nil {
		return nil, fmt.Errorf("finding out how iteration %d was closed: %w", k, err)
	}
	lost := map[string]bool{}
	for _, row := range ledger {
		if row.Reason == "left_out" && int(row.IterationSampled) == k {
			lost[row.InstanceID] = true
		}
	}
	for n := range shards {
		if first, last := graph.ShardRange(len(plan), n, shards); last > first {
			left[n] = lost[plan[first].InstanceID]
		}
	}
	return left, nil
}
