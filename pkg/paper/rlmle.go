package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/measure"
)

// rlmlePaper is Reinforcement Learning for Machine Learning Engineering Agents.
// RL-MLE Tab. 2 is of other agents, RL-MLE Tab. 3 has settings; RL-MLE Fig. 3 to 6 and 11
// to 14 are diagrams and examples.
var rlmlePaper = paper{
	name: "rlmle", title: "RL-MLE: Reinforcement Learning for Machine Learning Engineering Agents",
	covered: rlmleCovered,
	queries: []query{
		{
			name: "table-1", title: "Tab. 1", errors: true,
			caption: "Best score of the grader, in each training task's own unit, among its first programs and among its last ones (128, or half of them where there are fewer than 256). ± is the standard error.",
			of:      bestOfTask,
		},
		{
			name: "table-1-held-out", title: "Tab. 1, held out", errors: true,
			caption: "Best score of the grader, in each held-out task's own unit, among all samples, by the policy that a run began with and by its last one. The choice sees the test grade. ± is the standard error.",
			of:      bestHeldOut,
		},
		{
			name: "section-4-2", title: "§4.2", relative: "last programs",
			caption: "Relative gain of the best score among the last programs of RL-MLE Tab. 1 on that of the first method, or of --baseline, more is better: by task, and the mean over tasks.",
			of: func(ctx context.Context, s *source) ([]value, error) {
				return view{measure: "programs_by_task", by: "task", labels: labels{"last_programs": "last programs", "lower_is_better": lowerIsBetter}}.of(ctx, s, 0)
			},
		},
		{
			name: "table-4", title: "Tab. 4",
			caption: "Best score of the grader among the last programs of each training task, of those from scratch, and of those that were asked to improve a previous one. Methods with and without such prompts are compared by RL-MLE Tab. 1.",
			of:      bestByPrompt,
		},
		{
			name: "table-5", title: "Tab. 5",
			caption: "Programs of each held-out task over the samples of the evaluation, by the policy that a run began with: mean, standard deviation, fewest and most.",
			of:      solutions,
		},
		{
			name: "table-6", title: "Tab. 6",
			caption: "Best score of the grader among the last n programs of each training task.",
			of:      bestOfSamples,
		},
		{
			name: "table-7", title: "Tab. 7", errors: true,
			caption: "Mean score of the grader of valid programs, in each held-out task's own unit, by the policy that a run began with: where its recipe has warm_start.pool, one that learned from filtered samples by supervision. ± is the standard error.",
			of:      meanHeldOut,
		},
		{
			name: "figure-7", title: "Fig. 7", axis: "iteration",
			caption: "Best score of the grader so far in training, in each task's own unit.",
			view:    soFar,
		},
		{
			name: "figure-7-seconds", title: "Fig. 7, over time", axis: "seconds of training",
			caption: "The same by the seconds in which at least one task of training had worked; pauses of a run are not in them. What the shorter runs of a method reached stays until its longest one ends.",
			all:     bestOverTime,
		},
		{
			name: "figure-8", title: "Fig. 8", axis: "iteration",
			caption: "Mean seconds that programs of training ran, and those of valid ones.",
			view:    view{measure: "programs", labels: labels{"execute_seconds": "seconds", "execute_seconds_of_valid": "seconds of valid programs"}},
		},
		{
			name: "figure-9", title: "Fig. 9", axis: "iteration",
			caption: "Mean score of programs of training, more is better and −10 for what is not valid, over all tasks. Partial credit is not in it.",
			view:    view{measure: "programs", labels: minusTen},
		},
		{
			name: "figure-10", title: "Fig. 10", axis: "iteration",
			caption: "The same by task.",
			view:    view{measure: "programs", by: "task", labels: minusTen, few: tooMany},
		},
	},
}

const tooMany = "it trains on %d tasks"

var (
	minusTen = labels{"score_or_minus_10": "score, −10 if not valid"}
	soFar    = view{measure: "best_programs", by: "task", labels: labels{"best_score": "best score"}, few: tooMany}
)

// without are the tasks of values that lack one of some columns.
func without(values []value, all labels, measures ...string) []string {
	has, tasks := map[[2]string]bool{}, []string{}
	for _, v := range values {
		has[[2]string{v.group, v.measure}] = true
		if !slices.Contains(tasks, v.group) {
			tasks = append(tasks, v.group)
		}
	}
	return slices.DeleteFunc(tasks, func(task string) bool {
		return !slices.ContainsFunc(measures, func(column string) bool { return !has[[2]string{task, all[column]}] })
	})
}

// shown are the values of some columns alone.
func shown(values []value, of labels, columns ...string) []value {
	return slices.DeleteFunc(slices.Clone(values), func(v value) bool {
		return !slices.ContainsFunc(columns, func(column string) bool { return of[column] == v.measure })
	})
}

