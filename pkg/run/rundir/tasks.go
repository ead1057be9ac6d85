package rundir

import (
	"context"
	"errors"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// A run keeps the tasks that it was made with. From then on it needs nothing of
// where they came from: data files may move and change, thousands of array
// tasks do not read them, and a run that was copied elsewhere can be replayed.

// Environment sets up the run's environment and cites what it was made from. It knows
// the tasks that are named; all of them where tasks is nil.
func (r *Run) Environment(ctx context.Context, tasks map[string]bool, o seal.Options) (env.Env, []seal.Input, error) {
	path := r.Dir.Tasks()
	var rows []shard.TaskRow
	var m seal.Manifest
	var err error
	if tasks == nil {
		rows, m, err = shard.Read[shard.TaskRow](ctx, path, o)
	} else {
		rows, m, err = shard.ReadNamed[shard.TaskRow](ctx, path, "task_id", tasks, o)
	}
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		return nil, nil, exitcode.WithHint(err, "lathe run --run %s makes it again from the data files", r.Dir)
	case err != nil:
		return nil, nil, err
	case m.ContentSHA256 != r.Identity.TasksSHA256:
		return nil, nil, exitcode.WithHint(exitcode.Dataf("%q: %s", path, r.TasksDiffer(m.ContentSHA256)), "remove it and its manifest, and run: lathe run --run %s", r.Dir)
	}
	environment, err := r.Recipe.EnvFromRows(r.Identity.RecipeFolder, rows)
	return environment, []seal.Input{{Path: r.Dir.Rel(path), ContentSHA256: m.ContentSHA256}}, err
}

// TasksDiffer says that sealed tasks are not those of the run.
func (r *Run) TasksDiffer(content string) string {
	return fmt.Sprintf("these are not the tasks that the run was made with: content sha256 %s, in run.json it is %s", content, r.Identity.TasksSHA256)
}

// sources sets up the environment from the data files, which must be what they
// were when the run was made.
func (r *Run) sources() (env.Env, error) {
	environment, err := r.Recipe.NewEnv(r.Identity.RecipeFolder)
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	for _, input := range environment.Set().Inputs {
		now[input.Path] = input.SHA256
	}
	for _, pinned := range r.Identity.Data {
		if now[pinned.Path] != pinned.SHA256 {
			return nil, exitcode.WithHint(exitcode.Dataf("data file %q has changed since run %q was made: sha256 %s, was %s",
				pinned.Path, r.Identity.RunID, now[pinned.Path], pinned.SHA256),
				"put the file back, or start a new run with the new file")
		}
	}
	return environment, nil
}

// sealTasks seals the tasks of a run that is being made, and returns their
// digest.
func sealTasks(ctx context.Context, dir graph.Dir, environment env.Env, rows []shard.TaskRow, attempt seal.Attempt, m seal.Manifest) (string, error) {
	for _, input := range environment.Set().Inputs {
		m.Inputs = append(m.Inputs, seal.Input{Path: input.Path, ContentSHA256: input.SHA256})
	}
	// What a killed command left may be of other data files.
	left, _, err := shard.Read[shard.TaskRow](ctx, dir.Tasks(), seal.Options{})
	if err == nil {
		was, _ := shard.ContentDigest(left)
		if is, _ := shard.ContentDigest(rows); was != is {
			if err := seal.Remove(dir.Tasks()); err != nil {
				return "", err
			}
		}
	}
	m, err = shard.WriteInBlocks(dir.Tasks(), rows, attempt, m)
	return m.ContentSHA256, err
}

// RestoreTasks makes the tasks again, from the data files, when they are lost
// or damaged so that it can be seen from outside.
func (r *Run) RestoreTasks(ctx context.Context, attempt seal.Attempt, version string) error {
	_, err := seal.Read(ctx, r.Dir.Tasks(), seal.Options{Visibility: Visibility()})
	if !errors.Is(err, seal.ErrNotSealed) && !errors.Is(err, seal.ErrDamaged) {
		return err
	}
	environment, err := r.sources()
	if err != nil {
		return fmt.Errorf("making %q again: %w", r.Dir.Tasks(), err)
	}
	digest, err := sealTasks(ctx, r.Dir, environment, environment.Set().Rows(), attempt, createManifest(r.Identity, version))
	if err == nil && digest != r.Identity.TasksSHA256 {
		err = exitcode.Dataf("made again, %q comes to other tasks: content sha256 %s, in run.json it is %s", r.Dir.Tasks(), digest, r.Identity.TasksSHA256)
		err = exitcode.WithHint(errors.Join(err, seal.Remove(r.Dir.Tasks())), "restore it from a copy, or use the binaries that made the run, of version %s", r.Identity.BinaryVersion)
	}
	return err
}

// createManifest starts the manifest of what is sealed when a run is made.
func createManifest(i Identity, version string) seal.Manifest {
	return seal.Manifest{Run: i.RunID, Stage: "create", PolicyVersion: -1, RecipeSHA256: i.RecipeSHA256, Seed: i.Seed, BinaryVersion: version}
}
