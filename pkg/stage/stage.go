// Package stage holds what the stages of a run have in common. A stage is a
// function over files: it reads sealed files, computes, and seals its output.
// It knows paths only as it is given them, so the same function serves a task
// of a run, a replay, and a person who has plain files.
package stage

import (
	"slices"
	"time"

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

// NoteEngine adds to a manifest what computed the output's numbers.
func NoteEngine(m *seal.Manifest, engine policy.Model) error {
	return m.Note("engine", engine.Arithmetic())
}

// Sampling is the distribution that responses are drawn from.
func Sampling(r recipe.Rollout) policy.Sampling {
	return policy.Sampling{Temperature: float32(r.Temperature), TopK: r.TopK, TopP: float32(r.TopP)}
}

// Seconds is a duration as recipes write it.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
