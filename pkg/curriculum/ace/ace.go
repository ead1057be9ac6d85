// Package ace is the curriculum of AceGRPO §4 ("AceGRPO: Adaptive Curriculum Enhanced
// Group Relative Policy Optimization for Autonomous Machine Learning Engineering"): a buffer of states that grows by what responses lead to, from which
// states are drawn by their learnability potential, with a rest after each visit.
//
// A state is a task to draft a solution of, or a response to debug or to improve on.
// The drafts of all tasks are in the buffer from the start and never leave it.
//
// What the paper leaves open is settled by readings acegrpo-uncertainty,
// acegrpo-new-state, acegrpo-rank, acegrpo-cooling, acegrpo-order, acegrpo-all-blocked and
// acegrpo-stages of jobs/READINGS.md.
package ace

import (
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name of this curriculum in recipes.
const Name = "ace"

// scopeVisit is that of the statistics that are a state's visits, H_x of AceGRPO Eq. 9:
// the key is the entry, the iteration the step.
const (
	scopeVisit = "visit"
	nameVisit  = "step"
)

// draftID names the state of a task's draft.
func draftID(taskID string) string { return "draft/" + taskID }

// Ace is the curriculum.
type Ace struct {
	spec Settings
	seed uint64
}

var (
	_ curriculum.Curriculum = (*Ace)(nil)
	_ curriculum.Explainer  = (*Ace)(nil)
	_ curriculum.Measurer   = (*Ace)(nil)
)

// New makes it for a run with a seed. Recipes have checked the settings.
func New(spec Settings, seed uint64) *Ace { return &Ace{spec, seed} }

// Name is as recipes write it.
func (a *Ace) Name() string { return Name }

// Divisible says that prompts are drawn from the entries and tasks that Next is given alone.
func (a *Ace) Divisible() {}

// states are the entries of a state and the drafts of tasks that it does not have:
// at the start, of all.
func (a *Ace) states(state curriculum.State, taskIDs []string) []shard.Entry {
	known := make(map[string]bool, len(taskIDs))
	for _, e := range state.Entries {
		if shard.Kind(e.Kind) == shard.KindInitial {
			known[e.TaskID] = true
		}
	}
	states := slices.Clip(state.Entries)
	for _, id := range taskIDs {
		if !known[id] {
			states = append(states, shard.Entry{EntryID: draftID(id), TaskID: id, Kind: string(shard.KindInitial), Potential: a.spec.InitialPotential})
		}
	}
	return states
}

// Update gives the states that were sampled their potentials and visits,
// and adds the states that their responses lead to, by the operator Φ (AceGRPO §4.1).
func (a *Ace) Update(state curriculum.State, iteration int, groups []curriculum.Group, taskIDs []string) (curriculum.State, error) {
	next := curriculum.State{Iteration: iteration, Entries: slices.Clone(a.states(state, taskIDs))}
	place := make(map[string]int, len(next.Entries))
	for i, e := range next.Entries {
		place[e.EntryID] = i
	}
	visits := visitsOf(state.Stats)
	for _, g := range groups {
		at, known := place[stateOf(g.Instance)]
		if !known {
			return curriculum.State{}, exitcode.Dataf("instance %q is of state %q, which the buffer does not have", g.Instance.InstanceID, stateOf(g.Instance))
		}
		x := &next.Entries[at]
		if potential, ok := a.potential(g); ok {
			x.Potential = potential
		}
		visit(x, g.Instance.Iteration, visits, a.spec.History)
		if a.spec.Grow {
			next.Entries = append(next.Entries, a.derived(g)...)
		}
	}
	for _, e := range next.Entries {
		for _, step := range visits[e.EntryID] {
			next.Stats = append(next.Stats, shard.Stat{Scope: scopeVisit, Key: e.EntryID, Name: nameVisit, Iteration: step, Value: 1})
		}
	}
	if a.spec.PerSecond {
		next.Stats = append(next.Stats, secondsStats(after(secondsOf(state.Stats), groups), iteration)...)
	}
	return next, nil
}

// stateOf names the state that an instance was drawn from.
func stateOf(i shard.Instance) string {
	if i.ParentID == "" {
		return draftID(i.TaskID)
	}
	return i.ParentID
}

// visitsOf are the steps at which each state was sampled, ascending.
func visitsOf(stats []shard.Stat) map[string][]int32 {
	visits := map[string][]int32{}
	for _, s := range stats {
		if s.Scope == scopeVisit {
			visits[s.Key] = append(visits[s.Key], s.Iteration)
		}
	}
	return visits
}

// visit notes that a state was sampled at a step. H_x is a set of steps: two draws in
// one count once.
func visit(e *shard.Entry, step int32, visits map[string][]int32, most int) {
	e.Visits++
	e.LastSampled = max(e.LastSampled, step)
	own := visits[e.EntryID]
	at, there := slices.BinarySearch(own, step)
	if !there {
		own = slices.Insert(slices.Clone(own), at, step)
	}
	visits[e.EntryID] = own[max(0, len(own)-most):]
}

// potential is 𝒫(x) of AceGRPO Eq. 7 from the rewards of a group,
//
//	𝒫(x) = α clip(σ(r), 0, δ_max) + λ clip(1 − μ(r), 0, 1),
//
// with the weight α of AceGRPO Tab. 3, which the equation does not print. σ is the
// population's. ok is false where no reward is the policy's own.
func (a *Ace) potential(g curriculum.Group) (potential float64, ok bool) {
	rewards := g.Values(curriculum.RewardOf)
	if len(rewards) == 0 {
		return 0, false
	}
	mean, variance := curriculum.MeanVariance(rewards)
	return a.spec.UncertaintyWeight*min(math.Sqrt(variance), a.spec.MaxDeviation) + a.spec.HeadroomWeight*max(0, min(1, 1-mean)), true
}

// Kinds are those of derived states.
func (a *Ace) Kinds() []shard.Kind { return []shard.Kind{shard.KindImprove, shard.KindDebug} }

// derived are the states Φ(x, y_i, f_i) of AceGRPO Eq. 1: one to improve on for each valid submission, one
// to debug for each response that failed. A response in which there is nothing to go on
// from leads to none.
func (a *Ace) derived(g curriculum.Group) []shard.Entry {
	var states []shard.Entry
	for _, r := range g.Responses {
		outcome := shard.Outcome(r.Score.Outcome)
		if !r.Valid() || outcome != shard.OutcomeOK && r.Score.Extracted == "" {
			continue
		}
		kind := shard.KindDebug
		if outcome == shard.OutcomeOK {
			kind = shard.KindImprove
		}
		states = append(states, shard.Entry{
			EntryID: fmt.Sprintf("%s/%d", g.Instance.InstanceID, r.Sample), TaskID: g.Instance.TaskID, Kind: string(kind),
			ParentID: g.Instance.InstanceID, Depth: g.Instance.Depth + 1, Turn: r.Said(), Ref: r.Ref,
			BaseScore: r.Quality(), Potential: a.spec.InitialPotential,
		})
	}
	return states
}

// Metrics are the buffer's size, by type, and how it stands.
func (a *Ace) Metrics(state curriculum.State) map[string]float64 {
	m := map[string]float64{"states": float64(len(state.Entries)), "stage": float64(a.stage(state.Iteration, len(state.Entries)))}
	potential := 0.0
	for _, e := range state.Entries {
		m["states_"+e.Kind]++
		potential += e.Potential
		if e.Visits > 0 {
			m["visited"]++
		}
	}
	if len(state.Entries) > 0 {
		m["potential_mean"] = potential / float64(len(state.Entries))
	}
	return m
}

// stage is the number of the stage of the schedule, from 0.
func (a *Ace) stage(step, states int) int {
	measure := states
	if a.spec.StageBy == "steps" {
		measure = step
	}
	stage := 0
	for i, s := range a.spec.Stages {
		if measure >= s.From {
			stage = i
		}
	}
	return stage
}
