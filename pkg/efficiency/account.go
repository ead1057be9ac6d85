package efficiency

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// parseTask is the inverse of graph.Task.String.
func parseTask(name string) (graph.Task, bool) {
	task, _, ok := graph.ParseTask(name)
	if _, err := graph.ParseStage(string(task.Stage)); err != nil {
		return graph.Task{}, false
	}
	return task, ok
}

// weight is what the time of an attempt counts: that of its GPUs, or of its cores
// in a run without any.
func weight(a Attempt, gpus bool) float64 {
	if gpus {
		return a.Seconds * float64(len(a.GPUs))
	}
	return a.Seconds * max(1, a.Cores)
}

// losses sums up the time of attempts that made nothing, by cause, and what the
// slowest task of each array held its GPUs longer than half of its tasks did.
func losses(attempts []Attempt, arrays []array, gpus bool) ([]Loss, LostTo) {
	unit := "core-seconds"
	if gpus {
		unit = "GPU-seconds"
	}
	var all float64
	by := map[string]Loss{}
	book := func(cause string, seconds float64) {
		l := by[cause]
		by[cause] = Loss{Attempts: l.Attempts + 1, Seconds: l.Seconds + seconds}
	}
	for _, a := range attempts {
		all += weight(a, gpus)
		book(a.Disposition, weight(a, gpus))
	}
	for _, a := range arrays {
		if last := a.last(); last.Seconds > a.median() {
			last.Seconds -= a.median()
			book(causeStraggler, weight(last, gpus))
		}
	}
	lost, to := []Loss{}, LostTo{}
	for _, c := range causes {
		l, some := by[c.name]
		if !some {
			continue
		}
		l.To, l.Cause, l.Means, l.Unit = c.to, c.name, c.means, unit
		if all > 0 {
			l.Share = l.Seconds / all
		}
		if c.name == dispositionRequeued || c.name == dispositionStopped {
			to.Unexplained += l.Share
		}
		switch c.to {
		case toPreemption:
			to.Preemption += l.Share
		case toRetries:
			to.Retries += l.Share
		case toStragglers:
			to.Stragglers += l.Share
		}
		lost = append(lost, l)
	}
	return lost, to
}

// array is the tasks of one array that were kept, the fastest first.
type array struct {
	name  string
	tasks []Attempt
}

func (a array) last() Attempt { return a.tasks[len(a.tasks)-1] }

func (a array) median() float64 {
	seconds := make([]float64, len(a.tasks))
	for i, task := range a.tasks {
		seconds[i] = task.Seconds
	}
	return measure.Median(seconds)
}

// arraysOf groups the tasks that were kept. Of a task on several nodes it is the time
// of the slowest one, with the GPUs and cores of all.
func arraysOf(attempts []Attempt) []array {
	grouped := map[string]map[string]Attempt{}
	for _, a := range attempts {
		task, known := parseTask(a.Task)
		if !known || a.Disposition != dispositionKept {
			continue
		}
		name := task.Node.String()
		if grouped[name] == nil {
			grouped[name] = map[string]Attempt{}
		}
		if other, there := grouped[name][a.Task]; there {
			a.Seconds, a.Cores = max(a.Seconds, other.Seconds), a.Cores+other.Cores
			a.GPUs = slices.Concat(other.GPUs, a.GPUs)
		}
		grouped[name][a.Task] = a
	}
	var all []array
	for _, name := range slices.Sorted(maps.Keys(grouped)) {
		if tasks := grouped[name]; len(tasks) > 1 {
			all = append(all, array{name, slices.SortedFunc(maps.Values(tasks), func(a, b Attempt) int {
				return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), cmp.Compare(a.Task, b.Task))
			})})
		}
	}
	return all
}

// tails says how long arrays waited for their slowest tasks, the longest first, and
// which share of the wall clock that is: of each array, how much longer the slowest
// task took than half of them did.
func tails(arrays []array, wall float64) ([]Tail, *float64) {
	all := []Tail{}
	var waited float64
	for _, a := range arrays {
		last := a.last()
		waited += last.Seconds - a.median()
		all = append(all, Tail{Array: a.name, Tasks: len(a.tasks), MedianSeconds: a.median(), LastSeconds: last.Seconds, SlowestTask: last.Task, SlowestHost: last.Host})
	}
	slices.SortStableFunc(all, func(a, b Tail) int {
		return cmp.Compare(b.LastSeconds-b.MedianSeconds, a.LastSeconds-a.MedianSeconds)
	})
	if len(all) == 0 {
		return all, nil
	}
	return all, atMostOne(share(waited, wall))
}

// made counts what the run has made, by its manifests.
func made(ctx context.Context, r *rundir.Run) (Made, error) {
	var m Made
	for k := 1; k <= r.Recipe.Schedule.Iterations; k++ {
		policy, err := seal.Record(ctx, r.Dir.Policy(k))
		if err := unlessMissing(err); err != nil {
			return m, err
		}
		if err == nil {
			m.PolicyUpdates++
			m.LearnedTokens += policy.Metrics["tokens"]
		}
		batch, err := seal.Record(ctx, r.Dir.Batch(k))
		if err := unlessMissing(err); err != nil {
			return m, err
		}
		m.TrainedResponses += batch.Metrics["trained"]
		m.AcceptedSamples += batch.Metrics["outcome_ok"]
	}
	return m, nil
}

func unlessMissing(err error) error {
	if errors.Is(err, seal.ErrNotSealed) || errors.Is(err, seal.ErrDamaged) {
		return nil
	}
	return err
}

// costOf divides what was held by what was made.
func costOf(u Use, gpus bool, m Made) Cost {
	unit := func(n float64) *Unit {
		if n <= 0 {
			return nil
		}
		per := &Unit{CoreSeconds: u.CoreSeconds / n}
		if gpus {
			per.GPUSeconds = share(u.GPUSeconds, n)
		}
		if u.EnergyJoules != nil {
			per.EnergyJoules = share(*u.EnergyJoules, n)
		}
		return per
	}
	return Cost{PerUpdate: unit(float64(m.PolicyUpdates)), PerTrained: unit(m.TrainedResponses), PerAccepted: unit(m.AcceptedSamples)}
}
