// Package exit is the Exploratory Iteration curriculum of ExIt §4 (Jiang, Lupu,
// Bachrach: Bootstrapping Task Spaces for Self-Improvement).
//
// It keeps a buffer of at most N partial histories of earlier episodes, each
// with a learnability score, and samples them, beside base tasks, as
// one-step self-improvement or self-divergence tasks. The score is a variance
// over a group, so nothing is computed that training does not need anyway.
//
// The paper leaves some things open (jobs/READINGS.md: readings exit-variance, exit-reward,
// exit-expansion, exit-kappa, exit-full-buffer, exit-child-score and exit-sampled-entry).
// They are settled here so:
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

import "github.com/lathe-rl/lathe/pkg/curriculum"

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
	OfReward  = "reward"  // "we apply this explicit normalization to ensure variance-based learnability scores remain comparable", ExIt §4
	OfQuality = "quality" // "the variance of the final quality measure", ExIt §4.1
)

// New returns the curriculum of a run with the given seed. Recipes have checked
// the settings.
func New(spec Settings, seed uint64) *Exit { return &Exit{spec: spec, seed: seed} }

// Name is the name of this curriculum in recipes.
const Name = "exit"

// Name returns "exit".
func (e *Exit) Name() string { return Name }

// Divisible says that prompts are drawn from the entries and tasks that Next is given alone.
func (e *Exit) Divisible() {}
