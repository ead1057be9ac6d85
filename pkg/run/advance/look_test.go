package advance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// queueOf is fakeQueue with lines "ID STATE" of tasks that started and ended at some second,
// with exit code 1 unless they completed.
func queueOf(lines ...string) map[string]string {
	scripts := fakeQueue("/dev/null")
	queue := "case \" $* \" in\n*\" -j \"*) "
	for _, line := range lines {
		id, state, _ := strings.Cut(line, " ")
		exit := 256
		if state == "COMPLETED" {
			exit = 0
		}
		queue += fmt.Sprintf("echo '%s|%s|%d|0|1000|2000|n1|None|';", id, state, exit)
	}
	scripts["squeue"] = queue + ":;;\nesac"
	return scripts
}

// What Slurm says of two tasks that are not done, shards 2 and 3 of the first rollouts, and
// their own records of their ends, decides what they are tried again with, if at all. The
// two that are done are not in the queue any more.
func TestLook(t *testing.T) {
	rollouts := runtest.Node(graph.StageRollout, 1)
	tasks := []graph.Task{{Node: rollouts, Shard: 2}, {Node: rollouts, Shard: 3}}
	for name, c := range map[string]struct {
		states  [2]string
		code    int // of the exit record of shard 2; 0 for none
		forgive bool
		want    string // of each task
		seen    string
	}{
		"live":      {[2]string{"RUNNING", "PENDING"}, 0, false, "live;live", "1 running 1 pending 0 failed 2 unknown"},
		"limits":    {[2]string{"TIMEOUT", "OUT_OF_MEMORY"}, 0, false, "failed 1 overruns 1;failed 1 shortages 1", "0 running 0 pending 0 failed 2 unknown"},
		"no fault":  {[2]string{"NODE_FAIL", "PREEMPTED"}, 0, false, ";", "0 running 0 pending 0 failed 2 unknown"},
		"broken":    {[2]string{"FAILED", "FAILED"}, exitcode.Data, false, "failed 3 broken;failed 1", "0 running 0 pending 1 failed 2 unknown"},
		"forgiven":  {[2]string{"TIMEOUT", "FAILED"}, 0, true, "overruns 1;", "0 running 0 pending 0 failed 2 unknown"},
		"not there": {[2]string{"", "RUNNING"}, 0, false, "failed 1;live", "1 running 0 pending 0 failed 3 unknown"},
	} {
		r, jobs := history(t, 0)
		id := jobs[rollouts][0]
		var lines []string
		for i, state := range c.states {
			if state != "" {
				lines = append(lines, fmt.Sprintf("%s_%d %s", id, i+2, state))
			}
		}
		a := advancerOf(t, r, queueOf(lines...))
		if c.code != 0 {
			rundir.WriteExitRecord(r.Dir, tasks[0], 0, 0, rundir.ExitRecord{Code: c.code, Message: "damaged"})
		}
		if c.forgive {
			if err := Forgive(r.Dir, seal.AttemptFromEnv()); err != nil {
				t.Fatal(err)
			}
		}
		limits, err := a.Cluster.Limits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		view, err := a.look(t.Context(), survey.New(a.Run.Graph), limits)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, task := range tasks {
			var said []string
			if view.live[task] {
				said = append(said, "live")
			}
			for _, counted := range []struct {
				what string
				of   map[graph.Task]int
			}{{"failed", view.failures}, {"overruns", view.overruns}, {"shortages", view.shortages}} {
				if n := counted.of[task]; n > 0 {
					said = append(said, fmt.Sprint(counted.what, " ", n))
				}
			}
			if view.broken[task] {
				said = append(said, "broken")
			}
			got = append(got, strings.Join(said, " "))
			if view.attempts[task] != 1 || (view.failures[task] > 0) != strings.HasPrefix(view.evidence[task], "attempt 0, job "+id) && !c.forgive && c.states[0] != "NODE_FAIL" {
				t.Errorf("%s, %v: %d attempts, evidence %q", name, task, view.attempts[task], view.evidence[task])
			}
		}
		if got := strings.Join(got, ";"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		seen, err := SeeJobs(t.Context(), a)
		if got := fmt.Sprintf("%d running %d pending %d failed %d unknown", len(seen.Running), len(seen.Pending), len(seen.Failed), len(seen.Unknown)); err != nil || got != c.seen {
			t.Errorf("%s: %s, want %s; %v", name, got, c.seen, err)
		}
		if evidence := strings.Join(slices.Collect(maps.Values(seen.Failed)), ""); c.code != 0 && !strings.HasSuffix(evidence, "damaged") {
			t.Errorf("%s: failed by %q", name, evidence)
		}
	}
}

// Outputs of tasks that ended well are waited for, unless the run was extended since: they
// have made what they were to make then.
func TestAwaited(t *testing.T) {
	rollouts := runtest.Node(graph.StageRollout, 1)
	r, jobs := history(t, 0)
	id := jobs[rollouts][0]
	a := advancerOf(t, r, queueOf(id+"_2 COMPLETED", id+"_3 FAILED"))
	limits, err := a.Cluster.Limits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	view, err := a.look(t.Context(), survey.New(a.Run.Graph), limits)
	if err != nil {
		t.Fatal(err)
	}
	now, ended := time.Now(), time.Unix(2000, 0)
	shown := ended.Add(rundir.VisibilityTimeout)
	if got := view.awaited(now, time.Time{}); len(got) != 1 || !got[graph.Task{Node: rollouts, Shard: 2}].Equal(shown) {
		t.Errorf("%v, want shard 2 until %v", got, shown)
	}
	if got := view.awaited(now, now); len(got) != 0 {
		t.Errorf("after an extension: %v", got)
	}
}

// A gate that ended badly, after which none waits, is told of; one that ended well, was
// cancelled or has a successor is not.
func TestFallenGate(t *testing.T) {
	rollouts := runtest.Node(graph.StageRollout, 1)
	for state, fell := range map[string]bool{"FAILED": true, "NODE_FAIL": true, "COMPLETED": false, "CANCELLED": false, "PENDING": false, "RUNNING": false} {
		r, jobs := history(t, 0)
		gate := jobs[rollouts][1]
		seen, err := SeeJobs(t.Context(), advancerOf(t, r, queueOf(gate+" "+state)))
		want := fmt.Sprintf("controller job %s ended and submitted nothing: ", gate)
		if gates := map[string]int{"PENDING": 1}[state]; err != nil || strings.HasPrefix(seen.Fallen, want) != fell || !fell && seen.Fallen != "" || seen.Gates != gates {
			t.Errorf("%s: %q, %d gates, %v", state, seen.Fallen, seen.Gates, err)
		}
	}
}

// A task that ran out of time is submitted again alone, with twice the time, unless the
// cluster does not give that; the gate follows the array. Faulty nodes are kept out of,
// unless there are no others.
func TestSubmitAgain(t *testing.T) {
	rollouts := runtest.Node(graph.StageRollout, 1)
	for name, c := range map[string]struct {
		states  [2]string
		sbatch  string
		minutes int
		memory  float64
		exclude bool
	}{
		"taken":    {[2]string{"TIMEOUT", "OUT_OF_MEMORY"}, "", 120, 8, false},
		"too long": {[2]string{"TIMEOUT", "TIMEOUT"}, `case "$s" in *time=120*|*time=02:*) echo "sbatch: error: Requested time limit is invalid" >&2; exit 1;; esac;`, 0, 0, false},
		"nodes":    {[2]string{"NODE_FAIL", "NODE_FAIL"}, "", 0, 0, true},
		"no other": {[2]string{"NODE_FAIL", "NODE_FAIL"}, `case "$*$s" in *exclude=n1*) echo "sbatch: error: Requested node configuration is not available" >&2; exit 1;; esac;`, 0, 0, true},
	} {
		r, jobs := history(t, 0)
		r.Recipe.Resources.Stages.Rollout.Minutes, r.Recipe.Resources.Stages.Rollout.MemoryGB = 60, 4
		r.Graph.Recipe = r.Recipe
		log := filepath.Join(t.TempDir(), "log")
		id := jobs[rollouts][0]
		now := time.Now().Unix()
		scripts := queueOf(id+"_2 "+c.states[0], id+"_3 "+c.states[1])
		scripts["squeue"] = strings.ReplaceAll(scripts["squeue"], "|2000|", fmt.Sprintf("|%d|", now))
		scripts["sbatch"] = `s=$(cat); printf '%s\n%s\n====\n' "$*" "$s" >>` + log + "\n" + c.sbatch + "echo 9999"
		a := advancerOf(t, r, scripts)
		result, err := a.Advance(t.Context())
		content, _ := os.ReadFile(log)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, content)
		}
		var again *Submission
		for i, s := range result.Submitted {
			if s.Node() == rollouts {
				again = &result.Submitted[i]
			}
		}
		if again == nil || again.tasks() != 2 || !slices.Equal(again.Jobs[0].Shards, []int{2, 3}) || again.Minutes != c.minutes || again.MemoryGB != c.memory {
			t.Errorf("%s: submitted again %+v", name, again)
		}
		if got := strings.Contains(string(content), "exclude=n1"); got != c.exclude {
			t.Errorf("%s: node n1 is kept out of: %t\n%s", name, got, content)
		}
		if !strings.Contains(string(content), "afterany:9999") {
			t.Errorf("%s: no gate follows the array:\n%s", name, content)
		}
	}
}
