// Package plain is work on plain files, without a run: a recipe opened for one
// program, and files of a person's own that are sealed under the names given.
package plain

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// Work is what a stage needs to do its work on plain files.
type Work struct {
	Recipe recipe.Recipe
	Job    stage.Job
	Env    env.Env

	end func() // ends its programs
}

// Open opens the environment of the recipe in a file, with changes FIELD=VALUE, for
// a program whose engine takes so many threads; 0 takes all.
func Open(program, recipeFile string, set []string, threads int) (*Work, error) {
	threads, err := cmdline.EngineThreads(threads)
	if err != nil {
		return nil, err
	}
	resolved, err := recipe.Load(recipeFile, set)
	if err != nil {
		return nil, err
	}
	opening := cmdline.Opening(program, resolved.Recipe.Env.Name)
	environment, err := resolved.Recipe.NewEnv(filepath.Dir(resolved.Path))
	opening()
	if err != nil {
		return nil, err
	}
	end := env.Open(environment, threads, cmdline.Log(program), env.SlowAfter, func(oldest *env.Wait, waited time.Duration) {
		if oldest != nil {
			cmdline.Log(program)("%s", oldest.After(waited))
		}
	})
	return &Work{
		Job: stage.Job{
			Seed: resolved.Recipe.Seed, RecipeSHA256: resolved.SHA256, Attempt: Attempt(), BinaryVersion: cmdline.Version,
			Files:   stage.Files{Cite: filepath.ToSlash, Plain: true},
			Process: stage.Process{Threads: threads, Log: cmdline.Log(program)},
		},
		Recipe: resolved.Recipe, Env: environment, end: end,
	}, nil
}

// Close ends the programs of the environment.
func (w *Work) Close() { w.end() }

// Attempt is who writes what a person named with --out: nothing else that is
// there is kept in its place, and nothing else is replaced.
func Attempt() seal.Attempt {
	attempt := seal.AttemptFromEnv()
	attempt.Guard = true
	return attempt
}

// CheckOut refuses, before any work, outputs of a person's own that cannot be
// written. They are in the order in which they are sealed: one that is there
// without an earlier one would be found to have other contents only after the
// earlier one was sealed beside it.
func CheckOut(kind seal.Kind, paths ...string) error {
	missing := ""
	for _, path := range paths {
		there, err := seal.CheckOutput(path, kind)
		switch {
		case err != nil:
			return err
		case !there && missing == "":
			missing = path
		case there && missing != "":
			return exitcode.WithHint(exitcode.Usagef("%q already exists, without %q that belongs to it", path, missing),
				"name another --out, or remove %s and %s", path, seal.ManifestPath(path))
		}
	}
	return nil
}

// CheckPolicy reports a folder that is not a policy at all.
func CheckPolicy(folder string) error {
	err := checkpoint.CheckFolder(folder)
	if err != nil {
		folder = filepath.Clean(folder)
		if _, notPruned := os.Stat(seal.PrunedPath(folder)); notPruned == nil {
			run := filepath.Dir(filepath.Dir(folder))
			return exitcode.WithHint(exitcode.Dataf("policy %q was pruned: only its manifest %q remains", folder, seal.PrunedPath(folder)),
				"to restore it: lathe prune %s --restore %s, then lathe run --run %s; or name a version that was kept", run, filepath.Base(folder), run)
		}
	}
	return err
}

// PrintSealed says what was sealed.
func PrintSealed(out io.Writer, m seal.Manifest, path string) error {
	_, err := fmt.Fprintln(out, path, m.SHA256)
	return err
}
