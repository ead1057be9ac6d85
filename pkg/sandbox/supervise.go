package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/child"
)

// looks is how often a supervisor looks at memory and time.
const looks = 20 * time.Millisecond

// supervise runs the program whose orders it reads, and reports what came of it
// once all that it has started is gone.
func supervise() error {
	// The program dies with this thread.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopting what a program leaves behind: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	text, err := io.ReadAll(os.NewFile(ordersFD, "orders"))
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	var p Program
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	orders, ordersEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	faults := os.NewFile(faultsFD, "faults")
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Env = []string{cageName}, os.Environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{orders, faults}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the cage: %w", err)
	}
	orders.Close()
	faults.Close()
	go func() { // a pipe takes less than an order may be long
		_, _ = ordersEnd.Write(text) // the cage that does not read them says so
		ordersEnd.Close()
	}()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its state
		close(ended)
	}()
	var r Report
	forced := r.watch(p.Limits, started, ended, stop)
	end(ended)
	r.Wall = time.Since(started)
	r.judge(forced, cmd.ProcessState)
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err == nil {
		r.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return json.NewEncoder(os.NewFile(reportFD, "report")).Encode(r)
}

// watch waits for the end of the program, or for the reason to bring it about.
func (r *Report) watch(limits Limits, started time.Time, ended <-chan struct{}, stop <-chan os.Signal) (forced End) {
	look := time.NewTicker(looks)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return ""
		case <-stop:
			return Killed
		case <-look.C:
		}
		r.PeakMemory = max(r.PeakMemory, resident(descendants()))
		switch {
		case limits.Memory > 0 && r.PeakMemory > limits.Memory:
			return OverMemory
		case limits.Wall > 0 && time.Since(started) > limits.Wall:
			return OverTime
		}
	}
}

// judge says how the program ended.
func (r *Report) judge(forced End, state *os.ProcessState) {
	status, ok := state.Sys().(syscall.WaitStatus)
	r.End, r.ExitCode = Exited, state.ExitCode()
	if ok && status.Signaled() {
		r.End, r.Signal = Killed, status.Signal()
	}
	if r.Signal == syscall.SIGXCPU {
		r.End = OverTime
	}
	if forced != "" {
		r.End = forced
	}
}

// end kills all that descends from this process until there is nothing left, the
// program itself included.
func end(ended <-chan struct{}) {
	for {
		pids := descendants()
		if len(pids) == 0 {
			<-ended
			return
		}
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // what is stopped starts no other
			for _, pid := range pids {
				_ = syscall.Kill(pid, signal)
			}
		}
		for _, pid := range pids {
			select {
			case <-ended: // its end was collected
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // an orphan's
			default:
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// descendants lists the processes that descend from this one and have not been
// collected. All do that the program has started, however: orphans are adopted.
func descendants() []int { return child.Descendants(os.Getpid()) }

// resident is the memory that processes hold.
func resident(pids []int) int64 {
	var pages int64
	for _, pid := range pids {
		statm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
		if err != nil {
			continue // it has ended
		}
		if fields := strings.Fields(string(bytes.TrimSpace(statm))); len(fields) > 1 {
			n, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel's own number
			pages += n
		}
	}
	return pages * int64(os.Getpagesize())
}
