package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/choose"
	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// FormatVersion is the version of the run directory's layout.
const FormatVersion = 1

// Identity is run.json: who a run is, and what outside its folder it was made
// from.
type Identity struct {
	FormatVersion int        `json:"format_version"`
	RunID         string     `json:"run_id"`
	Name          string     `json:"name"`
	Seed          uint64     `json:"seed"`
	RecipeSHA256  string     `json:"recipe_sha256"`
	RecipeFolder  string     `json:"recipe_folder"` // relative data paths of the recipe start here
	Data          []DataFile `json:"data"`          // files that the tasks were read from
	TasksSHA256   string     `json:"tasks_sha256"`  // content of tasks.parquet; empty in runs made before there was one
	DataLeftOut   int        `json:"data_left_out"` // tasks that were generated and left out because a file has the same
	PolicySource  string     `json:"policy_source"` // folder that policy v000000 was copied from; empty for a new policy
	BinaryVersion string     `json:"binary_version"`
	Created       time.Time  `json:"created"`
	Host          string     `json:"host"`
}

// DataFile is an input outside the run, pinned by its digest.
type DataFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Run is an opened run.
type Run struct {
	Dir      Dir
	Identity Identity
	Recipe   recipe.Recipe
	Graph    Graph
	// RecipeBytes is recipe.yaml as stored.
	RecipeBytes []byte
}

// Create makes the folder of a run, or opens it when it is there with the
// same recipe. A run with another recipe is refused: its name is taken.
func Create(ctx context.Context, dir Dir, resolved *recipe.Resolved, attempt seal.Attempt, version string) (*Run, error) {
	existing, err := Open(ctx, dir)
	switch {
	case err == nil:
		return existing, existing.sameRecipe(resolved)
	case !errors.Is(err, seal.ErrNotSealed):
		return nil, err
	}
	if half, err := halfMade(ctx, dir, resolved, attempt); half || err != nil {
		if err != nil {
			return nil, err
		}
		return Open(ctx, dir)
	}
	id := make([]byte, 4)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(resolved.Path))
	if err != nil {
		return nil, err
	}
	identity := Identity{
		FormatVersion: FormatVersion, RunID: jobName(resolved.Recipe.Name) + "-" + hex.EncodeToString(id), Name: resolved.Recipe.Name,
		Seed: resolved.Recipe.Seed, RecipeSHA256: resolved.SHA256, RecipeFolder: folder, Data: []DataFile{},
		BinaryVersion: version, Created: time.Now().UTC(), Host: attempt.Host,
	}
	if resolved.Recipe.Policy.Path != "" {
		if identity.PolicySource, err = resolved.Recipe.Policy.Resolve(folder); err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(identity.PolicySource, "config.json")); err != nil {
			return nil, exit.WithHint(exit.Usagef("policy.path: %q is not a policy folder: %w", identity.PolicySource, err),
				"a policy folder is in Hugging Face layout: config.json, model.safetensors, tokenizer.json")
		}
	}
	world, err := choose.New(&resolved.Recipe, folder)
	if err != nil {
		return nil, err
	}
	for _, input := range world.Inputs() {
		identity.Data = append(identity.Data, DataFile{Path: input.Path, SHA256: input.SHA256})
	}
	identity.DataLeftOut = world.LeftOut()
	if n := len(world.Tasks(env.Test)); n < resolved.Recipe.Evaluation.Problems {
		return nil, exit.Usagef("evaluation.problems: %d are asked for, the test split has %d", resolved.Recipe.Evaluation.Problems, n)
	}
	if len(world.Tasks(env.Train)) == 0 {
		return nil, exit.Dataf("the training split of environment %q is empty", resolved.Recipe.Env.Name)
	}
	if err := writeRecipe(dir, resolved, attempt); err != nil {
		return nil, err
	}
	m := creation(resolved.SHA256, identity.Seed, version)
	if identity.TasksSHA256, err = sealTasks(ctx, dir, world, attempt, m); err != nil {
		return nil, err
	}
	// run.json comes last: with it the run exists.
	if _, err := seal.WriteJSON(dir.Identity(), identity, attempt, m); err != nil {
		return nil, err
	}
	return Open(ctx, dir)
}

func writeRecipe(dir Dir, resolved *recipe.Resolved, attempt seal.Attempt) error {
	_, err := seal.WriteBytes(dir.Recipe(), resolved.YAML, attempt, seal.Manifest{Stage: "create", PolicyVersion: -1})
	return err
}

