package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// estimate is a mean over responses of held-out problems.
type estimate struct {
	mean      float64
	err       *float64 // standard error; null with fewer than two problems, or where they do not differ
	problems  int
	responses int
}

// tally sums values by problem, in the order in which problems come up.
type tally struct {
	order  []string
	values map[string][]float64
}

func (t *tally) add(problem string, value float64) {
	if t.values == nil {
		t.values = map[string][]float64{}
	}
	if _, seen := t.values[problem]; !seen {
		t.order = append(t.order, problem)
	}
	t.values[problem] = append(t.values[problem], value)
}

// estimate returns the mean m of all N values x_ij and its standard error
// clustered by the P problems,
//
//	SE = sqrt( P/(P-1) · Σ_i (Σ_j (x_ij - m))² ) / N
//
// (Miller, Adding Error Bars to Evals, 2024, section 2.2, with the
// finite-sample factor of Cameron and Miller, A Practitioner's Guide to
// Cluster-Robust Inference, 2015, section II.B). With one value per problem
// it is the usual standard error of a mean. ok is false without values.
func (t *tally) estimate() (e estimate, ok bool) {
	var sum float64
	for _, problem := range t.order {
		for _, x := range t.values[problem] {
			sum += x
			e.responses++
		}
	}
	if e.responses == 0 {
		return e, false
	}
	e.problems = len(t.order)
	e.mean = sum / float64(e.responses)
	if e.problems < 2 {
		return e, true
	}
	var squares float64
	for _, problem := range t.order {
		var deviation float64
		for _, x := range t.values[problem] {
			deviation += x - e.mean
		}
		squares += deviation * deviation
	}
	if squares == 0 {
		return e, true // all the same: how much they might differ is not known
	}
	p := float64(e.problems)
	se := math.Sqrt(p/(p-1)*squares) / float64(e.responses)
	e.err = &se
	return e, true
}

// score averages the scores of the rows that keep lets through.
func score(rows []shard.EvaluationRow, keep func(shard.EvaluationRow) bool) (estimate, bool) {
	var t tally
	for _, row := range rows {
		if shard.Outcome(row.Outcome).Policys() && keep(row) {
			t.add(row.TaskID, row.Score)
		}
	}
	return t.estimate()
}

// chainKey names one line of answers to one problem.
type chainKey struct {
	task   string
	sample int32
}

// paired estimates the mean difference between two answers to the same
// problem by the same sample number: later - earlier. Chains that have only
// one of the two are left out.
func paired(earlier, later []shard.EvaluationRow) (estimate, bool) {
	first := map[chainKey]float64{}
	for _, row := range earlier {
		if shard.Outcome(row.Outcome).Policys() {
			first[chainKey{row.TaskID, row.Sample}] = row.Score
		}
	}
	var t tally
	for _, row := range later {
		before, ok := first[chainKey{row.TaskID, row.Sample}]
		if ok && shard.Outcome(row.Outcome).Policys() {
			t.add(row.TaskID, row.Score-before)
		}
	}
	return t.estimate()
}

// sampledAt returns the sampled answers of a step.
func sampledAt(rows []shard.EvaluationRow, step int) []shard.EvaluationRow {
	return filtered(rows, func(r shard.EvaluationRow) bool { return r.Sample >= 0 && int(r.Step) == step })
}

func filtered(rows []shard.EvaluationRow, keep func(shard.EvaluationRow) bool) []shard.EvaluationRow {
	var kept []shard.EvaluationRow
	for _, row := range rows {
		if keep(row) {
			kept = append(kept, row)
		}
	}
	return kept
}

// measured are the rows that have an answer of the policy's own.
func measured(rows []shard.EvaluationRow) []shard.EvaluationRow {
	return filtered(rows, func(r shard.EvaluationRow) bool { return shard.Outcome(r.Outcome).Policys() })
}

// assess sums up the evaluation of one version with steps 0 to last.
func assess(version int, rows []shard.EvaluationRow, last int) Version {
	v := Version{Version: version}
	for _, row := range rows {
		switch {
		case row.Outcome == string(shard.OutcomeNoRoom):
			v.NoRoom++
		case !shard.Outcome(row.Outcome).Policys():
			v.Excluded++
		}
	}
	all := func(shard.EvaluationRow) bool { return true }
	for step := 0; step <= last; step++ {
		at := measured(sampledAt(rows, step))
		e, ok := score(at, all)
		if !ok {
			break // the lists go by step: none is skipped
		}
		v.AccuracyByStep = append(v.AccuracyByStep, e.mean)
		v.StandardErrorByStep = append(v.StandardErrorByStep, e.err)
		if step == 0 {
			v.Accuracy, v.StandardError = &e.mean, e.err
		}
		var tokens float64
		for _, row := range at {
			tokens += float64(row.ResponseTokens)
		}
		v.ResponseTokensPerStep = append(v.ResponseTokensPerStep, tokens/float64(len(at)))
	}
	for step := 0; step <= last; step++ {
		greedy := func(r shard.EvaluationRow) bool { return r.Sample < 0 && int(r.Step) == step }
		e, ok := score(rows, greedy)
		if !ok {
			break
		}
		v.GreedyAccuracyByStep = append(v.GreedyAccuracyByStep, e.mean)
		if step == 0 {
			v.GreedyAccuracy = &e.mean
		}
	}
	if last > 0 {
		first, final := sampledAt(rows, 0), sampledAt(rows, last)
		if e, ok := paired(first, final); ok {
			v.DeltaK, v.DeltaKStandardError = &e.mean, e.err
			v.Corrections = corrections(first, final)
			v.NetCorrections = netCorrections(rows, last)
		}
	}
	return v
}

