// Package prune removes from a run the bytes that nothing still to be done
// reads.
//
// A policy with its optimizer state is most of what an iteration writes, and
// gradient shards are more still. A survey works backwards from the goals, so
// what it does not look at is read by nothing that is still to be done. Pruning
// removes that, but for the versions that are kept. Whatever is wanted later all
// the same, for an evaluation that was damaged or for a replay, is made again as
// anything that is missing: from the kept version before it and the batches, to
// the same bytes.
package prune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Pruned is what a pruning removed, or would.
type Pruned struct {
	Paths      []string `json:"paths"` // relative to the run
	Bytes      int64    `json:"bytes"`
	DeltaBytes int64    `json:"delta_bytes,omitempty"` // that were written instead
}

// Options say what a pruning keeps.
type Options struct {
	KeepEvery int          // version 0, every N-th and the last are kept
	Dry       bool         // only say what would go
	Deltas    bool         // of each other policy its difference from the kept one before it
	Attempt   seal.Attempt // of whoever writes deltas
}

// Prune removes from a run that a survey found in its state what no task will
// read: every policy version with its optimizer state and reference, but for
// the kept ones; the checkpoints of a warm start that has ended; gradients and
// the policies between the optimizer steps of an iteration. What the kept versions
// need to be gone on from stays too, and what sampled responses that are still to be
// learned from. Plans, rollouts, scores, batches and
// evaluations are never removed.
func Prune(ctx context.Context, v *survey.Inventory, found survey.Result, o Options) (Pruned, error) {
	result := Pruned{Paths: []string{}}
	if o.KeepEvery < 1 {
		return result, exitcode.Usagef("to keep every %d-th policy version makes no sense: it must be 1 or more", o.KeepEvery)
	}
	kept := kept(v.Graph, o.KeepEvery)
	samplers, err := v.SamplersOfUnlearned(ctx, found)
	if err != nil {
		return result, err
	}
	maps.Copy(kept, samplers)
	for _, n := range v.Nodes() {
		if !n.Prunable() {
			continue
		}
		count, needed := found.Counts[n]
		if needed && n.Stage == graph.StageLearn && count.Sealed < count.Total {
			break // each needs the one before it: no later one is made either
		}
		if needed || kept[n] {
			continue
		}
		// What a policy is made from goes before it does, so where that is gone nobody
		// lists the folders of its iteration any more.
		if n.OfUpdate() && n != v.LastLearn(n.Iteration) {
			if pruned, err := v.Pruned(v.LastLearn(n.Iteration)); err != nil {
				return result, err
			} else if pruned {
				continue
			}
		}
		if pruned, err := v.Pruned(n); err != nil {
			return result, err
		} else if pruned {
			continue
		}
		if o.Deltas && !o.Dry && n == v.LastLearn(n.Iteration) {
			bytes, err := writeDelta(ctx, v.Dir, n.Iteration, o)
			if err != nil {
				return result, fmt.Errorf("pruning %s: %w", n, err)
			}
			result.DeltaBytes += bytes
		}
		if err := pruneNode(ctx, v, n, o.Dry, &result); err != nil {
			return result, fmt.Errorf("pruning %s: %w", n, err)
		}
	}
	return result, nil
}

// AsScheduled does what the recipe says about pruning.
func AsScheduled(ctx context.Context, v *survey.Inventory, found survey.Result) error {
	every := v.Recipe.Schedule.KeepsEvery()
	if every == 0 {
		return nil
	}
	_, err := Prune(ctx, v, found, Options{KeepEvery: every})
	return err
}

// kept are the nodes that make the versions which stay.
func kept(g graph.Graph, every int) map[graph.Node]bool {
	kept := map[graph.Node]bool{}
	last := g.Recipe.Schedule.Iterations
	for k := 0; k <= last; k++ {
		if k%every == 0 || k == last {
			kept[g.LastLearn(k)] = true
			// To go on from a version takes its reference policy, and its teacher.
			kept[g.LastLearn(g.ReferenceVersion(k+1))] = true
			if version, ok := g.TeacherVersion(k + 1); ok {
				kept[g.LastLearn(version)] = true
			}
		}
	}
	return kept
}

// pruneNode removes the outputs of a node, if they were made: of what is under
// way nothing is removed.
func pruneNode(ctx context.Context, v *survey.Inventory, n graph.Node, dry bool, result *Pruned) error {
	var paths []string
	var sizes []int64
	for shard := range v.Shards(n) {
		for _, path := range v.Prunable(graph.Task{Node: n, Shard: shard}) {
			m, there, err := left(ctx, path)
			if err != nil {
				return err
			}
			if there {
				paths, sizes = append(paths, path), append(sizes, m.Bytes)
				continue
			}
			if _, err := os.Lstat(seal.PrunedPath(path)); err != nil {
				return nil
			}
		}
	}
	for i, path := range paths {
		result.Paths = append(result.Paths, v.Dir.Rel(path))
		result.Bytes += sizes[i]
	}
	if dry {
		return nil
	}
	for _, path := range paths {
		if _, err := seal.Prune(ctx, path); err != nil {
			return err
		}
	}
	v.Forget(n)
	return nil
}

// left is what there is of an output to remove. What a pruning left when it was killed half
// way counts; what is being made does not.
func left(ctx context.Context, path string) (m seal.Manifest, there bool, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	m, err = seal.Record(ctx, path)
	if errors.Is(err, seal.ErrNotSealed) {
		return m, false, nil
	}
	return m, err == nil, err
}

// Restored is what is there again, and what resuming the run makes again.
type Restored struct {
	Versions []int    `json:"versions"`
	Now      []int    `json:"restored"` // policies that came from their deltas, without optimizer states
	Paths    []string `json:"paths"`    // relative to the run
}

// Restore brings versions back that were pruned: from their deltas at once, or else it
// queues them for repair, so that resuming the run makes them again and keeps them.
func Restore(ctx context.Context, r *rundir.Run, versions []int, attempt seal.Attempt) (Restored, error) {
	result := Restored{Versions: versions, Now: []int{}, Paths: []string{}}
	for _, version := range versions {
		if version < 0 || version > r.Recipe.Schedule.Iterations {
			return result, exitcode.Usagef("policy version %d: the run has versions 0 to %d", version, r.Recipe.Schedule.Iterations)
		}
		if restored, err := restoreDelta(ctx, r, version, attempt); err != nil {
			return result, err
		} else if restored {
			result.Now = append(result.Now, version)
			continue
		}
		for _, path := range r.Graph.Outputs(graph.Task{Node: r.Graph.LastLearn(version)}) {
			if _, there, err := seal.Check(ctx, path, r.Graph.Reading(0)); err != nil || !there { // what is damaged is made again too
				result.Paths = append(result.Paths, r.Dir.Rel(path))
			}
		}
	}
	if len(result.Paths) == 0 {
		return result, nil
	}
	return result, rundir.QueueRepairs(r.Dir, result.Paths, attempt)
}