// halfMade looks at a folder that has run.json or recipe.yaml and not both: a
// run whose making was killed, or that lost a file. Neither half may become
// part of a run of another recipe. It puts a lost recipe back and then
// reports true.
func halfMade(ctx context.Context, dir Dir, resolved *recipe.Resolved, attempt seal.Attempt) (bool, error) {
	var identity Identity
	_, err := seal.ReadJSON(ctx, dir.Identity(), seal.Options{}, &identity)
	switch {
	case err == nil && identity.RecipeSHA256 != resolved.SHA256:
		return false, exit.WithHint(exit.Usagef("run %q was made from another recipe, and its own recipe.yaml is lost", dir),
			"choose another --run folder, or name the recipe and the settings that it was made with")
	case err == nil:
		return true, writeRecipe(dir, resolved, attempt)
	case !errors.Is(err, seal.ErrNotSealed):
		return false, err
	}
	content, _, err := seal.Open(ctx, dir.Recipe(), seal.Options{})
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		return false, nil
	case err != nil:
		return false, err
	}
	was := &Run{Dir: dir, RecipeBytes: content}
	return false, was.sameRecipe(resolved)
}

// Open reads the identity and the recipe of a run.
func Open(ctx context.Context, dir Dir) (*Run, error) {
	var identity Identity
	if _, err := seal.ReadJSON(ctx, dir.Identity(), seal.Options{}, &identity); err != nil {
		if errors.Is(err, seal.ErrNotSealed) {
			return nil, exit.WithHint(exit.Dataf("%q is not a run: its run.json is %w", dir, seal.ErrNotSealed), "make one with: lathe run RECIPE --run %s", dir)
		}
		return nil, err
	}
	if identity.FormatVersion > FormatVersion {
		return nil, exit.Dataf("run %q has format version %d, this binary reads up to %d", dir, identity.FormatVersion, FormatVersion)
	}
	content, m, err := seal.Open(ctx, dir.Recipe(), seal.Options{})
	if err != nil {
		return nil, exit.WithHint(err, "a lost recipe is put back by the command that made the run: lathe run RECIPE --run %s", dir)
	}
	if m.SHA256 != identity.RecipeSHA256 {
		return nil, exit.WithHint(exit.Dataf("%q is not the recipe that the run was made from: its sha256 is %s, in run.json it is %s",
			dir.Recipe(), m.SHA256, identity.RecipeSHA256), "remove it and its manifest, and put the right one back: lathe run RECIPE --run %s", dir)
	}
	r, err := recipe.Parse(content)
	if err != nil {
		return nil, exit.Dataf("recipe of run %q: %w", dir, err)
	}
	return &Run{Dir: dir, Identity: identity, Recipe: *r, Graph: Graph{Dir: dir, Recipe: *r}, RecipeBytes: content}, nil
}

// sameRecipe refuses to go on with a recipe that differs from the run's own.
func (r *Run) sameRecipe(resolved *recipe.Resolved) error {
	if bytes.Equal(r.RecipeBytes, resolved.YAML) {
		return nil
	}
	differences := differingLines(string(r.RecipeBytes), string(resolved.YAML))
	return exit.WithHint(exit.Usagef("run %q was made from another recipe; they differ in:\n%s", r.Dir, strings.Join(differences, "\n")),
		"choose another --run folder, or leave the recipe out to go on with this run")
}

// differingLines shows the first lines of two recipes that differ. Both are
// canonical, so equal recipes have equal lines.
func differingLines(was, is string) []string {
	count := map[string]int{}
	for _, line := range strings.Split(was, "\n") {
		count[line]++
	}
	var added []string
	for _, line := range strings.Split(is, "\n") {
		if count[line]--; count[line] < 0 {
			added = append(added, "  now  "+strings.TrimSpace(line))
		}
	}
	var removed []string
	for line, n := range count {
		for range n {
			removed = append(removed, "  was  "+strings.TrimSpace(line))
		}
	}
	sort.Strings(removed)
	out := append(removed, added...)
	if len(out) > 20 {
		out = append(out[:20], fmt.Sprintf("  … and %d more", len(out)-20))
	}
	return out
}

// jobName keeps what a job name may hold.
func jobName(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, name)
}
