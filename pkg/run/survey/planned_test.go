package survey_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// tasksOf reads tasks, in short: rollout-1-w01-0 is shard 0 of the second wave of iteration 1.
// A task with + behind it has traces that continue in the next wave.
func tasksOf(t *testing.T, text string) (tasks []graph.Task, more []bool) {
	t.Helper()
	for name := range strings.FieldsSeq(text) {
		bare, plus := strings.CutSuffix(name, "+")
		parts := strings.Split(bare, "-")
		var numbers []int
		for _, part := range parts[1:] {
			numbers = append(numbers, value[int](t)(strconv.Atoi(strings.TrimPrefix(part, "w"))))
		}
		n := runtest.Node(graph.Stage(parts[0]), numbers[0])
		if len(numbers) == 3 {
			n = n.InWave(numbers[1])
		}
		tasks, more = append(tasks, graph.Task{Node: n, Shard: numbers[len(numbers)-1]}), append(more, plus)
	}
	return tasks, more
}

var zeros = regexp.MustCompile(`-0+(\d)`)

// brief writes what a survey found, in short.
func brief(found survey.Result) string {
	var all []string
	for _, task := range found.Ready {
		all = append(all, zeros.ReplaceAllString(task.String(), "-$1"))
	}
	for _, c := range found.Closable {
		all = append(all, fmt.Sprintf("close %d%v %v %v", c.Iteration, c.Included, c.LeftOut, c.Carried))
	}
	for _, s := range found.Stuck {
		all = append(all, zeros.ReplaceAllString(fmt.Sprintf("stuck %s%v", s.Node, s.Shards), "-$1"))
	}
	return strings.Join(all, " ")
}

