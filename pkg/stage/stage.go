// Package stage holds what the stages of a run have in common. A stage is a
// function over files: it reads sealed files, computes, and seals its output.
// It knows paths only as it is given them, so the same function serves a task
// of a run, a replay, and a person who has plain files.
package stage

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Job is what every stage is given besides its own inputs.
type Job struct {
	Seed              uint64 // of the recipe
	RecipeSHA256      string
	RunID             string // empty outside a run
	Step, Wave        int    // of the task: of the optimizer; of rollouts and scores
	Attempt           seal.Attempt
	BinaryVersion     string
	EnvironmentInputs []seal.Input // what the environment was made from; every output cites it
	Files
	Process
}

// Process is what a stage has of the process that it runs in. No result depends
// on it.
type Process struct {
	Threads int // of the engine
	Log     func(format string, args ...any)
	LogDir  string // where a server that the task starts writes its log; empty: among temporary files
}

// Manifest starts the manifest of an output: what the job knows. The stage
// adds the rest and the seal fills in the digests.
func (j Job) Manifest(name string, iteration, shard, of int, started time.Time, inputs ...seal.Input) seal.Manifest {
	return seal.Manifest{
		Run: j.RunID, Stage: name, Iteration: iteration, Step: j.Step, Wave: j.Wave, Shard: shard, Of: of,
		Seed: j.Seed, RecipeSHA256: j.RecipeSHA256, BinaryVersion: j.BinaryVersion,
		PolicyVersion: -1, Started: started, Inputs: slices.Concat(inputs, j.EnvironmentInputs),
	}
}

// NoteEngine adds to a manifest what computed the output's numbers, and on what of a CPU.
func NoteEngine(m *seal.Manifest, engine policy.Model) error {
	if unit := engine.Unit(); unit != "" {
		if err := m.Note(unitNote, unit); err != nil {
			return err
		}
	}
	return m.Note("engine", engine.Arithmetic())
}

// unitNote is the note of what of a CPU computed an output, apart from the engine's: no
// number depends on it.
const unitNote = "unit"

// UnitOf is what of a CPU computed a sealed output, as [policy.Model] names it; empty where
// none did or its manifest does not say.
func UnitOf(m seal.Manifest) (unit string, err error) {
	_, err = noted(m, unitNote, &unit)
	return unit, err
}

// EngineOf is what computed the numbers of a sealed output; ok is false where none of our
// engines did, or its manifest does not say.
func EngineOf(m seal.Manifest) (a policy.Arithmetic, ok bool, err error) {
	ok, err = noted(m, "engine", &a)
	return a, ok, err
}

// samplersNote is the note of a batch about what sampled its responses.
const samplersNote = "samplers"

// NoteSamplers adds to a batch's manifest which engines of ours sampled its responses.
func NoteSamplers(m *seal.Manifest, engines []policy.Arithmetic) error {
	return m.Note(samplersNote, engines)
}

// Samplers are the engines that sampled the responses of a batch, as far as it says.
func Samplers(m seal.Manifest) (engines []policy.Arithmetic, err error) {
	_, err = noted(m, samplersNote, &engines)
	return engines, err
}

// noted reads a note of a manifest, if it has that.
func noted(m seal.Manifest, name string, to any) (bool, error) {
	text, ok := m.Notes[name]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(text, to); err != nil {
		return false, exitcode.Dataf("the manifest of %q has an unreadable note %q: %w", m.Name, name, err)
	}
	return true, nil
}

// Sampling is the distribution that responses are drawn from.
func Sampling(r recipe.Rollout) policy.Sampling {
	return policy.Sampling{Temperature: float32(r.Temperature), TopK: r.TopK, TopP: float32(r.TopP)}
}

// Seconds is a duration as recipes write it.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
