package scaffold

import (
	_ "embed"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/registry"
	"github.com/lathe-rl/lathe/pkg/shard"
)

//go:embed search.go
var searchSource string

var (
	_ = config.Docs[DraftsSettings](searchSource)
	_ = config.Docs[AIDESettings](searchSource)
)

// DraftsSettings are what a recipe says of drafts.
type DraftsSettings struct {
	Drafts int `yaml:"drafts"` // first attempts, before the best of them is improved on
}

// AIDESettings are what a recipe says of AIDE's search.
type AIDESettings struct {
	Drafts       int     `yaml:"drafts"`        // first attempts
	Debug        float64 `yaml:"debug"`         // probability that a failed attempt is debugged, while there is one
	MaxDebugging int     `yaml:"max_debugging"` // how often in a row a failed attempt and its descendants are debugged
}

func init() {
	Axis.Register(registry.Choice[Maker]{
		Name: "greedy_search", Summary: "improve on the best attempt so far, debug the last one if it failed (ExIt §5.3 on MLE-bench)",
		Make: func(any) (Maker, error) { return func(steps int) Scaffold { return Greedy{Steps: steps} }, nil },
	})
	Axis.Register(registry.Choice[Maker]{
		Name: "drafts", Summary: "several first attempts, then improve on the best of them (RL-MLE §4)",
		Settings: func() any { return &DraftsSettings{Drafts: 4} },
		Validate: func(c *config.Checker, settings any) {
			c.AtLeast("scaffold.drafts.drafts", settings.(*DraftsSettings).Drafts, 1)
		},
		Make: func(settings any) (Maker, error) {
			return func(steps int) Scaffold { return Drafts{Steps: steps, DraftsSettings: *settings.(*DraftsSettings)} }, nil
		},
	})
	Axis.Register(registry.Choice[Maker]{
		Name: "aide", Summary: "AIDE's tree: drafts, then debug a failed leaf with a probability, else improve on the best",
		Settings: func() any { return &AIDESettings{Drafts: 5, Debug: 0.5, MaxDebugging: 3} },
		Validate: func(c *config.Checker, settings any) {
			s := settings.(*AIDESettings)
			c.AtLeast("scaffold.aide.drafts", s.Drafts, 1)
			c.Share("scaffold.aide.debug", s.Debug)
			c.AtLeast("scaffold.aide.max_debugging", s.MaxDebugging, 0)
		},
		Make: func(settings any) (Maker, error) {
			return func(steps int) Scaffold { return AIDE{Steps: steps, AIDESettings: *settings.(*AIDESettings)} }, nil
		},
	})
}

// Best is the valid attempt with the best validation score, the earliest of
// equals; one that has not said its score is worse than all that have. Nothing
// but the attempt's own word decides. It is −1 where no attempt is valid.
func Best(attempts []Attempt) int {
	best := -1
	var bestScore float64
	bestSaid := false
	for i, a := range attempts {
		if a.Verdict == nil || a.Failed() {
			continue
		}
		score, said := a.Verdict.Validation()
		if best < 0 || said && (!bestSaid || score > bestScore) {
			best, bestScore, bestSaid = i, score, said
		}
	}
	return best
}

// newDraft is a first attempt.
func (t Trace) newDraft() Next { return Next{Kind: t.Attempts[0].Kind, Parent: -1} }

// from goes on from an attempt: to debug it if it failed, else to improve on it.
// One in which the policy has said nothing leaves only another first attempt.
func (t Trace) from(parent int) Next {
	switch {
	case !t.Attempts[parent].Spoke:
		return t.newDraft()
	case t.Attempts[parent].Failed():
		return Next{Kind: shard.KindDebug, Parent: parent}
	}
	return Next{Kind: shard.KindImprove, Parent: parent}
}

// known says whether there is a score of every attempt in which there is
// something to score.
func (t Trace) known() bool { return t.last().Verdict != nil || !t.last().Spoke }

// Greedy improves K times on the best attempt so far by its validation score. An
// attempt that failed is debugged first.
type Greedy struct {
	Steps int // K, 0 or more
}

// Next needs the score of the last attempt.
func (g Greedy) Next(t Trace, _ env.Traits) Next {
	switch {
	case len(t.Attempts) > g.Steps:
		return Next{Done: true}
	case !t.known():
		return Next{Wait: true}
	}
	parent := len(t.Attempts) - 1
	if best := Best(t.Attempts); best >= 0 && !t.last().Failed() {
		parent = best
	}
	return t.from(parent)
}

// Drafts makes some first attempts and improves on the best of all that there is
// by then, K further attempts in all. Where none is valid the last is debugged.
type Drafts struct {
	Steps int // attempts after the first
	DraftsSettings
}

// Next needs scores once the drafts are made.
func (d Drafts) Next(t Trace, _ env.Traits) Next {
	switch {
	case len(t.Attempts) > d.Steps:
		return Next{Done: true}
	case len(t.Attempts) < d.Drafts:
		return t.newDraft()
	case !t.known():
		return Next{Wait: true}
	}
	if best := Best(t.Attempts); best >= 0 {
		return t.from(best)
	}
	return t.from(len(t.Attempts) - 1)
}

// AIDE searches as AIDE does (Jiang et al., "AIDE: AI-Driven Exploration in the
// Space of Code"): drafts first; then, with a probability, a failed leaf of the
// tree is debugged, drawn uniformly among those that have not been debugged too
// often in a row; else the best attempt is improved on, and where none is valid
// another draft is made.
type AIDE struct {
	Steps int // attempts after the first
	AIDESettings
}

// Next needs the score of the last attempt.
func (a AIDE) Next(t Trace, _ env.Traits) Next {
	switch {
	case len(t.Attempts) > a.Steps:
		return Next{Done: true}
	case !t.known():
		return Next{Wait: true}
	}
	parents := []int{-1}
	for n := 1; n < len(t.Attempts); n++ {
		parents = append(parents, a.choose(t.before(n), parents).Parent)
	}
	return a.choose(t, parents)
}

// choose is the choice after attempts of which the parents are known. The first ones are
// all drafts.
func (a AIDE) choose(t Trace, parents []int) Next {
	if len(parents) < a.Drafts {
		return t.newDraft()
	}
	if t.draw(0) < a.Debug {
		if leaves := a.failedLeaves(t, parents); len(leaves) > 0 {
			return t.from(leaves[int(t.draw(1)*float64(len(leaves)))])
		}
	}
	if best := Best(t.Attempts); best >= 0 {
		return t.from(best)
	}
	return t.newDraft()
}

// failedLeaves are the failed attempts that nothing goes on from and that may be
// debugged once more.
func (a AIDE) failedLeaves(t Trace, parents []int) []int {
	inner := map[int]bool{}
	for _, parent := range parents {
		inner[parent] = true
	}
	var leaves []int
	for i := range t.Attempts {
		debugged := 0
		for at := i; parents[at] >= 0 && t.Attempts[parents[at]].Failed(); at = parents[at] {
			debugged++
		}
		if t.Attempts[i].Failed() && !inner[i] && debugged < a.MaxDebugging {
			leaves = append(leaves, i)
		}
	}
	return leaves
}
