// Package flipts is the curriculum of FlipTS §3.3, §3.4 and Alg. 1 ("FlipTS:
// Failure-to-Success Mathematical Self-Refinement via Trajectory-Aware Sampling in
// End-to-End Online RL"), whose symbols the code keeps.
//
// It holds for each question q a belief ξ_q ~ Beta(α_q, β_q) about how often a
// trace turns a failure into a success (F2S), and samples the questions of a
// candidate pool 𝒞 whose draws from their beliefs are nearest to a target.
//
// The paper leaves some things open (jobs/READINGS.md: readings flipts-f2s, flipts-prior,
// flipts-discount, flipts-refresh and flipts-cull). They are settled here so:
//
//   - The prior's moments (FlipTS Eq. 2) are of one ξ̂ per question, pooled over its
//     warm-up rollouts, with the population's variance. Where they give no finite
//     positive pair see [prior].
//   - Only questions in the batch are discounted (FlipTS Eq. 3), the prior's share of
//     their counts with the rest. A question without a valid trace is left as it is.
//   - Within an iteration the posterior comes first, then 𝒪 gains the batch, and
//     then a refresh looks at the updated posterior. Line 25 of FlipTS Alg. 1 prints
//     the index before the update.
//   - A refresh draws 𝒬_new from 𝒟∖𝒞 as 𝒞 was before the cull, and culls no more
//     questions than there are new ones, nor than are observed. Ties are in pool
//     order. A culled question that returns keeps its posterior.
//   - 𝒪 ⊆ 𝒞: what was sampled uniformly before the pool was there, of a plan that
//     was made ahead, updates its posterior and is not observed unless it is in
//     the pool.
package flipts

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// FlipTS is the curriculum. Its state is statistics alone (see belief.read).
type FlipTS struct {
	spec Settings
	seed uint64
}

var (
	_ curriculum.Curriculum = (*FlipTS)(nil)
	_ curriculum.Explainer  = (*FlipTS)(nil)
	_ curriculum.Measurer   = (*FlipTS)(nil)
)

// Name is the name of this curriculum in recipes.
const Name = "flipts"

// New returns the curriculum of a run with the given seed. Recipes have checked
// the settings.
func New(spec Settings, seed uint64) *FlipTS { return &FlipTS{spec: spec, seed: seed} }

// Name returns "flipts".
func (f *FlipTS) Name() string { return Name }

// Update folds the groups of an iteration into the beliefs: lines 11 to 30 of
// FlipTS Alg. 1.
func (f *FlipTS) Update(state curriculum.State, iteration int, groups []curriculum.Group, taskIDs []string) (curriculum.State, error) {
	b, err := read(state.Stats)
	if err != nil {
		return curriculum.State{}, err
	}
	for _, g := range groups {
		n := f.count(g)
		switch q := g.Instance.TaskID; {
		case n.total() == 0: // we failed all of its traces
		case iteration <= f.spec.WarmUp:
			b.warmUp.add(q, n, iteration)
		default:
			b.posterior.discount(q, b.prior, f.spec.Decay, n, iteration)
			b.pool.observe(q)
		}
	}
	var notes []string
	switch {
	case iteration == f.spec.WarmUp:
		var instead string
		b.prior, instead = prior(b.warmUp.rates(), f.spec.SampleVariance, largest(groups))
		notes = append(notes, fmt.Sprintf("the prior is Beta(%.4g, %.4g)", b.prior.alpha, b.prior.beta))
		if instead != "" {
			notes[0] += ": a weak one in place of equation 2's, for " + instead
		}
		b.warmUp = counts{}
		b.pool = f.newPool(iteration, taskIDs)
	case iteration > f.spec.WarmUp:
		f.refresh(&b, iteration, taskIDs)
	}
	return curriculum.State{Iteration: iteration, Stats: b.stats(), Notes: notes}, nil
}

