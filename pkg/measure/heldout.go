package measure

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// Step is what a policy version's sampled answers after a revision come to;
// step 0 is that of first answers.
type Step struct {
	Score          *Estimate   // mean score; nil where no answer counts
	Delta          *Estimate   // score less the first one of the same chain (ExIt §5.3: Δ_k); nil where no chain has both
	FirstTurn      *Estimate   // share of answers with the milestone first_turn
	ResponseTokens *Estimate   // length of an answer
	Corrections    Corrections // from first answers to this step
	Improvements   int         // chains with a better score than at first, less those with a worse one
}

// Corrections compares the answers at two revisions, 0 and K where none are
// named.
type Corrections struct {
	Chains    int `json:"chains"`     // sampled lines of answers
	Corrected int `json:"corrected"`  // wrong at step 0, right at step K
	Broken    int `json:"broken"`     // right at step 0, wrong at step K
	KeptRight int `json:"kept_right"` // right at both
	KeptWrong int `json:"kept_wrong"` // wrong at both
	Net       int `json:"net"`        // corrected less broken
	// Problems whose average over samples rose or fell.
	ProblemsImproved int `json:"problems_improved"`
	ProblemsWorsened int `json:"problems_worsened"`
}

// sampledAt are the sampled answers at a step that count.
func sampledAt(answers []Answer, step int) []Answer {
	return filtered(answers, func(a Answer) bool { return a.Sample >= 0 && int(a.Step) == step && a.Counts() })
}

// estimated averages a value of answers.
func estimated(answers []Answer, value func(Answer) float64) *Estimate {
	var t tally
	for _, a := range answers {
		t.add(a.TaskID, value(a))
	}
	return t.estimate()
}

func scoreOf(a Answer) float64 { return a.Score }

// pair is two answers of one chain.
type pair struct{ first, later Answer }

// paired are the chains that have both an earlier answer and a later one.
func paired(earlier, later []Answer) []pair {
	first := map[chainKey]Answer{}
	for _, a := range earlier {
		first[a.chain()] = a
	}
	var pairs []pair
	for _, a := range later {
		if was, both := first[a.chain()]; both {
			pairs = append(pairs, pair{was, a})
		}
	}
	return pairs
}

// gained estimates the mean difference of the scores of pairs, the later less the earlier.
func gained(pairs []pair) *Estimate {
	var t tally
	for _, p := range pairs {
		t.add(p.later.TaskID, p.later.Score-p.first.Score)
	}
	return t.estimate()
}

// corrections counts what came of the first answers of pairs.
func corrections(pairs []pair) Corrections {
	c := Corrections{Chains: len(pairs)}
	change := map[string]float64{}
	for _, p := range pairs {
		switch was, is := p.first.Right(), p.later.Right(); {
		case was && is:
			c.KeptRight++
		case was:
			c.Broken++
		case is:
			c.Corrected++
		default:
			c.KeptWrong++
		}
		change[p.later.TaskID] += p.later.Score - p.first.Score
	}
	c.Net = c.Corrected - c.Broken
	for _, d := range change {
		switch {
		case d > rounding:
			c.ProblemsImproved++
		case d < -rounding:
			c.ProblemsWorsened++
		}
	}
	return c
}

// ByStep sums up the answers of one policy version to one set of problems at the steps 0 to
// last.
func ByStep(answers []Answer, last int) []Step {
	steps := make([]Step, last+1)
	first := sampledAt(answers, 0)
	for i := range steps {
		at := sampledAt(answers, i)
		pairs := paired(first, at)
		steps[i] = Step{
			Score: estimated(at, scoreOf), Delta: gained(pairs), Corrections: corrections(pairs),
			FirstTurn:      estimated(at, func(a Answer) float64 { return oneIf(slices.Contains(a.Milestones, firstTurn)) }),
			ResponseTokens: estimated(at, func(a Answer) float64 { return float64(a.ResponseTokens) }),
		}
		for _, p := range pairs {
			steps[i].Improvements += cmp.Compare(p.later.Score, p.first.Score)
		}
	}
	return steps
}

// firstTurn is the milestone of episodes of several requests whose first turn is right.
const firstTurn = "first_turn"

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// ByProblem are the mean scores of each problem by step, over its sampled chains that have
// all steps 0 to last.
func ByProblem(answers []Answer, last int) map[string][]float64 {
	chains := map[chainKey][]float64{}
	var order []chainKey
	for step := 0; step <= last; step++ {
		for _, a := range sampledAt(answers, step) {
			if step == 0 {
				order = append(order, a.chain())
			}
			if key := a.chain(); len(chains[key]) == step {
				chains[key] = append(chains[key], a.Score)
			}
		}
	}
	problems, counts := map[string][]float64{}, map[string]float64{}
	for _, key := range order {
		if scores := chains[key]; len(scores) == last+1 {
			if problems[key.task] == nil {
				problems[key.task] = make([]float64, last+1)
			}
			floats.Add(problems[key.task], scores)
			counts[key.task]++
		}
	}
	for task, sums := range problems {
		for step := range sums {
			sums[step] /= counts[task]
		}
	}
	return problems
}

