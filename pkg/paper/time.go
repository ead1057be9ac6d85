package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
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
	seconds, err := s.judgedAfter(ctx)
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

// span is when a task of a run worked.
type span struct{ from, to time.Time }

// judgedAfter are the seconds in which a task of training worked, until the last verdict
// on each iteration and on those before was there. A pause of the run does not count, nor
// does waiting in a queue.
func (s *source) judgedAfter(ctx context.Context) ([]float64, error) {
	var spans []span
	judged := make([]time.Time, s.last())
	for k := range judged {
		if k > 0 {
			judged[k] = judged[k-1]
		}
		nodes := append(s.Graph.Waved(graph.Node{Stage: graph.StageRollout, Iteration: k + 1}), graph.Node{Stage: graph.StageBuffer, Iteration: k + 1})
		for _, node := range append(nodes, s.Graph.LearnNodes(k+1)...) {
			own, err := s.spans(ctx, node)
			if err != nil {
				return nil, err
			}
			spans = append(spans, own...)
			for _, task := range own {
				if node.Stage == graph.StageScore && task.to.After(judged[k]) {
					judged[k] = task.to
				}
			}
		}
	}
	seconds := make([]float64, len(judged))
	for k, until := range judged {
		seconds[k] = worked(spans, until)
	}
	return seconds, nil
}

// spans are those of the tasks of a node, of what they sealed that is there or was until
// it was pruned.
func (s *source) spans(ctx context.Context, node graph.Node) ([]span, error) {
	var spans []span
	for n := range s.Graph.Shards(node) {
		for _, path := range s.Graph.Outputs(graph.Task{Node: node, Shard: n}) {
			m, err := seal.Record(ctx, path)
			if errors.Is(err, seal.ErrNotSealed) {
				continue
			}
			if err != nil {
				return nil, err
			}
			spans = append(spans, span{m.Started, m.Ended})
		}
	}
	return spans, nil
}

// worked is how many seconds up to a moment are in one of some spans.
func worked(spans []span, until time.Time) float64 {
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var all time.Duration
	var before time.Time // up to which all is counted
	for _, s := range spans {
		from, to := s.from, s.to
		if from.Before(before) {
			from = before
		}
		if to.After(until) {
			to = until
		}
		if to.After(from) {
			all, before = all+to.Sub(from), to
		}
	}
	return all.Seconds()
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
