package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/devcluster"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/await"
	"github.com/lathe-rl/lathe/pkg/site"
)

// task is a task of the tests: its first argument says what it does, and
// --shard follows at the end.
const task = `#!/bin/bash
what=$1; shard=${!#}
trap 'echo "got USR2"; exit 75' USR2
trap 'echo "got TERM"; exit 75' TERM
echo "shard $shard task ${SLURM_ARRAY_TASK_ID-none} restarts ${SLURM_RESTART_COUNT-0} attempt $LATHE_ATTEMPT cores $SLURM_CPUS_PER_TASK on $SLURMD_NODENAME"
wait_for() { until [[ -e $1 ]]; do sleep 0.1 & wait $!; done; }
case $what in
codes) exit $((shard % 50 == 0 ? 65 : shard % 50 == 3 ? 75 : 0)) ;;
kill) kill -9 $$ ;;
hang) wait_for /nonexistent ;;
deaf) trap '' USR2 TERM; sleep 600 ;;
once) [[ ${SLURM_RESTART_COUNT-0} -gt 0 ]] || wait_for /nonexistent ;;
file=*) wait_for "${what#file=}" ;;
exit=*) exit "${what#exit=}" ;;
esac
`

// bench is a cluster and a run directory on it.
type bench struct {
	*Cluster
	run    string
	limits Limits
	dev    *devcluster.Cluster
}

func newBench(t *testing.T, dev *devcluster.Cluster, adapt func(*site.Profile)) *bench {
	t.Helper()
	site := site.Default()
	if adapt != nil {
		adapt(&site)
	}
	cluster, err := Open(site)
	if err != nil {
		t.Fatal(err)
	}
	cluster.variables["SLURM_CONF"] = dev.Conf()
	limits, err := cluster.Limits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A name that every layer of quoting has to get through.
	b := &bench{Cluster: cluster, run: filepath.Join(t.TempDir(), `it's a "50% run" $HOME`), limits: limits, dev: dev}
	if err := os.Mkdir(b.run, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path("task"), []byte(task), 0o777); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.run, name) }

func (b *bench) array(what string, shards ...int) executor.Array {
	return executor.Array{
		Run: "r1", Stage: "rollout", Iteration: 1, Attempt: 2, Shards: shards, Command: []string{b.path("task"), what},
		CPUs: 1, MemoryGB: 0.05, Minutes: 10, LogDir: b.path("logs"),
	}
}

