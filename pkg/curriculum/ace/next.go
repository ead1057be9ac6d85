package ace

import (
	"cmp"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The rules that draw a state.
const (
	selectedByPotential = "potential"    // AceGRPO Eq. 10
	selectedUniformly   = "uniform"      // without adaptive sampling
	selectedLeastRecent = "least_recent" // all that are considered rest
)

// distribution is Q_t with its terms, by state.
type distribution struct {
	stage   Stage
	rule    string
	rank    []float64 // inside of its type, 0 the best
	weight  []float64 // w_base, floored; 0 for what is not considered
	cooling []float64
	q       []float64 // the probability
}

// distribution makes Q_t (AceGRPO Eq. 10) of the states of the buffer for a step.
func (a *Ace) distribution(state curriculum.State, states []shard.Entry, step int) distribution {
	n := len(states)
	d := distribution{stage: a.spec.Stages[a.stage(step-1, n)], rule: selectedByPotential, q: make([]float64, n)}
	if !a.spec.Adaptive {
		d.rule = selectedUniformly
		for i := range d.q {
			d.q[i] = 1 / float64(n)
		}
		return d
	}
	d.rank, d.weight, d.cooling = make([]float64, n), make([]float64, n), make([]float64, n)
	d.ranks(states, a.worth(state, states))
	visits := visitsOf(state.Stats)
	total, open := 0.0, 0.0
	for i, e := range states {
		d.cooling[i] = a.cooling(visits[e.EntryID], step, d.stage.Block)
		d.q[i] = d.weight[i] * d.cooling[i] * a.multiplier(e)
		total += d.q[i]
		if d.weight[i] > 0 && d.cooling[i] > 0 {
			open++
		}
	}
	if total == 0 {
		d.leastRecent(states)
		return d
	}
	for i := range d.q {
		if d.q[i] = (1 - d.stage.Epsilon) * d.q[i] / total; d.weight[i] > 0 && d.cooling[i] > 0 {
			d.q[i] += d.stage.Epsilon / open
		}
	}
	return d
}

// ranks gives each state its rank and its weight (AceGRPO Eq. 8),
//
//	w_base(x, t) = (1 − rank_κ(x, t))^ρ(t), with 0^0 = 1,
//
// and at least the stage's least weight. rank_κ is the position among the states of its
// type by potential, or what [Ace.worth] says, from 0 for the highest, over their number less one; equal ones share
// their mean position, and a lone state has 0. A state is considered if fewer states of
// the whole buffer have a higher potential than the stage's share of them (AceGRPO Tab. 3:
// "Fraction of buffer considered in late stage").
func (d *distribution) ranks(states []shard.Entry, worth []float64) {
	types := map[string][]int{}
	for i, e := range states {
		types[e.Kind] = append(types[e.Kind], i)
	}
	ascending := slices.Sorted(slices.Values(worth))
	considered := int(math.Ceil(d.stage.Top*float64(len(states)) - 1e-9))
	least := ascending[len(states)-considered] // worth of the last state that is considered
	for _, own := range types {
		slices.SortFunc(own, func(a, b int) int { return cmp.Compare(worth[b], worth[a]) })
		n := len(own)
		for first := 0; first < n; {
			last := first
			for last+1 < n && worth[own[last+1]] == worth[own[first]] {
				last++
			}
			rank := 0.0
			if n > 1 {
				rank = float64(first+last) / 2 / float64(n-1)
			}
			weight := 0.0
			if worth[own[first]] >= least {
				weight = max(math.Pow(1-rank, d.stage.Rho), d.stage.MinWeight)
			}
			for ; first <= last; first++ {
				d.rank[own[first]], d.weight[own[first]] = rank, weight
			}
		}
	}
}

// cooling is C(x, t) of AceGRPO Eq. 9,
//
//	C(x, t) = 𝟙(t − t_last > Δ_hard) · ∏_{k ∈ H_x} (1 − γ η^(t−k)),
//
// which is 1 for a state without a visit.
func (a *Ace) cooling(visits []int32, step, block int) float64 {
	c := 1.0
	for _, k := range visits {
		if step-int(k) <= block {
			return 0
		}
		c *= 1 - a.spec.Penalty*math.Pow(a.spec.Decay, float64(step-int(k)))
	}
	return c
}

func (a *Ace) multiplier(e shard.Entry) float64 {
	switch shard.Kind(e.Kind) {
	case shard.KindInitial:
		return a.spec.Draft
	case shard.KindDebug:
		return a.spec.Debug
	}
	return a.spec.Improve
}

// leastRecent is uniform over the states that have rested longest, where all rest.
func (d *distribution) leastRecent(states []shard.Entry) {
	d.rule = selectedLeastRecent
	oldest := slices.MinFunc(states, func(a, b shard.Entry) int { return int(a.LastSampled) - int(b.LastSampled) }).LastSampled
	n := 0.0
	for _, e := range states {
		if e.LastSampled == oldest {
			n++
		}
	}
	for i, e := range states {
		if e.LastSampled == oldest {
			d.q[i] = 1 / n
		}
	}
}

// Next draws states with replacement.
func (a *Ace) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	states := a.states(state, taskIDs)
	d := a.distribution(state, states, iteration)
	cumulated := curriculum.Cumulate(d.q)
	selections := make([]curriculum.Selection, n)
	for i := range selections {
		at := cumulated.Draw(rng.New(a.seed, rng.PurposeSelect, iteration, "state", i).Float64(0))
		selections[i] = selection(states[at], d.q[at], d.rule)
	}
	return selections, nil
}

