package bfcl

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// Reasons of the official checker.
const (
	EmptyTurn        = "multi_turn:empty_turn_model_response"
	StateMismatch    = "multi_turn:instance_state_mismatch"
	ResponseMismatch = "multi_turn:execution_response_mismatch"
)

// Verdict is the grade of the calls of a conversation.
type Verdict struct {
	// Official is true when, after every turn that has reference calls, the
	// state is that of the reference and the results of its calls of this turn
	// are among all results so far.
	Official bool
	// ErrorType is the official checker's reason, of the first turn that fails.
	ErrorType string
	// StateEqual is true when the state at the end is that of the reference.
	StateEqual bool
	// CallsSubset is true when, in every turn, the reference calls are among
	// the calls that succeeded, each as often, in any order.
	CallsSubset bool
	// Reward is ExIt's: 1 when StateEqual and CallsSubset, else 0.
	Reward float64
}

// Check grades the calls of each turn. Turns that are missing at the end are
// turns without a call; it is an error if there are more than the task has.
func Check(task Task, turns [][]Call) (Verdict, error) {
	if len(turns) > len(task.Truth) {
		return Verdict{}, fmt.Errorf("the calls have %d turns, the task %s has %d", len(turns), task.ID, len(task.Truth))
	}
	simulator, err := task.Simulator()
	if err != nil {
		return Verdict{}, err
	}
	reference, err := task.Simulator()
	if err != nil {
		return Verdict{}, err
	}
	verdict := Verdict{Official: true, CallsSubset: true}
	seen := map[string]int{} // result -> how often the calls so far gave it
	for i, truth := range task.Truth {
		var calls, successes []Call
		if i < len(turns) {
			calls = turns[i]
		}
		for _, call := range calls {
			result := simulator.Execute(call)
			seen[result.Text]++
			if !result.Failed {
				successes = append(successes, call)
			}
		}
		expected := map[string]int{}
		for _, call := range truth {
			expected[reference.Execute(call).Text]++
		}
		verdict.CallsSubset = verdict.CallsSubset && among(truth, successes, simulator)
		if len(truth) == 0 || !verdict.Official {
			continue
		}
		verdict.ErrorType = officialReason(len(calls), simulator, reference, expected, seen)
		verdict.Official = verdict.ErrorType == ""
	}
	verdict.StateEqual = simulator.equal(reference)
	if verdict.StateEqual && verdict.CallsSubset {
		verdict.Reward = 1
	}
	return verdict, nil
}

// officialReason says why the official checker refuses a turn, if it does.
func officialReason(calls int, simulator, reference *Simulator, expected, seen map[string]int) string {
	if calls == 0 {
		return EmptyTurn
	}
	if !simulator.equal(reference) {
		return StateMismatch
	}
	for text, count := range expected {
		if seen[text] < count {
			return ResponseMismatch
		}
	}
	return ""
}

// among tells whether every call wanted has a call of its own.
func among(wanted, calls []Call, simulator *Simulator) bool {
	used := make([]bool, len(calls))
	for _, want := range wanted {
		found := false
		for i, call := range calls {
			if !used[i] && same(want, call, simulator) {
				used[i], found = true, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// same tells whether two calls are equal by value. Defaults are not filled in:
// an argument written out differs from one left out.
func same(a, b Call, simulator *Simulator) bool {
	if a.Name != b.Name {
		return false
	}
	a, errA := simulator.named(a)
	b, errB := simulator.named(b)
	return errA == nil && errB == nil && python.EqualArguments(a.Named, b.Named)
}
