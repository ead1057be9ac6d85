package measure

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// invalidScore is that of a program without a valid submission.
const invalidScore = -10

// trainingPrograms are means over the programs of an iteration, of all tasks and of each:
// seconds of execution, those of valid ones, and the grader's score, -10 of what is not
// valid.
func trainingPrograms(ctx context.Context, r *Rows) ([]Value, error) {
	chains, err := r.trainingChains(ctx)
	if err != nil {
		return nil, err
	}
	all, valid, score, byTask := series{}, series{}, series{}, grouped{}
	for _, c := range chains {
		for _, p := range c.programs {
			own := float64(invalidScore)
			all.add(c.iteration, p.Seconds)
			if p.Valid {
				valid.add(c.iteration, p.Seconds)
				own = p.value(partScore)
			}
			score.add(c.iteration, own)
			byTask.add(c.task, c.iteration, own)
		}
	}
	values := append(all.values("", "", "execute_seconds"), valid.values("", "", "execute_seconds_of_valid")...)
	values = append(values, score.values("", "", "score_or_minus_10")...)
	return append(values, byTask.values("task", "score_or_minus_10")...), nil
}

// sampleSize is how many of so many programs are the first ones, or the last.
func sampleSize(n int) int { return min(128, max(1, n/2)) }

// programsByTask are the best scores of the grader of each training task's first programs
// and of its last ones, in the task's own unit: of those from scratch, of those that
// improve a previous one, and of the last n.
func programsByTask(ctx context.Context, r *Rows) ([]Value, error) {
	chains, err := r.trainingChains(ctx)
	if err != nil {
		return nil, err
	}
	of, tasks := byTask(chains)
	var values []Value
	for _, task := range tasks {
		own := of[task]
		each := sampleSize(len(own))
		last := own[len(own)-each:]
		best := func(column string, from programs) {
			if p := from.bestGraded(); p.Valid {
				values = append(values, Value{"task", task, column, nil, p.Raw})
			}
		}
		values = append(values, Value{"task", task, "lower_is_better", nil, oneIf(slices.ContainsFunc(own, Program.lowerIsBetter))})
		best("first_programs", own.first(each))
		best("last_programs", last)
		values = append(values, Value{"task", task, "programs_each", nil, float64(each)}, Value{"task", task, "programs", nil, float64(len(own))})
		var scratch, improve programs
		for _, p := range last {
			if p.Kind == string(shard.KindInitial) {
				scratch = append(scratch, p)
			} else {
				improve = append(improve, p)
			}
		}
		values = append(values, Value{"task", task, "last_improving", nil, float64(len(improve))})
		best("from_scratch", scratch)
		best("improve_previous", improve)
		for _, n := range []int{8, 64, 128, 256} {
			if n <= len(own) {
				best(fmt.Sprintf("last_%d", n), own[len(own)-n:])
			}
		}
	}
	return values, nil
}

// solutionsByTask are the programs of the samples of each held-out task: mean, sample standard
// deviation, fewest and most.
func solutionsByTask(ctx context.Context, r *Rows, version int) ([]Value, error) {
	chains, err := r.heldOutChains(ctx, version)
	if err != nil {
		return nil, err
	}
	counts := map[string][]float64{}
	for _, c := range chains {
		counts[c.task] = append(counts[c.task], float64(len(c.programs)))
	}
	var values []Value
	for _, task := range slices.Sorted(maps.Keys(counts)) {
		own := counts[task]
		values = append(values, Value{"task", task, "mean", nil, stat.Mean(own, nil)}, Value{"task", task, "fewest", nil, slices.Min(own)}, Value{"task", task, "most", nil, slices.Max(own)})
		if len(own) > 1 {
			values = append(values, Value{"task", task, "std", nil, stat.StdDev(own, nil)})
		}
	}
	return values, nil
}

// heldOutPrograms are the best and the mean score of the grader of each held-out task's
// valid programs, in the task's own unit; the best sees the test grade.
func heldOutPrograms(ctx context.Context, r *Rows, version int) ([]Value, error) {
	chains, err := r.heldOutChains(ctx, version)
	if err != nil {
		return nil, err
	}
	of, tasks := byTask(chains)
	var values []Value
	for _, task := range tasks {
		values = append(values, Value{"task", task, "programs", nil, float64(len(of[task]))})
		var scores []float64
		for _, p := range of[task].valid() {
			scores = append(scores, p.Raw)
		}
		if m, known := meanOf(scores); known {
			values = append(values, Value{"task", task, "best_score", nil, of[task].bestGraded().Raw}, Value{"task", task, "mean_score", nil, m})
		}
	}
	return values, nil
}

