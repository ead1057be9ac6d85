package prune

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lathe-rl/lathe/pkg/delta"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// writeDelta stores policy version k as its difference from the kept version before it,
// and returns the size of the delta in bytes: 0 where one of the two is not there. Version
// k itself is none of the kept ones.
func writeDelta(ctx context.Context, d graph.Dir, k int, o Options) (bytes int64, err error) {
	base, policy, path := d.Policy(k-k%o.KeepEvery), d.Policy(k), d.Delta(k)
	if m, sealed, err := seal.Check(ctx, path, seal.Options{}); err != nil || sealed {
		return m.Bytes, err
	}
	// The policy is removed afterwards, so every byte is digested before.
	var manifests [2]seal.Manifest
	for i, folder := range []string{base, policy} {
		manifests[i], err = seal.Verify(ctx, folder, seal.Options{})
		if errors.Is(err, seal.ErrNotSealed) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
	}
	w, err := seal.Create(path, o.Attempt)
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	of, is := manifests[0], manifests[1]
	if err := delta.Write(w, base, policy, of.Files, is.Files); err != nil {
		return 0, fmt.Errorf("writing %q: %w", path, err)
	}
	m, err := w.Commit(seal.Manifest{
		Inputs: []seal.Input{{Path: d.Rel(base), ContentSHA256: of.ContentSHA256}, {Path: d.Rel(policy), ContentSHA256: is.ContentSHA256}},
		Run:    is.Run, RecipeSHA256: is.RecipeSHA256, Seed: is.Seed, PolicyVersion: is.PolicyVersion, Stage: is.Stage, Iteration: is.Iteration,
	})
	return m.Bytes, err
}

// restoreDelta makes policy version k from its delta, and before it what that is the
// difference from. Without a delta it does nothing.
func restoreDelta(ctx context.Context, r *rundir.Run, k int, attempt seal.Attempt) (restored bool, err error) {
	policy, path := r.Dir.Policy(k), r.Dir.Delta(k)
	if _, sealed, err := seal.Check(ctx, policy, seal.Options{}); err != nil || sealed {
		return sealed, err
	}
	m, err := seal.Verify(ctx, path, seal.Options{})
	if errors.Is(err, seal.ErrNotSealed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	was, err := seal.ReadPruned(policy)
	if err != nil {
		return false, err
	}
	if len(m.Inputs) != 2 {
		return false, exitcode.Dataf("%q does not say what it is the difference from", path)
	}
	of := k - 1
	for ; of >= 0 && r.Dir.Rel(r.Dir.Policy(of)) != m.Inputs[0].Path; of-- {
	}
	if of < 0 {
		return false, exitcode.Dataf("%q is the difference from %q, which is no policy before it", path, m.Inputs[0].Path)
	}
	if there, err := restoreDelta(ctx, r, of, attempt); err != nil {
		return false, err
	} else if !there {
		return false, exitcode.WithHint(exitcode.Dataf("%q is the difference from policy version %d, which was pruned without one", path, of),
			"lathe prune %s --restore %d, then lathe run --run %s, make that again", r.Dir, of, r.Dir)
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	w, err := seal.CreateFolder(policy, attempt)
	if err != nil {
		return false, err
	}
	defer w.Abort()
	if err := delta.Restore(f, r.Dir.Policy(of), w.Path()); err != nil {
		return false, exitcode.WithHint(fmt.Errorf("restoring %q from %q: %w", policy, path, err), "remove %s and its manifest: then the run makes the version again by training, with lathe prune --restore %d", path, k)
	}
	// Before it is sealed: what is sealed counts as restored.
	is, err := seal.ContentSHA256(ctx, w.Path())
	if err != nil {
		return false, err
	}
	if is != was.SHA256 {
		return false, exitcode.Bugf("restored %q has sha256 %s, had %s", policy, is, was.SHA256)
	}
	_, err = w.Commit(was)
	return err == nil, err
}
