package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/site"
)

// replay reads a capture as States would.
func replay(t *testing.T, states *States, source, name string, parse func(string) ([]record, error), wanted ...TaskID) {
	t.Helper()
	set := map[TaskID]bool{}
	for _, task := range wanted {
		set[task] = true
	}
	if err := states.add(source, capture(t, name), parse, set); err != nil {
		t.Fatal(err)
	}
}

func TestCapturedStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		task   TaskID
		squeue State // its evidence is a part of the whole
		sacct  State
	}{
		{
			TaskID{"1", 0},
			State{Phase: PhaseEnded, Cause: executor.CauseOK, Evidence: "squeue: COMPLETED, on n1"},
			State{Phase: PhaseEnded, Cause: executor.CauseOK, Evidence: "sacct: COMPLETED, on n1"},
		},
		{
			TaskID{"1", 1},
			State{Phase: PhaseEnded, Cause: executor.CauseData, Exit: 65, Evidence: "exit code 65:0"},
			State{Phase: PhaseEnded, Cause: executor.CauseData, Exit: 65, Evidence: "exit code 65:0"},
		},
		{
			TaskID{"1", 2},
			State{Phase: PhaseEnded, Cause: executor.CauseFailed, Exit: -1, Signal: "SIGKILL"},
			State{Phase: PhaseEnded, Cause: executor.CauseFailed, Exit: -1, Signal: "SIGKILL"},
		},
		{
			TaskID{"1", 3},
			State{Phase: PhaseEnded, Cause: executor.CauseStopped, Exit: 75},
			State{Phase: PhaseEnded, Cause: executor.CauseStopped, Exit: 75},
		},
		{
			TaskID{"1", 4},
			State{Phase: PhaseEnded, Cause: executor.CauseCancelled, Exit: -1, Signal: "SIGTERM"},
			State{Phase: PhaseEnded, Cause: executor.CauseCancelled, Exit: 0},
		},
		{ // requeued twice by then; sacct, asked before, has a line for each start and the last holds
			TaskID{"1", 5},
			State{Phase: PhasePending, Exit: -1, Restarts: 2, Evidence: "reason BeginTime, requeued 2 times"},
			State{Phase: PhaseRunning, Exit: -1, Restarts: 1, Evidence: "requeued 1 time, on n2, after REQUEUED on n3"},
		},
		{
			TaskID{"2", 0},
			State{Phase: PhaseEnded, Cause: executor.CauseStopped, Exit: -1, Signal: "SIGUSR2"},
			State{Phase: PhaseEnded, Cause: executor.CauseStopped, Exit: -1, Signal: "SIGUSR2"},
		},
		{
			TaskID{"2", 99},
			State{Phase: PhasePending, Exit: -1, Evidence: "JobArrayTaskLimit"},
			State{Phase: PhasePending, Exit: -1, Evidence: "JobArrayTaskLimit"},
		},
		{ // not in the array
			TaskID{"2", 49},
			State{Phase: PhaseUnknown, Cause: executor.CauseUnknown, Exit: -1},
			State{Phase: PhaseUnknown, Cause: executor.CauseUnknown, Exit: -1},
		},
		{
			TaskID{"8", NoIndex},
			State{Phase: PhasePending, Exit: -1, Evidence: "Dependency"},
			State{Phase: PhasePending, Exit: -1, Evidence: "Dependency"},
		},
		{
			TaskID{"9", NoIndex},
			State{Phase: PhaseEnded, Cause: executor.CauseLaunchFailed, Exit: -1, Signal: "signal 53"},
			State{Phase: PhaseEnded, Cause: executor.CauseLaunchFailed, Exit: -1, Signal: "signal 53"},
		},
		{
			TaskID{"10", NoIndex},
			State{Phase: PhaseEnded, Cause: executor.CauseTimeout, Exit: -1, Signal: "SIGTERM"},
			State{Phase: PhaseEnded, Cause: executor.CauseTimeout},
		},
		{
			TaskID{"11", NoIndex},
			State{Phase: PhaseEnded, Cause: executor.CausePreempted, Exit: -1, Signal: "SIGTERM"},
			State{Phase: PhaseEnded, Cause: executor.CausePreempted},
		},
	} {
		var queue, accounts States
		queue.tasks, accounts.tasks = map[TaskID]State{}, map[TaskID]State{}
		replay(t, &queue, "squeue", "squeue.txt", parseSqueue, c.task)
		replay(t, &accounts, "sacct", "sacct.txt", parseSacct, c.task)
		for source, pair := range map[string][2]State{"squeue": {queue.Of(c.task), c.squeue}, "sacct": {accounts.Of(c.task), c.sacct}} {
			got, want := pair[0], pair[1]
			if got.Phase != want.Phase || got.Cause != want.Cause || got.Exit != want.Exit || got.Signal != want.Signal ||
				got.Restarts != want.Restarts || !strings.Contains(got.Evidence, want.Evidence) {
				t.Errorf("task %s by %s: state is %+v, want %+v", c.task, source, got, want)
			}
		}
	}
}

