package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/report"
)

// reached is the best score of a task's programs up to an iteration.
type reached struct {
	task      string
	iteration int
	seconds   float64 // that tasks of training had worked at the iteration's last verdict
	score     float64 // of the grader, in the task's own unit
}

// progress is what training reached, by task and then by iteration. An iteration before
// the first valid program of a task is left out.
func (s *source) progress(ctx context.Context) ([]reached, error) {
	if s.reached != nil {
		return s.reached, nil
	}
	traces, err := s.trained(ctx)
	if err != nil {
		return nil, err
	}
	byTask := map[string][]trace{}
	for _, t := range traces {
		byTask[t.task] = append(byTask[t.task], t)
	}
	if len(byTask) > fewTasks {
		return nil, absent(fmt.Sprintf("it trains on %d tasks: a figure tells at most %d apart", len(byTask), fewTasks))
	}
	seconds, err := report.JudgedAfter(ctx, s.Run.Run)
	if err != nil {
		return nil, err
	}
	all := []reached{}
	for task, own := range byTask {
		var so []program
		next := 0
		for k := 1; k <= s.last(); k++ {
			for ; next < len(own) && own[next].iteration <= k; next++ { // traces are in the order of the iterations
				so = append(so, own[next].programs...)
			}
			if score, ok := bestScore(so); ok {
				all = append(all, reached{task, k, seconds[k-1], score})
			}
		}
	}
	slices.SortFunc(all, func(a, b reached) int {
		return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.iteration, b.iteration))
	})
	s.reached = all
	return all, nil
}

// bestSoFar has the tasks as groups.
func bestSoFar(ctx context.Context, s *source) ([]value, error) {
	all, err := s.progress(ctx)
	var values []value
	for _, r := range all {
		values = append(values, value{r.task, "best score", on(r.iteration), r.score})
	}
	return values, err
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
					values = append(values, own{r.label, value{reached.task, "best score", on(now), reached.score}})
				}
			}
		}
	}
	if len(values) > 0 {
		why = nil
	}
	return values, cmp.Or(lacking(slices.Compact(untimed), "runs of %s took the scores of others, so that no program ran in their time"), why)
}
