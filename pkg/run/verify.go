package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Fault is one thing that is wrong with a run.
type Fault struct {
	Path    string `json:"path"` // relative to the run
	Problem string `json:"problem"`
	Mend    string `json:"mend"`
}

// Verification is what a look at every byte of a run found.
type Verification struct {
	Files  int     `json:"files"` // sealed files and folders that match their manifests
	Bytes  int64   `json:"bytes"`
	Faults []Fault `json:"faults"`
	Ledger Ledger  `json:"ledger"`
}

// Verify digests every sealed file of a run, follows every manifest's inputs,
// and checks that each planned response has exactly one fate.
func Verify(ctx context.Context, r *Run) (Verification, error) {
	v := &verifier{run: r, ctx: ctx, content: map[string]string{}, result: Verification{Faults: []Fault{}}}
	if err := v.walk(); err != nil {
		return v.result, err
	}
	v.inputs()
	v.expected()
	ledger, err := ReadLedger(ctx, r)
	if err != nil {
		v.fault("iter", err)
	}
	v.result.Ledger = ledger
	for _, problem := range ledger.Problems {
		v.result.Faults = append(v.result.Faults, Fault{Path: "iter", Problem: problem, Mend: "this is a bug in Lathe: please report it"})
	}
	return v.result, nil
}

type verifier struct {
	run       *Run
	ctx       context.Context
	content   map[string]string // sealed path relative to the run -> content digest
	manifests []seal.Manifest
	paths     []string // of manifests
	result    Verification
}

const mendRebuild = "remove it with its manifest and run the same command again: it is made again, to the same bytes"

func (v *verifier) fault(path string, err error) {
	mend := mendRebuild
	if hints := exit.Hints(err); len(hints) > 0 {
		mend = hints[0]
	}
	v.result.Faults = append(v.result.Faults, Fault{Path: path, Problem: err.Error(), Mend: mend})
}

