// Package curriculum decides which instances are sampled next.
//
// A curriculum is a pure function over rows: it sees scored groups and its
// own state, and it names what to sample. It never knows the environment or
// the prompts' texts, and it draws only from counter-based streams
// ([github.com/lathe-rl/lathe/pkg/rng]), so its state can be rebuilt from a run's
// files.
//
// # Writing one
//
// A curriculum is a package of its own with a test, and one line in package
// builtin. The package registers itself with [Register] and embeds the file that
// declares its settings, whose comments become the reference page
// ([config.Docs]). The test calls curriculumtest.Conform; what is left to test is
// the method's own arithmetic. Four choices come up each time:
//
//   - Entries or Stats. An entry is something that a prompt can continue from: it
//     refers to a response (Ref), and a selection of it names it as ParentID.
//     Whatever else is known, such as a number per task, is a statistic.
//   - OriginBase or OriginBuffer. OriginBuffer is a selection of an entry, and has a
//     ParentID. A selection of a training task is OriginBase, however it was chosen.
//   - Reward, Score.Reward or Quality. [Response.Reward] is what the policy is
//     trained on, after recipe key reward: use it to measure what can be
//     learned. [Response.Quality] is the normalized score in [0, 1], comparable
//     between tasks and iterations: use it to measure how good a response is.
//     Score.Reward is the environment's, before the recipe's; no curriculum needs it.
//   - Probability. State the probability with which a prompt of the plan was this
//     selection, before any prompt was drawn. A task that is taken in the order of a
//     permutation counts as not drawn: state the probability that the prompt takes
//     the permutation's next task. Leave 0 what is too costly for every row of a plan,
//     and implement [Explainer]: its last term is the probability.
//
// Only responses with an outcome of the policy's own count ([Response.Valid]); the
// others failed for reasons outside the policy. Callers use [Update] and [Next], which
// check what every curriculum would have to check.
package curriculum

import (
	"github.com/lathe-rl/lathe/pkg/shard"
)

// State is what a curriculum carries from one iteration to the next.
type State struct {
	Iteration int           // the last iteration that it knows; 0 at the start
	Entries   []shard.Entry // what may be selected: state.parquet
	Stats     []shard.Stat  // what else is known: stats.parquet
	Notes     []string      // of the update that made it, for its log; in no file
	// Before is how many prompts the plans before the next one have, where plans differ in
	// size; nil for (iteration-1)·n.
	Before *int
}

// Response is one scored response of a group: the last attempt of a trace.
type Response struct {
	Sample         int
	Ref            shard.Ref // to the whole of its conversation
	Roles          []string  // of the conversation's messages
	PromptMessages int       // of these messages, those before the policy first speaks
	Turns          int       // messages of the policy after these
	Score          shard.Score
	Reward         float64 // that the policy is trained on
}

// Valid reports whether the outcome is the policy's own.
func (r Response) Valid() bool { return shard.Outcome(r.Score.Outcome).Policys() }

// Said is the number of the policy's messages in the conversation, those of the
// prompt's history among them.
func (r Response) Said() int32 {
	n := int32(0)
	for _, role := range r.Roles {
		if role == "assistant" {
			n++
		}
	}
	return n
}

// Quality is the normalised score, in [0, 1].
func (r Response) Quality() float64 { return r.Score.NormalizedScore }

// Group is one instance of a plan with its scored responses.
type Group struct {
	Instance  shard.Instance
	Responses []Response
}

// Values takes a number of each valid response, such as [Response.Quality], in the
// order of the responses.
func (g Group) Values(of func(Response) float64) []float64 {
	var values []float64
	for _, r := range g.Responses {
		if r.Valid() {
			values = append(values, of(r))
		}
	}
	return values
}

// RewardOf is [Response.Reward], for [Group.Values].
func RewardOf(r Response) float64 { return r.Reward }

// Selection names one instance to sample. The caller finds the messages of
// what is iterated on by Ref, and asks the environment for the prompt.
type Selection struct {
	TaskID      string
	Kind        shard.Kind
	Origin      shard.Origin
	ParentID    string // the entry that was selected; empty for base
	Depth       int
	Turn        int
	Ref         shard.Ref // what to iterate on; zero for nothing
	PartnerID   string    // of kind crossover, the other entry that was selected
	PartnerRef  shard.Ref // and what is to be joined
	BaseScore   float64
	Potential   float64
	Probability float64 // as shard.Instance has it
	SelectedBy  string  // the rule that drew it
}

// Curriculum chooses instances. Its methods are called by [Update] and [Next].
type Curriculum interface {
	Name() string
	// Update folds the finished groups of an iteration, in plan order, into
	// a new state. The old state is not changed. taskIDs are those of the training
	// tasks, in their fixed order. The responses of a group come in the order of their
	// samples, the iteration is later than the state's, and no instance has two groups.
	Update(state State, iteration int, groups []Group, taskIDs []string) (State, error)
	// Next selects n instances for an iteration's plan from the state and the
	// ids of the training tasks, in their fixed order. Iterations count from 1, and
	// there is a training task.
	Next(state State, iteration, n int, taskIDs []string) ([]Selection, error)
}

// Asking is a curriculum that selects more than first attempts.
type Asking interface {
	// Kinds lists the other kinds that it selects.
	Kinds() []shard.Kind
}

// Term is one number that the probability of a selection was made from.
type Term struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Explainer is a curriculum that can explain the probabilities of its selections.
type Explainer interface {
	// Explain lists the terms of a selection that Next made from the state for an
	// iteration of n prompts, the probability itself last, by the name
	// "probability". It equals Selection.Probability, unless that is 0 because the
	// probability is too costly to state for every selection of a plan.
	Explain(state State, iteration, n int, selected Selection) ([]Term, error)
}

// Measurer is a curriculum with metrics.
type Measurer interface {
	// Metrics are those of a state that Update made. Manifests and reports have them
	// with the prefix curriculum_.
	Metrics(state State) map[string]float64
}
