package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// SameWarmStart reports whether two runs begin with the same policy v000000, to the byte,
// and one can take the other's: not where it is adapters, which belong to a base of their
// run.
func SameWarmStart(a, b *rundir.Run) bool {
	if a.Recipe.Policy.LoRA != nil || a.Recipe.Start.KeepsOptimizer() || a.Recipe.Seed != b.Recipe.Seed {
		return false
	}
	of, err := warmStart(a)
	other, otherErr := warmStart(b)
	return errors.Join(err, otherErr) == nil && of == other
}

// warmStart is what the warm start of a run depends on but its seed: where both are the
// same for two runs, so is policy v000000, to the byte. Recipes in several folders name one file by
// different paths.
func warmStart(r *rundir.Run) (string, error) {
	own, err := r.Recipe.At(r.Identity.RecipeFolder)
	if err != nil {
		return "", fmt.Errorf("reading the recipe of %q: %w", r.Dir, err)
	}
	same := recipe.Recipe{Policy: own.Policy, WarmStart: own.WarmStart, Env: own.Env, Data: own.Data}
	pool := ""
	if r.Identity.Pool != nil {
		pool = r.Identity.Pool.SHA256
	}
	return fmt.Sprint(string(recipe.Write(&same)), r.Identity.TasksSHA256, r.Identity.PolicySource, pool, r.Identity.WarmStartData, r.Identity.BinaryVersion), nil
}

// ShareWarmStart seals policy v000000 of a run as a copy of another's that has the
// same warm start. It reports whether it did: not where the other's is not sealed or
// is no [SameWarmStart], nor where the run has its own. A run that loses the copy makes
// it again by itself.
//
// The copy counts as if the run had made it: its manifest has the tokens and steps of all
// checkpoints of the warm start, and a time that ends now and is as long as these took.
// With the times of the other run all that ran in between would count as this run's.
func ShareWarmStart(ctx context.Context, to, from *rundir.Run, attempt seal.Attempt, version string) (bool, error) {
	if !SameWarmStart(to, from) {
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
	took, metrics, err := costOf(ctx, from, was)
	if err != nil {
		return false, err
	}
	now := time.Now()
	attempt.Clock = func() time.Time { return now }
	folder, err := seal.CreateFolder(to.Dir.Policy(0), attempt)
	if err != nil {
		return false, err
	}
	defer folder.Abort()
	if err := os.CopyFS(folder.Path(), os.DirFS(from.Dir.Policy(0))); err != nil {
		return false, fmt.Errorf("copying policy v000000 of %q: %w", from.Dir, err)
	}
	m := to.Graph.Expected(graph.Task{Node: to.Graph.LastLearn(0)})
	m.PolicyVersion, m.Started, m.BinaryVersion, m.Metrics = 0, now.Add(-took), version, metrics
	m.Inputs = []seal.Input{{Path: from.Dir.Policy(0), ContentSHA256: was.ContentSHA256}}
	sealed, err := folder.Commit(m)
	if err == nil && sealed.ContentSHA256 != was.ContentSHA256 {
		err = exitcode.Bugf("the copy of policy %q has content sha256 %s, was %s", from.Dir.Policy(0), sealed.ContentSHA256, was.ContentSHA256)
	}
	return err == nil, err
}

// costOf is how long the tasks of a run's warm start ran, and the metrics of its last
// checkpoint, with the tokens and steps of all.
func costOf(ctx context.Context, r *rundir.Run, last seal.Manifest) (took time.Duration, metrics map[string]float64, err error) {
	took, metrics = max(0, last.Ended.Sub(last.Started)), maps.Clone(last.Metrics)
	for chunk := 1; chunk < r.Graph.WarmChunks(); chunk++ {
		m, err := seal.Record(ctx, r.Dir.Warm(chunk))
		if errors.Is(err, seal.ErrNotSealed) {
			continue // of a copy, whose last checkpoint counts for all
		}
		if err != nil {
			return 0, nil, err
		}
		took += max(0, m.Ended.Sub(m.Started))
		for _, name := range []string{"tokens", "optimizer_steps"} {
			if of, known := m.Metrics[name]; known {
				metrics[name] += of
			}
		}
	}
	return took, metrics, nil
}