func (b *bench) submit(t *testing.T, array executor.Array, wait Dependency) []Job {
	t.Helper()
	jobs, err := b.SubmitArray(t.Context(), array, b.limits, b.path("jobs"), wait)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// await waits until the states of the jobs satisfy a condition.
func (b *bench) await(t *testing.T, what string, jobs []Job, ready func(States) bool) (states States) {
	t.Helper()
	await.Until(t, what, func() bool {
		var err error
		if states, err = b.States(t.Context(), b.limits, jobs); err != nil {
			t.Fatal(err)
		}
		return ready(states)
	})
	return states
}

func (b *bench) ended(t *testing.T, jobs ...Job) States {
	t.Helper()
	return b.await(t, "the jobs to end", jobs, func(s States) bool {
		for _, job := range jobs {
			for _, task := range job.Tasks() {
				if s.Of(task).Phase != PhaseEnded {
					return false
				}
			}
		}
		return true
	})
}

// running waits until the tasks of a job run and say so in their logs.
func (b *bench) running(t *testing.T, job Job) {
	t.Helper()
	b.await(t, "the job to run", []Job{job}, func(s States) bool {
		for i, task := range job.Tasks() {
			said, _ := os.ReadFile(b.array("", job.Shards[i]).Log(job.Shards[i]))
			if s.Of(task).Phase != PhaseRunning || !strings.HasPrefix(string(said), "shard ") {
				return false
			}
		}
		return true
	})
}

func (b *bench) command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := b.Cluster.run(t.Context(), nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func want(t *testing.T, what string, s State, cause executor.Cause, exit int) {
	t.Helper()
	if s.Phase != PhaseEnded || s.Cause != cause || s.Exit != exit {
		t.Errorf("%s: state is %+v, want ended, cause %s, exit code %d", what, s, cause, exit)
	}
}

func (b *bench) log(t *testing.T, shard int) string {
	t.Helper()
	content, err := os.ReadFile(b.array("", shard).Log(shard))
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

// Alone: its Slurm takes every core.
func TestRealSlurm(t *testing.T) {
	dev := devcluster.Start(t, "--set", "RequeueExit=99")
	t.Run("group", func(t *testing.T) {
		t.Run("limits", func(t *testing.T) {
			b := newBench(t, dev, nil)
			if l := b.limits; l.MaxArraySize != 101 || l.MaxJobCount != 2000 || l.MinJobAge != 300*time.Second ||
				l.KillWait != 5*time.Second || l.Accounting || !l.UserSignal || !l.Requeue || l.Version == "" {
				t.Errorf("limits are %+v", l)
			}
		})
		t.Run("nodes to keep out of", func(t *testing.T) {
			b := newBench(t, dev, func(s *site.Profile) { s.Extra = []string{"--exclude=" + "n1"} })
			array := b.array("codes", 1, 2, 4, 5)
			array.Exclude = []string{"n2"}
			job := b.submit(t, array, Dependency{})[0]
			states := b.ended(t, job)
			for _, task := range job.Tasks() {
				if s := states.Of(task); s.Cause != executor.CauseOK || s.Nodes != "n3" {
					t.Errorf("%+v", s)
				}
			}
			array.Exclude = []string{"n2", "n3"} // and n1 by the site
			if jobs, err := b.SubmitArray(t.Context(), array, b.limits, b.path("jobs"), Dependency{}); exitcode.Code(err) != exitcode.Usage || len(jobs) > 0 {
				t.Errorf("all nodes excluded: %v, %v", jobs, err)
			}
		})
		t.Run("150 tasks over MaxArraySize 101", func(t *testing.T) {
			t.Parallel()
			testChunks(t, newBench(t, dev, nil))
		})
		t.Run("time limit", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, dev, nil)
			array := b.array("deaf", 4, 5)
			array.Minutes = 1
			polite := b.array("hang", 6)
			polite.Minutes = 1
			jobs := append(b.submit(t, array, Dependency{}), b.submit(t, polite, Dependency{})...)
			states := b.ended(t, jobs...)
			for _, job := range jobs {
				for _, task := range job.Tasks() {
					want(t, task.String(), states.Of(task), executor.CauseTimeout, states.Of(task).Exit)
				}
			}
			if log := b.log(t, 6); !strings.Contains(log, "got TERM") {
				t.Errorf("the task got no SIGTERM at its time limit: %q", log)
			}
		})
		t.Run("requeue of one task", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, dev, nil)
			job := b.submit(t, b.array("once", 0, 1, 2), Dependency{})[0]
			b.running(t, job)
			b.command(t, "scontrol", "requeue", job.ID+"_1")
			states := b.await(t, "the requeued task", []Job{job}, func(s States) bool {
				return s.Of(job.Tasks()[1]).Phase == PhaseEnded
			})
			s := states.Of(job.Tasks()[1])
			want(t, "the requeued task", s, executor.CauseOK, 0)
			if s.Restarts != 1 {
				t.Errorf("the requeued task has %d restarts, want 1", s.Restarts)
			}
			if log := b.log(t, 1); !strings.Contains(log, "restarts 0") || !strings.Contains(log, "restarts 1") {
				t.Errorf("the log does not hold both starts: %q", log)
			}
			if err := b.Cancel(t.Context(), job.ID); err != nil {
				t.Error(err)
			}
		})
		t.Run("cancel", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, dev, nil)
			job := b.submit(t, b.array("hang", 7, 8), Dependency{})[0]
			b.running(t, job)
			tasks := job.Tasks()
			if err := b.Cancel(t.Context(), tasks[0].String(), "999999"); err != nil {
				t.Error(err)
			}
			states := b.await(t, "the cancelled task", []Job{job}, func(s States) bool {
				return s.Of(tasks[0]).Phase == PhaseEnded
			})
			if s := states.Of(tasks[0]); s.Cause != executor.CauseCancelled {
				t.Errorf("the cancelled task: %+v", s)
			}
			if s := states.Of(tasks[1]); s.Phase != PhaseRunning {
				t.Errorf("the other task: %+v, want running", s)
			}
			for range 2 { // the second time there is nothing left to cancel
				if err := b.Cancel(t.Context(), job.ID); err != nil {
					t.Error(err)
				}
				b.ended(t, job)
			}
		})
		t.Run("gate after a failing array, one gate at a time", func(t *testing.T) {
			t.Parallel()
			testGates(t, newBench(t, dev, nil))
		})
		t.Run("a dependency that cannot be satisfied", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, dev, nil)
			first := b.submit(t, b.array("exit=1", 0), Dependency{})[0]
			array := b.array("exit=0", 0)
			array.NoShard = true
			chunks, err := Plan(array, b.limits, 0)
			if err != nil {
				t.Fatal(err)
			}
			b.site.Extra = []string{"--dependency=afterok:" + first.ID}
			script, err := Script(array, chunks[0], b.site)
			if err != nil {
				t.Fatal(err)
			}
			id, err := b.Submit(t.Context(), script, JobName(array), Dependency{})
			if err != nil {
				t.Fatal(err)
			}
			job := Job{ID: id, Shards: []int{0}}
			s := b.ended(t, job).Of(TaskID{id, NoIndex})
			want(t, "the dependent job", s, executor.CauseFailed, -1)
			if !strings.Contains(s.Evidence, "DependencyNeverSatisfied") {
				t.Errorf("evidence is %q", s.Evidence)
			}
		})
		t.Run("jobs that nobody knows", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, dev, nil)
			known := b.submit(t, b.array("exit=0", 0), Dependency{})[0]
			lost := Job{ID: "999999", Array: true, Shards: []int{0, 1}}
			states := b.ended(t, known)
			if s := states.Of(lost.Tasks()[0]); s.Phase != PhaseUnknown || s.Cause != executor.CauseUnknown {
				t.Errorf("a job that was not asked for: %+v", s)
			}
			for _, jobs := range [][]Job{{lost}, {known, lost}, {lost, {ID: "999998", Shards: []int{0}}}} {
				states, err := b.States(t.Context(), b.limits, jobs)
				if err != nil {
					t.Fatal(err)
				}
				if s := states.Of(lost.Tasks()[1]); s.Phase != PhaseUnknown || s.Evidence == "" {
					t.Errorf("a lost job: %+v, want unknown", s)
				}
			}
		})
		t.Run("refusals", func(t *testing.T) {
			t.Parallel()
			testRefusals(t, newBench(t, dev, nil))
		})
	})
}

