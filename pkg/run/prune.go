package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A policy with its optimizer state is most of what an iteration writes, and
// gradient shards are more still. The planner works backwards from the goals,
// so what it does not look at is read by nothing that is still to be done.
// Pruning removes that, but for the versions that are kept. Whatever is wanted
// later all the same, for an evaluation that was damaged or for a replay, is
// made again as anything that is missing: from the kept version before it and
// the batches, to the same bytes.

// Pruned is what a pruning removed, or would.
type Pruned struct {
	Paths []string `json:"paths"` // relative to the run
	Bytes int64    `json:"bytes"`
}

// Prune removes from a run that survey found in its state what no task will
// read: every policy version with its optimizer state and reference, but for
// the kept ones; the checkpoints of a warm start that has ended; gradients and
// the policies between the optimizer steps of an iteration. Version 0, every
// version divisible by keepEvery, and the last are kept, and what they need to
// be gone on from. Plans, rollouts, scores, batches and evaluations are never
// removed. A dry run only says what would go.
func (p *Planner) Prune(ctx context.Context, survey Survey, keepEvery int, dry bool) (Pruned, error) {
	result := Pruned{Paths: []string{}}
	if keepEvery < 1 {
		return result, exitcode.Usagef("to keep every %d-th policy version makes no sense: it must be 1 or more", keepEvery)
	}
	kept := p.kept(keepEvery)
	for _, n := range p.Nodes() {
		if !n.prunable() {
			continue
		}
		count, needed := survey.Counts[n]
		if needed && n.Stage == StageLearn && count.Sealed < count.Total {
			break // each needs the one before it: no later one is made either
		}
		if needed || kept[n] || p.pruned[n] {
			continue
		}
		made, err := p.prune(ctx, n, dry, &result)
		if err != nil {
			return result, fmt.Errorf("pruning %s: %w", n, err)
		}
		p.pruned[n] = made && !dry
	}
	return result, nil
}

// prunable reports whether pruning may ever remove the outputs of a node.
func (n Node) prunable() bool {
	return n.Stage == StageWarm || n.Stage == StageGradient || n.Stage == StageLearn
}

// prunable lists the outputs of a task that pruning may remove: not what every
// adapter is of.
func (g Graph) prunable(t Task) []string {
	return slices.DeleteFunc(g.Outputs(t), func(path string) bool { return !t.prunable() || path == g.Dir.Base() })
}

// prune does what the recipe says about it.
func prune(ctx context.Context, p *Planner, survey Survey) error {
	if p.Recipe.Schedule.KeepEvery == 0 {
		return nil
	}
	_, err := p.Prune(ctx, survey, p.Recipe.Schedule.KeepEvery, false)
	return err
}

// kept are the nodes that make the versions which stay.
func (p *Planner) kept(every int) map[Node]bool {
	kept := map[Node]bool{p.lastLearn(0): true}
	last := p.Recipe.Schedule.Iterations
	for k := 0; k <= last; k++ {
		if k%every == 0 || k == last {
			kept[p.lastLearn(k)] = true
			// To go on from a version takes its reference policy.
			kept[p.lastLearn(p.ReferenceVersion(k+1))] = true
		}
	}
	return kept
}

// prune removes the outputs of a node, and reports whether they were made: of
// what is under way nothing is removed.
func (p *Planner) prune(ctx context.Context, n Node, dry bool, result *Pruned) (made bool, err error) {
	var paths []string
	var sizes []int64
	for shard := range p.Shards(n) {
		for _, path := range p.prunable(Task{n, shard}) {
			bytes, there, err := left(ctx, path)
			if err != nil {
				return false, err
			}
			if !there && !hasRecord(path) {
				return false, nil
			}
			if there {
				paths, sizes = append(paths, path), append(sizes, bytes)
			}
		}
	}
	for i, path := range paths {
		result.Paths = append(result.Paths, p.Dir.Rel(path))
		result.Bytes += sizes[i]
		if dry {
			continue
		}
		delete(p.sealed, path)
		if _, err := seal.Prune(ctx, path); err != nil {
			return false, err
		}
	}
	return true, nil
}

// left says how many bytes of an output there are to remove. What a pruning
// left when it was killed half way counts; what is being made does not.
func left(ctx context.Context, path string) (bytes int64, there bool, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	m, err := seal.Record(ctx, path)
	if errors.Is(err, seal.ErrNotSealed) {
		return 0, false, nil
	}
	return m.Bytes, err == nil, err
}

// hasRecord reports whether an output was pruned, without reading anything.
func hasRecord(path string) bool { return there(seal.PrunedPath(path)) }

// Made reports whether every output of a task is sealed, or was until it was
// pruned.
func (p *Planner) Made(ctx context.Context, t Task) (bool, error) {
	return p.sealedOr(ctx, t, hasRecord)
}

// settled reports whether a submission's task has done its work: its outputs
// are sealed, or were after it was submitted, and have been pruned since. A
// task that makes a pruned output again was submitted later.
func (p *Planner) settled(ctx context.Context, t Task, submitted time.Time) (bool, error) {
	since := func(path string) bool {
		was, err := seal.ReadPruned(path)
		return err == nil && !was.Ended.Before(submitted)
	}
	return p.sealedOr(ctx, t, since)
}

// sealedOr reports whether a task's outputs are sealed, or all that pruning may
// remove of them were so once.
func (p *Planner) sealedOr(ctx context.Context, t Task, once func(path string) bool) (bool, error) {
	paths := p.prunable(t)
	if len(paths) == 0 || slices.ContainsFunc(paths, func(path string) bool { return !once(path) }) {
		return p.Sealed(ctx, t)
	}
	return true, nil
}

// Restored is what going on with a run makes again.
type Restored struct {
	Versions []int    `json:"versions"`
	Paths    []string `json:"paths"` // relative to the run
}

// Restore notes versions that were pruned as wanted, so that going on with the
// run makes them again and keeps them.
func Restore(r *Run, versions []int, attempt seal.Attempt) (Restored, error) {
	result := Restored{Versions: versions, Paths: []string{}}
	for _, version := range versions {
		if version < 0 || version > r.Recipe.Schedule.Iterations {
			return result, exitcode.Usagef("policy version %d: the run has versions 0 to %d", version, r.Recipe.Schedule.Iterations)
		}
		for _, path := range r.Graph.Outputs(Task{Node: r.Graph.lastLearn(version)}) {
			result.Paths = append(result.Paths, r.Dir.Rel(path))
		}
	}
	return result, want(r.Dir, result.Paths, attempt)
}

// pruned reports whether a path relative to the run was pruned.
func (v *verifier) pruned(rel string) bool {
	_, err := seal.ReadPruned(v.run.Dir.Join(filepath.FromSlash(rel)))
	return err == nil
}

// remade checks that what was pruned and made again is the same.
func (v *verifier) remade(rel string, m seal.Manifest) {
	was, err := seal.ReadPruned(v.run.Dir.Join(filepath.FromSlash(rel)))
	if err == nil && was.ContentSHA256 != m.ContentSHA256 {
		v.fault(Fault{
			Path:    rel,
			Problem: fmt.Sprintf("it was pruned and made again, to other bytes: content sha256 %s, was %s", m.ContentSHA256, was.ContentSHA256),
			Mend:    "make it again with the binaries of version " + was.BinaryVersion + ", on the backend that made it",
		})
	}
}