// VersionOf sums up the evaluation of one policy version on one set with steps 0 to last.
func VersionOf(version int, answers []Answer, last int) Version {
	v := Version{Version: version}
	for _, a := range answers {
		switch {
		case a.Outcome == string(shard.OutcomeNoRoom):
			v.NoRoom++
		case !a.Counts():
			v.Excluded++
		}
	}
	steps := ByStep(answers, last)
	for _, s := range steps {
		if s.Score == nil {
			break // the lists go by step: none is skipped
		}
		v.AccuracyByStep = append(v.AccuracyByStep, s.Score.Mean)
		v.StandardErrorByStep = append(v.StandardErrorByStep, s.Score.StandardError)
		v.ResponseTokensPerStep = append(v.ResponseTokensPerStep, s.ResponseTokens.Mean)
	}
	v.Accuracy, v.StandardError = steps[0].Score.parts()
	for step := range steps {
		e := estimated(filtered(answers, func(a Answer) bool { return a.Sample < 0 && int(a.Step) == step && a.Counts() }), scoreOf)
		if e == nil {
			break
		}
		v.GreedyAccuracyByStep = append(v.GreedyAccuracyByStep, e.Mean)
	}
	if len(v.GreedyAccuracyByStep) > 0 {
		v.GreedyAccuracy = &v.GreedyAccuracyByStep[0]
	}
	if final := steps[last]; last > 0 && final.Delta != nil {
		v.DeltaK, v.DeltaKStandardError = final.Delta.parts()
		v.Corrections = &final.Corrections
		v.NetCorrections = make([][]int, last+1)
		for i := range v.NetCorrections {
			v.NetCorrections[i] = make([]int, last+1)
			for j := i + 1; j <= last; j++ {
				v.NetCorrections[i][j] = corrections(paired(sampledAt(answers, i), sampledAt(answers, j))).Net
			}
		}
	}
	return v
}

// byKind breaks the accuracy of first answers down by the problems' kinds,
// sorted by name. A problem of several kinds counts for each.
func byKind(before, after []Answer) []KindAccuracy {
	return breakDown(before, after, kindsOf)
}

// byLevel breaks it down by the problems' levels, lowest first. Problems
// without one are left out.
func byLevel(before, after []Answer) []KindAccuracy {
	levels := breakDown(before, after, func(a Answer) []string {
		if a.Level == 0 {
			return nil
		}
		return []string{strconv.Itoa(int(a.Level))}
	})
	slices.SortFunc(levels, func(a, b KindAccuracy) int {
		return cmp.Or(cmp.Compare(len(a.Kind), len(b.Kind)), cmp.Compare(a.Kind, b.Kind))
	})
	return levels
}

// breakDown estimates the accuracy of first answers for each name that some
// problem has, sorted.
func breakDown(before, after []Answer, namesOf func(Answer) []string) []KindAccuracy {
	return listed(slices.Concat(before, after), namesOf, func(name string) (was, is *Estimate) {
		of := func(answers []Answer) *Estimate {
			return estimated(filtered(sampledAt(answers, 0), func(a Answer) bool { return slices.Contains(namesOf(a), name) }), scoreOf)
		}
		return of(before), of(after)
	})
}

// milestones lists, for each milestone that some first answer has reached, the
// share of first answers that have.
func milestones(before, after []Answer) []KindAccuracy {
	namesOf := func(a Answer) []string {
		if a.Sample < 0 || a.Step > 0 {
			return nil
		}
		return a.Milestones
	}
	return listed(slices.Concat(before, after), namesOf, func(name string) (was, is *Estimate) {
		of := func(answers []Answer) *Estimate {
			return estimated(sampledAt(answers, 0), func(a Answer) float64 { return oneIf(slices.Contains(a.Milestones, name)) })
		}
		return of(before), of(after)
	})
}

// listed has a line for each name that some answer has, sorted, with the number of its
// problems.
func listed(answers []Answer, namesOf func(Answer) []string, estimate func(name string) (before, after *Estimate)) []KindAccuracy {
	problems := map[string]map[string]bool{}
	for _, a := range answers {
		for _, name := range namesOf(a) {
			if problems[name] == nil {
				problems[name] = map[string]bool{}
			}
			problems[name][a.TaskID] = true
		}
	}
	var list []KindAccuracy
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		k := KindAccuracy{Kind: name, Problems: len(problems[name])}
		before, after := estimate(name)
		k.Before, k.BeforeStandardError = before.parts()
		k.After, k.AfterStandardError = after.parts()
		list = append(list, k)
	}
	return list
}
