package batch

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The best trace is a valid one in which the policy spoke, and the first of several; without one, the first.
func TestBest(t *testing.T) {
	t.Parallel()
	trace := func(outcome shard.Outcome, reward float64) credit.Trace {
		return credit.Trace{Contexts: []credit.Context{{TurnTokens: []int{3}}}, Score: shard.Score{Outcome: string(outcome), Reward: reward}}
	}
	silent := credit.Trace{Score: shard.Score{Outcome: string(shard.OutcomeInvalid), Reward: 5}}
	infra, low, high := trace(shard.OutcomeInfra, 9), trace(shard.OutcomeWrong, -1), trace(shard.OutcomeOK, 1)
	for _, test := range []struct {
		traces []credit.Trace
		want   int
	}{{[]credit.Trace{low}, 0}, {[]credit.Trace{silent, low}, 1}, {[]credit.Trace{infra, low}, 1}, {[]credit.Trace{low, infra, high, high}, 2}, {[]credit.Trace{infra, infra}, 0}} {
		if got := (group{Group: credit.Group{Traces: test.traces}}).best(); got != test.want {
			t.Errorf("%v: trace %d, want %d", test.traces, got, test.want)
		}
	}
}
