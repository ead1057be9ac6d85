// Package stage holds what the stages of a run have in common. A stage is a
// function over files: it reads sealed files, computes, and seals its output.
// It knows paths only as it is given them, so the same function serves a task
// of a run, a replay, and a person who has plain files.
package stage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Job is what every stage is given besides its own inputs.
type Job struct {
	Recipe        recipe.Recipe
	RecipeSHA256  string
	Attempt       seal.Attempt
	Threads       int // of the engine; results do not depend on it
	BinaryVersion string
	Cite          func(string) string // how a manifest names an input file
	Log           func(format string, args ...any)
	Reading       seal.Options // how patient to be with files of other nodes
	Plain         bool         // inputs may be unsealed files of a person's own
	World         []seal.Input // what the environment was made from; every output cites it
	LogDir        string       // where a server that the task starts writes its log; empty: among temporary files
}

// Manifest starts the manifest of an output: what the job knows. The stage
// adds the rest and the seal fills in the digests.
func (j Job) Manifest(name string, iteration, shard, of int, started time.Time, inputs ...seal.Input) seal.Manifest {
	return seal.Manifest{
		Stage: name, Iteration: iteration, Shard: shard, Of: of,
		Seed: j.Recipe.Seed, RecipeSHA256: j.RecipeSHA256, BinaryVersion: j.BinaryVersion,
		PolicyVersion: -1, Started: started, Inputs: slices.Concat(inputs, j.World),
	}
}

// NoteEngine adds to a manifest what computed the output's numbers.
func NoteEngine(m *seal.Manifest, engine policy.Engine) error {
	return m.Note("engine", engine.Arithmetic())
}

// Input cites a sealed file that a stage has read.
func (j Job) Input(path string, m seal.Manifest) seal.Input {
	return seal.Input{Path: j.Cite(path), ContentSHA256: m.ContentSHA256}
}

// VerifyPolicy digests a sealed policy folder and, if it is an adapter, what it
// adapts, and cites both.
func (j Job) VerifyPolicy(ctx context.Context, folder string) ([]seal.Input, error) {
	cited, err := j.Verify(ctx, folder)
	if err != nil {
		return nil, err
	}
	adapted, err := checkpoint.IsAdapter(folder)
	if err != nil || !adapted {
		return []seal.Input{cited}, err
	}
	base, err := checkpoint.AdapterBase(folder)
	if err != nil {
		return nil, err
	}
	citedBase, err := j.Verify(ctx, base)
	return []seal.Input{cited, citedBase}, err
}

// Verify digests a sealed input and cites it.
func (j Job) Verify(ctx context.Context, path string) (seal.Input, error) {
	m, err := seal.Verify(ctx, path, j.Reading)
	if j.Plain && errors.Is(err, seal.ErrNotSealed) {
		return seal.Input{Path: j.Cite(path)}, nil
	}
	if err != nil {
		return seal.Input{}, err
	}
	return j.Input(path, m), nil
}
