package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// byStep is the mean score of a set's answers after each self-improvement step.
func (s *source) byStep(ctx context.Context, version int, set string) ([]float64, error) {
	rows, err := s.answers(ctx, version)
	if err != nil {
		return nil, err
	}
	sums, counts := make([]float64, s.steps(set)+1), make([]float64, s.steps(set)+1)
	for _, row := range rows {
		if row.Set == set && int(row.Step) < len(sums) {
			sums[row.Step] += row.Score
			counts[row.Step]++
		}
	}
	for step := range sums {
		if counts[step] == 0 {
			return nil, absent(fmt.Sprintf("set %q has no answer that counts at step %d of policy v%06d", set, step, version))
		}
		sums[step] /= counts[step]
	}
	return sums, nil
}

// setsAndMean calls a function for each set, and for all of them together where there
// are several: with the mean over sets, up to the fewest steps of one.
func (s *source) setsAndMean(ctx context.Context, version int, each func(set string, scores []float64)) error {
	sets := s.sets()
	var bySet [][]float64
	steps := math.MaxInt
	for _, set := range sets {
		scores, err := s.byStep(ctx, version, set)
		if err != nil {
			return err
		}
		each(set, scores)
		bySet, steps = append(bySet, scores), min(steps, len(scores))
	}
	if len(sets) > 1 {
		all := make([]float64, steps)
		for _, scores := range bySet {
			floats.AddScaled(all, 1/float64(len(sets)), scores[:steps])
		}
		each(allSets, all)
	}
	return nil
}

const allSets = "all sets"

// firstAndLast are, for the policy that a run began with and its last one, the scores
// of first answers and of those after the last step, and their difference, in percent.
func firstAndLast(ctx context.Context, s *source) ([]value, error) {
	var values []value
	for _, when := range s.moments(beforeTraining) {
		err := s.setsAndMean(ctx, when.version, func(set string, scores []float64) {
			k := len(scores) - 1
			if k > 0 {
				values = append(values, value{set, when.name + ": first answer (%)", nil, 100 * scores[0]})
			}
			values = append(values, value{set, fmt.Sprintf("%s: step %d (%%)", when.name, k), nil, 100 * scores[k]})
			if k > 0 {
				values = append(values, value{set, fmt.Sprintf("%s: Δ_%d", when.name, k), nil, 100 * (scores[k] - scores[0])})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if s.Recipe.Evaluation.Steps == 0 {
		return values, absent("evaluation.steps is 0: no self-improvement step was measured, and there is no Δ")
	}
	return values, nil
}

// scoreByStep are the scores of a version's answers by step, in percent.
func scoreByStep(ctx context.Context, s *source, version int) (values []value, err error) {
	if s.Recipe.Evaluation.Steps == 0 {
		return nil, absent("evaluation.steps is 0: there are first answers alone")
	}
	err = s.setsAndMean(ctx, version, func(set string, scores []float64) {
		for step, score := range scores {
			values = append(values, value{set, "score (%)", on(step), 100 * score})
		}
	})
	return values, err
}

// corrections are, by step, how many of a version's chains are right there that
// were wrong at first, less those that are wrong there and were right at first; and
// likewise how many have a better score there than at first, less those with a worse
// one.
func (s *source) corrections(ctx context.Context, version int, bySet bool) ([]value, error) {
	if s.Recipe.Evaluation.Steps == 0 {
		return nil, absent("evaluation.steps is 0: nothing is corrected")
	}
	rows, err := s.answers(ctx, version)
	if err != nil {
		return nil, err
	}
	type chain struct {
		set, task string
		sample    int32
	}
	first := map[chain]answer{}
	for _, row := range rows {
		if row.Step == 0 {
			first[chain{row.Set, row.TaskID, row.Sample}] = row
		}
	}
	type net struct{ corrections, improvements float64 }
	nets := map[string][]net{}
	for _, row := range rows {
		was, known := first[chain{row.Set, row.TaskID, row.Sample}]
		if !known || int(row.Step) > s.steps(row.Set) {
			continue
		}
		group := ""
		if bySet {
			group = row.Set
		}
		for len(nets[group]) <= int(row.Step) {
			nets[group] = append(nets[group], net{})
		}
		n := &nets[group][row.Step]
		switch {
		case row.right() && !was.right():
			n.corrections++
		case !row.right() && was.right():
			n.corrections--
		}
		n.improvements += float64(cmp.Compare(row.Score, was.Score))
	}
	var corrections, improvements []value
	for _, group := range append([]string{""}, s.sets()...) {
		for step, n := range nets[group] {
			corrections = append(corrections, value{group, "net corrections", on(step), n.corrections})
			improvements = append(improvements, value{group, "net improvements", on(step), n.improvements})
		}
	}
	return append(corrections, improvements...), nil
}

// byKind are the scores of first answers by kind of problem, in percent.
func byKind(ctx context.Context, s *source) ([]value, error) {
	var values []value
	for _, when := range s.moments(beforeTraining) {
		rows, err := s.answers(ctx, when.version)
		if err != nil {
			return nil, err
		}
		kinds := map[string][]float64{}
		for _, row := range rows {
			if row.Step == 0 {
				kinds[row.Kind] = append(kinds[row.Kind], row.Score)
			}
		}
		var own []value
		for kind, scores := range kinds {
			m, _ := mean(scores)
			own = append(own, value{kind, when.name + " (%)", nil, 100 * m})
		}
		values = append(values, sortedBy(own)...)
	}
	return values, nil
}

// part is a named part of a reward.
func part(parts []shard.RewardPart, name string) (float64, bool) {
	for _, p := range parts {
		if p.Name == name {
			return p.Value, true
		}
	}
	return 0, false
}