func TestNeverSatisfied(t *testing.T) {
	t.Parallel()
	states := States{tasks: map[TaskID]State{}}
	task := TaskID{"8", NoIndex}
	replay(t, &states, "squeue", "squeue-never.txt", parseSqueue, task)
	if s := states.Of(task); s.Phase != PhaseEnded || s.Cause != executor.CauseFailed || s.Exit != -1 {
		t.Errorf("state is %+v, want ended and failed", s)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	states := States{tasks: map[TaskID]State{}}
	ended, pending := TaskID{"10", NoIndex}, TaskID{"1", 5}
	replay(t, &states, "squeue", "squeue.txt", parseSqueue, ended, pending)
	if s := states.Of(ended); s.End.Sub(s.Start) != 87*time.Second {
		t.Errorf("the job of a 1-minute limit ran from %s to %s, want 87 s", s.Start, s.End)
	}
	if s := states.Of(pending); !s.Start.IsZero() || !s.End.IsZero() {
		t.Errorf("a pending task has the times %s and %s", s.Start, s.End)
	}
}

// What the queue says holds; the accounting fills in what it does not know.
func TestQueueBeforeAccounting(t *testing.T) {
	t.Parallel()
	states := States{tasks: map[TaskID]State{}}
	task := TaskID{"1", 5}
	replay(t, &states, "squeue", "squeue.txt", parseSqueue, task)
	replay(t, &states, "sacct", "sacct.txt", parseSacct, task, TaskID{"1", 1})
	if s := states.Of(task); s.Phase != PhasePending || len(s.Earlier) != 2 {
		t.Errorf("state is %+v, want that of squeue, and the two starts that sacct has", s)
	}
	if s := states.Of(TaskID{"1", 1}); s.Exit != 65 {
		t.Errorf("state is %+v, want that of sacct", s)
	}
}

// Causes that no capture shows, from the man page squeue(1), JOB STATE CODES,
// and JOB REASON CODES.
func TestRarerStates(t *testing.T) {
	t.Parallel()
	at := time.Unix(1795220689, 0)
	for _, c := range []struct {
		state, reason string
		code          int
		phase         Phase
		cause         executor.Cause
	}{
		{"NODE_FAIL", "", 1, PhaseEnded, executor.CauseNodeFail},
		{"BOOT_FAIL", "", 0, PhaseEnded, executor.CauseLaunchFailed},
		{"OUT_OF_MEMORY", "OutOfMemory", 0, PhaseEnded, executor.CauseOutOfMemory},
		{"DEADLINE", "", 0, PhaseEnded, executor.CauseTimeout},
		{"REVOKED", "", 0, PhaseEnded, executor.CauseCancelled},
		{"FAILED", "", 0, PhaseEnded, executor.CauseFailed}, // 0:0 and yet failed
		{"PENDING", "JobHoldMaxRequeue", 0, PhaseEnded, executor.CauseLaunchFailed},
		{"PENDING", "launch failed requeued held", 0, PhaseEnded, executor.CauseLaunchFailed},
		{"CANCELLED", "launch failed requeued held", 0, PhaseEnded, executor.CauseLaunchFailed}, // by a controller job
		{"PENDING", "JobHeldUser", 0, PhasePending, ""},
		{"PENDING", "JobHeldAdmin", 0, PhasePending, ""},
		{"PENDING", "job requeued in held state", 0, PhasePending, ""},
		{"PENDING", "Priority", 0, PhasePending, ""},
		{"REQUEUE_HOLD", "", 0, PhasePending, ""},
		{"COMPLETING", "", 0, PhaseRunning, ""},
		{"SUSPENDED", "", 0, PhaseRunning, ""},
		{"CANCELLED", "DependencyNeverSatisfied", 0, PhaseEnded, executor.CauseFailed},
		{"SOMETHING_NEW", "", 0, PhaseUnknown, executor.CauseUnknown},
	} {
		got := stateOf(record{state: c.state, reason: c.reason, code: c.code, start: at, end: at}, "squeue")
		if got.Phase != c.phase || got.Cause != c.cause {
			t.Errorf("%s %s: state is %+v, want phase %s, cause %q", c.state, c.reason, got, c.phase, c.cause)
		}
		if waits := c.state == "PENDING" && c.phase == PhaseEnded; got.Hopeless != waits {
			t.Errorf("%s %s: hopeless %v, want %v", c.state, c.reason, got.Hopeless, waits)
		}
	}
}

// fakeCommand puts a script on PATH in place of one of Slurm's commands, to
// show how their failures are taken.
func fakeCommand(t *testing.T, name, script string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/bash\n"+script), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

func quick() *Cluster {
	return &Cluster{site: site.Default(), delays: []time.Duration{time.Millisecond, time.Millisecond}}
}

func TestBusyControllerIsAskedAgain(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "asked")
	fakeCommand(t, "squeue", "exit 1")
	fakeCommand(t, "sbatch", `if [[ -e `+mark+` ]]; then cat >/dev/null; echo 12; else touch `+mark+`
echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1; fi`)
	id, err := quick().Submit(t.Context(), []byte("#!/bin/bash\n"), "name", Dependency{})
	if err != nil || id != "12" {
		t.Errorf("job is %q, %v; want 12", id, err)
	}
}

// The controller may take a job and be too slow to say so: the job is found
// by its mark and not submitted twice, also when sbatch is too slow to end, or when the
// last attempt was taken.
func TestJobThatWasTakenIsNotSubmittedAgain(t *testing.T) {
	for _, c := range []struct {
		ends  string // of sbatch
		takes int    // the attempt that is taken, from 1
	}{{"exit 1", 1}, {"exit 1", 3}, {"exec sleep 60", 1}} {
		mark := filepath.Join(t.TempDir(), "comment")
		fakeCommand(t, "sbatch", fmt.Sprintf(`echo "${2#--comment=}" >>%[1]s; echo "sbatch: error: Socket timed out" >&2; %[2]s`, mark, c.ends))
		fakeCommand(t, "squeue", fmt.Sprintf(`echo "11 another"; [[ $(wc -l <%[1]s) -lt %[2]d ]] || echo "12 $(tail -n 1 %[1]s)"`, mark, c.takes))
		cluster := quick()
		if strings.Contains(c.ends, "sleep") {
			cluster.timeout = 2 * time.Second
		}
		id, err := cluster.Submit(t.Context(), []byte("#!/bin/bash\n"), "name", Dependency{})
		if err != nil || id != "12" {
			t.Errorf("%s, attempt %d: job is %q, %v; want 12", c.ends, c.takes, id, err)
		}
		if content, _ := os.ReadFile(mark); strings.Count(string(content), "\n") != c.takes {
			t.Errorf("%s, attempt %d: submitted as %q", c.ends, c.takes, content)
		}
	}
}

func TestErrorsOfSubmission(t *testing.T) {
	for _, c := range []struct {
		script string
		code   int
		full   bool
		says   string
	}{
		{`echo "sbatch: error: invalid partition specified: x" >&2; exit 1`, exitcode.Usage, false, "invalid partition"},
		{`echo "sbatch: error: AssocMaxSubmitJobLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)" >&2; exit 1`, exitcode.Failed, true, "submit limit"},
		{`echo "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)" >&2; exit 1`, exitcode.Unavailable, false, "connect failure"},
		{`exit 1`, exitcode.Usage, false, "printed nothing"},
		{`cat >/dev/null; echo "Submitted"`, exitcode.Unavailable, false, "a job id was expected"},
		{`exec sleep 60`, exitcode.Unavailable, false, "no answer after 2s"},
		{`echo "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying" >&2; exec sleep 60`, exitcode.Failed, true, "unable to accept job"},
	} {
		fakeCommand(t, "sbatch", c.script)
		fakeCommand(t, "squeue", "exit 1")
		cluster := quick()
		if strings.Contains(c.script, "sleep") {
			cluster.timeout = 2 * time.Second
		}
		_, err := cluster.Submit(t.Context(), []byte("x"), "name", Dependency{})
		if exitcode.Code(err) != c.code || errors.Is(err, ErrQueueFull) != c.full || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v (code %d), want code %d with %q", c.script, err, exitcode.Code(err), c.code, c.says)
		}
	}
}

