package efficiency

import (
	"fmt"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

// second is a moment of these tests, in seconds since they began.
func second(s int) time.Time { return time.Unix(1_795_220_000+int64(s), 0).UTC() }

// began is when runs of these tests did.
var began = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// accounts is what sacct -D prints: job 70 was requeued twice, and began at 0, 100 and
// 200; the allocation 80 was cancelled at 500; tasks of 90 wait, and one of 91 never began.
var accounts = fmt.Sprintf(`70_3|PREEMPTED|%[1]d|%[2]d|alice
70_3|REQUEUED|%[2]d|%[3]d|alice
70_3|FAILED|%[3]d|%[4]d|alice
70_4|TIMEOUT|%[1]d|%[4]d|alice
70_5|OUT_OF_MEMORY|%[1]d|%[2]d|alice
70_6|NODE_FAIL|%[1]d|%[4]d|alice
70_7|CANCELLED by 1000|%[1]d|%[2]d|alice
71|COMPLETED|%[1]d|%[2]d|alice
80|CANCELLED by 1000|%[1]d|%[5]d|alice
90_[2-5]|PENDING|Unknown|Unknown|alice
91|CANCELLED by 1000|Unknown|%[2]d|alice
`, second(0).Unix(), second(100).Unix(), second(200).Unix(), second(300).Unix(), second(500).Unix())

// Each attempt's end has the cause that is known of it, and none that is not: what Slurm
// did, then what the task says, then what followed.
func TestDisposition(t *testing.T) {
	t.Parallel()
	const task = "rollout-000001-00003"
	at := func(job string, number, from, seconds int) Attempt {
		return Attempt{Task: task, Number: number, Job: job, Start: second(from), Seconds: float64(seconds), parts: &parts{}}
	}
	says := func(number, code int, message string) []rundir.ExitRecord {
		return []rundir.ExitRecord{{Task: task, Attempt: number, Code: code, Message: message, Time: second(90)}}
	}
	stopped := says(0, exitcode.Stopped, "stopped by a signal")
	cancelled := rundir.Pause{By: "alice on n1", Since: second(80), Stop: true}
	_, sigkill := executor.CauseOf(0, 9)
	oom := at("local-n1-0a_0", 0, 0, 90)
	oom.parts = &parts{series: map[key]*series{{name: monitor.CgroupOOMKills}: {grown: 1}}}
	slurmSays := slurmReport{starts: map[string][]start{}}
	slurmSays.takeAccounts(accounts)
	if len(slurmSays.starts["70_3"]) != 3 || len(slurmSays.starts) != 7 || slurmSays.user != "alice" {
		t.Fatalf("read of the accounts: %+v", slurmSays)
	}
	for name, c := range map[string]struct {
		attempt Attempt
		later   []Attempt
		records []rundir.ExitRecord
		slurm   slurmReport
		pause   rundir.Pause
		sealed  int // second; 0 for not at all
		kept    bool
		dropped bool
		want    string
	}{
		"kept":               {attempt: at("70_3", 0, 1, 90), kept: true, sealed: 90, want: dispositionKept},
		"kept for nothing":   {attempt: at("70_3", 0, 1, 90), kept: true, sealed: 90, dropped: true, want: dispositionLate},
		"preempted":          {attempt: at("70_3", 0, 1, 90), slurm: slurmSays, records: stopped, later: []Attempt{at("70_3", 1, 101, 90)}, want: dispositionPreempted},
		"requeued by hand":   {attempt: at("70_3", 1, 101, 90), slurm: slurmSays, later: []Attempt{at("70_3", 2, 201, 90)}, want: dispositionRequeued},
		"a clock behind":     {attempt: at("70_3", 1, 97, 90), slurm: slurmSays, later: []Attempt{at("70_3", 2, 201, 90)}, want: dispositionRequeued},
		"its own fault":      {attempt: at("70_3", 2, 201, 90), slurm: slurmSays, records: []rundir.ExitRecord{{Task: task, Attempt: 2, Code: exitcode.IO, Message: "x", Time: second(291)}}, want: dispositionFailed},
		"timeout":            {attempt: at("70_4", 0, 1, 299), slurm: slurmSays, records: stopped, want: dispositionTimeout},
		"out of memory":      {attempt: at("70_5", 0, 1, 50), slurm: slurmSays, want: dispositionMemory},
		"node":               {attempt: at("70_6", 0, 1, 50), slurm: slurmSays, want: dispositionNodeFail},
		"cancelled":          {attempt: at("70_7", 0, 1, 99), slurm: slurmSays, records: stopped, want: dispositionCancelled},
		"its twin was first": {attempt: at("70_7", 0, 1, 99), slurm: slurmSays, records: stopped, sealed: 50, want: dispositionLate},
		"sealed after it":    {attempt: at("70_7", 0, 1, 99), slurm: slurmSays, records: stopped, sealed: 150, want: dispositionCancelled},
		"closed without it":  {attempt: at("70_7", 0, 1, 99), slurm: slurmSays, records: stopped, dropped: true, want: dispositionLate},
		"completed, no seal": {attempt: at("71_0", 0, 1, 99), slurm: slurmSays, want: dispositionOpen},

		"seen near its limit": {attempt: at("70_3", 0, 1, 90), slurm: slurmReport{cause: func(_ graph.Task, record rundir.ExitRecord, minutes int, ran time.Duration) (executor.Cause, string) {
			if ran != 89*time.Second || minutes != 0 || record.Message == "" {
				return executor.CauseIO, ""
			}
			return executor.CauseTimeout, "x"
		}}, records: stopped, want: dispositionTimeout},
		"seen, of its own": {attempt: at("70_3", 0, 1, 90), slurm: slurmReport{cause: func(graph.Task, rundir.ExitRecord, int, time.Duration) (executor.Cause, string) {
			return executor.CauseIO, "y"
		}}, records: says(0, exitcode.IO, "x"), want: dispositionFailed},
		"Slurm knows better": {attempt: at("70_5", 0, 1, 50), slurm: slurmReport{starts: slurmSays.starts, cause: func(graph.Task, rundir.ExitRecord, int, time.Duration) (executor.Cause, string) {
			return executor.CauseTimeout, "y"
		}}, records: stopped, want: dispositionMemory},
		"requeued for what": {attempt: at("70_3", 1, 101, 90), slurm: slurmReport{starts: slurmSays.starts, cause: func(graph.Task, rundir.ExitRecord, int, time.Duration) (executor.Cause, string) {
			return executor.CausePreempted, "y"
		}}, records: []rundir.ExitRecord{{Task: task, Attempt: 1, Code: exitcode.Stopped, Message: "m", Time: second(190)}}, want: dispositionPreempted},

		// In an allocation whose end says nothing of a task that had failed before.
		"with its allocation":   {attempt: at("80_0", 0, 1, 495), slurm: slurmSays, later: []Attempt{{Task: "learn-000001-00000", Job: "80_0"}}, records: stopped, want: dispositionCancelled},
		"before its allocation": {attempt: at("80_0", 0, 1, 90), slurm: slurmSays, later: []Attempt{{Task: "learn-000001-00000", Job: "80_0"}}, records: stopped, want: dispositionStopped},

		// Nobody keeps accounts.
		"requeued":          {attempt: at("70_3", 0, 1, 90), records: stopped, later: []Attempt{at("70_3", 1, 101, 90)}, want: dispositionRequeued},
		"failed, requeued":  {attempt: at("70_3", 0, 1, 90), records: says(0, exitcode.Data, "x"), later: []Attempt{at("70_3", 1, 101, 90)}, want: dispositionFailed},
		"stopped":           {attempt: at("70_3", 0, 1, 90), records: stopped, want: dispositionStopped},
		"stopped, cancel":   {attempt: at("70_3", 0, 1, 90), records: stopped, pause: cancelled, want: dispositionCancelled},
		"before the cancel": {attempt: at("70_3", 0, 1, 60), records: stopped, pause: cancelled, want: dispositionStopped},
		"tried again here":  {attempt: at("local-n1-0a_0", 0, 1, 90), records: says(0, exitcode.Failed, sigkill), later: []Attempt{at("local-n1-0a_0", 1, 101, 90)}, want: dispositionKilled},
		"no word":           {attempt: at("70_3", 0, 1, 90), later: []Attempt{at("71_3", 1, 101, 90)}, want: dispositionKilled},
		"no word, memory":   {attempt: oom, later: []Attempt{at("local-n1-0a_0", 1, 101, 90)}, want: dispositionMemory},
		"another's record":  {attempt: at("70_3", 0, 95, 90), records: stopped, want: dispositionOpen},
		"superseded":        {attempt: at("70_3", 1, 1, 90), sealed: 50, want: dispositionLate},
		"a record's time":   {attempt: at("70_3", 0, 90, 90), records: stopped, want: dispositionStopped}, // the moment that it began
		"no time at all":    {attempt: at("70_3", 0, 95, 90), records: []rundir.ExitRecord{{Task: task, Code: exitcode.IO, Message: "x"}}, want: dispositionFailed},
		"cancel as it ends": {attempt: at("70_3", 0, 1, 79), records: stopped, pause: cancelled, want: dispositionCancelled},
		"cancel of others":  {attempt: at("70_3", 0, 1, 90), records: stopped, pause: rundir.Pause{By: "a", Since: second(80), Stop: true, Stage: graph.StageLearn}, want: dispositionStopped},
		"late without word": {attempt: at("70_3", 0, 1, 90), records: says(0, exitcode.IO, "x"), sealed: 50, want: dispositionFailed},
		"at work":           {attempt: at("70_3", 0, 1, 90), want: dispositionOpen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := gather(c.records, append([]Attempt{c.attempt}, c.later...), c.slurm)
			e.pause = c.pause
			o := output{known: true, kept: c.kept, task: graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 1}, Shard: 3}}
			if c.sealed > 0 {
				o.at = second(c.sealed)
			}
			if disposition, why := e.disposition(c.attempt, o, c.dropped); disposition != c.want || (why == "") != (disposition == dispositionKept || disposition == dispositionOpen) {
				t.Errorf("%s (%s), want %s", disposition, why, c.want)
			}
		})
	}
}

