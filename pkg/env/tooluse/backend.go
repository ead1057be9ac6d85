package tooluse

import (
	"context"
	"encoding/json"

	"github.com/lathe-rl/lathe/pkg/bfcl"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Function is what a policy is told of a function.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON schema
}

// Call is one call of a function: its name, and its arguments as the object
// that the policy wrote.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"args"`
}

// Result is what a call gave.
type Result struct {
	Text string // for the policy
	// Failed says that the call could not be executed, by its own fault: no
	// later call of the same message is made.
	Failed bool
}

// Grade is the score of an episode by the side that executes its calls.
type Grade struct {
	Score      float64 // in [0, 1]; 1 when all is as it should be
	Milestones []string
	Why        string
}

// Backend runs the calls of one episode, and holds the state that they
// act on. It does the same
// whenever the same calls are made in the same order: that is how it is brought
// back to where a history has left it.
//
// Errors are failures of ours; what a policy does wrong is a result.
type Backend interface {
	Call(ctx context.Context, call Call) (Result, error)
	// Grade scores the calls that were executed in each of the user's turns.
	// executed holds those that failed too.
	Grade(ctx context.Context, executed [][]Executed) (Grade, error)
	Close() error
}

// gradedAtAnyTime is a Backend whose Grade changes nothing, so that it may be asked
// after each message.
type gradedAtAnyTime interface{ gradedAtAnyTime() }

// Executed is a call that was executed.
type Executed struct {
	Call
	Failed bool
}

// succeeded leaves out the calls that failed.
func succeeded(executed [][]Executed) [][]Call {
	turns := make([][]Call, len(executed))
	for i, turn := range executed {
		turns[i] = []Call{}
		for _, m := range turn {
			if !m.Failed {
				turns[i] = append(turns[i], m.Call)
			}
		}
	}
	return turns
}

// problem is one task as its source has it.
type problem struct {
	id        string
	kind      string
	turns     []string        // what the user asks for, turn by turn
	functions []Function      // that there are
	truth     [][]Call        // reference calls of each turn; nil where the source has none
	state     json.RawMessage // what a program of the user's own starts from
	bfcl      *bfcl.Source    // of a task of BFCL's
	// open makes the backend of an episode in which the user has the given number
	// of turns.
	open func(turns int) Backend
}

// resultMessage shows results to the policy.
func resultMessage(role string, results []string) (shard.Message, error) {
	list, err := plainjson.Line(results)
	if err != nil {
		return shard.Message{}, err
	}
	return shard.Message{Role: role, Content: "<tool_result> " + string(list) + " </tool_result>"}, nil
}