func TestStopWhileWaiting(t *testing.T) {
	fakeCommand(t, "scontrol", `echo "Socket timed out" >&2; exit 1`)
	ctx, cancel := context.WithCancel(t.Context())
	cluster := quick()
	cluster.delays = []time.Duration{time.Hour}
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := cluster.Limits(ctx); exitcode.Code(err) != exitcode.Stopped {
		t.Errorf("error is %v, want one of code %d", err, exitcode.Stopped)
	}
}

func TestSacctThatDoesNotAnswer(t *testing.T) {
	fakeCommand(t, "squeue", `echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1`)
	fakeCommand(t, "sacct", `echo "Slurm accounting storage is disabled" >&2; exit 1`)
	job := Job{ID: "12", Array: true, Shards: []int{0}}
	states, err := quick().States(t.Context(), Limits{Accounting: true}, []Job{job})
	if err != nil {
		t.Fatal(err)
	}
	if s := states.Of(job.Tasks()[0]); s.Phase != PhaseUnknown || !strings.Contains(s.Evidence, "storage is disabled") {
		t.Errorf("state is %+v, want unknown with the reason", s)
	}
}

func TestOpenWithoutSlurm(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(site.Default()); exitcode.Code(err) != exitcode.Unavailable {
		t.Errorf("error is %v, want one of code %d", err, exitcode.Unavailable)
	}
}

