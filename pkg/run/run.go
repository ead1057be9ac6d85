package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/choose"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
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
// same recipe. A run with another recipe is refused: its name is taken. So is
// a folder that holds files of others where a run has its own.
func Create(ctx context.Context, dir Dir, resolved *recipe.Resolved, attempt seal.Attempt, version string) (*Run, error) {
	m, err := prepare(ctx, dir, resolved)
	if err != nil {
		return nil, err
	}
	if m.existing != nil {
		return m.existing, nil
	}
	if err := m.write(ctx, attempt, version); err != nil {
		return nil, err
	}
	return Open(ctx, dir)
}

// Rehearse refuses what Create refuses, and writes nothing.
func Rehearse(ctx context.Context, dir Dir, resolved *recipe.Resolved) error {
	_, err := prepare(ctx, dir, resolved)
	return err
}

// making is a run that is about to be made: what is known of it before its
// first byte is written.
type making struct {
	dir        Dir
	resolved   *recipe.Resolved
	existing   *Run // the run is there
	recipeLost bool // it is there, without its recipe
	identity   Identity
	world      env.Env
	tasks      []shard.TaskRow
}

// prepare finds out all that can speak against making a run, or going on with
// the one that is there.
func prepare(ctx context.Context, dir Dir, resolved *recipe.Resolved) (*making, error) {
	m := &making{dir: dir, resolved: resolved}
	existing, err := Open(ctx, dir)
	switch {
	case err == nil:
		m.existing = existing
		return m, existing.sameRecipe(resolved)
	case !errors.Is(err, seal.ErrNotSealed):
		return nil, err
	}
	m.recipeLost, err = halfMade(ctx, dir, resolved)
	if err == nil {
		err = ours(ctx, dir.Recipe(), func() ([]byte, error) { return resolved.YAML, nil })
	}
	if err != nil || m.recipeLost {
		return m, err
	}
	if err := m.identify(); err != nil {
		return nil, err
	}
	if err := m.readTasks(); err != nil {
		return nil, err
	}
	if err := ours(ctx, dir.Tasks(), func() ([]byte, error) { return shard.Encode(m.tasks, nil) }); err != nil {
		return nil, err
	}
	return m, m.resume(ctx)
}

// identify says who the run is, and where its policy comes from.
func (m *making) identify() error {
	r := m.resolved.Recipe
	id := make([]byte, 4)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	folder, err := filepath.Abs(filepath.Dir(m.resolved.Path))
	if err != nil {
		return err
	}
	m.identity = Identity{
		FormatVersion: FormatVersion, RunID: jobName(r.Name) + "-" + hex.EncodeToString(id), Name: r.Name,
		Seed: r.Seed, RecipeSHA256: m.resolved.SHA256, RecipeFolder: folder, Data: []DataFile{}, Created: time.Now().UTC(),
	}
	if r.Policy.Path == "" {
		return nil
	}
	if m.identity.PolicySource, err = r.Policy.Resolve(folder); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(m.identity.PolicySource, "config.json")); err != nil {
		return exitcode.WithHint(exitcode.Usagef("policy.path: %q is not a policy folder: %w", m.identity.PolicySource, err),
			"a policy folder is in Hugging Face layout: config.json, model.safetensors, tokenizer.json")
	}
	return nil
}

// readTasks reads and draws the tasks of the run.
func (m *making) readTasks() error {
	r := &m.resolved.Recipe
	world, err := choose.New(r, m.identity.RecipeFolder)
	if err != nil {
		return err
	}
	for _, input := range world.Inputs() {
		m.identity.Data = append(m.identity.Data, DataFile{Path: input.Path, SHA256: input.SHA256})
	}
	m.identity.DataLeftOut = world.LeftOut()
	if n := len(world.Tasks(env.Test)); n < r.Evaluation.Problems {
		return exitcode.Usagef("evaluation.problems: %d are asked for, the test split has %d", r.Evaluation.Problems, n)
	}
	if _, err := env.TrainingTasks(world, "curriculum.kinds", r.Curriculum.Kinds); err != nil {
		return err
	}
	if r.WarmStart.Steps > 0 {
		if _, err := env.TrainingTasks(world, "warm_start.kinds", r.WarmStart.Kinds); err != nil {
			return err
		}
	}
	m.world = world
	m.tasks, err = world.Rows()
	return err
}

// ours refuses a file without a manifest in the place of one of a run's: it is
// somebody else's, and would be lost. What a killed command left between a
// file and its manifest is the very bytes that are to be written.
func ours(ctx context.Context, path string, content func() ([]byte, error)) error {
	_, err := seal.Read(ctx, path, seal.Options{})
	if !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return foreign(path)
	}
	defer f.Close()
	want, err := content()
	if err != nil {
		return err
	}
	// One byte more shows a file that is longer.
	left, err := io.ReadAll(io.LimitReader(f, int64(len(want))+1))
	if err != nil || !bytes.Equal(left, want) {
		return foreign(path)
	}
	return nil
}

// foreign refuses to replace a file.
func foreign(path string) error {
	return exitcode.WithHint(exitcode.Usagef("%q is there without a manifest: it is not of a run, which would take its place", path),
		"choose another --run folder, or move the file away")
}

// resume looks for the run.json that a command left which was killed before it
// sealed it. No two have the same bytes, so the recipe's digest says whose it
// is. The run is then the one that it names.
func (m *making) resume(ctx context.Context) error {
	path := m.dir.Identity()
	_, err := seal.Read(ctx, path, seal.Options{})
	if !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var left Identity
	if err != nil || json.Unmarshal(text, &left) != nil || left.RunID == "" || left.RecipeSHA256 != m.resolved.SHA256 {
		return foreign(path)
	}
	m.identity.RunID, m.identity.Created, m.identity.Host, m.identity.BinaryVersion = left.RunID, left.Created, left.Host, left.BinaryVersion
	return nil
}