// What is known of a job that the run submitted holds for its last start, and says more
// than the accounts do: that a task which stopped had come near its time limit.
func TestTakeSubmission(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause executor.Cause
		state slurm.State
		want  string
	}{
		"near its limit":       {executor.CauseTimeout, slurm.State{Start: second(200), Cause: executor.CauseStopped}, dispositionTimeout},
		"cancelled, with time": {executor.CauseStopped, slurm.State{Start: second(200), Cause: executor.CauseCancelled}, dispositionCancelled},
		"killed":               {executor.CauseFailed, slurm.State{Start: second(200), Cause: executor.CauseFailed, Signal: "SIGKILL"}, dispositionKilled},
		"the task knows":       {executor.CauseIO, slurm.State{Start: second(200), Cause: executor.CauseIO}, ""},
		"at work":              {"", slurm.State{Start: second(200)}, ""},
		"never began":          {executor.CauseCancelled, slurm.State{Cause: executor.CauseCancelled}, ""},
	} {
		s := slurmReport{starts: map[string][]start{"71_0": {{begin: second(200)}}}}
		s.takeSubmission(advance.Attempt{Job: "71", Cause: c.cause, State: c.state, Evidence: "x"})
		last, heard := s.of(Attempt{Job: "71_0", Start: second(203)}, true)
		if last.disposition != c.want || heard != (c.want != "") {
			t.Errorf("%s: %q, want %q", name, last.disposition, c.want)
		}
		if _, heard := s.of(Attempt{Job: "71_0", Start: second(100)}, true); heard {
			t.Errorf("%s: it is of an earlier start", name)
		}
	}
}