// walk digests everything that has a manifest and notes what has none.
func (v *verifier) walk() error {
	skip := map[string]bool{v.run.Dir.Logs(): true, v.run.Dir.Jobs(): true, v.run.Dir.Report(): true}
	return filepath.WalkDir(string(v.run.Dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := v.ctx.Err(); err != nil {
			return err
		}
		rel := v.run.Dir.Rel(path)
		name := entry.Name()
		if entry.IsDir() {
			if skip[path] {
				return fs.SkipDir
			}
			if strings.HasPrefix(name, ".") && path != string(v.run.Dir) {
				return fs.SkipDir // a folder that was being written
			}
			if _, err := os.Lstat(seal.ManifestPath(path)); err == nil {
				v.check(path, rel)
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasPrefix(name, ".") {
			return nil // a file that was being written
		}
		if base, isManifest := strings.CutSuffix(path, ".json"); isManifest {
			if _, err := os.Lstat(seal.ManifestPath(path)); err == nil {
				v.check(path, rel) // a JSON document with a manifest of its own
				return nil
			}
			if _, err := os.Lstat(base); errors.Is(err, fs.ErrNotExist) {
				v.result.Faults = append(v.result.Faults, Fault{
					Path: v.run.Dir.Rel(base), Problem: fmt.Sprintf("%q is sealed by its manifest, and is not there", v.run.Dir.Rel(base)),
					Mend: "remove " + rel + " and run the same command again: the file is made again, to the same bytes",
				})
			}
			return nil
		}
		v.check(path, rel)
		return nil
	})
}

func (v *verifier) check(path, rel string) {
	m, err := seal.Verify(v.ctx, path, seal.Options{})
	if err != nil {
		v.fault(rel, err)
		return
	}
	v.result.Files++
	v.result.Bytes += m.Bytes
	v.content[rel] = m.ContentSHA256
	v.manifests, v.paths = append(v.manifests, m), append(v.paths, rel)
}

// inputs checks that what each file was made from is what is there now.
func (v *verifier) inputs() {
	for i, m := range v.manifests {
		for _, input := range m.Inputs {
			now, there := v.content[input.Path]
			if there && now != input.ContentSHA256 {
				v.result.Faults = append(v.result.Faults, Fault{
					Path:    v.paths[i],
					Problem: fmt.Sprintf("it was made from another %q: content sha256 %s, now %s", input.Path, input.ContentSHA256, now),
					Mend:    mendRebuild,
				})
			}
		}
	}
}

// expected checks that nothing is missing below what is done: every output
// of every node that a sealed output was made from.
func (v *verifier) expected() {
	planner := NewPlanner(v.run.Graph)
	last := v.run.Recipe.Schedule.Iterations
	done := 0
	for k := 1; k <= last; k++ {
		if ok, _ := planner.Sealed(v.ctx, Task{Node: v.run.Graph.lastLearn(k)}); ok {
			done = k
		}
	}
	seen := map[Node]bool{}
	var visit func(n Node)
	visit = func(n Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for shard := range v.run.Graph.Shards(n) {
			if v.excused(n, shard) {
				continue
			}
			for _, path := range v.run.Graph.Outputs(Task{n, shard}) {
				rel := v.run.Dir.Rel(path)
				if _, ok := v.content[rel]; !ok && !v.reported(rel) {
					v.result.Faults = append(v.result.Faults, Fault{
						Path: rel, Problem: fmt.Sprintf("%q is missing; later files were made from it", rel),
						Mend: "run the same command again: it is made again, to the same bytes",
					})
				}
			}
		}
		for _, need := range v.run.Graph.Needs(n) {
			visit(need)
		}
	}
	if done > 0 {
		visit(v.run.Graph.lastLearn(done))
	}
	sort.SliceStable(v.result.Faults, func(i, j int) bool { return v.result.Faults[i].Path < v.result.Faults[j].Path })
}

// excused reports whether a shard need not be there: its iteration was
// closed without it.
func (v *verifier) excused(n Node, n2 int) bool {
	if n.Stage != StageRollout && n.Stage != StageScore {
		return false
	}
	closing, err := ReadClosing(v.ctx, v.run.Dir, n.Iteration)
	if err != nil {
		return false
	}
	for _, shard := range closing.Included {
		if shard == n2 {
			return false
		}
	}
	return true
}

func (v *verifier) reported(rel string) bool {
	for _, f := range v.result.Faults {
		if f.Path == rel {
			return true
		}
	}
	return false
}

// Ledger counts what became of every sampled response of a run.
type Ledger struct {
	Planned  int            `json:"planned"`
	Trained  int            `json:"trained"`
	Dropped  map[string]int `json:"dropped"` // by reason
	Pending  int            `json:"pending"` // planned, no fate yet
	Problems []string       `json:"problems"`
}

// ReadLedger derives the ledger from the plans and the ledgers of closed
// iterations. Each planned response must have at most one fate, and exactly
// one in a finished run.
func ReadLedger(ctx context.Context, r *Run) (Ledger, error) {
	ledger := Ledger{Dropped: map[string]int{}, Problems: []string{}}
	type key struct {
		instance string
		sample   int32
	}
	fates := map[key]int{}
	last := r.Recipe.Schedule.Iterations
	for k := 1; k <= last; k++ {
		plan, _, err := shard.Read[shard.Instance](ctx, r.Dir.Plan(k), seal.Options{})
		if errors.Is(err, seal.ErrNotSealed) {
			break
		}
		if err != nil {
			return ledger, err
		}
		for _, instance := range plan {
			for sample := range r.Recipe.Rollout.Group {
				fates[key{instance.InstanceID, int32(sample)}] = 0
			}
		}
	}
	ledger.Planned = len(fates)
	for k := 1; k <= last; k++ {
		rows, _, err := shard.Read[shard.LedgerRow](ctx, r.Dir.Ledger(k), seal.Options{})
		if errors.Is(err, seal.ErrNotSealed) {
			break
		}
		if err != nil {
			return ledger, err
		}
		for _, row := range rows {
			id := key{row.InstanceID, row.Sample}
			count, planned := fates[id]
			if !planned {
				ledger.Problems = append(ledger.Problems, fmt.Sprintf("instance %s sample %d has a fate and is in no plan", row.InstanceID, row.Sample))
				continue
			}
			if count > 0 {
				ledger.Problems = append(ledger.Problems, fmt.Sprintf("instance %s sample %d has more than one fate", row.InstanceID, row.Sample))
			}
			fates[id]++
			if row.Fate == string(shard.FateTrained) {
				ledger.Trained++
			} else {
				ledger.Dropped[row.Reason]++
			}
		}
	}
	for _, count := range fates {
		if count == 0 {
			ledger.Pending++
		}
	}
	return ledger, nil
}

// Repair removes the damaged files that a verification found, with their
// manifests, so that going on with the run makes them again. What cannot be
// made again is left and reported.
func Repair(r *Run, v Verification) (removed []string, err error) {
	keep := map[string]bool{
		r.Dir.Rel(r.Dir.Identity()): true, r.Dir.Rel(r.Dir.Recipe()): true,
	}
	for _, f := range v.Faults {
		if keep[f.Path] {
			return removed, exit.WithHint(exit.Dataf("%s cannot be made again: %s", f.Path, f.Problem), "restore it from a copy")
		}
		path := r.Dir.Join(filepath.FromSlash(f.Path))
		if path == string(r.Dir) || !strings.HasPrefix(path, string(r.Dir)+string(filepath.Separator)) {
			continue
		}
		if f.Path == "iter" || f.Path == "policy" {
			continue // a fault of the whole, not of a file
		}
		if err := errors.Join(os.RemoveAll(path), os.RemoveAll(seal.ManifestPath(path))); err != nil {
			return removed, err
		}
		removed = append(removed, f.Path)
	}
	return removed, nil
}
