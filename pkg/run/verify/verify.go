// Package verify digests every sealed file of a run, says what is wrong with it
// and how that is fixed, and fixes what can be made again.
package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Fault is one thing that is wrong with a run.
type Fault struct {
	Path    string `json:"path"` // relative to the run; of a data file as run.json has it
	Problem string `json:"problem"`
	Mend    string `json:"mend"`

	cure cure
}

// cure is what Repair may do about a fault.
type cure int

const (
	byHand  cure = iota
	remove       // what is there is damaged; the run makes it again
	rebuild      // nothing is there; the run makes it again
	unpack       // what else the damaged pack holds is put back
)

// Verification is what a look at every byte of a run found.
type Verification struct {
	Files  int           `json:"files"` // sealed files and folders that match their manifests
	Bytes  int64         `json:"bytes"`
	Faults []Fault       `json:"faults"`
	Ledger rundir.Ledger `json:"ledger"`
	// Lineage is what the run started from, the last first.
	Lineage []string `json:"lineage,omitempty"`
}

// Verify digests every sealed file of a run, follows every manifest's inputs,
// and checks that each planned response has exactly one disposition.
func Verify(ctx context.Context, r *rundir.Run) (Verification, error) {
	v := &verifier{
		run: r, ctx: ctx, content: map[string]string{}, goesOn: map[string]bool{}, carried: map[closing.Ref]bool{},
		result: Verification{Faults: []Fault{}},
	}
	var err error
	if v.history, err = closing.ReadHistory(ctx, r.Dir, r.Recipe.Schedule.Iterations, seal.Options{}); err != nil {
		return v.result, err
	}
	for _, closed := range v.history {
		for _, ref := range closed.Carried {
			v.carried[ref] = true
		}
	}
	if err := v.walk(); err != nil {
		return v.result, err
	}
	v.tasks()
	v.inputs()
	v.expected()
	v.sampled()
	v.lineage()
	if err := ctx.Err(); err != nil {
		return v.result, err
	}
	ledger, err := rundir.ReadLedger(ctx, r)
	switch {
	case errors.Is(err, seal.ErrDamaged): // found by walk
	case err != nil:
		return v.result, err
	}
	v.result.Ledger = ledger
	problems := ledger.Problems
	if len(v.result.Faults) > 0 {
		problems = nil // of a ledger with holes
	}
	for _, problem := range problems {
		v.fault(Fault{Path: "iter", Problem: problem, Mend: "this is a bug in Lathe: please report it"})
	}
	sort.SliceStable(v.result.Faults, func(i, j int) bool { return v.result.Faults[i].Path < v.result.Faults[j].Path })
	return v.result, nil
}

type verifier struct {
	run       *rundir.Run
	ctx       context.Context
	content   map[string]string // sealed path relative to the run -> content digest
	goesOn    map[string]bool   // scores of which some trace goes on in the next wave
	history   closing.History
	carried   map[closing.Ref]bool // shards that a later iteration was closed with
	manifests []seal.Manifest
	paths     []string // of manifests
	result    Verification
}

func (v *verifier) fault(f Fault) { v.result.Faults = append(v.result.Faults, f) }

func (v *verifier) mend() string {
	return fmt.Sprintf("lathe verify --repair %s removes it; then the command that made the run makes it again, to the same bytes", v.run.Dir)
}

// again is the fix of what is missing.
func (v *verifier) again() string {
	return fmt.Sprintf("lathe verify --repair %s, then the command that made the run: it is made again, to the same bytes", v.run.Dir)
}

// maker is the task that makes a path relative to the run.
func (v *verifier) maker(rel string) (graph.Task, bool) {
	return v.run.Graph.TaskOf(v.run.Dir.Join(filepath.FromSlash(rel)))
}

// known reports whether a path relative to the run is one that a run makes.
func (v *verifier) known(rel string) bool {
	if _, made := v.maker(rel); made {
		return true
	}
	for n := range len(v.run.Graph.Extended) + 1 {
		if rel == v.run.Dir.Rel(v.run.Dir.Extension(n)) {
			return true
		}
	}
	return rel == "run.json" || rel == graph.TasksName
}