// Losses are in one unit and each second is lost once. By hand, in GPU-seconds: of an
// array that took 100, 100 and 400 s with two GPUs each, the slowest held its own 300 s
// longer than half of them; 1200 + 200 of a preempted attempt were held in all.
func TestLosses(t *testing.T) {
	t.Parallel()
	at := func(shard int, seconds float64, disposition string) Attempt {
		return Attempt{Task: fmt.Sprintf("rollout-000001-%05d", shard), Seconds: seconds, Disposition: disposition, Cores: 8, GPUs: make([]GPU, 2)}
	}
	attempts := []Attempt{at(0, 400, dispositionKept), at(1, 100, dispositionKept), at(2, 100, dispositionKept), at(2, 100, dispositionPreempted)}
	for gpus, want := range map[bool]struct {
		unit string
		by   float64
	}{true: {"GPU-seconds", 2}, false: {"core-seconds", 8}} {
		lost, to := losses(attempts, arraysOf(attempts), gpus)
		if len(lost) != 2 || lost[0].Cause != dispositionPreempted || lost[0].Seconds != 100*want.by || lost[1].Cause != causeStraggler || lost[1].Seconds != 300*want.by || lost[1].Unit != want.unit {
			t.Errorf("%+v", lost)
		}
		if !near(to.Preemption, 100/700.0) || !near(to.Stragglers, 300/700.0) || to.Retries != 0 || to.Unexplained != 0 {
			t.Errorf("%+v", to)
		}
	}
	_, to := losses([]Attempt{at(0, 30, dispositionKept), at(1, 10, dispositionRequeued), at(2, 20, dispositionFailed), at(3, 40, dispositionLate)}, nil, true)
	if !near(to.Retries, 0.3) || !near(to.Unexplained, 0.1) || !near(to.Stragglers, 0.4) || to.Preemption != 0 {
		t.Errorf("%+v", to)
	}
}
