package efficiency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The fates of an attempt.
const (
	fateKept       = "kept"       // its outputs are the run's
	fatePreempted  = "preempted"  // it was told to stop, or killed, and Slurm began the same job again
	fateFailed     = "failed"     // it said so itself
	fateKilled     = "killed"     // it ended without a word: by SIGKILL, for lack of memory, with its node
	fateSuperseded = "superseded" // another attempt at the same task sealed first
	fateOpen       = "running"    // its task has no outputs yet, and no later attempt
	fateUnknown    = "unknown"    // it is of no task of the run
)

var taskName = regexp.MustCompile(`^([a-z]+)-(\d{6,})(?:-step(\d{3,})|-w(\d{2,}))?-(\d{5,})$`)

// parseTask is the inverse of graph.Task.String.
func parseTask(name string) (graph.Task, bool) {
	found := taskName.FindStringSubmatch(name)
	if found == nil {
		return graph.Task{}, false
	}
	stage, err := graph.ParseStage(found[1])
	if err != nil {
		return graph.Task{}, false
	}
	var numbers [6]int
	for i := 2; i < len(found); i++ {
		if found[i] == "" {
			continue
		}
		if numbers[i], err = strconv.Atoi(found[i]); err != nil {
			return graph.Task{}, false
		}
	}
	node := graph.Node{Stage: stage, Iteration: numbers[2], Step: numbers[3], Wave: numbers[4]}
	return graph.Task{Node: node, Shard: numbers[5]}, true
}

// decide says what became of each attempt.
func decide(ctx context.Context, r *rundir.Run, attempts []Attempt) error {
	records := map[string]int{} // exit codes, by task and attempt
	for _, record := range rundir.ReadExitRecords(r.Dir) {
		records[fmt.Sprintf("%s.%d", record.Task, record.Attempt)] = record.Code
	}
	again := map[string]int{} // the last attempt of a job, by task and job
	latest := map[string]int{}
	for _, a := range attempts {
		again[a.Task+" "+a.Job] = max(again[a.Task+" "+a.Job], a.Number)
		latest[a.Task] = max(latest[a.Task], a.Number)
	}
	for i := range attempts {
		a := &attempts[i]
		task, known := parseTask(a.Task)
		if !known {
			a.Fate = fateUnknown
			continue
		}
		sealed, kept, err := outputOf(ctx, r, task, *a)
		if err != nil {
			return err
		}
		code, recorded := records[fmt.Sprintf("%s.%d", a.Task, a.Number)]
		requeued := again[a.Task+" "+a.Job] > a.Number
		switch {
		case kept:
			a.Fate = fateKept
		case requeued, recorded && code == exitcode.Stopped:
			a.Fate = fatePreempted
		case recorded:
			a.Fate = fateFailed
		case latest[a.Task] > a.Number:
			a.Fate = fateKilled
		case sealed:
			a.Fate = fateSuperseded
		default:
			a.Fate = fateOpen
		}
	}
	return nil
}

// outputOf reports whether the outputs of a task are sealed, and by this attempt.
func outputOf(ctx context.Context, r *rundir.Run, task graph.Task, a Attempt) (sealed, kept bool, err error) {
	if r.Graph.Check(task) != nil {
		return false, false, nil
	}
	for _, path := range r.Graph.Outputs(task) {
		m, err := seal.Record(ctx, path)
		switch {
		case errors.Is(err, seal.ErrNotSealed), errors.Is(err, seal.ErrDamaged):
			continue
		case err != nil:
			return false, false, err
		}
		sealed = true
		if m.Attempt == a.Number && m.Host == a.Host {
			return true, true, nil
		}
	}
	return sealed, false, nil
}

// weight is what the time of an attempt counts: that of its GPUs, or of its cores
// in a run without any.
func weight(a Attempt, gpus bool) float64 {
	if gpus {
		return a.Seconds * float64(len(a.GPUs))
	}
	return a.Seconds * max(1, a.Cores)
}

// losses sums up the time of attempts that made nothing.
func losses(attempts []Attempt, gpus bool) []Loss {
	var all float64
	by := map[string]*Loss{}
	for _, a := range attempts {
		all += weight(a, gpus)
		switch a.Fate {
		case fatePreempted, fateFailed, fateKilled, fateSuperseded:
			l := by[a.Fate]
			if l == nil {
				l = &Loss{Cause: a.Fate}
				by[a.Fate] = l
			}
			l.Attempts++
			l.Seconds += weight(a, gpus)
		}
	}
	lost := []Loss{}
	for _, cause := range slices.Sorted(maps.Keys(by)) {
		l := *by[cause]
		if all > 0 {
			l.Share = l.Seconds / all
		}
		lost = append(lost, l)
	}
	return lost
}

// tails says how long arrays waited for their slowest tasks, the longest first, and
// which share of the wall clock that is: of each array, how much longer the slowest
// task took than half of them did.
func tails(attempts []Attempt, wall float64) ([]Tail, *float64) {
	grouped := map[string][]Attempt{}
	for _, a := range attempts {
		if task, known := parseTask(a.Task); known && a.Fate == fateKept {
			grouped[task.Node.String()] = append(grouped[task.Node.String()], a)
		}
	}
	all := []Tail{}
	var waited float64
	for _, name := range slices.Sorted(maps.Keys(grouped)) {
		tasks := grouped[name]
		if len(tasks) < 2 {
			continue
		}
		slices.SortFunc(tasks, func(a, b Attempt) int { return cmp.Compare(a.Seconds, b.Seconds) })
		n := len(tasks)
		median := (tasks[(n-1)/2].Seconds + tasks[n/2].Seconds) / 2
		last := tasks[n-1]
		waited += last.Seconds - median
		all = append(all, Tail{Array: name, Tasks: n, MedianSeconds: median, LastSeconds: last.Seconds, SlowestTask: last.Task, SlowestHost: last.Host})
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