// write seals the files of the run.
func (m *making) write(ctx context.Context, attempt seal.Attempt, version string) error {
	if err := writeRecipe(m.dir, m.resolved, attempt); err != nil || m.recipeLost {
		return err
	}
	manifest := creation(m.resolved.SHA256, m.identity.Seed, version)
	var err error
	if m.identity.TasksSHA256, err = sealTasks(ctx, m.dir, m.world, m.tasks, attempt, manifest); err != nil {
		return err
	}
	if m.identity.BinaryVersion == "" {
		m.identity.BinaryVersion, m.identity.Host = version, attempt.Host
	}
	// run.json comes last: with it the run exists.
	_, err = seal.WriteJSON(m.dir.Identity(), m.identity, attempt, manifest)
	return err
}

func writeRecipe(dir Dir, resolved *recipe.Resolved, attempt seal.Attempt) error {
	_, err := seal.WriteBytes(dir.Recipe(), resolved.YAML, attempt, seal.Manifest{Stage: "create", PolicyVersion: -1})
	return err
}

// halfMade looks at a folder that has run.json or recipe.yaml and not both: a
// run whose making was killed, or that lost a file. Neither half may become
// part of a run of another recipe. It reports whether only the recipe has to
// be put back.
func halfMade(ctx context.Context, dir Dir, resolved *recipe.Resolved) (recipeLost bool, err error) {
	var identity Identity
	_, err = seal.ReadJSON(ctx, dir.Identity(), seal.Options{}, &identity)
	switch {
	case err == nil && identity.RecipeSHA256 != resolved.SHA256:
		return false, exitcode.WithHint(exitcode.Usagef("run %q was made from another recipe, and its own recipe.yaml is lost", dir),
			"choose another --run folder, or name the recipe and the settings that it was made with")
	case err == nil:
		return true, nil
	case !errors.Is(err, seal.ErrNotSealed):
		return false, dir.wayBack(dir.Identity(), err)
	}
	content, _, err := seal.Open(ctx, dir.Recipe(), seal.Options{})
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		return false, nil
	case err != nil:
		return false, dir.wayBack(dir.Recipe(), err)
	}
	was := &Run{Dir: dir, RecipeBytes: content}
	return false, was.sameRecipe(resolved)
}

// wayBack gives an error of reading run.json or recipe.yaml the hint that
// helps: the run is not read without them, so no other command makes them
// again.
func (d Dir) wayBack(path string, err error) error {
	again := fmt.Sprintf("with the recipe and the settings that the run was made with: lathe run RECIPE --run %s", d)
	if path == d.Identity() {
		again += "; without its run.json the run gets a new id"
	}
	switch {
	case errors.Is(err, seal.ErrDamaged):
		return exitcode.OnlyHint(err, "remove %s and its manifest %s, and have them made again %s", path, seal.ManifestPath(path), again)
	case errors.Is(err, seal.ErrNotSealed):
		return exitcode.OnlyHint(err, "have it made again %s", again)
	}
	return err
}

// Open reads the identity and the recipe of a run.
func Open(ctx context.Context, dir Dir) (*Run, error) {
	var identity Identity
	if _, err := seal.ReadJSON(ctx, dir.Identity(), seal.Options{}, &identity); err != nil {
		if errors.Is(err, seal.ErrNotSealed) {
			return nil, exitcode.WithHint(exitcode.Dataf("%q is not a run: its run.json is %w", dir, seal.ErrNotSealed), "make one with: lathe run RECIPE --run %s", dir)
		}
		return nil, dir.wayBack(dir.Identity(), err)
	}
	if identity.FormatVersion > FormatVersion {
		return nil, exitcode.Dataf("run %q has format version %d, this binary reads up to %d", dir, identity.FormatVersion, FormatVersion)
	}
	content, m, err := seal.Open(ctx, dir.Recipe(), seal.Options{})
	if err != nil {
		return nil, dir.wayBack(dir.Recipe(), err)
	}
	if m.SHA256 != identity.RecipeSHA256 {
		return nil, exitcode.WithHint(exitcode.Dataf("%q is not the recipe that the run was made from: its sha256 is %s, in run.json it is %s",
			dir.Recipe(), m.SHA256, identity.RecipeSHA256), "remove it and its manifest, and put the right one back: lathe run RECIPE --run %s", dir)
	}
	r, err := recipe.Parse(content)
	if err != nil {
		return nil, exitcode.Dataf("recipe of run %q: %w", dir, err)
	}
	return &Run{Dir: dir, Identity: identity, Recipe: *r, Graph: Graph{Dir: dir, Recipe: *r}, RecipeBytes: content}, nil
}

// sameRecipe refuses to go on with a recipe that differs from the run's own.
func (r *Run) sameRecipe(resolved *recipe.Resolved) error {
	if bytes.Equal(r.RecipeBytes, resolved.YAML) {
		return nil
	}
	differences, err := config.Differences(r.RecipeBytes, resolved.YAML)
	if err != nil {
		return fmt.Errorf("comparing the recipe of run %q: %w", r.Dir, err)
	}
	if len(differences) > mostDifferences {
		differences = append(differences[:mostDifferences], fmt.Sprintf("… and %d more", len(differences)-mostDifferences))
	}
	return exitcode.WithHint(exitcode.Usagef("run %q was made from another recipe; they differ in:\n  %s", r.Dir, strings.Join(differences, "\n  ")),
		"choose another --run folder, or leave the recipe out to go on with this run")
}

// mostDifferences bounds what a message says about two recipes.
const mostDifferences = 20

// jobName keeps what a job name may hold.
func jobName(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, name)
}
