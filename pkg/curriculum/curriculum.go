// Package curriculum decides which instances are sampled next.
//
// A curriculum is a pure function over rows: it sees scored groups and its
// own state, and it names what to sample. It never knows the environment or
// the prompts' texts, and it never draws from anything but counter-based
// streams, so its state can be rebuilt from a run's files.
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
}

// Response is one scored response of a group: the last attempt of a trace.
type Response struct {
	Sample         int
	Ref            shard.Ref // to the whole of its conversation
	Roles          []string  // of the conversation's messages
	PromptMessages int       // of these messages, those before the policy first speaks
	Turns          int       // messages of the policy after these
	Score          shard.Score
	Reward         float64 // what is learned from; Score.Reward is the environment's
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
	BaseScore   float64
	Potential   float64
	Probability float64 // as shard.Instance has it
	SelectedBy  string  // the rule that drew it
}

// Curriculum chooses instances.
type Curriculum interface {
	Name() string
	// Update folds the finished groups of an iteration, in plan order, into
	// a new state. The old state is not changed. taskIDs are those of the training
	// tasks, in their fixed order.
	Update(state State, iteration int, groups []Group, taskIDs []string) (State, error)
	// Next selects n instances for an iteration's plan from the state and the
	// ids of the training tasks, in their fixed order.
	Next(state State, iteration, n int, taskIDs []string) ([]Selection, error)
}

// Asking is a curriculum that selects more than first attempts.
type Asking interface {
	// Kinds lists what it asks for beside them.
	Kinds() []shard.Kind
}

// Term is one number that the probability of a selection was made from.
type Term struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Explainer is a curriculum that can say where the probabilities of its
// selections come from.
type Explainer interface {
	// Explain lists the terms of a selection that Next made from the state for an
	// iteration of n prompts, the probability itself last. It may be one that is
	// too costly to state for every selection of a plan.
	Explain(state State, iteration, n int, selected Selection) ([]Term, error)
}

// Measurer is a curriculum that says in numbers how it stands.
type Measurer interface {
	// Metrics are of a state that Update made, by names that curriculum_ is put
	// before.
	Metrics(state State) map[string]float64
}
