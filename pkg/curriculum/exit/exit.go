// Package exit is the Exploratory Iteration curriculum: "ExIt" (Jiang, Lupu,
// Bachrach: Bootstrapping Task Spaces for Self-Improvement), section 4. The
// sections that this package names are that paper's.
//
// It keeps a buffer of at most N partial histories of earlier episodes, each
// with a learnability score, and samples them, beside base tasks, as
// one-step self-improvement or self-divergence tasks. The score is a variance
// over a group, so nothing is computed that training does not need anyway.
//
// The paper leaves some things open. They are settled here so:
//
//   - Scores first: an iteration's groups update the scores of the entries
//     that they sampled before any of their responses enters the buffer, so
//     replacement always sees the newest scores.
//   - Among several entries with the lowest score the oldest is replaced.
//     Age is the order of insertion, which is the order of State.Entries.
//   - Entries are sampled with replacement: each prompt of an iteration is
//     one episode of the paper, and draws on its own.
//   - An entry sampled by several groups of an iteration keeps the score of
//     the last of them in plan order.
//   - A prefix that lies inside a group's prompt is not inserted again: it
//     was, when the response that the prompt iterates on was expanded.
//   - Without self-iteration (ablation "curriculum") a selected history is one
//     that ends before a response: the same turn is answered again. That before
//     the first turn is the base task, and is there once.
package exit

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Exit is the curriculum. Its only state is the buffer, the entries of
// curriculum.State, oldest first. An entry's fields mean: Ref the history whose
// last response is iterated on, BaseScore the quality of the episode that the
// history is from, Potential the learnability S (in [0, 0.25] for rewards in
// [0, 1]), Depth the number k+1 of the self-iteration step that the entry asks
// for, Turn the responses in the history, ParentID the planned instance whose
// group it comes from.
type Exit struct {
	spec Settings
	seed uint64
}

var (
	_ curriculum.Curriculum = (*Exit)(nil)
	_ curriculum.Explainer  = (*Exit)(nil)
)

// The values of Settings.Expand.
const (
	ExpandOne = "one" // a uniformly random valid response of each group enters the buffer
	ExpandAll = "all" // each valid response does
)

// The values of Settings.Learnability.
const (
	OfReward  = "reward"  // "we apply this explicit normalization to ensure variance-based learnability scores remain comparable", section 4
	OfQuality = "quality" // "the variance of the final quality measure", section 4.1
)

// New returns the curriculum with the given settings for a run with the given
// seed. Settings out of range are a usage error.
func New(spec Settings, seed uint64) (*Exit, error) {
	switch {
	case spec.BufferSize < 1:
		return nil, exitcode.Usagef("curriculum.exit.buffer_size: got %d, want 1 or more", spec.BufferSize)
	case spec.MinBufferSize < 1 || spec.MinBufferSize > spec.BufferSize:
		return nil, exitcode.Usagef("curriculum.exit.min_buffer_size: got %d, want 1 to buffer_size %d", spec.MinBufferSize, spec.BufferSize)
	case !isProbability(spec.SelectProbability):
		return nil, exitcode.Usagef("curriculum.exit.select_probability: got %v, want 0 to 1", spec.SelectProbability)
	case !isProbability(spec.DivergeProbability):
		return nil, exitcode.Usagef("curriculum.exit.diverge_probability: got %v, want 0 to 1", spec.DivergeProbability)
	case !(spec.InverseTemperature >= 0) || math.IsInf(spec.InverseTemperature, 1):
		return nil, exitcode.Usagef("curriculum.exit.inverse_temperature: got %v, want a finite number of 0 or more", spec.InverseTemperature)
	case spec.Expand != ExpandOne && spec.Expand != ExpandAll:
		return nil, exitcode.Usagef("curriculum.exit.expand: unknown value %q, want one or all", spec.Expand)
	case spec.Learnability != OfReward && spec.Learnability != OfQuality:
		return nil, exitcode.Usagef("curriculum.exit.learnability: unknown value %q, want reward or quality", spec.Learnability)
	}
	return &Exit{spec: spec, seed: seed}, nil
}

// isProbability is false for NaN.
func isProbability(p float64) bool { return p >= 0 && p <= 1 }

// Name is the name of this curriculum in recipes.
const Name = "exit"

// Name returns "exit".
func (e *Exit) Name() string { return Name }
