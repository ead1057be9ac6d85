package measure

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// SetScores are the mean scores of a set's answers after each revision, and of
// those less the first answers of the same chains.
type SetScores struct {
	Set          string
	Score, Delta []float64
}

// Last is the mean score after the last step.
func (s SetScores) Last() float64 { return s.Score[len(s.Score)-1] }

// AllSets names the mean over the benchmarks ([recipe.Evaluation.Counted]).
const AllSets = "all sets"

// steps sums up the answers of a version to a set.
func (r *Rows) steps(ctx context.Context, version int, set string) ([]Step, error) {
	answers, err := r.Answers(ctx, version)
	if err != nil {
		return nil, err
	}
	return ByStep(filtered(answers, func(a Answer) bool { return a.Set == set }), r.Steps(set)), nil
}

// Scores are those of each set, and of the benchmarks together where there are several: the
// mean over them, up to the fewest steps of one.
func (r *Rows) Scores(ctx context.Context, version int) ([]SetScores, error) {
	var bySet, counted []SetScores
	fewest, counts := math.MaxInt, r.Recipe.Evaluation.Counted()
	for _, set := range r.Sets() {
		steps, err := r.steps(ctx, version, set)
		if err != nil {
			return nil, err
		}
		of := SetScores{Set: set}
		for i, s := range steps {
			if (s.Score == nil || s.Delta == nil) && !slices.Contains(counts, set) {
				break // what is missing of another set takes nothing from the benchmarks
			}
			if s.Score == nil || s.Delta == nil {
				return nil, Absent(fmt.Sprintf("set %q has no answer that counts after revision %d of policy v%06d", set, i, version))
			}
			of.Score, of.Delta = append(of.Score, s.Score.Mean), append(of.Delta, s.Delta.Mean)
		}
		if len(of.Score) == 0 {
			continue
		}
		bySet = append(bySet, of)
		if slices.Contains(counts, set) {
			counted, fewest = append(counted, of), min(fewest, len(steps))
		}
	}
	if n := float64(len(counted)); n > 1 {
		all := SetScores{AllSets, make([]float64, fewest), make([]float64, fewest)}
		for _, of := range counted {
			floats.AddScaled(all.Score, 1/n, of.Score[:fewest])
			floats.AddScaled(all.Delta, 1/n, of.Delta[:fewest])
		}
		bySet = append(bySet, all)
	}
	return bySet, nil
}

// accuracyByStep are the scores, errors and gains of each set's answers by step, in percent.
func accuracyByStep(ctx context.Context, r *Rows, version int) ([]Value, error) {
	var values []Value
	for _, set := range r.Sets() {
		steps, err := r.steps(ctx, version, set)
		if err != nil {
			return nil, err
		}
		for i, s := range steps {
			if s.Score == nil {
				continue
			}
			add := func(column string, y float64) { values = append(values, Value{"set", set, column, On(i), y}) }
			add("accuracy", 100*s.Score.Mean)
			if s.Score.StandardError != nil {
				add("standard_error", 100**s.Score.StandardError)
			}
			if s.Delta != nil {
				add("delta", 100*s.Delta.Mean)
			}
			add("first_turn", 100*s.FirstTurn.Mean)
			add("problems", float64(s.Score.Problems))
			add("responses", float64(s.Score.Responses))
		}
	}
	scores, err := r.Scores(ctx, version)
	for _, of := range scores {
		for step := range of.Score {
			if of.Set == AllSets {
				values = append(values, Value{"set", AllSets, "accuracy", On(step), 100 * of.Score[step]}, Value{"set", AllSets, "delta", On(step), 100 * of.Delta[step]})
			}
		}
	}
	return values, err
}

// overall finds the scores of the benchmarks together: those of the only one, or the mean.
func (r *Rows) overall(scores []SetScores) SetScores {
	counts := r.Recipe.Evaluation.Counted()
	i := slices.IndexFunc(scores, func(s SetScores) bool { return s.Set == AllSets || len(counts) == 1 && s.Set == counts[0] })
	return scores[i]
}

// Selected is the policy version with the highest mean score after the last step of the sets
// whose role is validation, the earliest of equals, and that score. No other set has a say.
func (r *Rows) Selected(ctx context.Context) (version int, score float64, err error) {
	version = -1
	for _, v := range r.Graph.EvaluatedVersions() {
		mean, err := r.Validated(ctx, v)
		if err != nil {
			return 0, 0, err
		}
		if version < 0 || mean > score {
			version, score = v, mean
		}
	}
	return version, score, nil
}

// Validated is the mean score of a policy version after the last step of the sets whose role
// is validation.
func (r *Rows) Validated(ctx context.Context, version int) (float64, error) {
	sets := r.Recipe.Evaluation.With(recipe.RoleValidation)
	if len(sets) == 0 {
		return 0, Absent("no set of evaluation.sets has the role validation, by which a policy version is selected")
	}
	var last []float64
	for _, set := range sets {
		steps, err := r.steps(ctx, version, set)
		if err != nil {
			return 0, err
		}
		final := steps[len(steps)-1]
		if final.Score == nil {
			return 0, Absent(fmt.Sprintf("set %q has no answer that counts after the last revision of policy v%06d", set, version))
		}
		last = append(last, final.Score.Mean)
	}
	mean, _ := meanOf(last)
	return mean, nil
}