// bins are shares in percent of values in intervals of a width.
func bins(values []float64, low, high, width float64) []Value {
	n := int(math.Round((high - low) / width))
	counts := make([]float64, n)
	for _, v := range values {
		counts[max(0, min(n-1, int(math.Floor((v-low)/width+1e-9))))]++
	}
	var shares []Value
	for i, c := range counts {
		shares = append(shares, Value{Column: "submissions", X: On(math.Round(100 * (low + float64(i)*width))), Y: 100 * c / float64(len(values))})
	}
	return shares
}

// rankDistribution is that of the HumanRank of all valid submissions of training, in tenths.
func rankDistribution(ctx context.Context, r *Rows) ([]Value, error) {
	chains, err := r.trainingChains(ctx)
	if err != nil {
		return nil, err
	}
	var ranks []float64
	for _, c := range chains {
		for _, p := range c.programs.valid() {
			if rank, has := p.part(partHumanRank); has {
				ranks = append(ranks, rank)
			}
		}
	}
	if len(ranks) == 0 {
		return nil, Absent("no submission of training has a rank on a leaderboard")
	}
	return bins(ranks, 0, 1, 0.1), nil
}

// gains are those in quality of valid submissions on the first valid one of their trace.
func gains(chains []chain) ([]float64, error) {
	var gains []float64
	for _, c := range chains {
		for i, p := range c.programs.valid() {
			if i > 0 {
				gains = append(gains, p.Quality-c.programs.valid()[0].Quality)
			}
		}
	}
	if len(gains) == 0 {
		return nil, Absent("no trace of training has two valid submissions")
	}
	return gains, nil
}

// gainDistribution is that of the gains, in steps of ten points.
func gainDistribution(ctx context.Context, r *Rows) ([]Value, error) {
	chains, err := r.trainingChains(ctx)
	if err != nil {
		return nil, err
	}
	gains, err := gains(chains)
	if err != nil {
		return nil, err
	}
	return bins(gains, -1, 1, 0.1), nil
}

// thresholds are shares in percent of the valid submissions of training that are not above
// the median of their board, that win no medal, and of later ones of a trace that do not
// gain more than 0.01 on its first.
func thresholds(ctx context.Context, r *Rows) ([]Value, error) {
	chains, err := r.trainingChains(ctx)
	if err != nil {
		return nil, err
	}
	var below, without []float64
	for _, c := range chains {
		for _, p := range c.programs.valid() {
			below, without = append(below, 100*(1-p.value(partMedian))), append(without, 100*(1-p.medal()))
		}
	}
	var values []Value
	if m, known := meanOf(below); known {
		n, _ := meanOf(without)
		values = append(values, Value{Column: "not_above_median", Y: m}, Value{Column: "no_medal", Y: n})
	}
	gains, err := gains(chains)
	if err != nil {
		return values, err
	}
	var little []float64
	for _, g := range gains {
		little = append(little, 100*oneIf(g <= 0.01))
	}
	m, _ := meanOf(little)
	return append(values, Value{Column: "gain_at_most_0_01", Y: m}), nil
}

// bestPrograms are the best score of the grader so far of each training task by iteration,
// in the task's own unit, and the seconds in which a task of training had worked until the
// iteration's last score. An iteration before the first valid program of a task is left
// out.
func bestPrograms(ctx context.Context, r *Rows) ([]Value, error) {
	chains, err := r.trainingChains(ctx)
	if err != nil {
		return nil, err
	}
	seconds, err := scoredAfter(ctx, r.Run)
	if err != nil {
		return nil, err
	}
	byIteration := map[string]map[int]programs{}
	for _, c := range chains {
		if byIteration[c.task] == nil {
			byIteration[c.task] = map[int]programs{}
		}
		byIteration[c.task][c.iteration] = append(byIteration[c.task][c.iteration], c.programs...)
	}
	_, tasks := byTask(chains)
	var values []Value
	for _, task := range tasks {
		var so programs
		for k := 1; k <= r.Last(); k++ {
			so = append(so, byIteration[task][k]...)
			if best := so.bestGraded(); best.Valid {
				values = append(values, Value{"task", task, "best_score", On(k), best.Raw}, Value{"task", task, "seconds", On(k), seconds[k-1]})
			}
		}
	}
	return values, nil
}
