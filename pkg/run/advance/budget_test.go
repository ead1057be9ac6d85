package advance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	const us, them = "smoke-00000001", "my-run-00ff00ff"
	jobs := func(n int, name string) []string { return slices.Repeat([]string{name}, n) }
	gate := func(run string) string { return "lathe-" + run + "-gate" }
	five := func(ours int) []string { // runs, in whose controller jobs we are
		names := jobs(ours, "lathe-"+us+"-score-000001")
		for i := range 5 {
			names = append(names, jobs(2, gate(fmt.Sprintf("smoke-%08d", i)))...)
		}
		return names
	}
	for name, c := range map[string]struct {
		most   int
		queued []string
		want   int
	}{
		"nothing is queued":            {10, nil, 8},
		"our own":                      {10, jobs(3, "lathe-"+us+"-rollout-000001"), 5},
		"jobs of no run":               {10, jobs(3, "other"), 5},
		"another run has half":         {100, jobs(1, "lathe-"+them+"-gate"), 48},
		"another run has more":         {100, jobs(90, "lathe-"+them+"-score-000001"), 6},
		"we have our share":            {100, slices.Concat(jobs(48, "lathe-"+us+"-score-000001"), jobs(1, "lathe-"+them+"-gate")), 0},
		"two others":                   {30, []string{"lathe-" + them + "-gate", "lathe-x-12345678-gate"}, 8},
		"more is queued than may be":   {10, jobs(20, "other"), 0},
		"as many runs as places":       {3, []string{"lathe-" + them + "-gate", "lathe-x-12345678-gate"}, 0},
		"names that are like of a run": {10, []string{"lathe-doctor", "lathe-train", "lathe-" + us}, 5},
		"in a controller job":          {4, jobs(2, gate(us)), 1},
		"no place for a task":          {3, jobs(2, gate(us)), 0},
		"shares of less than a task":   {20, five(0), 1},
		"which we have":                {20, five(1), 0},
	} {
		if got := room(c.most, c.queued, us); got != c.want {
			t.Errorf("%s: room for %d, want %d", name, got, c.want)
		}
	}
}

// A queue that would never have a place for a task is told of before anything waits there.
func TestCheckPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ most, watchdog, code int }{
		{0, 1800, exitcode.OK}, {4, 1800, exitcode.OK}, {3, 1800, exitcode.Unavailable}, {3, 0, exitcode.OK}, {2, 0, exitcode.Unavailable},
	} {
		var a Advancer
		a.Site.Site.WatchdogSeconds = c.watchdog
		if err := a.checkPlaces(slurm.Limits{MaxSubmit: c.most}); exitcode.Code(err) != c.code {
			t.Errorf("%d places, a watchdog after %d s: %v", c.most, c.watchdog, err)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	group := func(n int) []graph.Task { return make([]graph.Task, n) }
	for _, c := range []struct {
		groups []int
		budget int
		want   []int
		left   int
	}{
		{[]int{3, 4}, -1, []int{3, 4}, 0},
		{[]int{3, 4}, 8, []int{3, 4}, 0},
		{[]int{3, 4}, 7, []int{3, 3}, 1}, // one place is the gate's
		{[]int{3, 4}, 2, []int{2}, 5},
		{[]int{3, 4}, 0, nil, 7},
		{nil, 5, nil, 0},
	} {
		var groups [][]graph.Task
		for _, n := range c.groups {
			groups = append(groups, group(n))
		}
		cut, left := Within(groups, c.budget)
		var got []int
		for _, g := range cut {
			got = append(got, len(g))
		}
		if !slices.Equal(got, c.want) || left != c.left {
			t.Errorf("%v within %d: %v and %d left, want %v and %d", c.groups, c.budget, got, left, c.want, c.left)
		}
	}
}

// A task that ran out of time or of memory is given twice as much the next time, and
// no more time than the site profile allows, or else the partition: 15 hours are 900
// minutes.
// Alone: it changes PATH.
func TestMore(t *testing.T) {
	a, _ := withFakeSlurm(t, "exit 1")
	task := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}}
	other := graph.Task{Node: task.Node, Shard: 1}
	for name, c := range map[string]struct {
		overruns, shortages, most int
		asked, minutes            int
		askedMemory, memory       float64
		said                      string
	}{
		"neither":                     {0, 0, 0, 60, 60, 3, 3, ""},
		"time":                        {1, 0, 0, 60, 120, 3, 3, "rollout-000001 ran out of time 1 time: it is given 120 minutes"},
		"time twice":                  {2, 0, 0, 60, 240, 3, 3, "rollout-000001 ran out of time 2 times: it is given 240 minutes"},
		"no more time":                {2, 0, 200, 60, 200, 3, 3, "rollout-000001 ran out of time 2 times: it is given 200 minutes"},
		"less than was asked":         {1, 0, 30, 60, 60, 3, 3, "rollout-000001 ran out of time 1 time: it is given 60 minutes"}, // what is below the site's limit is cut elsewhere
		"memory":                      {0, 1, 0, 60, 60, 3, 6, "rollout-000001 ran out of memory 1 time: it is given 6 GiB"},
		"memory twice":                {0, 2, 0, 60, 60, 3, 12, "rollout-000001 ran out of memory 2 times: it is given 12 GiB"},
		"both, again and again":       {9, 9, 2000, 60, 960, 3, 48, "rollout-000001 ran out of time 9 times: it is given 960 minutes; rollout-000001 ran out of memory 9 times: it is given 48 GiB"},
		"the partition's limit":       {9, 0, 0, 60, 900, 3, 3, "rollout-000001 ran out of time 9 times: it is given 900 minutes"},
		"where nothing was asked for": {1, 1, 0, 0, 0, 0, 0, ""},
	} {
		a.Site.Site.MaxMinutes = c.most
		var said []string
		a.Log = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
		view := &jobsView{overruns: map[graph.Task]int{other: c.overruns}, shortages: map[graph.Task]int{task: c.shortages}}
		array := executor.Array{Stage: "rollout", Iteration: 1, Minutes: c.asked, MemoryGB: c.askedMemory}
		got := a.more(t.Context(), array, []graph.Task{task, other}, view)
		if got.Minutes != c.minutes || got.MemoryGB != c.memory || strings.Join(said, "; ") != c.said {
			t.Errorf("%s: %d minutes and %g GiB, want %d and %g; it says %q", name, got.Minutes, got.MemoryGB, c.minutes, c.memory, said)
		}
	}
}