// count is s_q and f_q: the valid traces of a group with and without the event.
func (f *FlipTS) count(g curriculum.Group) count {
	var n count
	for _, r := range g.Responses {
		switch {
		case !r.Valid():
		case f.happened(r.Score):
			n.with++
		default:
			n.without++
		}
	}
	return n
}

// happened reports whether a trace has the event. A trace that was not scored
// turn by turn has one turn.
func (f *FlipTS) happened(score shard.Score) bool {
	succeeded := []bool{shard.Outcome(score.Outcome) == shard.OutcomeOK}
	if len(score.Turns) > 0 {
		succeeded = succeeded[:0]
		for _, turn := range score.Turns {
			succeeded = append(succeeded, shard.Outcome(turn.Outcome) == shard.OutcomeOK)
		}
	}
	last := len(succeeded) - 1
	switch f.spec.Event {
	case EventSuccess:
		return succeeded[last]
	case EventAdjacentF2S:
		for t := range last {
			if !succeeded[t] && succeeded[t+1] {
				return true
			}
		}
		return false
	}
	return !succeeded[0] && succeeded[last]
}

// largest is G: the traces of the largest group.
func largest(groups []curriculum.Group) int {
	most := 1
	for _, g := range groups {
		most = max(most, len(g.Responses))
	}
	return most
}

// newPool samples min(M, |𝒟|) questions uniformly: line 19.
func (f *FlipTS) newPool(iteration int, taskIDs []string) pool {
	var p pool
	for _, q := range f.draw(iteration, taskIDs, f.spec.PoolSize) {
		p = append(p, candidate{question: q, joined: iteration})
	}
	return p
}

// draw takes at most n of some questions, each with equal probability, in the
// order in which they are drawn.
func (f *FlipTS) draw(iteration int, questions []string, n int) []string {
	stream := rng.New(f.seed, rng.PurposeSelect, iteration, "flipts pool", 0)
	drawn := make([]string, 0, min(n, len(questions)))
	for _, i := range stream.Permutation(0, len(questions))[:cap(drawn)] {
		drawn = append(drawn, questions[i])
	}
	return drawn
}

// refresh replaces observed questions that are far from the target, once enough
// of the pool is observed: lines 24 to 28.
func (f *FlipTS) refresh(b *belief, iteration int, taskIDs []string) {
	size := len(b.pool)
	observed := b.pool.observed()
	if big.NewRat(int64(len(observed)), 1).Cmp(share(f.spec.RefreshShare, size)) < 0 {
		return
	}
	slices.SortStableFunc(observed, func(i, j int) int { // the farthest first
		return cmp.Compare(f.miss(b.of(b.pool[j].question).mean()), f.miss(b.of(b.pool[i].question).mean()))
	})
	in := map[string]bool{}
	for _, c := range b.pool {
		in[c.question] = true
	}
	outside := slices.DeleteFunc(slices.Clone(taskIDs), func(q string) bool { return in[q] })
	cull := share(f.spec.CullShare, size)
	n := min(int(new(big.Int).Quo(cull.Num(), cull.Denom()).Int64()), len(observed), len(outside))
	culled := map[int]bool{}
	for _, i := range observed[:n] {
		culled[i] = true
	}
	var kept pool
	for i, c := range b.pool {
		if !culled[i] {
			kept = append(kept, c)
		}
	}
	for _, q := range f.draw(iteration, outside, n) {
		kept = append(kept, candidate{question: q, joined: iteration})
	}
	b.pool = kept
}

// miss is how far a probability is from the target.
func (f *FlipTS) miss(x float64) float64 { return math.Abs(x - f.spec.Target) }

// share is a share of a number, as people write it: 0.07 of 100 is 7, which it
// is not in binary.
func share(of float64, n int) *big.Rat {
	x, _ := new(big.Rat).SetString(strconv.FormatFloat(of, 'g', -1, 64))
	return x.Mul(x, big.NewRat(int64(n), 1))
}
