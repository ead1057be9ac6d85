package scaffold

import "github.com/lathe-rl/lathe/pkg/env"

// MostTurns bounds the turns of a trace under a budget: each counts as at least this
// fraction of it. It bounds the waves that a run must plan for.
const MostTurns = 4096

// Budget ends a trace when its attempts have taken so long, generation and programs
// together. It is checked before each attempt and, where turns wait for scores,
// before each turn (AceGRPO §5.1; MLE-RL §5.1).
type Budget struct {
	Scaffold
	Seconds float64
}

// Next needs the seconds of every attempt.
func (b Budget) Next(t Trace, traits env.Traits) Next {
	next := b.Scaffold.Next(t, traits)
	switch {
	case next.Done:
		return next
	case !t.known():
		return Next{Wait: true}
	case b.Spent(t) || t.stuck():
		return Next{Done: true}
	}
	return next
}

// Spent reports whether nothing is left for another turn.
func (b Budget) Spent(t Trace) bool {
	return max(t.Seconds(), float64(t.turns())*b.Seconds/MostTurns) >= b.Seconds
}

// Bound is the number of attempts after the first that a recipe's steps and seconds
// allow: under a budget 0 steps set no bound of their own.
func Bound(steps int, seconds float64) int {
	if steps == 0 && seconds > 0 {
		return MostTurns
	}
	return steps
}

// Seconds are those of all attempts.
func (t Trace) Seconds() float64 {
	var all float64
	for _, a := range t.Attempts {
		all += a.Seconds
	}
	return all
}

func (t Trace) turns() int {
	n := 0
	for _, a := range t.Attempts {
		n += a.Turns
	}
	return n
}

// stuck reports that the last two prompts left the policy no room, which takes no
// time: others would follow without end.
func (t Trace) stuck() bool {
	n := len(t.Attempts)
	return n >= 2 && !t.Attempts[n-1].Spoke && !t.Attempts[n-2].Spoke
}
