package slurm

import (
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/executor/devcluster"
)

// With accounting, what the queue has forgotten is still known.
//
// Alone: its Slurm takes every core.
func TestRealAccounting(t *testing.T) {
	dev := devcluster.Start(t, "--nodes", "1", "--accounting", "--set", "MinJobAge=2", "--set", "RequeueExit=99")
	b := newBench(t, dev, nil)
	if !b.limits.Accounting || b.limits.MaxSubmit != 0 {
		t.Errorf("limits are %+v, want accounting and no submit limit", b.limits)
	}
	codes := b.submit(t, b.array("codes", 0, 1, 2, 3), Dependency{})[0]
	once := b.submit(t, b.array("once", 5), Dependency{})[0]
	killed := b.submit(t, b.array("kill", 6), Dependency{})[0]
	cancelled := b.submit(t, b.array("hang", 9), Dependency{})[0]
	b.running(t, once)
	b.running(t, cancelled)
	b.command(t, "scontrol", "requeue", once.ID+"_0")
	if err := b.Cancel(t.Context(), cancelled.ID); err != nil {
		t.Fatal(err)
	}
	jobs := []Job{codes, once, killed, cancelled}
	states := b.await(t, "the queue to forget the jobs", jobs, func(s States) bool {
		for _, job := range jobs {
			for _, task := range job.Tasks() {
				if !strings.HasPrefix(s.Of(task).Evidence, "sacct: ") || s.Of(task).Phase != PhaseEnded {
					return false
				}
			}
		}
		return true
	})
	for i, code := range []int{65, 0, 0, 75} {
		cause := executor.CauseOfExit(code)
		want(t, "task "+strconv.Itoa(i), states.Of(codes.Tasks()[i]), cause, code)
	}
	want(t, "the requeued task", states.Of(once.Tasks()[0]), executor.CauseOK, 0)
	want(t, "the killed task", states.Of(killed.Tasks()[0]), executor.CauseFailed, -1)
	if s := states.Of(killed.Tasks()[0]); s.Signal != "SIGKILL" {
		t.Errorf("the killed task: %+v", s)
	}
	if s := states.Of(cancelled.Tasks()[0]); s.Cause != executor.CauseCancelled {
		t.Errorf("the cancelled task: %+v", s)
	}
	b.command(t, "sacctmgr", "-i", "modify", "user", me(t), "set", "maxsubmitjobs=40")
	limits, err := b.Limits(t.Context())
	if err != nil || limits.MaxSubmit != 40 {
		t.Errorf("limits are %+v, %v; want at most 40 jobs", limits, err)
	}
}
