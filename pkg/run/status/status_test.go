package status_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// beat leaves the heartbeat of a foreground driver in a run.
func beat(t *testing.T, r *rundir.Run, host string, pid int, age time.Duration, more string) {
	t.Helper()
	text := fmt.Sprintf(`{"executor": "local", "host": %q, "pid": %d, "beat": %q%s}`, host, pid, time.Now().Add(-age).UTC().Format(time.RFC3339Nano), more)
	if err := errors.Join(os.MkdirAll(r.Dir.Jobs(), 0o777), os.WriteFile(filepath.Join(r.Dir.Jobs(), "driver.json"), []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

// TestStateOfARun: the state and its evidence, from what is there.
func TestStateOfARun(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	gone := ended.Process.Pid
	task := graph.Task{Node: runtest.Node(graph.StageRollout, 1), Shard: 1}
	for _, c := range []struct {
		name     string
		beat     func(t *testing.T, r *rundir.Run)
		seen     *advance.Seen
		err      error
		state    status.State
		evidence string
	}{
		{"nothing was started", nil, nil, nil, status.StatePending, "nothing runs; resume with: lathe run --run"},
		{"a driver lives here", func(t *testing.T, r *rundir.Run) { beat(t, r, host, os.Getpid(), time.Hour, "") }, nil, nil, status.StateRunning, "alive on this host"},
		{"a driver was killed here", func(t *testing.T, r *rundir.Run) { beat(t, r, host, gone, time.Second, "") }, nil, nil, status.StatePending, "nothing runs"},
		{"a driver lives elsewhere", func(t *testing.T, r *rundir.Run) { beat(t, r, "elsewhere", 1, 2*time.Second, "") }, nil, nil, status.StateRunning, "elsewhere showed life 2s ago"},
		{"a driver elsewhere went silent", func(t *testing.T, r *rundir.Run) { beat(t, r, "elsewhere", 1, time.Hour, "") }, nil, nil, status.StateUnknown, "elsewhere was last seen"},
		{"a driver failed", func(t *testing.T, r *rundir.Run) {
			beat(t, r, host, gone, time.Hour, `, "ended": true, "failure": "score-000001-00000 failed"`)
		}, nil, nil, status.StateFailed, "score-000001-00000 failed"},
		{"a driver failed at what Slurm had begun", func(t *testing.T, r *rundir.Run) {
			beat(t, r, host, gone, time.Hour, `, "ended": true, "failure": "score-000001-00000 failed"`)
			record := r.Dir.Join("jobs", "submitted", "rollout-000001.0.json")
			if err := errors.Join(os.MkdirAll(filepath.Dir(record), 0o777), os.WriteFile(record, []byte("{}"), 0o666)); err != nil {
				t.Fatal(err)
			}
		}, nil, nil, status.StateFailed, "score-000001-00000 failed"},
		{"a driver was stopped", func(t *testing.T, r *rundir.Run) { beat(t, r, host, gone, time.Hour, `, "ended": true`) }, nil, nil, status.StatePending, "nothing runs"},
		{"tasks run on Slurm", nil, &advance.Seen{Running: map[graph.Task]string{task: "job 7_1: RUNNING"}}, nil, status.StateRunning, "1 task running, 0 in the queue"},
		{"tasks wait on Slurm", nil, &advance.Seen{Pending: map[graph.Task]string{task: "job 7_1: PENDING"}}, nil, status.StatePending, "1 task and 0 controller jobs in the queue"},
		{"only a gate waits", nil, &advance.Seen{Gates: 1}, nil, status.StatePending, "0 tasks and 1 controller job in the queue"},
		{"a task used up its attempts", nil, &advance.Seen{Failed: map[graph.Task]string{task: "attempt 2, job 9_1: exit code 1"}}, nil, status.StateFailed, "rollout-000001-00001: attempt 2"},
		{"a job is nowhere to be seen", nil, &advance.Seen{Unknown: map[graph.Task]string{task: "job 7_1: not in the queue"}}, nil, status.StateUnknown, "job 7_1: not in the queue"},
		{"Slurm does not answer", nil, nil, errors.New("slurm_load_jobs error"), status.StateUnknown, "did not answer: slurm_load_jobs error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opened, _ := runtest.Sealing(t)
			if c.beat != nil {
				c.beat(t, opened)
			}
			s, err := status.Read(t.Context(), opened, c.seen, c.err)
			if err != nil {
				t.Fatal(err)
			}
			if s.State != c.state || !strings.Contains(s.Evidence, c.evidence) {
				t.Errorf("state %s, evidence %q; want %s with %q", s.State, s.Evidence, c.state, c.evidence)
			}
			if c.seen == nil {
				return
			}
			for _, st := range s.Stages {
				if st.Stage != graph.StageRollout {
					continue
				}
				if st.Total != 4 || st.Running != len(c.seen.Running) || st.Failed != len(c.seen.Failed) || st.Unknown != len(c.seen.Unknown) || st.Done != 0 {
					t.Errorf("rollout counts %+v for %+v", st, *c.seen)
				}
				if c.state != status.StatePending && (st.State != c.state || !strings.Contains(c.evidence+st.Evidence, "job ")) {
					t.Errorf("rollout is %s with evidence %q, want %s", st.State, st.Evidence, c.state)
				}
			}
		})
	}
}

// TestHeartbeatOfThisProcess: it says that it lives, and how it ended.
func TestHeartbeatOfThisProcess(t *testing.T) {
	t.Parallel()
	opened, m := runtest.Sealing(t)
	heartbeat, err := status.StartHeartbeat(opened.Dir, "local")
	if err != nil {
		t.Fatal(err)
	}
	state := func() status.Status {
		s, err := status.Read(t.Context(), opened, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := state(); s.State != status.StateRunning || s.Executor != "local" {
		t.Errorf("while it beats: %s by %q", s.State, s.Executor)
	}
	heartbeat.Failed(errors.New("the disk burnt"))
	heartbeat.Stop()
	if s := state(); s.State != status.StateFailed || s.Evidence != "the disk burnt" {
		t.Errorf("after a failure: %s, %q", s.State, s.Evidence)
	}
	if err := m.Drive(nil); err != nil {
		t.Fatal(err)
	}
	s := state()
	if s.State != status.StateDone || s.Learned != 2 {
		t.Errorf("after the end: %s, %d learned, %q", s.State, s.Learned, s.Evidence)
	}
	var text strings.Builder
	if err := s.Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"done, 2 of 2 iterations learned", "every goal is sealed", "rollout      done   4/4", "every output is sealed"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
}

// Of two processes at one run, each knows of the other, and the one that ends
// first does not say that the other has ended.
func TestTwoDrivers(t *testing.T) {
	t.Parallel()
	opened, _ := runtest.Sealing(t)
	if evidence, there := status.OtherDriver(opened.Dir); there {
		t.Errorf("before any began: %s", evidence)
	}
	heartbeat, err := status.StartHeartbeat(opened.Dir, "local")
	if err != nil {
		t.Fatal(err)
	}
	if evidence, there := status.OtherDriver(opened.Dir); there {
		t.Errorf("this process takes itself for another: %s", evidence)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	beat(t, opened, host, os.Getppid(), 0, "")
	if evidence, there := status.OtherDriver(opened.Dir); !there || !strings.Contains(evidence, fmt.Sprint("process ", os.Getppid())) {
		t.Errorf("the other: %v, %q", there, evidence)
	}
	heartbeat.Stop()
	s, err := status.Read(t.Context(), opened, nil, nil)
	if err != nil || s.State != status.StateRunning {
		t.Errorf("when one has ended the run is %s: %v", s.State, err)
	}
}

// TestLeftOutShardsCountAsDone: what an iteration was closed without is not
// pending for ever.
func TestLeftOutShardsCountAsDone(t *testing.T) {
	t.Parallel()
	opened, _ := runtest.Sealing(t)
	closed := closing.Closing{Iteration: 1, Shards: 2, Included: []int{0}, Late: []int{}, LeftOut: []int{1}, Carried: []closing.Ref{}}
	b := runtest.BoardOf(t, opened.Graph)
	b.Seal(runtest.Node(graph.StageRollout, 1), 0)
	if err := closing.Seal(opened, closed, seal.AttemptFromEnv(), "test"); err != nil {
		t.Fatal(err)
	}
	s, err := status.Read(t.Context(), opened, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range s.Stages {
		if st.Stage == graph.StageRollout && (st.Done != 2 || st.Pending != 2 || st.State != status.StatePending) {
			t.Errorf("one sealed, one left out, two of iteration 2 to come: %+v", st)
		}
	}
}
