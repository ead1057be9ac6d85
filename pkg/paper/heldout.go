package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// scored are mean scores of a set's answers after each self-improvement step, and of
// those less the first answers of the same chains.
type scored struct{ score, delta []float64 }

// last is the mean score after the last step.
func (s scored) last() float64 { return s.score[len(s.score)-1] }

// byStep scores a set.
func (s *source) byStep(ctx context.Context, version int, set string) (scored, error) {
	rows, err := s.answers(ctx, version)
	if err != nil {
		return scored{}, err
	}
	type chain struct {
		task   string
		sample int32
	}
	steps := s.steps(set) + 1
	first := map[chain]float64{}
	at, later, earlier := make([][]float64, steps), make([][]float64, steps), make([][]float64, steps)
	for _, row := range rows { // first answers come before later ones
		if row.Set != set || int(row.Step) >= steps {
			continue
		}
		of := chain{row.TaskID, row.Sample}
		if row.Step == 0 {
			first[of] = row.Score
		}
		at[row.Step] = append(at[row.Step], row.Score)
		if was, known := first[of]; known {
			later[row.Step], earlier[row.Step] = append(later[row.Step], row.Score), append(earlier[row.Step], was)
		}
	}
	means := scored{make([]float64, steps), make([]float64, steps)}
	for step := range steps {
		score, known := mean(at[step])
		after, paired := mean(later[step])
		if !known || !paired {
			return scored{}, absent(fmt.Sprintf("set %q has no answer that counts at step %d of policy v%06d", set, step, version))
		}
		before, _ := mean(earlier[step])
		means.score[step], means.delta[step] = score, after-before
	}
	return means, nil
}

// setsAndMean calls a function for each set, and for all of them together where there
// are several: with the mean over sets, up to the fewest steps of one.
func (s *source) setsAndMean(ctx context.Context, version int, each func(set string, of scored)) error {
	sets := s.sets()
	var bySet []scored
	steps := math.MaxInt
	for _, set := range sets {
		of, err := s.byStep(ctx, version, set)
		if err != nil {
			return err
		}
		each(set, of)
		bySet, steps = append(bySet, of), min(steps, len(of.score))
	}
	if len(sets) > 1 {
		all := scored{make([]float64, steps), make([]float64, steps)}
		for _, of := range bySet {
			floats.AddScaled(all.score, 1/float64(len(sets)), of.score[:steps])
			floats.AddScaled(all.delta, 1/float64(len(sets)), of.delta[:steps])
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
		err := s.setsAndMean(ctx, when.version, func(set string, of scored) {
			k := len(of.score) - 1
			if k > 0 {
				values = append(values, value{set, when.name + ": first answer (%)", nil, 100 * of.score[0]})
			}
			values = append(values, value{set, fmt.Sprintf("%s: step %d (%%)", when.name, k), nil, 100 * of.score[k]})
			if k > 0 {
				values = append(values, value{set, fmt.Sprintf("%s: Δ_%d", when.name, k), nil, 100 * of.delta[k]})
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
	err = s.setsAndMean(ctx, version, func(set string, of scored) {
		for step, score := range of.score {
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
