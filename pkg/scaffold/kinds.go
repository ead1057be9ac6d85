package scaffold

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// probed bounds the attempts of the traces that Kinds tries.
const probed = 8

// Kinds lists what later attempts of a trace iterate on an earlier one for, found by
// trying: traces whose attempts are all right, all wrong, or right and wrong in turn.
func Kinds(s Scaffold, traits env.Traits) []shard.Kind {
	var kinds []shard.Kind
	verdict := func(outcome shard.Outcome) *env.TurnVerdict {
		return &env.TurnVerdict{Outcome: outcome, Parts: []shard.RewardPart{{Name: env.PartValidation}, {Name: "score"}}}
	}
	ok, wrong := verdict(shard.OutcomeOK), verdict(shard.OutcomeWrong)
	for trial, verdicts := range [][]*env.TurnVerdict{{ok}, {wrong}, {ok, wrong}, {wrong, ok}} {
		trace := Trace{Stream: rng.New(0, rng.PurposeScaffold, 0, "kinds", trial)}
		kind := shard.KindInitial
		for n := range probed {
			v := verdicts[n%len(verdicts)]
			trace.Attempts = append(trace.Attempts, Attempt{Kind: kind, Spoke: true, Verdict: v})
			trace.Known = append(trace.Known, Known{Attempt: n, Verdict: *v})
			next := s.Next(trace, traits)
			if next.Done || next.Wait {
				break
			}
			kind = next.Kind
			asked := kind
			if next.Drafts > 0 {
				asked = shard.KindImprove // each message is improved on before the environment sees it
			}
			if (next.Parent >= 0 || next.From != nil || next.Drafts > 0) && !slices.Contains(kinds, asked) {
				kinds = append(kinds, asked)
			}
		}
	}
	return kinds
}
