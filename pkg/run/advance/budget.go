package advance

import (
	"context"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// reserve is how many places in the queue a run needs beside its tasks: for the gate
// behind an array, and for one that looks again.
const reserve = 2

// ofRun finds the id of a run in the name of its jobs: a name and eight digits.
var ofRun = lazyregexp.New(`^lathe-(.+-[0-9a-f]{8})-`)

// room is how many tasks a run may add to a queue that takes so many jobs of its
// user: what is free, and of the whole its share where other runs of the same user
// live, but one task at least if it has none and there is a place for it and for a gate.
// queued are the names of all jobs of the user, array tasks counted singly.
func room(most int, queued []string, runID string) int {
	ours, tasks, others := 0, 0, map[string]bool{}
	for _, name := range queued {
		switch found := ofRun().FindStringSubmatch(name); {
		case found == nil:
		case found[1] == runID:
			ours++
			if !strings.HasSuffix(name, "-"+slurm.GateStage) {
				tasks++
			}
		default:
			others[found[1]] = true
		}
	}
	return max(Room(most, len(queued), ours, 1+len(others)), min(1-tasks, most-len(queued)-1))
}

// Room is how many tasks a run may add to a queue that takes so many jobs of its
// user, by how many are queued, how many of them are the run's, and how many runs of
// that user live.
func Room(most, queued, ours, runs int) int {
	free := most - queued - reserve*runs
	return max(0, min(free, most/runs-ours-reserve))
}

// checkPlaces is an error where the queue takes too few jobs of its user for a run ever to
// go on: a task, the gate that submits it, the one behind it and the watchdog.
func (a *Advancer) checkPlaces(limits slurm.Limits) error {
	least := reserve + 1
	if a.Site.Site.WatchdogSeconds > 0 {
		least++
	}
	if limits.MaxSubmit == 0 || limits.MaxSubmit >= least {
		return nil
	}
	return exitcode.WithHint(exitcode.Unavailablef("the queue takes %s of yours at once (max_submit, or MaxSubmitJobs of sacctmgr), and a run needs places for %d", plural.Count(limits.MaxSubmit, "job"), least),
		"name another qos or account in the site profile, or run inside one allocation: lathe run --executor steps")
}

// budget is how many tasks may be submitted now; -1 where no bound is known.
func (a *Advancer) budget(ctx context.Context, limits slurm.Limits) (int, error) {
	if limits.MaxSubmit == 0 {
		return -1, nil
	}
	queued, err := a.Cluster.Names(ctx)
	if err != nil {
		return 0, err
	}
	return room(limits.MaxSubmit, queued, a.Run.Identity.RunID), nil
}

// Within cuts groups of tasks to a budget: those that come first go first, and what
// is left is for the next gate.
func Within(groups [][]graph.Task, budget int) (cut [][]graph.Task, left int) {
	if budget < 0 {
		return groups, 0
	}
	for _, group := range groups {
		n := max(0, min(len(group), budget))
		if n > 0 {
			cut = append(cut, slices.Clone(group[:n]))
		}
		left += len(group) - n
		budget -= n + 1 // its gate
	}
	return cut, left
}

// more is what tasks are given that did not have enough before: twice the time for
// each time that it was over, twice the memory for each time that it was out; of the
// tasks of one array the one that needs most decides. Time stays below the longest
// limit of the partition, with which a job would wait for ever.
func (a *Advancer) more(ctx context.Context, array executor.Array, tasks []graph.Task, view *jobsView) executor.Array {
	overruns, shortages := 0, 0
	for _, t := range tasks {
		overruns, shortages = max(overruns, view.overruns[t]), max(shortages, view.shortages[t])
	}
	if overruns > 0 && array.Minutes > 0 {
		longest := a.Site.Site.MaxMinutes
		if site, err := a.Site.Site.Stage(array.SiteStage()); longest == 0 && err == nil {
			longest = a.Cluster.LongestMinutes(ctx, site.Partition)
		}
		array.Minutes = Longer(array.Minutes, overruns, longest)
		a.Log("%s ran out of time %s: it is given %s", array.Name(), plural.Count(overruns, "time"), plural.Count(array.Minutes, "minute"))
	}
	if shortages > 0 && array.MemoryGB > 0 {
		array.MemoryGB *= float64(int(1) << min(shortages, mostDoublings))
		a.Log("%s ran out of memory %s: it is given %g GiB", array.Name(), plural.Count(shortages, "time"), array.MemoryGB)
	}
	return array
}

// Longer is the time limit of tasks that ran out of time so often before, in
// minutes; longest, unless it is 0, bounds what is added.
func Longer(minutes, overruns, longest int) int {
	longer := minutes << min(overruns, mostDoublings)
	if longest > 0 {
		longer = max(minutes, min(longer, longest))
	}
	return longer
}

// mostDoublings bounds how much more a retry is given.
const mostDoublings = 4
