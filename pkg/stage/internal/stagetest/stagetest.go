// Package stagetest sets the stages up for tests: the recipe of
// jobs/smoke.yaml, its environment, and a policy that answers a little.
package stagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/warm"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// Rig is what a stage needs besides its files.
type Rig struct {
	testing.TB
	Recipe recipe.Recipe
	Job    stage.Job
	Env    env.Env
	Dir    string

	policy string // its folder, once it is made
}

// New returns a rig with settings over jobs/smoke.yaml, as --set takes them.
func New(t testing.TB, settings ...string) *Rig {
	t.Helper()
	return NewOf(t, "smoke", settings...)
}

// NewOf returns a rig with settings over another recipe of jobs.
func NewOf(t testing.TB, name string, settings ...string) *Rig {
	t.Helper()
	resolved, err := recipe.Load("../../../jobs/"+name+".yaml", settings)
	if err != nil {
		t.Fatal(err)
	}
	environment, err := resolved.Recipe.NewEnv(filepath.Dir(resolved.Path))
	if err != nil {
		t.Fatal(err)
	}
	return &Rig{
		TB: t, Recipe: resolved.Recipe, Env: environment, Dir: t.TempDir(),
		Job: stage.Job{
			Seed: resolved.Recipe.Seed, Files: stage.Files{Cite: filepath.Base}, Process: stage.Process{Threads: 1, Log: func(string, ...any) {}},
		},
	}
}

// Path is a file of the rig's folder.
func (r *Rig) Path(name string) string { return filepath.Join(r.Dir, name) }

// Check ends the test on an error.
func (r *Rig) Check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// policies holds the files of the policies that were made, by the name of the
// recipe: in memory, so that they end with the process.
var policies struct {
	sync.Mutex
	files map[string]fstest.MapFS
}

// Policy is the policy that comes out of the recipe's warm start, without the
// rig's settings, made once for all tests of a process: smoke's answers about
// a tenth of the problems.
func (r *Rig) Policy() string {
	r.Helper()
	if r.policy != "" {
		return r.policy
	}
	policies.Lock()
	defer policies.Unlock()
	name, folder := r.Recipe.Name, r.TempDir()
	files, made := policies.files[name]
	if made {
		r.Check(os.CopyFS(folder, files))
	} else {
		plain := NewOf(r, name)
		_, err := warm.Run(r.Context(), plain.Job, warm.SettingsOf(plain.Recipe), plain.Env, warm.Inputs{
			Chunk: 1, LastStep: plain.Recipe.WarmStart.Steps, PolicyOutput: filepath.Join(folder, "policy"),
		})
		r.Check(err)
		files, err = inMemory(os.DirFS(folder))
		r.Check(err)
		if policies.files == nil {
			policies.files = map[string]fstest.MapFS{}
		}
		policies.files[name] = files
	}
	r.policy = filepath.Join(folder, "policy")
	return r.policy
}

// inMemory copies the files of a folder and those below it.
func inMemory(folder fs.FS) (fstest.MapFS, error) {
	files := fstest.MapFS{}
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		files[name] = &fstest.MapFile{Data: content, Mode: 0o666}
		return err
	})
	return files, err
}

// LimitContext gives the rig's policy a context of other than its own length.
func (r *Rig) LimitContext(longest int) {
	r.Helper()
	whole := r.Policy()
	config, err := os.ReadFile(filepath.Join(whole, "config.json"))
	r.Check(err)
	var values map[string]any
	r.Check(json.Unmarshal(config, &values))
	values["max_position_embeddings"] = longest
	config, err = json.Marshal(values)
	r.Check(err)
	folder, err := seal.CreateFolder(r.Path("limited"), seal.Attempt{})
	r.Check(err)
	r.Check(os.CopyFS(folder.Path(), os.DirFS(whole)))
	r.Check(os.WriteFile(filepath.Join(folder.Path(), "config.json"), config, 0o666))
	_, err = folder.Commit(seal.Manifest{})
	r.Check(err)
	r.policy = r.Path("limited")
}

// Plan seals a plan with the initial prompts of the first n training tasks.
func (r *Rig) Plan(n int) (string, []shard.Instance) {
	r.Helper()
	var rows []shard.Instance
	for i, task := range r.Env.Set().Tasks(env.Train)[:n] {
		messages, err := r.Env.Prompt(task, shard.KindInitial, env.Parent{})
		r.Check(err)
		id := fmt.Sprintf("i%06d-%06d", 1, i)
		rows = append(rows, shard.Instance{
			InstanceID: id, GroupID: id, TaskID: task.ID, Env: r.Env.Set().Name(), Kind: string(shard.KindInitial),
			Messages: messages, Origin: string(shard.OriginBase), Iteration: 1,
		})
	}
	path := r.Path("plan.parquet")
	r.Check(Write(path, rows))
	return path, rows
}

// Measure evaluates a policy on problems first to last (exclusive) of the test
// split, in this process.
func (r *Rig) Measure(folder string, first, last, policyVersion int) ([]shard.EvaluationRow, error) {
	settings := rollout.SettingsOf(r.Recipe)
	sampler, err := rollout.OpenSampler(r.Context(), settings, r.Job.Process, folder, r.Env.Traits().Turns)
	if err != nil {
		return nil, err
	}
	defer sampler.Close()
	return evaluate.Measure(r.Context(), settings, r.Env, sampler, first, last, policyVersion)
}

// Write seals a table.
func Write[T shard.Row](path string, rows []T) error {
	_, err := shard.Write(path, rows, nil, seal.AttemptFromEnv(), seal.Manifest{PolicyVersion: -1})
	return err
}

// Read reads a sealed table.
func Read[T shard.Row](r *Rig, path string) []T {
	r.Helper()
	rows, _, err := shard.Read[T](r.Context(), path, seal.Options{})
	r.Check(err)
	return rows
}

// Digest is the content digest of a sealed file or folder.
func (r *Rig) Digest(path string) string {
	r.Helper()
	m, err := seal.Verify(r.Context(), path, seal.Options{})
	r.Check(err)
	return m.ContentSHA256
}

// Failing is an environment whose scoring fails while Fail says so.
type Failing struct {
	env.Env
	Fail func(conversation []shard.Message) error
}

// Score fails, or scores.
func (f Failing) Score(ctx context.Context, attempt env.Attempt) (env.Verdict, error) {
	if err := f.Fail(attempt.Messages); err != nil {
		return env.Verdict{}, err
	}
	return f.Env.Score(ctx, attempt)
}