func TestVariablesKeptFromCommands(t *testing.T) {
	for name, value := range map[string]string{
		"SLURM_CONF": "conf", "SLURM_JOB_ID": "12", "SBATCH_PARTITION": "p", "SBATCH_ACCOUNT": "a", "SQUEUE_FORMAT": "x",
		"SLURM_CPUS_PER_TASK": "3", "LATHE_ATTEMPT": "4", "OTHER": "o",
	} {
		t.Setenv(name, value)
	}
	fakeCommand(t, "squeue", `for name in SLURM_CONF SLURM_JOB_ID SBATCH_PARTITION SBATCH_ACCOUNT SQUEUE_FORMAT SLURM_CPUS_PER_TASK LATHE_ATTEMPT OTHER SLURM_BITSTR_LEN
do printf '%s ' "${!name-unset}"; done`)
	cluster := quick()
	cluster.site.Partition = "gpu"
	cluster.variables = map[string]string{"SLURM_BITSTR_LEN": "0"}
	out, err := cluster.run(t.Context(), nil, "squeue")
	if want := "conf unset unset a unset unset unset o 0 "; err != nil || out != want {
		t.Errorf("squeue sees %q, %v; want %q", out, err, want)
	}
}

// While a node is down or drained, sbatch --test-only does not see it: that no node fits
// says nothing then.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	for states, want := range map[string]bool{
		"idle mixed allocated": false, "completing planned": false, "": false,
		"idle drained": true, "draining": true, "down*": true, "idle*": true, "maint idle": true,
	} {
		if got := unavailable(strings.Fields(states)); got != want {
			t.Errorf("%q: %v, want %v", states, got, want)
		}
	}
}
