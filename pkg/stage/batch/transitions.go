package batch

import (
	"github.com/lathe-rl/lathe/pkg/shard"
)

// countTransition counts what became of the first answer of a trace of several
// turns: f2s is a failure that the last turn turned into a success, and so on
// (FlipTS §3.2). An effective f2s is one with an advantage other than 0 (FlipTS Fig. 6).
func (r *reduction) countTransition(g group, trace int) {
	t := g.Traces[trace]
	if !t.Valid() {
		return
	}
	moves := false // the policy
	for _, s := range g.segmentsOf(trace) {
		moves = moves || s.Dropped == "" && s.Masked == "" && s.Advantage != 0
	}
	if moves {
		r.metrics["nonzero_advantage"]++
	}
	turns := t.Score.Turns
	if len(turns) < 2 {
		return
	}
	name := transition(turns[0]) + "2" + transition(turns[len(turns)-1])
	r.metrics["transition_"+name]++
	if name == "f2s" && moves {
		r.metrics["effective_f2s"]++
	}
}

// transition is s for a turn that succeeded, and f for one that failed.
func transition(turn shard.TurnScore) string {
	if shard.Outcome(turn.Outcome) == shard.OutcomeOK {
		return "s"
	}
	return "f"
}
