// Package previous is the curriculum of RL-MLE §3.3 and Alg. 1 ("Reinforcement Learning
// for Machine Learning Engineering Agents"), whose symbols the code keeps: half of the prompts solve a task from scratch, and half improve a solution
// of the last iteration, one of 𝒟_prev.
//
// The paper leaves some things open (jobs/READINGS.md: reading rlmle-improve-coin). They
// are settled here so:
//
//   - 𝒟_prev holds the valid solutions alone (outcome ok) that the last iteration
//     was closed with: "We have also experimented with giving failed executions",
//     which did not help. An iteration without any leaves it empty, and the prompts
//     after it are all from scratch.
//   - "With equal probability" is a coin for each prompt. Exactly half is a setting.
//   - Each prompt draws its member of 𝒟_prev by itself, all members alike, with
//     replacement. Duplicates stay: what is found more often is drawn more often.
//   - A solution of an improve prompt is a member like any other.
package previous

import (
	"fmt"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Previous is the curriculum. Its only state is 𝒟_prev, the entries of
// curriculum.State in the order of the plan and of the samples. An entry's fields
// mean: Ref the response whose solution is improved on, BaseScore its quality,
// Depth the improve steps that led to the one that the entry asks for, that one
// included, ParentID the planned instance that was answered.
type Previous struct {
	spec Settings
	seed uint64
}

var (
	_ curriculum.Curriculum = (*Previous)(nil)
	_ curriculum.Explainer  = (*Previous)(nil)
	_ curriculum.Measurer   = (*Previous)(nil)
)

// Name is the name of this curriculum in recipes.
const Name = "previous"

// SelectedBy names the rule of a selection from 𝒟_prev.
const SelectedBy = "previous"

// New returns the curriculum of a run with the given seed. Recipes have checked
// the settings.
func New(spec Settings, seed uint64) *Previous { return &Previous{spec: spec, seed: seed} }

// Name returns "previous".
func (p *Previous) Name() string { return Name }

// Divisible says that prompts are drawn from the entries and tasks that Next is given alone.
func (p *Previous) Divisible() {}

// Update replaces 𝒟_prev by the valid solutions of an iteration's groups.
func (p *Previous) Update(_ curriculum.State, iteration int, groups []curriculum.Group, _ []string) (curriculum.State, error) {
	next := curriculum.State{Iteration: iteration}
	for _, g := range groups {
		for _, r := range g.Responses {
			if shard.Outcome(r.Score.Outcome) == shard.OutcomeOK {
				next.Entries = append(next.Entries, entryOf(g.Instance, r))
			}
		}
	}
	if len(next.Entries) == 0 {
		next.Notes = []string{fmt.Sprintf("no solution of iteration %d is valid: the prompts after it are all from scratch", iteration)}
	}
	return next, nil
}

// entryOf asks for an improvement on a response to an instance.
func entryOf(instance shard.Instance, r curriculum.Response) shard.Entry {
	return shard.Entry{
		EntryID: fmt.Sprintf("%s/%d/%d/%d", instance.InstanceID, r.Ref.Sample, r.Ref.Step, r.Ref.Messages),
		TaskID:  instance.TaskID, Kind: string(shard.KindImprove), ParentID: instance.InstanceID,
		Depth: instance.Depth + 1, Turn: r.Said(), Ref: r.Ref, BaseScore: r.Quality(),
	}
}

// Kinds is that of solutions.
func (p *Previous) Kinds() []shard.Kind { return []shard.Kind{shard.KindImprove} }

// The draws of one prompt, by position in its stream.
const (
	positionImprove = 0 // a solution, or a task from scratch
	positionEntry   = 1 // which solution
)

// Next selects the n prompts of an iteration, counted from 1: each improves a
// solution with probability p, which is 0 while there is none.
//
// Tasks from scratch are those of the uniform curriculum: prompt i takes the task
// that it has there. The tasks of prompts that improve are passed over.
func (p *Previous) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	tasks := uniform.Tasks(p.spec.BaseTasks, p.seed, state, iteration, n, taskIDs)
	improve := p.probability(state)
	var half []bool
	if p.spec.Exact {
		half = p.half(iteration, n, improve)
	}
	selections := make([]curriculum.Selection, n)
	for i := range selections {
		stream := rng.New(p.seed, rng.PurposeSelect, iteration, "previous prompt", i)
		improves := stream.Bool(positionImprove, improve)
		if p.spec.Exact {
			improves = half[i]
		}
		if !improves {
			selections[i] = uniform.Selection(tasks[i], 1-improve)
			continue
		}
		entry := state.Entries[stream.IntN(positionEntry, len(state.Entries))]
		selections[i] = curriculum.Selection{
			TaskID:      entry.TaskID,
			Kind:        shard.KindImprove,
			Origin:      shard.OriginBuffer,
			ParentID:    entry.EntryID,
			Depth:       int(entry.Depth),
			Turn:        int(entry.Turn),
			Ref:         entry.Ref,
			BaseScore:   entry.BaseScore,
			Probability: improve / float64(len(state.Entries)),
			SelectedBy:  SelectedBy,
		}
	}
	return selections, nil
}