func bestOfTask(ctx context.Context, s *source) ([]value, error) {
	names := labels{"first_programs": "first programs", "last_programs": "last programs", "programs_each": "programs each"}
	values, err := view{measure: "programs_by_task", by: "task", labels: names}.of(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	return values, lacking(without(values, names, "first_programs", "last_programs"), "no valid program among the first or the last of %s")
}

// bestHeldOut chooses by the test grade, as the paper does (reading rlmle-best).
func bestHeldOut(ctx context.Context, s *source) ([]value, error) {
	var values []value
	var lack []string
	for _, when := range s.moments(beforeTraining) {
		names := labels{"best_score": when.name, "programs": "programs"}
		own, err := view{measure: "held_out_programs", by: "task", labels: names}.of(ctx, s, when.version)
		if err != nil {
			return values, err
		}
		values = append(values, shown(own, names, "best_score")...)
		for _, task := range without(own, names, "best_score") {
			lack = append(lack, task+" "+when.name)
		}
	}
	return values, lacking(lack, "no valid program for %s")
}

func bestByPrompt(ctx context.Context, s *source) ([]value, error) {
	names := labels{"from_scratch": "from scratch", "improve_previous": "improve previous", "last_improving": "programs"}
	values, err := view{measure: "programs_by_task", by: "task", labels: names}.of(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(shown(values, names, "last_improving"), func(v value) bool { return v.y > 0 }) {
		err = absent("its last programs are from scratch alone")
	}
	return shown(values, names, "from_scratch", "improve_previous"), err
}

func bestOfSamples(ctx context.Context, s *source) ([]value, error) {
	names := labels{"last_8": "8 programs", "last_64": "64 programs", "last_128": "128 programs", "last_256": "256 programs", "programs": "programs"}
	values, err := view{measure: "programs_by_task", by: "task", labels: names}.of(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	of := shown(values, names, "programs")
	fewest := slices.MinFunc(of, func(a, b value) int { return cmp.Compare(a.y, b.y) }).y
	if fewest < 256 {
		err = absent(fmt.Sprintf("the task with the fewest programs has %g", fewest))
	}
	return shown(values, names, "last_8", "last_64", "last_128", "last_256"), err
}

func meanHeldOut(ctx context.Context, s *source) ([]value, error) {
	names := labels{"mean_score": "mean score", "programs": "programs"}
	values, err := view{measure: "held_out_programs", by: "task", labels: names}.of(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	return shown(values, names, "mean_score"), lacking(without(values, names, "mean_score"), "no valid program for %s before training")
}

// solutions are how many programs the samples of a held-out task have.
func solutions(ctx context.Context, s *source) ([]value, error) {
	return view{measure: "solutions", by: "task", labels: labels{
		"mean": "mean", "std": "standard deviation", "fewest": "fewest", "most": "most",
	}}.of(ctx, s, 0)
}

// reached is the best score of a task's programs up to an iteration.
type reached struct {
	task           string
	seconds, score float64 // that tasks of training had worked by then; of the grader, in the task's own unit
}

// progress is what training reached, by task and then by iteration.
func (s *source) progress(ctx context.Context) ([]reached, error) {
	if s.reached != nil {
		return s.reached, nil
	}
	seconds := soFar
	seconds.labels = labels{"best_score": "best score", "seconds": "seconds"}
	values, err := seconds.of(ctx, s, s.Last())
	if err != nil {
		return nil, err
	}
	all := []reached{}
	for i := 0; i+1 < len(values); i += 2 { // a score and its seconds
		all = append(all, reached{values[i].group, values[i+1].y, values[i].y})
	}
	s.reached = all
	return all, nil
}

// bestOverTime is the same at moments that all runs have in common: parts of the time of
// the longest one. A method has them up to the end of its own longest run; what a shorter
// seed has reached by then stays. Runs that took the scores of others, and ran no
// program, are left out.
func bestOverTime(ctx context.Context, runs []*source) ([]own, error) {
	const parts = 24
	longest, longestOf := 0., map[string]float64{}
	var timed []*source
	var untimed []string
	var why error
	for _, r := range runs {
		if r.Identity.Scores != "" {
			untimed = append(untimed, r.label)
			continue
		}
		timed = append(timed, r)
		all, err := r.progress(ctx)
		var reason absent
		if err != nil && !errors.As(err, &reason) {
			return nil, err
		}
		why = cmp.Or(why, err)
		for _, reached := range all {
			longestOf[r.label] = max(longestOf[r.label], reached.seconds)
		}
		longest = max(longest, longestOf[r.label])
	}
	var values []own
	for _, r := range timed {
		for i, reached := range r.reached {
			for part := 1; part <= parts; part++ {
				now, before := longest*float64(part)/parts, longest*float64(part-1)/parts
				next := i+1 < len(r.reached) && r.reached[i+1].task == reached.task && r.reached[i+1].seconds <= now
				if reached.seconds <= now && !next && before < longestOf[r.label] {
					values = append(values, own{r.label, value{reached.task, "best score", measure.On(now), reached.score}})
				}
			}
		}
	}
	if len(values) > 0 {
		why = nil
	}
	return values, cmp.Or(lacking(slices.Compact(untimed), "runs of %s took the scores of others, so that no program ran in their time"), why)
}
