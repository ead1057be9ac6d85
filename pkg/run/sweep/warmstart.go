package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// warmStart is what the warm start of a run depends on: where it is the same for two
// runs, so is policy v000000, to the byte.
func warmStart(r *rundir.Run) string {
	same := recipe.Recipe{Seed: r.Recipe.Seed, Policy: r.Recipe.Policy, WarmStart: r.Recipe.WarmStart, Env: r.Recipe.Env, Data: r.Recipe.Data}
	pool := ""
	if r.Identity.Pool != nil {
		pool = r.Identity.Pool.SHA256
	}
	return fmt.Sprint(string(recipe.Write(&same)), r.Identity.TasksSHA256, r.Identity.PolicySource, pool, r.Identity.BinaryVersion)
}

// ShareWarmStart seals policy v000000 of a run as a copy of another's that has the
// same warm start. It reports whether it did: not where the other's is not sealed or
// is of another warm start, nor where the run has its own, nor for adapters, which
// belong to a base of their run. A run that loses the copy makes it again by itself.
func ShareWarmStart(ctx context.Context, to, from *rundir.Run, attempt seal.Attempt, version string) (bool, error) {
	if to.Recipe.Policy.LoRA != nil || warmStart(to) != warmStart(from) {
		return false, nil
	}
	if _, sealed, err := seal.Check(ctx, to.Dir.Policy(0), to.Graph.Reading(0)); err != nil || sealed {
		return false, err
	}
	was, err := seal.Verify(ctx, from.Dir.Policy(0), from.Graph.Reading(0))
	if errors.Is(err, seal.ErrNotSealed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	folder, err := seal.CreateFolder(to.Dir.Policy(0), attempt)
	if err != nil {
		return false, err
	}
	defer folder.Abort()
	if err := os.CopyFS(folder.Path(), os.DirFS(from.Dir.Policy(0))); err != nil {
		return false, fmt.Errorf("copying policy v000000 of %q: %w", from.Dir, err)
	}
	m := to.Graph.Expected(graph.Task{Node: to.Graph.LastLearn(0)})
	m.PolicyVersion, m.Started, m.BinaryVersion, m.Metrics = 0, was.Started, version, was.Metrics
	m.Inputs = []seal.Input{{Path: from.Dir.Policy(0), ContentSHA256: was.ContentSHA256}}
	sealed, err := folder.Commit(m)
	if err == nil && sealed.ContentSHA256 != was.ContentSHA256 {
		err = exitcode.Bugf("the copy of policy %q has content sha256 %s, was %s", from.Dir.Policy(0), sealed.ContentSHA256, was.ContentSHA256)
	}
	return err == nil, err
}