// TestPlannedByRules: what is ready, closable or stuck, by what is sealed: of two shards an
// iteration, unless the settings have another number.
func TestPlannedByRules(t *testing.T) {
	t.Parallel()
	const (
		begun  = "buffer-0-0 warm-1-0 "
		first  = begun + "rollout-1-0 score-1-0 "
		whole  = first + "rollout-1-1 score-1-1 "
		held   = whole + "buffer-1-0 learn-1-0 evalplan-0-0 "
		remote = `rollout.remote.serve=[x,"{policy}","{port}"] loss.kl.coef=0 schedule.oversample=2`
		late   = "schedule.iterations=3 schedule.oversample=2"
	)
	both := closing.Closing{Iteration: 1, Shards: 2, Included: []int{0, 1}}
	alone := closing.Closing{Iteration: 1, Shards: 2, Included: []int{0}, LeftOut: []int{1}}
	behind := closing.Closing{Iteration: 1, Shards: 2, Included: []int{0}, Late: []int{1}}
	second := closing.Closing{Iteration: 2, Shards: 2, Included: []int{0, 1}}
	carrying := second
	carrying.Carried = []closing.Ref{{Iteration: 1, Shard: 1}}
	for name, c := range map[string]struct {
		settings, told string
		closed         []closing.Closing
		gaveUp, broken string
		want           string
	}{
		"a rollout gave up within the quorum":    {"schedule.quorum=0.5", first, nil, "rollout-1-1", "", "close 1[0] [1] []"},
		"a score gave up within the quorum":      {"schedule.quorum=0.5", first + "rollout-1-1", nil, "score-1-1", "", "close 1[0] [1] []"},
		"a rollout that would fail again":        {"schedule.quorum=0.5", first, nil, "rollout-1-1", "rollout-1-1", "stuck score-1[1]"},
		"a score that would fail again":          {"schedule.quorum=0.5", first + "rollout-1-1", nil, "score-1-1", "score-1-1", "stuck score-1[1]"},
		"the earlier wave of a shard goes last":  {"waves", begun + "rollout-1-0 rollout-1-1 score-1-1+ rollout-1-w01-1 score-1-w01-1+", nil, "", "", "score-1-0 rollout-1-w02-1"},
		"rollouts of two waves":                  {"waves", begun + "rollout-1-1 score-1-1+", nil, "", "", "rollout-1-w01-1 rollout-1-0"},
		"no wave follows the last":               {"waves", first + "rollout-1-1 score-1-1+ rollout-1-w01-1 score-1-w01-1+ rollout-1-w02-1 score-1-w02-1+", nil, "", "", "close 1[0 1] [] []"},
		"a batch reads its scores":               {"", first + "rollout-1-1", []closing.Closing{both}, "", "", "score-1-1"},
		"and its rollouts":                       {"", begun + "rollout-1-0 score-1-0 score-1-1", []closing.Closing{both}, "", "", "rollout-1-1"},
		"of all waves":                           {"waves", whole + "rollout-1-w01-1 score-1-w01-1 score-1-1+", []closing.Closing{both}, "", "", "buffer-1-0"},
		"of a later wave too":                    {"waves", first + "rollout-1-1 score-1-1+ score-1-w01-1", []closing.Closing{both}, "", "", "rollout-1-w01-1"},
		"but not of a shard that was left out":   {"", first, []closing.Closing{alone}, "", "", "buffer-1-0"},
		"a batch waits for what is carried":      {late, whole + "rollout-1-0 buffer-1-0 learn-1-0 rollout-2-0 rollout-2-1 score-2-0", []closing.Closing{behind, carrying}, "", "", "score-2-1"},
		"a late shard":                           {late, first, []closing.Closing{behind}, "", "", "buffer-1-0 rollout-1-1"},
		"a late shard that has been sampled":     {late, first + "rollout-1-1", []closing.Closing{behind}, "", "", "buffer-1-0 score-1-1"},
		"a late shard with nobody to take it":    {late + " schedule.late=drop", first, []closing.Closing{behind}, "", "", "buffer-1-0"},
		"a lost closing under later ones":        {late, whole + "learn-1-0 learn-2-0 buffer-2-0 rollout-2-0 rollout-2-1 score-2-0 score-2-1 rollout-3-0 rollout-3-1 score-3-0 score-3-1", []closing.Closing{second}, "", "", "close 1[0 1] [] []"},
		"a lost closing under its own batch":     {late, whole + "buffer-1-0", nil, "", "", "learn-1-0 close 1[0 1] [] []"},
		"who sampled what is carried":            {remote, whole + "learn-1-0 buffer-1-0 buffer-2-0 buffer-3-0", []closing.Closing{behind, carrying}, "", "", "learn-2-0"},
		"who sampled it is lost":                 {remote, "buffer-0-0 learn-1-0 buffer-1-0 buffer-2-0", []closing.Closing{behind, carrying}, "", "", "warm-1-0"},
		"nothing carried, so nobody is missed":   {remote, "buffer-0-0 learn-1-0 buffer-1-0 buffer-2-0", []closing.Closing{both, second}, "", "", "learn-2-0"},
		"an evaluation":                          {"evaluation.every=0 schedule.iterations=1", held + "evalrollout-1-0", []closing.Closing{both}, "", "", "evalrollout-0-0 evalrollout-0-1 evalscore-1-0 evalrollout-1-1"},
		"one of its shards is scored":            {"schedule.iterations=1", held + "evaluate-1-0 evaluate-1-1 evalrollout-0-0 evalscore-0-0", []closing.Closing{both}, "", "", "evaluate-0-0 evalrollout-0-1"},
		"one is gathered, its rollouts are gone": {"schedule.iterations=1", held + "evaluate-1-0 evaluate-1-1 evaluate-0-0", []closing.Closing{both}, "", "", "evalrollout-0-1"},
		"one is scored, its rollouts are gone":   {"schedule.iterations=1", held + "evaluate-1-0 evaluate-1-1 evaluate-0-0 evalscore-0-1", []closing.Closing{both}, "", "", "evalrollout-0-1"},
		"an evaluation cannot do without":        {"schedule.iterations=1", held + "evaluate-1-0 evaluate-1-1 evaluate-0-0", []closing.Closing{both}, "evalrollout-0-1", "", "stuck evalrollout-0[1]"},
	} {
		settings, load := strings.Fields("warm_start.chunk=300 "+c.settings), "smoke"
		if c.settings == "waves" {
			load, settings = "mle-smoke", []string{"env.max_turns=3", "warm_start.chunk=100", "rollout.shards=2"}
		}
		g := graph.Graph{Dir: "/run", Recipe: runtest.LoadOf(t, load, settings...).Recipe}
		if !strings.Contains(c.told, "evalplan") {
			g.Recipe.Evaluation.Problems = 0
		}
		s := survey.Of(survey.NewTold(g))
		told, more := tasksOf(t, c.told)
		sealed := map[graph.Node]int{}
		for i, task := range told {
			s.Tell(task, more[i])
			if !slices.Contains(told[:i], task) {
				sealed[task.Node]++
			}
		}
		for _, closed := range c.closed {
			s.TellClosing(closed)
		}
		gaveUp, _ := tasksOf(t, c.gaveUp)
		broken, _ := tasksOf(t, c.broken)
		s.GaveUp = func(task graph.Task) bool { return slices.Contains(gaveUp, task) }
		s.Broken = func(task graph.Task) bool { return slices.Contains(broken, task) }
		found, err := s.Survey(t.Context())
		if err != nil || brief(found) != c.want || found.Done {
			t.Errorf("%s: %s (%v), want %s", name, brief(found), err, c.want)
		}
		for n, count := range found.Counts { // of nodes that were looked at, each as it is
			if count.Sealed != sealed[n] || n.Wave == 0 && count.Total != g.Shards(n) || n.Stage == graph.StageClose {
				t.Errorf("%s: %+v of %s, want %d", name, count, n, sealed[n])
			}
		}
	}
}

