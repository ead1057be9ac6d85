package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The planner works backwards from the goals, so a file that everything later
// was already made from is never missed. Repair therefore notes the files
// that it wants back, and the planner takes them for goals too.

func wantedPath(d Dir) string { return filepath.Join(d.Jobs(), "wanted.json") }

// want adds to the files, relative to the run, that are to be made again.
func want(d Dir, files []string, attempt seal.Attempt) error {
	before, err := readWanted(d)
	if err != nil {
		return err
	}
	all := append(before, files...)
	sort.Strings(all)
	content, err := json.MarshalIndent(slices.Compact(all), "", "  ")
	if err != nil {
		return err
	}
	return seal.Replace(wantedPath(d), append(content, '\n'), attempt)
}

// readWanted lists the files that repairs wanted back, those that are there
// again included.
func readWanted(d Dir) ([]string, error) {
	content, err := os.ReadFile(wantedPath(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []string
	if err := json.Unmarshal(content, &files); err != nil {
		return nil, exitcode.WithHint(exitcode.Dataf("%q is not a list of files: %w", wantedPath(d), err), "remove it and run: lathe verify --repair %s", d)
	}
	return files, nil
}

// producers maps every file and folder that the tasks of a run make, relative
// to the run, to the task that makes it. The keys of closings are tasks of
// stage close.
func (g Graph) producers() map[string]Task {
	made := map[string]Task{}
	note := func(t Task) {
		for _, path := range g.Outputs(t) {
			made[g.Dir.Rel(path)] = t
		}
	}
	for _, n := range g.Nodes() {
		for shard := range g.Shards(n) {
			note(Task{n, shard})
		}
	}
	for k := 1; k <= g.Recipe.Schedule.Iterations; k++ {
		note(Task{Node: Node{Stage: StageClose, Iteration: k}})
	}
	return made
}

// want visits the tasks that make the given files, and reports whether all
// are done.
func (s *survey) want(files []string) bool {
	if len(files) == 0 {
		return true
	}
	done := true
	made := s.producers()
	for _, file := range files {
		t, known := made[file]
		switch {
		case !known: // the report makes it
		case t.Stage == StageRollout || t.Stage == StageScore:
			done = s.task(t) && done
		default:
			done = s.visit(t.Node) && done
		}
	}
	return done
}

// task is visit for a single rollout or score shard: others of its array may
// have been left out for good.
func (s *survey) task(t Task) bool {
	if s.is(t) {
		return true
	}
	ready := s.visit(s.planner(t.Iteration))
	if t.Stage == StageScore {
		ready = s.task(Task{Node{Stage: StageRollout, Iteration: t.Iteration}, t.Shard}) && ready
	} else {
		ready = s.visit(s.lastLearn(s.RolloutVersion(t.Iteration))) && ready
	}
	switch {
	case s.GaveUp(t):
		s.result.Stuck = append(s.result.Stuck, Stuck{Node: t.Node, Shards: []int{t.Shard}, Reason: "its attempts are used up"})
	case ready:
		s.ready(t)
	}
	return false
}

// closed reports whether everything that iteration k was closed with is
// there, and visits what is not.
func (s *survey) closed(k int) bool {
	closing, err := ReadClosing(s.ctx, s.Dir, k)
	if err != nil {
		s.fail(err)
		return false
	}
	refs := slices.Clone(closing.Carried)
	for _, shard := range closing.Included {
		refs = append(refs, CarriedRef{k, shard})
	}
	done := true
	for _, ref := range refs {
		// Both are read, so a score that is there does not do for its rollout.
		done = s.task(Task{Node{Stage: StageRollout, Iteration: ref.Iteration}, ref.Shard}) && done
		done = s.task(Task{Node{Stage: StageScore, Iteration: ref.Iteration}, ref.Shard}) && done
	}
	return done
}

// decided finds the closing of an iteration whose close.json was lost after
// its batch was made: what the batch was made from is in the manifests. To
// decide again could come to another result, since more is done now.
func (s *survey) decided(k int) (closing Closing, was bool, err error) {
	inputs, was, err := s.batchInputs(k)
	if err != nil || !was {
		return closing, false, err
	}
	shards := s.Shards(Node{Stage: StageScore, Iteration: k})
	closing = Closing{Iteration: k, Shards: shards, Included: []int{}, Late: []int{}, LeftOut: []int{}, Carried: []CarriedRef{}}
	scores := map[string]CarriedRef{}
	for i := 1; i <= k; i++ {
		for n := range shards {
			scores[s.Dir.Rel(s.Dir.Score(i, n))] = CarriedRef{i, n}
		}
	}
	included := map[int]bool{}
	for _, input := range inputs {
		ref, isScore := scores[input.Path]
		switch {
		case !isScore:
		case ref.Iteration == k:
			closing.Included = append(closing.Included, ref.Shard)
			included[ref.Shard] = true
		default:
			closing.Carried = append(closing.Carried, ref)
		}
	}
	leftOut, err := s.leftOut(k, included)
	for n := range shards {
		switch {
		case included[n]:
		case leftOut[n]:
			closing.LeftOut = append(closing.LeftOut, n)
		default:
			closing.Late = append(closing.Late, n)
		}
	}
	return closing, err == nil, err
}

// batchInputs finds what iteration k was folded from in the manifest of
// anything that came out of it.
func (s *survey) batchInputs(k int) ([]seal.Input, bool, error) {
	for _, path := range []string{s.Dir.Batch(k), s.Dir.Ledger(k), s.Dir.State(k)} {
		m, err := seal.Read(s.ctx, path, seal.Options{})
		switch {
		case err == nil:
			return m.Inputs, true, nil
		case !errors.Is(err, seal.ErrNotSealed) && !errors.Is(err, seal.ErrDamaged):
			return nil, false, err
		}
	}
	return nil, false, nil
}

// leftOut tells the shards that an iteration gave up from those that were
// late, by the ledger.
func (s *survey) leftOut(k int, included map[int]bool) (map[int]bool, error) {
	shards := s.Shards(Node{Stage: StageScore, Iteration: k})
	left := map[int]bool{}
	switch {
	case len(included) == shards || s.Recipe.Schedule.Quorum >= 1:
		return left, nil // then none was given up
	case s.Recipe.Schedule.Oversample <= 1:
		for n := range shards {
			left[n] = !included[n]
		}
		return left, nil // then none was late
	}
	plan, _, err := shard.Read[shard.Instance](s.ctx, s.Dir.Plan(k), seal.Options{})
	if err != nil {
		return nil, fmt.Errorf("finding out how iteration %d was closed: %w", k, err)
	}
	ledger, _, err := shard.Read[shard.LedgerRow](s.ctx, s.Dir.Ledger(k), seal.Options{})
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
		first, last := ShardRange(len(plan), n, shards)
		left[n] = last > first && lost[plan[first].InstanceID]
	}
	return left, nil
}

// Sweep removes the temporary files that killed writers left anywhere in a
// run and returns how many there were.
func Sweep(ctx context.Context, d Dir, o seal.SweepOptions) (int, error) {
	swept := 0
	err := filepath.WalkDir(string(d), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // swept by another process, or sealed meanwhile
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !entry.IsDir():
			return nil
		case entry.Name()[0] == '.' && path != string(d):
			return fs.SkipDir
		}
		names, err := seal.Sweep(path, o)
		swept += len(names)
		return err
	})
	return swept, err
}
