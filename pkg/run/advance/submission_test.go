package advance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// Of two processes that saw the same of a run, one submits an array, also when
// the other claims it after the first has recorded its submission.
func TestClaim(t *testing.T) {
	t.Parallel()
	d, n, attempt := graph.Dir(t.TempDir()), graph.Node{Stage: graph.StageRollout, Iteration: 1}, seal.AttemptFromEnv()
	number, won, err := claim(d, n, nil, attempt)
	if number != 0 || !won || err != nil {
		t.Fatalf("the first claims attempt %d: %v, %v", number, won, err)
	}
	if _, won, err := claim(d, n, nil, attempt); won || err != nil {
		t.Errorf("the second claims while the first submits: %v, %v", won, err)
	}
	if err := writeSubmission(d, Submission{Stage: n.Stage, Iteration: 1, Submitted: time.Now()}, attempt); err != nil {
		t.Fatal(err)
	}
	if _, won, err := claim(d, n, nil, attempt); won || err != nil {
		t.Errorf("the second claims what was submitted since it looked: %v, %v", won, err)
	}
	if number, won, err := claim(d, n, []int{0}, attempt); number != 1 || !won || err != nil {
		t.Errorf("who knows of attempt 0 claims attempt %d: %v, %v", number, won, err)
	}
	// A claim of attempt 1 without a record stands for two minutes.
	for _, c := range []struct {
		age    time.Duration
		number int
		won    bool
	}{{time.Minute, 1, false}, {3 * time.Minute, 2, true}} {
		at := time.Now().Add(-c.age)
		if err := os.Chtimes(filepath.Join(claimsFolder(d), n.String()+".1"), at, at); err != nil {
			t.Fatal(err)
		}
		if number, won, err := claim(d, n, []int{0}, attempt); number != c.number || won != c.won || err != nil {
			t.Errorf("beside a claim of %v ago attempt %d is claimed: %v, %v", c.age, number, won, err)
		}
	}
	file := graph.Dir(filepath.Join(t.TempDir(), "file"))
	if err := os.WriteFile(string(file), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, won, err := claim(file, n, nil, attempt); won || err == nil {
		t.Errorf("where nothing can be claimed: %v, %v", won, err)
	}
}

// What Slurm did to a task is counted as that, whatever the task said when it
// was told to stop.
func TestCauseOfAnEnd(t *testing.T) {
	t.Parallel()
	r := &rundir.Run{Dir: graph.Dir(t.TempDir())}
	r.Recipe.Resources.Stages.Rollout.Minutes = 60
	r.Graph = graph.Graph{Dir: r.Dir, Recipe: r.Recipe}
	a := &Advancer{Run: r}
	a.Site.Site = site.Profile{SignalSeconds: 180}
	task := graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}}
	leave := func(submission, restarts, code int, message, signal string) {
		t.Helper()
		path := r.Dir.ExitRecord(task, submission, restarts)
		content, err := json.Marshal(rundir.ExitRecord{Code: code, Message: message, Signal: signal})
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o777)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	leave(0, 0, 75, "stopped by a signal", "SIGTERM")
	leave(1, 0, 75, "stopped by a signal", "SIGTERM")
	leave(1, 1, 65, "plan.parquet is damaged", "")
	leave(7, 0, 75, "stopped by a signal", "SIGUSR2")
	for attempt, words := range map[int]string{
		3: "begun\nslurmstepd-n1: error: StepId=1.batch exceeded memory limit (346464256 > 321912832), being killed\nslurmstepd-n1: error: Exceeded job memory limit\n",
		4: "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed.\n",
		5: "the answer was: exceeded memory limit\n",
		// The last 8 KiB are read: 8192 bytes behind the line hide it, 8000 do not.
		8: strings.Repeat("x", 9000) + "\nslurmstepd: error: Detected 1 oom-kill event(s)\n" + strings.Repeat("x", 8000),
		9: "slurmstepd: error: Detected 1 oom-kill event(s)\n" + strings.Repeat("x", 8192),
	} {
		path := r.Dir.Log(task, attempt)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(words), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	killed := slurm.State{Phase: slurm.PhaseEnded, Cause: executor.CauseFailed, Signal: "SIGKILL", Start: began, End: began.Add(time.Minute), Evidence: "squeue"}
	ended := func(cause executor.Cause, restarts int, ran time.Duration) slurm.State {
		return slurm.State{Phase: slurm.PhaseEnded, Cause: cause, Restarts: restarts, Start: began, End: began.Add(ran), Evidence: "squeue"}
	}
	// Slurm warns 180 s before 60 minutes are over, and may do so a minute early: after 56.
	for _, test := range []struct {
		name       string
		submission int
		state      slurm.State
		cause      executor.Cause
		says       string
	}{
		{"its own words", 0, ended(executor.CauseFailed, 0, time.Minute), executor.CauseStopped, "stopped by a signal"},
		{"time limit", 0, ended(executor.CauseTimeout, 0, time.Hour), executor.CauseTimeout, "squeue"},
		{"told to stop near the limit", 0, ended(executor.CauseFailed, 0, 56*time.Minute), executor.CauseTimeout, "resources.stages.rollout.minutes: 60"},
		{"told to stop long before", 7, ended(executor.CauseFailed, 0, time.Minute), executor.CausePreempted, "long before its time was over"},
		{"told to stop as Slurm does, near the limit", 7, ended(executor.CauseFailed, 0, 56*time.Minute), executor.CauseTimeout, "minutes: 60"},
		{"memory", 0, ended(executor.CauseOutOfMemory, 0, time.Minute), executor.CauseOutOfMemory, "squeue"},
		{"memory after a requeue", 0, ended(executor.CauseOutOfMemory, 1, time.Minute), executor.CauseOutOfMemory, "squeue"},
		{"a start that left no words", 0, ended(executor.CauseFailed, 1, time.Minute), executor.CauseFailed, "squeue"},
		{"the second start's words", 1, ended(executor.CauseFailed, 1, time.Minute), executor.CauseData, "damaged"},
		{"the last words, where restarts are forgotten", 1, ended(executor.CauseFailed, 0, time.Minute), executor.CauseData, "damaged"},
		{"killed for its memory, by its job's samples", 3, killed, executor.CauseOutOfMemory, "346464256 > 321912832"},
		{"killed for its memory, in its group", 4, killed, executor.CauseOutOfMemory, "oom_kill"},
		{"killed, and it is not known for what", 5, killed, executor.CauseFailed, "squeue"},
		{"killed for its memory, at the end of a long log", 8, killed, executor.CauseOutOfMemory, "oom-kill"},
		{"killed, and the log is long", 9, killed, executor.CauseFailed, "squeue"},
		{"killed after its own words", 0, killed, executor.CauseStopped, "stopped by a signal"},
		{"stopped at a time that Slurm does not know", 0, slurm.State{Phase: slurm.PhaseEnded, Cause: executor.CauseFailed, End: began}, executor.CauseStopped, "stopped by a signal"},
		{"preempted", 1, ended(executor.CausePreempted, 0, time.Minute), executor.CausePreempted, "squeue"},
		{"its node failed", 1, ended(executor.CauseNodeFail, 0, time.Minute), executor.CauseNodeFail, "squeue"},
		{"not launched", 1, ended(executor.CauseLaunchFailed, 0, time.Minute), executor.CauseLaunchFailed, "squeue"},
		{"told to stop just before that time", 0, ended(executor.CauseFailed, 0, 56*time.Minute-time.Second), executor.CauseStopped, "stopped by a signal"},
		{"killed without a log", 6, killed, executor.CauseFailed, "squeue"},
		{"memory in the log of what was not killed", 3, ended(executor.CauseFailed, 0, time.Minute), executor.CauseFailed, "squeue"},
		{"no words", 2, ended(executor.CauseFailed, 0, time.Minute), executor.CauseFailed, "squeue"},
	} {
		cause, evidence := a.causeOf(task, Submission{Attempt: test.submission}, test.state)
		if cause != test.cause || !strings.Contains(evidence, test.says) {
			t.Errorf("%s: %s, %q; want %s, %q", test.name, cause, evidence, test.cause, test.says)
		}
	}
	// A retry that was given 120 minutes is warned after 116; without a warning the time
	// says nothing.
	stopped := rundir.ExitRecord{Code: 75, Message: "stopped", Signal: "SIGTERM"}
	for _, c := range []struct {
		notice, ran int // seconds, minutes
		want        executor.Cause
	}{{180, 115, executor.CauseStopped}, {180, 116, executor.CauseTimeout}, {0, 119, executor.CauseStopped}} {
		a.Site.Site.SignalSeconds = c.notice
		if cause, _ := a.CauseOfRecord(task, stopped, 120, time.Duration(c.ran)*time.Minute); cause != c.want {
			t.Errorf("stopped after %d minutes, warned %d s before: %s, want %s", c.ran, c.notice, cause, c.want)
		}
	}
}