// TestDueIsTheFirst: of two iterations that overlap, with 10 s each and one shard of two
// done. One of which it is not known when it began is not overdue.
func TestDueIsTheFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		began  [3]int64 // by iteration; 0 for unknown
		now    int64
		due    int64
		closes string
	}{
		{[3]int64{0, 100, 50}, 55, 60, ""},
		{[3]int64{0, 50, 100}, 55, 60, ""},
		{[3]int64{0, 50, 100}, 60, 110, "close 1[0] [] []"},
		{[3]int64{0, 0, 100}, 60, 110, ""},
		{[3]int64{0, 100, 50}, 110, 0, "close 1[0] [] [] close 2[0] [] []"},
	} {
		g := graph.Graph{Dir: "/run", Recipe: runtest.Load(t, "warm_start.chunk=300", "schedule.staleness=1", "schedule.close_after_seconds=10", "schedule.late=drop").Recipe}
		g.Recipe.Evaluation.Problems = 0
		s := survey.Of(survey.NewTold(g))
		told, _ := tasksOf(t, "buffer-0-0 warm-1-0 rollout-1-0 score-1-0 rollout-2-0 score-2-0")
		for _, task := range told {
			s.Tell(task, false)
			s.Tell(task, false) // it counts once
		}
		s.Clock = survey.Clock{Now: func() time.Time { return time.Unix(c.now, 0) }, Began: func(_ context.Context, k int) (time.Time, error) {
			if c.began[k] == 0 {
				return time.Time{}, nil
			}
			return time.Unix(c.began[k], 0), nil
		}}
		found, err := s.Survey(t.Context())
		due := max(0, found.Due.Unix()) // the zero time is long before 1970
		found.Ready = nil
		if err != nil || due != c.due || brief(found) != c.closes {
			t.Errorf("%+v: due %d, %q (%v)", c, due, brief(found), err)
		}
		failed := errors.New("no clock")
		s.Clock.Began = func(context.Context, int) (time.Time, error) { return time.Unix(1, 0), failed }
		if found, err := s.Survey(t.Context()); !errors.Is(err, failed) || len(found.Closable) > 0 {
			t.Errorf("a clock that cannot be read: %+v, %v", found.Closable, err)
		}
	}
}

// TestClosed counts the closings before the first gap.
func TestClosed(t *testing.T) {
	t.Parallel()
	v := survey.NewTold(graph.Graph{Dir: "/run", Recipe: runtest.Load(t, "schedule.iterations=5").Recipe})
	for _, k := range []int{1, 2, 4} {
		v.TellClosing(closing.Closing{Iteration: k})
	}
	for k, want := range []int{0, 0, 1, 2, 2, 2} {
		if got, err := v.Closed(t.Context(), k); got != want || err != nil {
			t.Errorf("%d iterations before %d are closed, want %d (%v)", got, k, want, err)
		}
	}
}

