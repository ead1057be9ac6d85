// Package stagetest sets the stages up for tests: the recipe of
// jobs/smoke.yaml, its environment, and a policy that answers a little.
package stagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/choose"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// Rig is what a stage needs besides its files.
type Rig struct {
	testing.TB
	Job   stage.Job
	World env.Env
	Dir   string

	short string // folder of the policy that Shorten has made
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
	world, err := choose.New(&resolved.Recipe, filepath.Dir(resolved.Path))
	if err != nil {
		t.Fatal(err)
	}
	return &Rig{
		TB: t, World: world, Dir: t.TempDir(),
		Job: stage.Job{Recipe: resolved.Recipe, Threads: 1, Cite: filepath.Base, Log: func(string, ...any) {}},
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

// made holds the policies that were made, by the name of the recipe.
var made struct {
	sync.Mutex
	folders map[string]string
}

// Policy makes the policy that comes out of the recipe's warm start, without
// the rig's settings, once for all tests of a process: smoke's answers about a
// tenth of the problems.
func (r *Rig) Policy() string {
	r.Helper()
	if r.short != "" {
		return r.short
	}
	made.Lock()
	defer made.Unlock()
	name := r.Job.Recipe.Name
	if folder, is := made.folders[name]; is {
		return folder
	}
	base, err := os.MkdirTemp("", "lathe-stagetest-")
	r.Check(err)
	plain := NewOf(r, name)
	folder := filepath.Join(base, "policy")
	_, err = warm.Run(r.Context(), plain.Job, plain.World, warm.Inputs{
		Chunk: 1, LastStep: plain.Job.Recipe.WarmStart.Steps, PolicyOutput: folder,
	})
	r.Check(err)
	if made.folders == nil {
		made.folders = map[string]string{}
	}
	made.folders[name] = folder
	return folder
}

// Shorten gives the rig's policy a context of fewer tokens.
func (r *Rig) Shorten(longest int) {
	r.Helper()
	whole := r.Policy()
	config, err := os.ReadFile(filepath.Join(whole, "config.json"))
	r.Check(err)
	var values map[string]any
	r.Check(json.Unmarshal(config, &values))
	values["max_position_embeddings"] = longest
	config, err = json.Marshal(values)
	r.Check(err)
	folder, err := seal.CreateFolder(r.Path("short"), seal.Attempt{})
	r.Check(err)
	r.Check(os.CopyFS(folder.Path(), os.DirFS(whole)))
	r.Check(os.WriteFile(filepath.Join(folder.Path(), "config.json"), config, 0o666))
	_, err = folder.Commit(seal.Manifest{})
	r.Check(err)
	r.short = r.Path("short")
}

// Plan seals a plan with the initial prompts of the first n training tasks.
func (r *Rig) Plan(n int) (string, []shard.Instance) {
	r.Helper()
	var rows []shard.Instance
	for i, task := range r.World.Tasks(env.Train)[:n] {
		messages, err := r.World.Prompt(task, shard.KindInitial, env.Parent{})
		r.Check(err)
		id := fmt.Sprintf("i%06d-%06d", 1, i)
		rows = append(rows, shard.Instance{
			InstanceID: id, GroupID: id, TaskID: task.ID, Env: r.World.Name(), Kind: string(shard.KindInitial),
			Messages: messages, Origin: string(shard.OriginBase), Iteration: 1,
		})
	}
	path := r.Path("plan.parquet")
	r.Check(Write(path, rows))
	return path, rows
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

// Failing is an environment whose judging fails while Fail says so.
type Failing struct {
	env.Env
	Fail func(conversation []shard.Message) error
}

// Score fails, or judges.
func (f Failing) Score(ctx context.Context, attempt env.Attempt) (env.Verdict, error) {
	if err := f.Fail(attempt.Messages); err != nil {
		return env.Verdict{}, err
	}
	return f.Env.Score(ctx, attempt)
}
