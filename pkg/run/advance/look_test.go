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

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
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
			if (view.attempts[task] == 1) == c.forgive || (view.failures[task] > 0) != strings.HasPrefix(view.evidence[task], "attempt 0, job "+id) && !c.forgive && c.states[0] != "NODE_FAIL" {
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

// Outputs of tasks that ended well are waited for until 90 s after their end, and where
// that is not known or is to come, 90 s from now; not where the run was extended since:
// they have made what they were to make then.
func TestAwaited(t *testing.T) {
	now := time.Now()
	scripts := queueOf("7_0 COMPLETED", "7_1 FAILED", "7_2 COMPLETED", "7_3 COMPLETED")
	scripts["squeue"] = strings.Replace(scripts["squeue"], "7_2|COMPLETED|0|0|1000|2000", "7_2|COMPLETED|0|0|N/A|N/A", 1)
	scripts["squeue"] = strings.Replace(scripts["squeue"], "7_3|COMPLETED|0|0|1000|2000", fmt.Sprint("7_3|COMPLETED|0|0|1000|", now.Unix()+60), 1)
	a := advancerOf(t, &rundir.Run{}, scripts)
	job := slurm.Job{ID: "7", Array: true, Shards: slurm.Shards{4, 5, 6, 7}}
	states, err := a.Cluster.States(t.Context(), slurm.Limits{}, []slurm.Job{job})
	if err != nil {
		t.Fatal(err)
	}
	view := &jobsView{states: states, submissions: []Submission{{Stage: graph.StageRollout, Iteration: 1, Jobs: []slurm.Job{job}, Submitted: now.Add(-time.Hour)}}}
	task := func(shard int) graph.Task {
		return graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: shard}
	}
	all := map[graph.Task]time.Time{task(4): time.Unix(2090, 0), task(6): now.Add(90 * time.Second), task(7): now.Add(90 * time.Second)}
	for _, c := range []struct {
		extended time.Time
		want     map[graph.Task]time.Time
	}{{time.Time{}, all}, {now.Add(-time.Hour), all}, {now, map[graph.Task]time.Time{}}} {
		if diff := cmp.Diff(c.want, view.awaited(now, c.extended)); diff != "" {
			t.Errorf("extended at %v (-want +got):\n%s", c.extended, diff)
		}
	}
}

// The last controller job, if it ended badly and none waits or runs, is told of; one that
// ended well or was cancelled is not.
func TestFallenGate(t *testing.T) {
	rollouts := runtest.Node(graph.StageRollout, 1)
	base, jobs := history(t, 0)
	gate := jobs[rollouts][1]
	for _, c := range []struct {
		gate, dog string // the states of the gate and of the watchdog, if there is one
		later     bool   // the watchdog was submitted after the gate
		fallen    string // which fell
		gates     int
	}{
		{"FAILED", "", false, gate, 0},
		{"NODE_FAIL", "", false, gate, 0},
		{"COMPLETED", "", false, "", 0},
		{"CANCELLED", "", false, "", 0},
		{"PENDING", "", false, "", 1},
		{"RUNNING", "", false, "", 0},
		{"NOBODY_KNOWS", "", false, "", 0},
		{"FAILED", "PENDING", false, "", 1},
		{"FAILED", "RUNNING", false, "", 0},
		{"PENDING", "PENDING", false, "", 2},
		{"FAILED", "COMPLETED", true, "", 0},
		{"FAILED", "COMPLETED", false, gate, 0},
		{"COMPLETED", "FAILED", true, "500", 0},
		{"COMPLETED", "FAILED", false, "", 0},
	} {
		r := copied(t, base)
		lines := []string{gate + " " + c.gate}
		if c.dog != "" {
			dog := jobOf("500")
			if !c.later {
				dog.Submitted = time.Unix(1000, 0)
			}
			noteTimed(t, watchdogPath(r.Dir), dog)
			lines = append(lines, "500 "+c.dog)
		}
		seen, err := SeeJobs(t.Context(), advancerOf(t, r, queueOf(lines...)))
		want := ""
		if c.fallen != "" {
			want = fmt.Sprintf("controller job %s ended and submitted nothing: squeue: ", c.fallen)
		}
		if err != nil || !strings.HasPrefix(seen.Fallen, want) || want == "" && seen.Fallen != "" || seen.Gates != c.gates {
			t.Errorf("%+v: %q, %d gates, %v", c, seen.Fallen, seen.Gates, err)
		}
	}
}

