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

// State is what a curriculum carries from one iteration to the next. It is
// stored whole in state.parquet.
type State struct {
	Iteration int // the last iteration folded in; 0 at the start
	Instances []shard.Instance
}

// Response is one scored response of a group.
type Response struct {
	Sample       int
	Valid        bool            // the outcome is the policy's own
	Quality      float64         // normalised, in [0, 1]
	Conversation []shard.Message // prompt and responses
	Turns        int
}

// Group is one instance of a plan with its scored responses.
type Group struct {
	Instance  shard.Instance
	Responses []Response
}

// Selection names one instance to sample. The caller asks the environment for
// its messages.
type Selection struct {
	TaskID    string
	Kind      shard.Kind
	Origin    shard.Origin
	ParentID  string // the buffer's instance that was selected; empty for base
	Depth     int
	Turn      int
	History   []shard.Message // what to iterate on; empty for base
	BaseScore float64
	Potential float64
}

// Curriculum chooses instances.
type Curriculum interface {
	Name() string
	// Update folds the finished groups of an iteration, in plan order, into
	// a new state. The old state is not changed.
	Update(state State, iteration int, groups []Group) (State, error)
	// Next selects n instances for an iteration's plan from the state and the
	// ids of the training tasks, in their fixed order.
	Next(state State, iteration, n int, taskIDs []string) ([]Selection, error)
}
