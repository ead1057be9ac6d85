package credit

import (
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The reasons of the choices here, as they stand in the ledger.
const (
	ReasonNoSubmission = "no_submission"
	ReasonInvalidTurns = "invalid_turns"
)

func init() {
	SegmentsAxis.Register(registry.Choice[Segments]{
		Name: "valid_submission", Summary: "the turns up to and with each valid submission get one credit (MLE-RL §4.1)",
		Make: func(any) (Segments, error) { return submissions{}, nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonNoSubmission, Summary: "drops segments that do not end with a valid submission (MLE-RL §4.1)",
		Make: func(any) (Select, error) { return NoSubmission{}, nil },
	})
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonInvalidTurns, Summary: "takes the gradient of turns in which nothing can be scored; they stay in the context (MLE-RL §4.1: mask invalid actions)",
		Make: func(any) (Select, error) { return InvalidTurns{}, nil },
	})
}

// submissions are MLE-RL's steps: the actions between two submissions that are
// valid, of which an environment says ok.
type submissions struct{}

// Cut cuts after each turn that is ok, so that each segment is the last step of an S_k
// (MLE-RL Eq. 4). The turns after the last of them are a
// segment, too (reading mlerl-step).
func (submissions) Cut(t Trace) [][2]int {
	var cuts [][2]int
	first := 0
	for turn := range t.Turns() {
		if submitted(t.Turn(turn)) {
			cuts, first = append(cuts, [2]int{first, turn}), turn+1
		}
	}
	if first < t.Turns() || len(cuts) == 0 {
		cuts = append(cuts, [2]int{first, t.Turns() - 1})
	}
	return cuts
}

func submitted(turn shard.TurnScore) bool { return shard.Outcome(turn.Outcome) == shard.OutcomeOK }

// endsSubmitted reports whether a segment's last turn is a valid submission.
func (t Trace) endsSubmitted(s Segment) bool { return s.Last >= s.First && submitted(t.Turn(s.Last)) }

// NoSubmission drops what follows the last valid submission of a trace, and all of a
// trace without one.
type NoSubmission struct{}

// When is before the advantage: nothing is known of what was never graded.
func (NoSubmission) When() When { return Before }

// Drop looks at the last turn.
func (NoSubmission) Drop(g Group, segments []Segment, at int) string {
	if g.Traces[segments[at].Trace].endsSubmitted(segments[at]) {
		return ""
	}
	return ReasonNoSubmission
}

// InvalidTurns takes the gradient of single turns.
type InvalidTurns struct{}

// When leaves the segments in.
func (InvalidTurns) When() When { return Mask }

// Drop masks no whole segment.
func (InvalidTurns) Drop(Group, []Segment, int) string { return "" }

// MaskTurn looks at a turn's own score.
func (InvalidTurns) MaskTurn(t Trace, turn int) bool {
	outcome := shard.Outcome(t.Turn(turn).Outcome)
	return outcome == shard.OutcomeInvalid || outcome == shard.OutcomeTimeout
}