// walk digests everything that has a manifest or ought to have one. What
// people put beside it is none of a run's business.
func (v *verifier) walk() error {
	skip := map[string]bool{v.run.Dir.Logs(): true, v.run.Dir.Jobs(): true, v.run.Dir.Report(): true}
	return rundir.Walk(v.ctx, v.run.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, name := v.run.Dir.Rel(path), entry.Name()
		switch {
		case rel == ".":
			return nil
		case entry.IsDir() && (skip[path] || strings.HasPrefix(name, ".")):
			return fs.SkipDir // a folder that is being written
		case strings.HasPrefix(name, "."):
			return nil // a file that is being written
		case v.content[rel] != "": // a compaction was killed half way: it was checked in its pack
		case v.known(rel) || seal.IsPack(path) || there(seal.ManifestPath(path)):
			check := v.check
			if seal.IsPack(path) {
				check = v.pack
			}
			if err := check(path, rel); err != nil {
				return err
			}
			if entry.IsDir() {
				return fs.SkipDir
			}
		case strings.HasSuffix(rel, ".json") && v.known(strings.TrimSuffix(rel, ".json")):
			v.alone(strings.TrimSuffix(rel, ".json"))
			if entry.IsDir() { // whatever made a folder of it
				return fs.SkipDir
			}
		}
		return nil
	})
}