// A task that ran out of time is submitted again alone, with twice the time, unless the
// cluster does not give that; the gate follows the array. Faulty nodes are kept out of,
// unless there are no others.
func TestSubmitAgain(t *testing.T) {
	rollouts := runtest.Node(graph.StageRollout, 1)
	base, jobs := history(t, 0)
	for name, c := range map[string]struct {
		states  [3]string // of shards 0, which is done, 2 and 3
		sbatch  string
		minutes int
		memory  float64
		exclude bool
		said    []string // of it, in the log
	}{
		"taken":               {[3]string{"", "TIMEOUT", "OUT_OF_MEMORY"}, "", 120, 8, false, []string{"ran out of time 1 time: it is given 120 minutes", "ran out of memory 1 time: it is given 8 GiB"}},
		"too long":            {[3]string{"", "TIMEOUT", "TIMEOUT"}, `case "$s" in *time=120*) echo "sbatch: error: Requested time limit is invalid" >&2; exit 1;; esac;`, 0, 0, false, []string{"it is given 120 minutes", "the cluster does not give a retry more: "}},
		"too much":            {[3]string{"", "OUT_OF_MEMORY", "FAILED"}, `case "$s" in *mem=8192M*) echo "sbatch: error: Memory specification can not be satisfied" >&2; exit 1;; esac;`, 0, 0, false, []string{"it is given 8 GiB", "the cluster does not give a retry more: "}},
		"nodes":               {[3]string{"", "NODE_FAIL", "NODE_FAIL"}, "", 0, 0, true, []string{"keeps out of nodes n1 for an hour"}},
		"one went well there": {[3]string{"COMPLETED", "NODE_FAIL", "NODE_FAIL"}, "", 0, 0, false, nil},
		"no other":            {[3]string{"", "NODE_FAIL", "NODE_FAIL"}, `case "$*$s" in *exclude=n1*) echo "sbatch: error: Requested node configuration is not available" >&2; exit 1;; esac;`, 0, 0, true, []string{"keeps out of nodes n1", "the cluster has no other nodes: "}},
	} {
		r := copied(t, base)
		r.Recipe.Resources.Stages.Rollout.Minutes, r.Recipe.Resources.Stages.Rollout.MemoryGB = 60, 4
		r.Graph.Recipe = r.Recipe
		log := filepath.Join(t.TempDir(), "log")
		id := jobs[rollouts][0]
		now := time.Now().Unix()
		lines := []string{id + "_2 " + c.states[1], id + "_3 " + c.states[2]}
		if c.states[0] != "" {
			lines = append(lines, id+"_0 "+c.states[0])
		}
		scripts := queueOf(lines...)
		scripts["squeue"] = strings.ReplaceAll(scripts["squeue"], "|2000|", fmt.Sprintf("|%d|", now))
		scripts["sbatch"] = `s=$(cat); printf '%s\n%s\n====\n' "$*" "$s" >>` + log + "\n" + c.sbatch + "echo 9999"
		a := advancerOf(t, r, scripts)
		var said []string
		a.Log = func(format string, args ...any) {
			if text := fmt.Sprintf(format, args...); strings.HasPrefix(text, rollouts.String()) {
				said = append(said, text)
			}
		}
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
		if !slices.EqualFunc(said, c.said, strings.Contains) {
			t.Errorf("%s: the log says %q, want %q", name, said, c.said)
		}
		if !strings.Contains(string(content), "afterany:9999") {
			t.Errorf("%s: no gate follows the array:\n%s", name, content)
		}
	}
}
