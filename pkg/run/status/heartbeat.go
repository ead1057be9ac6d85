package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// heartbeatEvery is how often a foreground driver says that it is alive.
const heartbeatEvery = 5 * time.Second

// Heartbeat is jobs/driver.json: the process that advances a run in the
// foreground. It is evidence for lathe status and decides nothing.
type Heartbeat struct {
	Executor string    `json:"executor"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Ticks    string    `json:"ticks,omitempty"` // when the process started, since the host did: ids come again
	Started  time.Time `json:"started"`
	Beat     time.Time `json:"beat"`
	Ended    bool      `json:"ended"` // left in good order
	Failure  string    `json:"failure,omitempty"`

	dir  graph.Dir
	stop chan struct{}
	done chan struct{}
}

func heartbeatPath(d graph.Dir) string { return filepath.Join(d.Jobs(), "driver.json") }

// StartHeartbeat begins to write the heartbeat of this process.
func StartHeartbeat(d graph.Dir, executor string) (*Heartbeat, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	h := &Heartbeat{
		Executor: executor, Host: host, PID: os.Getpid(), Ticks: startTicks(os.Getpid()), Started: time.Now().UTC(),
		dir: d, stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := h.write(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.done)
		ticker := time.NewTicker(heartbeatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-h.stop:
				return
			case <-ticker.C:
				_ = h.write() // a beat that is missed shows as one
			}
		}
	}()
	return h, nil
}

// Stop ends the heartbeat and says that it ended in good order, unless the last
// beat is that of another process, which goes on.
func (h *Heartbeat) Stop() {
	close(h.stop)
	<-h.done
	if _, other := OtherDriver(h.dir); other {
		return
	}
	h.Ended = true
	_ = h.write()
}

// Failed notes how a driver's run ended, for lathe status.
func (h *Heartbeat) Failed(err error) {
	if err != nil && exitcode.Code(err) != exitcode.Stopped && !errors.Is(err, context.Canceled) {
		h.Failure = err.Error()
	}
}

// OtherDriver tells of a process that resumes a run in the foreground, if
// it is not this one.
func OtherDriver(d graph.Dir) (evidence string, there bool) {
	h, ok := readHeartbeat(d)
	if host, err := os.Hostname(); !ok || err != nil || h.PID == os.Getpid() && h.Host == host {
		return "", false
	}
	running, _, evidence := h.alive(time.Now())
	return fmt.Sprintf("%s (process %d on %s)", evidence, h.PID, h.Host), running
}

func (h *Heartbeat) write() error {
	h.Beat = time.Now().UTC()
	return seal.ReplaceJSON(heartbeatPath(h.dir), h, seal.AttemptFromEnv())
}

// readHeartbeat returns the last heartbeat of a run, if there was any.
func readHeartbeat(d graph.Dir) (Heartbeat, bool) {
	var h Heartbeat
	content, err := plainfile.Read(heartbeatPath(d), plainfile.MaxDocument)
	if err != nil || json.Unmarshal(content, &h) != nil {
		return Heartbeat{}, false
	}
	return h, true
}

// alive says whether the process of a heartbeat runs, and how that is known.
// Clocks of two hosts differ, so another host's beat is scored generously.
func (h Heartbeat) alive(now time.Time) (running, known bool, evidence string) {
	host, _ := os.Hostname()
	began := startTicks(h.PID)
	ago := max(0, now.Sub(h.Beat)) // its clock may be ahead
	switch {
	case h.Ended:
		return false, true, "the driver on " + h.Host + " ended in good order"
	case h.Host == host && seal.Running(h.PID) && (h.Ticks == "" || began == "" || began == h.Ticks):
		return true, true, "the driver process is alive on this host"
	case h.Host == host:
		return false, true, "the driver process on this host is gone"
	case ago < 6*heartbeatEvery:
		return true, true, "the driver on " + h.Host + " showed life " + ago.Round(time.Second).String() + " ago"
	}
	return false, false, "the driver on " + h.Host + " was last seen " + h.Beat.Format(time.RFC3339)
}

// startTicks is when a process of this host started, in clock ticks since the
// host did; empty when there is none or the host does not say.
func startTicks(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// PID (COMMAND) STATE PPID …; the command may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const startTime = 22 - 3 // proc(5) counts from 1, and the first here is the third
	if len(fields) <= startTime {
		return ""
	}
	return fields[startTime]
}

// KillDriver kills the process of this host that resumes a run in the
// foreground, and its tasks with it. It says whom; nobody for an empty string.
func KillDriver(d graph.Dir) (who string, err error) {
	h, ok := readHeartbeat(d)
	if !ok {
		return "", nil
	}
	running, _, _ := h.alive(time.Now())
	host, err := os.Hostname()
	if err != nil || !running || h.Host != host || h.PID == os.Getpid() || h.Ticks == "" || h.Ticks != startTicks(h.PID) {
		return "", err
	}
	if err := syscall.Kill(h.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return "", fmt.Errorf("killing the driver: %w", err)
	}
	return fmt.Sprintf("process %d on %s", h.PID, h.Host), nil
}
