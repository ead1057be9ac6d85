package scaffold

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// What a trace may be asked for, read off the scaffolds' rules.
func TestKinds(t *testing.T) {
	t.Parallel()
	validated := env.Traits{Turns: 1, Validated: true}
	for _, c := range []struct {
		name   string
		s      Scaffold
		traits env.Traits
		want   []shard.Kind
	}{
		{"one attempt", Single{}, env.Traits{}, nil},
		{"no step", Chain{Steps: 0, Kind: shard.KindImprove}, env.Traits{}, nil},
		{"a chain", Chain{Steps: 2, Kind: shard.KindImprove}, env.Traits{}, []shard.Kind{shard.KindImprove}},
		{"a chain that diverges", Chain{Steps: 1, Kind: shard.KindDiverge}, env.Traits{}, []shard.Kind{shard.KindDiverge}},
		{"a chain that knows failures", Chain{Steps: 2, Kind: shard.KindImprove}, validated, []shard.Kind{shard.KindImprove, shard.KindDebug}},
		{"messages that are improved on", Chain{Steps: 1, Kind: shard.KindImprove}, env.Traits{ByMessage: true}, []shard.Kind{shard.KindImprove}},
		{"greedy search", Greedy{Steps: 3}, validated, []shard.Kind{shard.KindImprove, shard.KindDebug}},
		{"drafts, and no more", Drafts{Steps: 2, DraftsSettings: DraftsSettings{Drafts: 4}}, validated, nil},
		{"AIDE", AIDE{Steps: 20, AIDESettings: AIDESettings{Drafts: 2, Debug: 1, MaxDebugging: 3}}, validated, []shard.Kind{shard.KindImprove, shard.KindDebug}},
	} {
		if got := Kinds(c.s, c.traits); !slices.Equal(got, c.want) {
			t.Errorf("%s asks for %q, want %q", c.name, got, c.want)
		}
	}
}
