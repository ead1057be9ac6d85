package credit

import (
	_ "embed"
	"math"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed top.go
var topSource string

var _ = config.Docs[Top](topSource)

// ReasonBelowTop is the reason of [Top] in the ledger.
const ReasonBelowTop = "below_top"

// Top keeps the best solutions of each group and drops the rest, as STaR does where
// solutions have scores (RL-MLE App. D.4, "filter for top 50%" and "top 90%"): with loss.kind nll
// they are what a policy is fine-tuned on.
//
// Of the n segments of a group that end in a valid solution (outcome ok) those are
// kept which fewer than ⌈share·n⌉ others beat. Equal scores stay or go together, so
// a group of equal scores stays whole. Scores are what the environment says, not
// the reward. What is no valid solution is dropped always.
type Top struct {
	Share float64 `yaml:"share"` // of each group's valid solutions, the best of which are kept, in (0, 1]
}

func init() {
	SelectAxis.Register(registry.Choice[Select]{
		Name: ReasonBelowTop, Summary: "drops what is not among the best of its group's valid solutions (STaR; RL-MLE App. D.4)",
		Settings: func() any { return &Top{Share: 0.5} },
		Validate: func(c *config.Checker, settings any) {
			if share := settings.(*Top).Share; !(share > 0 && share <= 1) {
				c.Add("select.below_top.share", share, "must be above 0 and at most 1")
			}
			kind, _ := config.Find[string](c.Settings(), "loss.kind")
			if _, both := picks(c, ReasonMinAdvantage); both && !loss.LooksAtAdvantage(kind) {
				c.Add("select.min_advantage", nil, "must not stand beside below_top, or a good solution with a small reward is dropped all the same")
			}
		},
		Make: func(settings any) (Select, error) { return *settings.(*Top), nil },
	})
}

// When is after the advantage.
func (Top) When() When { return After }

// Drop counts how many of the group's valid solutions are better.
func (t Top) Drop(g Group, segments []Segment, at int) string {
	valid := func(s Segment) bool {
		return shard.Outcome(g.Traces[s.Trace].verdict(s).Outcome) == shard.OutcomeOK
	}
	if !valid(segments[at]) {
		return ReasonBelowTop
	}
	n, better := 0, 0
	for _, s := range segments {
		if s.Dropped != "" || !valid(s) {
			continue
		}
		n++
		if s.Raw > segments[at].Raw {
			better++
		}
	}
	const rounding = 1e-9 // a share of a number, as people write it: 0.55 of 100 is 55, which it is not in binary
	if float64(better) >= math.Ceil(t.Share*float64(n)-rounding) {
		return ReasonBelowTop
	}
	return ""
}
