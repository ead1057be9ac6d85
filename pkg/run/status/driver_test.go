package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

func leave(t *testing.T, d graph.Dir, h Heartbeat) {
	t.Helper()
	content, err := json.Marshal(h)
	if err := errors.Join(err, os.MkdirAll(d.Jobs(), 0o777), os.WriteFile(heartbeatPath(d), content, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// TestKillDriver: only the very process of the heartbeat is killed, on this host, and not
// one that has its id since.
func TestKillDriver(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	driver := exec.Command("sleep", "600")
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	pid := driver.Process.Pid
	d := graph.Dir(t.TempDir())
	if who, err := KillDriver(d); who != "" || err != nil {
		t.Errorf("without a heartbeat: %q, %v", who, err)
	}
	right := Heartbeat{Host: host, PID: pid, Ticks: startTicks(pid), Beat: time.Now()}
	for what, change := range map[string]func(h *Heartbeat){
		"its id came again":   func(h *Heartbeat) { h.Ticks += "0" },
		"it tells no start":   func(h *Heartbeat) { h.Ticks = "" },
		"it ended":            func(h *Heartbeat) { h.Ended = true },
		"it is on other host": func(h *Heartbeat) { h.Host = "elsewhere" },
		"it is this process":  func(h *Heartbeat) { h.PID, h.Ticks = os.Getpid(), startTicks(os.Getpid()) },
	} {
		h := right
		change(&h)
		leave(t, d, h)
		if who, err := KillDriver(d); who != "" || err != nil {
			t.Errorf("%s: killed %q, %v", what, who, err)
		}
	}
	leave(t, d, right)
	who, err := KillDriver(d)
	if want := fmt.Sprintf("process %d on %s", pid, host); who != want || err != nil {
		t.Errorf("killed %q, %v; want %q", who, err, want)
		_ = driver.Process.Kill() // which is waited for
	}
	err = driver.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the driver ended with %v", err)
	}
	if startTicks(pid) != "" || startTicks(os.Getpid()) == "" {
		t.Error("a process that is gone has a start, or this one none")
	}
}

// TestAlive: a heartbeat of another host counts for six beats.
func TestAlive(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0).UTC()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		h              Heartbeat
		running, known bool
		evidence       string
	}{
		{Heartbeat{Host: "n9", Beat: now.Add(-6*heartbeatEvery + 1)}, true, true, "showed life 30s ago"},
		{Heartbeat{Host: "n9", Beat: now.Add(-6 * heartbeatEvery)}, false, false, "was last seen"},
		{Heartbeat{Host: "n9", Beat: now, Ended: true}, false, true, "ended in good order"},
		// Of this host the process is asked, and not the clock.
		{Heartbeat{Host: host, PID: os.Getpid()}, true, true, "is alive on this host"},
		{Heartbeat{Host: host, PID: os.Getpid(), Ticks: startTicks(os.Getpid())}, true, true, "is alive on this host"},
		{Heartbeat{Host: host, PID: os.Getpid(), Ticks: "1"}, false, true, "on this host is gone"}, // its id came again
		{Heartbeat{Host: host, PID: 1 << 29, Beat: now}, false, true, "on this host is gone"},
		{Heartbeat{Host: "n9", PID: os.Getpid(), Beat: now.Add(-time.Hour)}, false, false, "was last seen 1969-12-31T23:16:40Z"},
	} {
		running, known, evidence := c.h.alive(now)
		if running != c.running || known != c.known || !strings.Contains(evidence, c.evidence) {
			t.Errorf("%+v: %v, %v, %q", c.h, running, known, evidence)
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{{nil, ""}, {errors.New("x"), "x"}, {exitcode.Stoppedf("a signal"), ""}, {fmt.Errorf("y: %w", context.Canceled), ""}} {
		var h Heartbeat
		if h.Failed(c.err); h.Failure != c.want {
			t.Errorf("%v is noted as %q", c.err, h.Failure)
		}
	}
}

// TestOtherDriver: a process is another if its id or its host is.
func TestOtherDriver(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	d := graph.Dir(t.TempDir())
	for _, c := range []struct {
		h     Heartbeat
		there bool
		says  string
	}{
		{Heartbeat{Host: host, PID: os.Getpid()}, false, ""},
		{Heartbeat{Host: host, PID: os.Getppid()}, true, fmt.Sprintf("the driver process is alive on this host (process %d on %s)", os.Getppid(), host)},
		{Heartbeat{Host: "n9", PID: os.Getpid(), Ended: true}, false, fmt.Sprintf("the driver on n9 ended in good order (process %d on n9)", os.Getpid())},
	} {
		leave(t, d, c.h)
		if says, there := OtherDriver(d); says != c.says || there != c.there {
			t.Errorf("%+v: %q, %v", c.h, says, there)
		}
	}
	if err := os.WriteFile(heartbeatPath(d), []byte(`{"executor": "local", "pid": "x"`), 0o666); err != nil {
		t.Fatal(err)
	}
	if h, there := readHeartbeat(d); there || h != (Heartbeat{}) {
		t.Errorf("of no document: %+v", h)
	}
}

// TestFailuresHere: of the records of tasks those of the last driver's, but of stopped ones,
// say which stage has failed.
func TestFailuresHere(t *testing.T) {
	t.Parallel()
	b := runtest.NewBoard(t, "schedule.iterations=1", "rollout.shards=3")
	r := b.Run()
	began := time.Unix(1000, 0).UTC()
	scored := func(n int) graph.Task { return graph.Task{Node: runtest.Node(graph.StageScore, 1), Shard: n} }
	for n, record := range []rundir.ExitRecord{
		{Code: exitcode.Data, Message: "damaged", Time: began}, {Code: exitcode.Data, Message: "before", Time: began.Add(-1)}, {Code: exitcode.Stopped, Message: "stopped", Time: began.Add(1)},
	} {
		record.Task = scored(n).String()
		rundir.WriteExitRecord(b.Dir, scored(n), 0, 0, record)
	}
	leave(t, b.Dir, Heartbeat{Host: "elsewhere", Started: began, Ended: true, Failure: "score-000001-00000 failed"})
	if diff := cmp.Diff(map[graph.Task]string{scored(0): "damaged"}, failuresHere(r)); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	s, err := Read(t.Context(), r, nil, nil)
	if err != nil || s.State != StateFailed {
		t.Fatalf("%s, %v", s.State, err)
	}
	for _, st := range s.Stages {
		if st.Stage == graph.StageScore && (st.State != StateFailed || st.Failed != 1 || st.Pending != 2 || st.Evidence != "damaged") {
			t.Errorf("scores %+v", st)
		}
	}
	if state, err := ReadState(t.Context(), r); state != StateFailed || err != nil {
		t.Errorf("the state alone: %s, %v", state, err)
	}
	if got := anyOf(map[graph.Task]string{scored(2): "b", scored(1): "a"}); got != "score-000001-00001: a" {
		t.Errorf("any of two: %s", got)
	}
}