// alone notes a manifest whose file is gone.
func (v *verifier) alone(rel string) {
	if v.content[rel] == "" && !there(v.run.Dir.Join(filepath.FromSlash(rel))) {
		v.fault(Fault{Path: rel, Problem: fmt.Sprintf("%q is sealed by its manifest, and is not there", rel), Mend: v.mend(), cure: remove})
	}
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// betweenSteps is how long a writer may take from a file to its manifest: a
// file that somebody is sealing right now is no fault. A test waits less.
var betweenSteps = time.Second / 2

// check digests a sealed file or folder. A file system that does not give
// its bytes is an error and no fault.
func (v *verifier) check(path, rel string) error {
	m, err := seal.Verify(v.ctx, path, seal.Options{Visibility: betweenSteps})
	switch {
	case errors.Is(err, seal.ErrNotSealed) && v.pruned(rel):
		return nil // a pruning was killed half way, and the next one ends it
	case errors.Is(err, seal.ErrNotSealed), errors.Is(err, seal.ErrDamaged):
		v.fault(Fault{Path: rel, Problem: err.Error(), Mend: v.mend(), cure: remove})
		return nil
	case err != nil:
		return err
	}
	if err := v.run.Graph.Accept(path, m); err != nil {
		v.fault(Fault{Path: rel, Problem: err.Error(), Mend: v.mend(), cure: remove})
		return nil
	}
	v.result.Files++
	v.result.Bytes += m.Bytes
	t, _ := v.maker(rel)
	v.content[rel], v.goesOn[rel] = m.ContentSHA256, m.Metrics[shard.MetricWaiting] > 0 && t.Judges()
	v.remade(rel, m)
	v.manifests, v.paths = append(v.manifests, m), append(v.paths, rel)
	return nil
}

// pack digests a pack and each shard that it holds.
func (v *verifier) pack(path, rel string) error {
	_, err := seal.Verify(v.ctx, path, seal.Options{Visibility: betweenSteps})
	if err != nil && !errors.Is(err, seal.ErrDamaged) && !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	shards, unreadable := seal.Packed(v.ctx, path)
	switch {
	case err == nil:
		v.result.Files++ // its bytes are those of its shards
	case unreadable == nil:
		v.fault(Fault{Path: rel, Problem: err.Error(), Mend: fmt.Sprintf("lathe verify --repair %s puts back what is not damaged", v.run.Dir), cure: unpack})
	case v.run.Recipe.Rollout.Remote != nil:
		v.fault(Fault{Path: rel, Problem: err.Error(), Mend: "put it back from a copy: it holds what a server said, which may not say the same again"})
	default:
		v.fault(Fault{Path: rel, Problem: err.Error(), Mend: v.mend(), cure: remove})
	}
	for _, shard := range shards {
		if err := v.check(shard, v.run.Dir.Rel(shard)); err != nil {
			return err
		}
	}
	return nil
}

// tasks checks that the tasks are those that the run was made with, or can be
// made again.
func (v *verifier) tasks() {
	switch now, pinned := v.content[graph.TasksName], v.run.Identity.TasksSHA256; {
	case now == pinned:
		return // the data files are not needed any more
	case now != "":
		v.fault(Fault{Path: graph.TasksName, Problem: v.run.TasksDiffer(now), Mend: v.mend(), cure: remove})
	case !there(v.run.Dir.Tasks()) && !there(seal.ManifestPath(v.run.Dir.Tasks())):
		v.fault(Fault{Path: graph.TasksName, Problem: fmt.Sprintf("%q is missing", graph.TasksName), Mend: v.again(), cure: rebuild})
	}
	for _, pinned := range v.run.Identity.Data {
		now, err := digestOf(pinned.Path)
		problem := fmt.Sprintf("it has changed since the run was made: sha256 %s, was %s", now, pinned.SHA256)
		if err != nil {
			problem = err.Error()
		}
		if now != pinned.SHA256 {
			v.fault(Fault{Path: pinned.Path, Problem: problem, Mend: "put the file back as it was, or start a new run with the new one"})
		}
	}
}

func digestOf(path string) (string, error) {
	f, _, err := plainfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// inputs checks that what each file was made from is what is there now.
func (v *verifier) inputs() {
	for i, m := range v.manifests {
		for _, input := range m.Inputs {
			now, known := v.content[input.Path]
			if known && now != input.ContentSHA256 {
				v.fault(Fault{
					Path:    v.paths[i],
					Problem: fmt.Sprintf("it was made from another %q: content sha256 %s, now %s", input.Path, input.ContentSHA256, now),
					Mend:    "one of the two was made by other binaries or put there by hand: restore it from a copy, or start a new run",
				})
			}
		}
	}
}

// expected checks that nothing is missing below what is done: every output
// of every node that a sealed output was made from.
func (v *verifier) expected() {
	g := v.run.Graph
	reported := map[string]bool{}
	for _, f := range v.result.Faults {
		reported[f.Path] = true
	}
	seen := map[graph.Node]bool{}
	var visit func(n graph.Node)
	visit = func(n graph.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for shard := range g.Shards(n) {
			if v.ctx.Err() != nil {
				return
			}
			for _, path := range g.Outputs(graph.Task{Node: n, Shard: shard}) {
				rel := v.run.Dir.Rel(path)
				if v.content[rel] == "" && !reported[rel] && !v.excused(n, shard) && !v.pruned(rel) {
					v.fault(Fault{
						Path: rel, Problem: fmt.Sprintf("%q is missing; later files were made from it", rel),
						Mend: v.again(), cure: rebuild,
					})
				}
			}
		}
		for _, need := range g.Needs(n) {
			visit(need)
		}
	}
	for rel := range v.content {
		if t, made := v.maker(rel); made {
			for _, need := range g.Needs(t.Node) {
				visit(need)
			}
		}
	}
}

// sampled says what else is to be done about the responses of a server, which
// nobody can make say the same again.
func (v *verifier) sampled() {
	if v.run.Recipe.Rollout.Remote == nil {
		return
	}
	used := map[string]bool{} // rollouts that a batch or the rows of an evaluation were made from
	for _, m := range v.manifests {
		for _, input := range m.Inputs {
			used[input.Path] = used[input.Path] || m.Stage == string(graph.StageBuffer) || m.Stage == string(graph.StageEvaluate)
		}
	}
	for i, f := range v.result.Faults {
		t, made := v.maker(f.Path)
		if !made || f.cure == byHand || !t.Samples() {
			continue
		}
		if used[f.Path] {
			v.result.Faults[i].cure = byHand
			v.result.Faults[i].Mend = "restore it from a copy: a server sampled it and may answer differently now. The run continues without it, and what was made from it cannot be replayed"
			continue
		}
		v.result.Faults[i].Mend = fmt.Sprintf("lathe verify --repair %s; then the command that made the run has the server sample it again, which may come to other bytes", v.run.Dir)
		for wave := t.Wave; wave < v.run.Graph.Waves(t.Stage); wave++ {
			n := t.InWave(wave)
			for _, later := range []graph.Node{n, n.Judging()} {
				if rel := v.run.Dir.Rel(v.run.Dir.Sampled(later, t.Shard)); rel != f.Path && v.content[rel] != "" {
					v.fault(Fault{Path: rel, Problem: fmt.Sprintf("the responses that it was made from, %q, are lost", f.Path), Mend: v.mend(), cure: remove})
				}
			}
		}
	}
}

// sharedWarmStart reports whether policy v000000 is a copy of another run's, which
// has the checkpoints.
func (v *verifier) sharedWarmStart() bool {
	for i, rel := range v.paths {
		if rel == v.run.Dir.Rel(v.run.Dir.Policy(0)) {
			return slices.ContainsFunc(v.manifests[i].Inputs, func(input seal.Input) bool { return filepath.IsAbs(input.Path) })
		}
	}
	return false
}

// excused reports whether a shard of rollouts or scores need not be there: its
// iteration was closed without it, or not yet, and no later one was closed with
// it; its evaluation is not gathered yet; or nothing in it goes on in this wave.
func (v *verifier) excused(n graph.Node, shard int) bool {
	if n.Stage == graph.StageWarm && v.sharedWarmStart() {
		return true
	}
	switch {
	case !n.OfTraces():
		return false
	case n.Wave > 0 && !v.goesOn[v.run.Dir.Rel(v.run.Dir.Sampled(n.InWave(n.Wave-1).Judging(), shard))]:
		return true
	case n.HeldOut():
		return v.content[v.run.Dir.Rel(v.run.Dir.Evaluation(n.Iteration, shard))] == ""
	}
	return !v.history[n.Iteration].Includes(shard) && !v.carried[closing.Ref{Iteration: n.Iteration, Shard: shard}]
}

// Repair removes what a verification found damaged, with its manifests, and
// notes what is missing, so that resuming the run makes all of it again.
// What only a person can fix is left; an error names the first of it.
func Repair(r *rundir.Run, v Verification, attempt seal.Attempt) (removed []string, err error) {
	var lost []string
	var left *Fault
	for i, f := range v.Faults {
		switch f.cure {
		case remove:
			path := r.Dir.Join(filepath.FromSlash(f.Path))
			if err := plainfile.CheckLinks(filepath.Dir(path)); err != nil {
				return removed, err
			}
			// The manifest first: a kill in between leaves unfinished work.
			if err := errors.Join(os.RemoveAll(seal.ManifestPath(path)), os.RemoveAll(path)); err != nil {
				return removed, err
			}
			removed = append(removed, f.Path)
			lost = append(lost, f.Path)
		case unpack:
			if _, err := seal.Unpack(context.Background(), r.Dir.Join(filepath.FromSlash(f.Path)), attempt); err != nil {
				return removed, err
			}
			removed = append(removed, f.Path)
		case rebuild:
			lost = append(lost, f.Path)
		default:
			if left == nil {
				left = &v.Faults[i]
			}
		}
	}
	if len(lost) > 0 {
		if err := rundir.QueueRepairs(r.Dir, lost, attempt); err != nil {
			return removed, err
		}
	}
	if left != nil {
		return removed, exitcode.WithHint(exitcode.Dataf("%s cannot be made again: %s", left.Path, left.Problem), "%s", left.Mend)
	}
	return removed, nil
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
