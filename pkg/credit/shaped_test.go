package credit

import (
	"math"
	"testing"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestShaped: AceGRPO Eq. 6 by hand, with α = 0.3 and ε = 1e-6 of AceGRPO Tab. 3.
// A score of 0.5 after one of 0.2: 0.7 × 0.5 + 0.3 × 0.3/0.800001; a first attempt has
// s_p = 0: 0.35 + 0.3 × 0.5/1.000001; fixed: 0.35 + 0.3 × 1.5/2.000001.
func TestShaped(t *testing.T) {
	t.Parallel()
	const ok, invalid = shard.OutcomeOK, shard.OutcomeInvalid
	literal, zero := &Shaped{Alpha: 0.3, Epsilon: 1e-6, FailedParent: -1}, &Shaped{Alpha: 0.3, Epsilon: 1e-6}
	for _, c := range []struct {
		settings    *Shaped
		kind        shard.Kind
		base, score float64
		outcome     shard.Outcome
		want        float64
	}{
		{literal, shard.KindImprove, 0.2, 0.5, ok, 0.35 + 0.3*0.3/0.800001},
		{literal, shard.KindImprove, 0.5, 0.2, ok, 0.14}, // worse: only the score itself
		{literal, shard.KindImprove, 0.5, 0.5, ok, 0.35},
		{literal, shard.KindImprove, 1, 1, ok, 0.7}, // 0/ε
		{literal, shard.KindInitial, 0, 0.5, ok, 0.35 + 0.3*0.5/1.000001},
		{literal, shard.KindInitial, 0.9, 0.5, ok, 0.35 + 0.3*0.5/1.000001}, // a first attempt goes on from nothing
		{literal, shard.KindDebug, 0, 0.5, ok, 0.35 + 0.3*1.5/2.000001},
		{zero, shard.KindDebug, 0, 0.5, ok, 0.35 + 0.3*0.5/1.000001},
		{literal, shard.KindDebug, 0, 0, ok, 0.3 * 1 / 2.000001}, // valid, and last on the board
		{literal, shard.KindInitial, 0, 0, invalid, 0},
		{literal, shard.KindImprove, 0.2, 0.5, invalid, 0}, // no score counts without a valid submission
		{&Shaped{Alpha: 0, Epsilon: 1e-6}, shard.KindImprove, 0.2, 0.5, ok, 0.5},
		{&Shaped{Alpha: 1, Epsilon: 1e-6}, shard.KindImprove, 0.2, 0.5, ok, 0.3 / 0.800001},
	} {
		raw, got := c.settings.reward(shard.Instance{Kind: string(c.kind), BaseScore: c.base}, shard.TurnScore{Outcome: string(c.outcome), NormalizedScore: c.score})
		if raw != c.score || math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%+v %s of %v: score %v, reward %v; want %v", *c.settings, c.kind, c.base, raw, got, c.want)
		}
	}
}