// probability is that of a prompt to improve a solution.
func (p *Previous) probability(state curriculum.State) float64 {
	if len(state.Entries) == 0 {
		return 0
	}
	return p.spec.Improve
}

// half says which of n prompts improve a solution under the setting exact: n·p of
// them, uniformly. Where that is no whole number a coin rounds it, so that each
// prompt still does with probability p.
func (p *Previous) half(iteration, n int, improve float64) []bool {
	stream := rng.New(p.seed, rng.PurposeSelect, iteration, "previous half", 0)
	whole, rest := math.Modf(float64(n) * improve)
	many := int(whole)
	if stream.Bool(0, rest) {
		many++
	}
	chosen := make([]bool, n)
	for _, i := range stream.Permutation(1, n)[:many] {
		chosen[i] = true
	}
	return chosen
}

// Explain gives the probability of a task from scratch, 1 - p, or that of a
// solution: p and its share of 𝒟_prev, multiplied. A selection of a solution that
// the state does not hold is an error of the data.
func (p *Previous) Explain(state curriculum.State, _, _ int, selected curriculum.Selection) ([]curriculum.Term, error) {
	improve := p.probability(state)
	terms := []curriculum.Term{{Name: "solutions", Value: float64(len(state.Entries))}, {Name: "p", Value: improve}}
	if selected.Origin != shard.OriginBuffer {
		return append(terms, curriculum.Term{Name: "probability", Value: 1 - improve}), nil
	}
	if !slices.ContainsFunc(state.Entries, func(e shard.Entry) bool { return e.EntryID == selected.ParentID }) {
		return nil, exitcode.Dataf("solution %q is none of those that it was selected from", selected.ParentID)
	}
	n := float64(len(state.Entries))
	return append(terms,
		curriculum.Term{Name: "base score", Value: selected.BaseScore},
		curriculum.Term{Name: "share", Value: 1 / n},
		curriculum.Term{Name: "probability", Value: improve / n},
	), nil
}

// Metrics say what 𝒟_prev holds: solutions, the tasks that they are of, their mean
// and best quality, and the improve steps behind them.
func (p *Previous) Metrics(state curriculum.State) map[string]float64 {
	if len(state.Entries) == 0 {
		return map[string]float64{"solutions": 0}
	}
	tasks := map[string]bool{}
	var score, depth, best float64
	for _, e := range state.Entries {
		tasks[e.TaskID] = true
		score, depth, best = score+e.BaseScore, depth+float64(e.Depth-1), max(best, e.BaseScore)
	}
	n := float64(len(state.Entries))
	return map[string]float64{"solutions": n, "tasks": float64(len(tasks)), "score_mean": score / n, "score_best": best, "improved_mean": depth / n}
}