// selectedVersion is the policy version that is selected by validation, with its score there
// and on the benchmarks after the last step, in percent.
func selectedVersion(ctx context.Context, r *Rows) ([]Value, error) {
	version, score, err := r.Selected(ctx)
	if err != nil {
		return nil, err
	}
	values := []Value{{Column: "policy_version", Y: float64(version)}, {Column: "validation", Y: 100 * score}}
	scores, err := r.Scores(ctx, version)
	if err != nil {
		return values, err
	}
	return append(values, Value{Column: "accuracy", Y: 100 * r.overall(scores).Last()}), nil
}

// accuracyByVersion are the scores of all measured versions after the last step, over the
// benchmarks, in percent.
func accuracyByVersion(ctx context.Context, r *Rows) ([]Value, error) {
	var values []Value
	for _, version := range r.Graph.EvaluatedVersions() {
		scores, err := r.Scores(ctx, version)
		if err != nil {
			return values, err
		}
		values = append(values, Value{Column: "accuracy", X: On(version), Y: 100 * r.overall(scores).Last()})
	}
	return values, nil
}

// kindsOf are the kinds of an answer's problem.
func kindsOf(a Answer) []string { return strings.Split(a.Kind, shard.KindJoint) }

// BySetAndKind groups by kind of problem in each set, as SET: KIND.
const BySetAndKind = "set and kind"

// accuracyByKind are the scores of first answers by kind of problem, in percent. A problem
// of several kinds counts for each. Kinds are also told apart by set, as SET: KIND.
func accuracyByKind(ctx context.Context, r *Rows, version int) ([]Value, error) {
	answers, err := r.Answers(ctx, version)
	kinds, bySet := map[string][]float64{}, map[string][]float64{}
	for _, a := range sampledAt(answers, 0) {
		for _, kind := range kindsOf(a) {
			kinds[kind] = append(kinds[kind], a.Score)
			bySet[a.Set+": "+kind] = append(bySet[a.Set+": "+kind], a.Score)
		}
	}
	var values []Value
	add := func(by string, kinds map[string][]float64) {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			m, _ := meanOf(kinds[kind])
			values = append(values, Value{by, kind, "accuracy", nil, 100 * m})
		}
	}
	add("kind", kinds)
	add(BySetAndKind, bySet)
	return values, err
}

// correctionsOf are what self-improvement did to each set's answers from the first to the
// last step.
func correctionsOf(ctx context.Context, r *Rows, version int) ([]Value, error) {
	var values []Value
	for _, set := range r.Sets() {
		steps, err := r.steps(ctx, version, set)
		if err != nil {
			return nil, err
		}
		c := steps[len(steps)-1].Corrections
		for _, n := range []struct {
			column string
			count  int
		}{{"corrected", c.Corrected}, {"broken", c.Broken}, {"kept_right", c.KeptRight}, {"kept_wrong", c.KeptWrong}} {
			values = append(values, Value{"set", set, n.column, nil, float64(n.count)})
		}
	}
	return values, nil
}

// netCorrections are, by step, how many of a version's chains are right there that were
// wrong at first, less those that are wrong there and were right at first; and likewise how
// many have a better score there than at first, less those with a worse one: over the
// benchmarks, and of each set.
func netCorrections(ctx context.Context, r *Rows, version int) ([]Value, error) {
	if !slices.ContainsFunc(r.Sets(), func(set string) bool { return r.Steps(set) > 0 }) {
		return nil, Absent("evaluation.steps is 0: nothing is corrected")
	}
	counts := r.Recipe.Evaluation.Counted()
	var bySet [2][]Value // by column
	all := [2]map[int]int{{}, {}}
	for _, set := range r.Sets() {
		steps, err := r.steps(ctx, version, set)
		if err != nil {
			return nil, err
		}
		for i, s := range steps {
			if s.Corrections.Chains == 0 {
				continue
			}
			for c, n := range []int{s.Corrections.Net, s.Improvements} {
				if slices.Contains(counts, set) {
					all[c][i] += n
				}
				bySet[c] = append(bySet[c], Value{"set", set, netColumns[c], On(i), float64(n)})
			}
		}
	}
	var values []Value
	for c, column := range netColumns {
		for _, i := range slices.Sorted(maps.Keys(all[c])) { // not all: at some step no chain may have an answer
			values = append(values, Value{Column: column, X: On(i), Y: float64(all[c][i])})
		}
	}
	return slices.Concat(values, bySet[0], bySet[1]), nil
}

var netColumns = []string{"net_corrections", "net_improvements"}