func selection(e shard.Entry, probability float64, rule string) curriculum.Selection {
	s := curriculum.Selection{
		TaskID: e.TaskID, Kind: shard.Kind(e.Kind), Origin: shard.OriginBase, Potential: e.Potential, Probability: probability, SelectedBy: rule,
	}
	if s.Kind != shard.KindInitial {
		s.Origin, s.ParentID, s.Depth, s.Turn, s.Ref, s.BaseScore = shard.OriginBuffer, e.EntryID, int(e.Depth), int(e.Turn), e.Ref, e.BaseScore
	}
	return s
}

// Explain lists the terms of Q_t: rank, weight and cooling among them.
func (a *Ace) Explain(state curriculum.State, iteration, _ int, selected curriculum.Selection) ([]curriculum.Term, error) {
	id := selected.ParentID
	states := state.Entries
	if id == "" {
		id = draftID(selected.TaskID)
	}
	if len(states) == 0 { // before the first update: drafts alone
		return []curriculum.Term{{Name: "potential", Value: selected.Potential}, {Name: "probability", Value: selected.Probability}}, nil
	}
	at := slices.IndexFunc(states, func(e shard.Entry) bool { return e.EntryID == id })
	if at < 0 {
		return nil, exitcode.Dataf("state %q is not in the buffer that it was selected from", id)
	}
	d := a.distribution(state, states, iteration)
	terms := []curriculum.Term{{Name: "states", Value: float64(len(states))}, {Name: "potential", Value: states[at].Potential}}
	if a.spec.PerSecond {
		terms = append(terms, curriculum.Term{Name: "potential per second", Value: a.worth(state, states)[at]})
	}
	if d.rule != selectedUniformly {
		terms = append(terms,
			curriculum.Term{Name: "rank", Value: d.rank[at]}, curriculum.Term{Name: "ρ", Value: d.stage.Rho}, curriculum.Term{Name: "w_base", Value: d.weight[at]},
			curriculum.Term{Name: "C", Value: d.cooling[at]}, curriculum.Term{Name: "multiplier", Value: a.multiplier(states[at])}, curriculum.Term{Name: "ε", Value: d.stage.Epsilon},
		)
	}
	return append(terms, curriculum.Term{Name: "probability", Value: d.q[at]}), nil
}