// TestSamplersOfUnlearned: iteration k is sampled by policy k-1, the warm start's for the
// first. What is late or waits was sampled by an older one; where that cannot be read, it
// may have been any.
func TestSamplersOfUnlearned(t *testing.T) {
	t.Parallel()
	const carry, wait = "schedule.oversample=2", "schedule.batch_segments=9"
	count := func(sealed int) survey.Count { return survey.Count{Sealed: sealed, Total: 1} }
	is := value[string](t)
	for name, c := range map[string]struct {
		setting string
		counts  map[int]survey.Count // of the learn nodes that were looked at
		late    map[int][]int        // late shards of iterations that are closed
		waiting []shard.Waiting      // after iteration 2; nil for an unsealed file
		want    string
	}{
		"all is learned":            {"", nil, nil, nil, ""},
		"two are not":               {"", map[int]survey.Count{2: count(1), 3: count(0), 4: count(0)}, nil, nil, "learn-2 learn-3"},
		"none is":                   {"", map[int]survey.Count{1: count(0), 2: count(0)}, nil, nil, "learn-1 learn-2 learn-3 warm-1"},
		"a shard is late":           {carry, map[int]survey.Count{4: count(0)}, map[int][]int{1: {1}, 2: nil, 3: nil}, nil, "learn-3 warm-1"},
		"a closing is lost":         {carry, map[int]survey.Count{4: count(0)}, map[int][]int{1: nil, 3: nil}, nil, "learn-1 learn-2 learn-3 warm-1"},
		"the last closing is lost":  {carry, map[int]survey.Count{4: count(0)}, map[int][]int{1: nil, 2: {0}}, nil, "learn-1 learn-2 learn-3 warm-1"},
		"segments wait":             {wait, map[int]survey.Count{3: count(0)}, nil, []shard.Waiting{{IterationSampled: 2}, {IterationSampled: 2}}, "learn-1 learn-2 learn-3"},
		"what waits cannot be read": {wait, map[int]survey.Count{3: count(0)}, nil, nil, "learn-1 learn-2 learn-3 warm-1"},
	} {
		b := runtest.NewBoard(t, append([]string{"schedule.iterations=4"}, strings.Fields(c.setting)...)...)
		v := survey.NewTold(b.Graph)
		for k, late := range c.late {
			v.TellClosing(closing.Closing{Iteration: k, Shards: 2, Late: late})
		}
		if c.waiting != nil {
			must.Get(shard.Write(b.Dir.Waiting(2), c.waiting, nil, seal.AttemptFromEnv(), b.Expected(graph.Task{Node: runtest.Node(graph.StageBuffer, 2)})))(t)
		}
		found := survey.Result{Counts: map[graph.Node]survey.Count{}}
		for k, n := range c.counts {
			found.Counts[b.LastLearn(k)] = n
		}
		ask := func() (string, error) {
			nodes, err := v.SamplersOfUnlearned(t.Context(), found)
			var all []string
			for n := range maps.Keys(nodes) {
				all = append(all, zeros.ReplaceAllString(n.String(), "-$1"))
			}
			slices.Sort(all)
			return strings.Join(all, " "), err
		}
		if got := is(ask()); got != c.want {
			t.Errorf("%s: sampled by %s, want %s", name, got, c.want)
		}
		if c.waiting == nil {
			continue
		}
		must.Do(t, os.Truncate(b.Dir.Waiting(2), 1))
		if got := is(ask()); got != "learn-1 learn-2 learn-3 warm-1" {
			t.Errorf("%s, and are damaged: sampled by %s", name, got)
		}
	}
}

// TestLateIsAskedAgain: what is late before an iteration does not depend on what was asked
// before: the late shard of iteration 1 is outstanding until iteration 3 carries it.
func TestLateIsAskedAgain(t *testing.T) {
	t.Parallel()
	g := graph.Graph{Dir: "/run", Recipe: runtest.Load(t, "schedule.iterations=4", "schedule.oversample=2").Recipe}
	v := survey.NewTold(g)
	for _, c := range []closing.Closing{{Iteration: 1, Late: []int{1}}, {Iteration: 2}, {Iteration: 3, Carried: []closing.Ref{{Iteration: 1, Shard: 1}}}} {
		v.TellClosing(c)
	}
	for _, c := range []struct{ first, want int }{{3, 3}, {4, 1}, {3, 3}, {2, 4}} { // samplers of 3 and 4, and of the late
		found := survey.Result{Counts: map[graph.Node]survey.Count{g.LastLearn(c.first): {Total: 1}}}
		if nodes, err := v.SamplersOfUnlearned(t.Context(), found); len(nodes) != c.want || err != nil {
			t.Errorf("from iteration %d on: %v (%v), want %d", c.first, nodes, err, c.want)
		}
	}
}