// netCorrections are those of every pair of steps.
func netCorrections(rows []shard.EvaluationRow, last int) [][]int {
	net := make([][]int, last+1)
	for i := range net {
		net[i] = make([]int, last+1)
		for j := i + 1; j <= last; j++ {
			net[i][j] = corrections(sampledAt(rows, i), sampledAt(rows, j)).Net
		}
	}
	return net
}

// corrections counts what self-improvement did to the answers of a step.
func corrections(first, final []shard.EvaluationRow) *Corrections {
	var c Corrections
	right := func(r shard.EvaluationRow) bool { return r.Outcome == string(shard.OutcomeOK) }
	before := map[chainKey]shard.EvaluationRow{}
	for _, row := range first {
		if shard.Outcome(row.Outcome).Policys() {
			before[chainKey{row.TaskID, row.Sample}] = row
		}
	}
	change := map[string]float64{}
	for _, row := range final {
		was, ok := before[chainKey{row.TaskID, row.Sample}]
		if !ok || !shard.Outcome(row.Outcome).Policys() {
			continue
		}
		c.Chains++
		switch {
		case right(was) && right(row):
			c.KeptRight++
		case right(was):
			c.Broken++
		case right(row):
			c.Corrected++
		default:
			c.KeptWrong++
		}
		change[row.TaskID] += row.Score - was.Score
	}
	c.Net = c.Corrected - c.Broken
	for _, d := range change {
		switch {
		case d > 0:
			c.ProblemsImproved++
		case d < 0:
			c.ProblemsWorsened++
		}
	}
	return &c
}

// byKind breaks the accuracy of first answers down by the problems' kinds,
// sorted by name. A problem of several kinds counts for each.
func byKind(before, after []shard.EvaluationRow) []KindAccuracy {
	return breakDown(before, after, func(r shard.EvaluationRow) []string { return strings.Split(r.Kind, shard.KindJoint) })
}

// byLevel breaks it down by the problems' levels, lowest first. Problems
// without one are left out.
func byLevel(before, after []shard.EvaluationRow) []KindAccuracy {
	levels := breakDown(before, after, func(r shard.EvaluationRow) []string {
		if r.Level == 0 {
			return nil
		}
		return []string{strconv.Itoa(int(r.Level))}
	})
	slices.SortFunc(levels, func(a, b KindAccuracy) int {
		return cmp.Or(cmp.Compare(len(a.Kind), len(b.Kind)), cmp.Compare(a.Kind, b.Kind))
	})
	return levels
}

// breakDown estimates the accuracy of first answers for each name that some
// problem has, sorted.
func breakDown(before, after []shard.EvaluationRow, namesOf func(shard.EvaluationRow) []string) []KindAccuracy {
	problems := map[string]map[string]bool{}
	for _, rows := range [][]shard.EvaluationRow{before, after} {
		for _, row := range rows {
			for _, name := range namesOf(row) {
				if problems[name] == nil {
					problems[name] = map[string]bool{}
				}
				problems[name][row.TaskID] = true
			}
		}
	}
	var kinds []KindAccuracy
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		k := KindAccuracy{Kind: name, Problems: len(problems[name])}
		keep := func(r shard.EvaluationRow) bool { return slices.Contains(namesOf(r), name) }
		if e, ok := score(sampledAt(before, 0), keep); ok {
			k.Before, k.BeforeStandardError = &e.mean, e.err
		}
		if e, ok := score(sampledAt(after, 0), keep); ok {
			k.After, k.AfterStandardError = &e.mean, e.err
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// milestones lists, for each milestone that some first answer has reached, the
// share of first answers that have.
func milestones(before, after []shard.EvaluationRow) []KindAccuracy {
	reached := map[string]map[string]bool{} // milestone -> problems
	for _, rows := range [][]shard.EvaluationRow{sampledAt(before, 0), sampledAt(after, 0)} {
		for _, row := range rows {
			for _, name := range row.Milestones {
				if reached[name] == nil {
					reached[name] = map[string]bool{}
				}
				reached[name][row.TaskID] = true
			}
		}
	}
	share := func(rows []shard.EvaluationRow, name string) (estimate, bool) {
		var t tally
		for _, row := range sampledAt(rows, 0) {
			if !shard.Outcome(row.Outcome).Policys() {
				continue
			}
			value := 0.0
			if slices.Contains(row.Milestones, name) {
				value = 1
			}
			t.add(row.TaskID, value)
		}
		return t.estimate()
	}
	var list []KindAccuracy
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		k := KindAccuracy{Kind: name, Problems: len(reached[name])}
		if e, ok := share(before, name); ok {
			k.Before, k.BeforeStandardError = &e.mean, e.err
		}
		if e, ok := share(after, name); ok {
			k.After, k.AfterStandardError = &e.mean, e.err
		}
		list = append(list, k)
	}
	return list
}