func testChunks(t *testing.T, b *bench) {
	var shards []int
	for i := range 150 {
		shards = append(shards, 3*i)
	}
	jobs := b.submit(t, b.array("codes", shards...), Dependency{})
	if len(jobs) != 2 || len(jobs[0].Shards) != 101 || len(jobs[1].Shards) != 49 {
		t.Fatalf("jobs are %+v, want chunks of 101 and 49 tasks", jobs)
	}
	states := b.ended(t, jobs...)
	for _, job := range jobs {
		for i, task := range job.Tasks() {
			shard := job.Shards[i]
			cause, code := executor.CauseOK, 0
			switch shard % 50 {
			case 0:
				cause, code = executor.CauseData, 65
			case 3:
				cause, code = executor.CauseStopped, 75
			}
			want(t, fmt.Sprintf("shard %d", shard), states.Of(task), cause, code)
			line := fmt.Sprintf("shard %d task %d restarts 0 attempt 2 cores 1 on", shard, i)
			if log := b.log(t, shard); !strings.Contains(log, line) {
				t.Errorf("the log of shard %d is %q, want %q", shard, log, line)
			}
		}
	}
}

func testGates(t *testing.T, b *bench) {
	failing := b.submit(t, b.array("codes", 50, 51), Dependency{})[0]
	gate := b.array("file="+b.path("open"), 0)
	gate.Stage, gate.NoShard = GateStage, true
	var gates []Job
	for k := range 2 {
		gate.Iteration = k + 1
		wait := Dependency{AfterAny: []string{failing.ID}}
		if k == 1 {
			wait = Dependency{Delay: 40 * time.Second}
		}
		gates = append(gates, b.submit(t, gate, wait)...)
	}
	all := append(gates, failing)
	states := b.await(t, "the first gate to run", all, func(s States) bool {
		return slices.ContainsFunc(gates, func(g Job) bool { return s.Of(g.Tasks()[0]).Phase == PhaseRunning }) && !s.Live(failing)
	})
	want(t, "the failing task", states.Of(failing.Tasks()[0]), executor.CauseData, 65)
	time.Sleep(3 * time.Second) // long enough for the second controller job to start, were its time come
	states, err := b.States(t.Context(), b.limits, gates)
	if err != nil {
		t.Fatal(err)
	}
	phases := []Phase{states.Of(gates[0].Tasks()[0]).Phase, states.Of(gates[1].Tasks()[0]).Phase}
	slices.Sort(phases)
	if !slices.Equal(phases, []Phase{PhasePending, PhaseRunning}) {
		t.Errorf("the gates are %v, want one running and one pending", phases)
	}
	if err := os.WriteFile(b.path("open"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	states = b.ended(t, gates...)
	for _, g := range gates {
		want(t, "a gate", states.Of(g.Tasks()[0]), executor.CauseOK, 0)
	}
	if out, err := os.ReadFile(b.path("logs/gate-000001-00000.2.log")); err != nil || !strings.Contains(string(out), "task none") {
		t.Errorf("the gate's log is %q, %v", out, err)
	}
}

func testRefusals(t *testing.T, b *bench) {
	for _, c := range []struct {
		adapt func(*site.Profile)
		says  string
	}{
		{func(s *site.Profile) { s.Partition = "nowhere" }, "invalid partition"},
		{func(s *site.Profile) { s.GPUType = "imaginary" }, "node configuration is not available"},
	} {
		site := b.site
		c.adapt(&site)
		cluster := &Cluster{site: site, variables: b.variables}
		array := b.array("exit=0", 0)
		array.GPUs = 1
		_, err := cluster.SubmitArray(t.Context(), array, b.limits, b.path("jobs"), Dependency{})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error is %v, want one with %q", err, c.says)
		}
	}
	away := b.path("away.conf")
	content, err := os.ReadFile(b.dev.Conf())
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(string(content), "\n"), func(line string) bool { return strings.HasPrefix(line, "SlurmctldPort=") })
	if err := os.WriteFile(away, []byte("SlurmctldPort=9\nMessageTimeout=2\n"+strings.Join(lines, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	dead := &Cluster{site: b.site, variables: map[string]string{"SLURM_CONF": away}}
	if _, err := dead.Limits(t.Context()); err == nil || !strings.Contains(err.Error(), "Unable to contact slurm controller") {
		t.Errorf("without a controller the error is %v", err)
	}
}

// Alone: its Slurm takes every core.
func TestRealPreemptionAndNodeFailure(t *testing.T) {
	dev := devcluster.Start(t, "--nodes", "2", "--cpus", "2")
	on := func(node string, requeue bool) func(*site.Profile) {
		return func(s *site.Profile) { s.Requeue, s.Extra = requeue, []string{"--nodelist=" + node} }
	}
	t.Run("group", func(t *testing.T) {
		t.Run("preemption", func(t *testing.T) {
			t.Parallel()
			again, gone := newBench(t, dev, on("n1", true)), newBench(t, dev, on("n1", false))
			jobs := append(again.submit(t, again.array("once", 0), Dependency{}), gone.submit(t, gone.array("deaf", 0), Dependency{})...)
			again.running(t, jobs[0])
			gone.running(t, jobs[1])
			urgent := newBench(t, dev, func(s *site.Profile) { s.Partition, s.Extra = "high", []string{"--nodelist=n1"} })
			array := urgent.array("exit=0", 0)
			array.CPUs = 2
			high := urgent.submit(t, array, Dependency{})[0]
			states := urgent.ended(t, append(jobs, high)...)
			s := states.Of(jobs[0].Tasks()[0])
			want(t, "the task that may be requeued", s, executor.CauseOK, 0)
			if log := again.log(t, 0); s.Restarts != 1 || !strings.Contains(log, "got USR2") || !strings.Contains(log, "restarts 1") {
				t.Errorf("it was restarted %d times; its log is %q", s.Restarts, log)
			}
			// Both are killed: where its shell is the last to die, it has an exit code.
			if s := states.Of(jobs[1].Tasks()[0]); s.Phase != PhaseEnded || s.Cause != executor.CausePreempted || s.Exit != -1 && s.Exit != 128+int(syscall.SIGKILL) {
				t.Errorf("the task that may not: state is %+v, want ended, cause preempted, no exit code or that of a kill", s)
			}
			want(t, "the urgent task", states.Of(high.Tasks()[0]), executor.CauseOK, 0)
		})
		t.Run("node failure", func(t *testing.T) {
			t.Parallel()
			again, gone := newBench(t, dev, on("n2", true)), newBench(t, dev, on("n2", false))
			jobs := append(again.submit(t, again.array("once", 0), Dependency{}), gone.submit(t, gone.array("hang", 0), Dependency{})...)
			again.running(t, jobs[0])
			gone.running(t, jobs[1])
			dev.Do(t, "kill", "n2")
			states := gone.ended(t, jobs[1])
			want(t, "the task that may not be requeued", states.Of(jobs[1].Tasks()[0]), executor.CauseNodeFail, states.Of(jobs[1].Tasks()[0]).Exit)
			dev.Do(t, "start", "n2")
			states = again.ended(t, jobs[0])
			s := states.Of(jobs[0].Tasks()[0])
			want(t, "the task that may", s, executor.CauseOK, 0)
			if s.Restarts != 1 {
				t.Errorf("it was restarted %d times, want 1", s.Restarts)
			}
		})
	})
}

func me(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
