package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervise runs the program whose plan it reads, and reports what came of it
// once all that it has started is gone.
func supervise() error {
	// The program dies with this thread.
	runtime.LockOSThread()
	stop, err := adopt()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(os.NewFile(ordersFD, "orders"))
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	status, statusEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	faults := os.NewFile(faultsFD, "faults")
	cmd := p.cage([]*os.File{nil, faults, statusEnd})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	group := newGroup(p.Limits)
	defer group.remove()
	started := time.Now()
	orders, err := start(cmd)
	if err != nil {
		return err
	}
	faults.Close()
	statusEnd.Close()
	t := &tree{session: cmd.Process.Pid, first: cmd.Process.Pid, status: status, started: started, group: group, nested: p.View != nil}
	if err := group.add(t.first); err != nil {
		return err
	}
	go func() { // a pipe takes less than a plan may be long
		_, _ = orders.Write(text) // the cage that does not read it says so
		orders.Close()
	}()
	return json.NewEncoder(os.NewFile(reportFD, "report")).Encode(t.follow(&p, stop))
}

// adopt makes this process the one that inherits what programs leave behind, and
// returns the signals by which it is told to stop.
func adopt() (<-chan os.Signal, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopting what a program leaves behind: %w", err)
	}
	// Among processes without number it must still get to run. Who is not root may not.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	return stop, nil
}

// cage is the command that starts a program's cage. The first of its files is left
// for the orders.
func (p *plan) cage(files []*os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Env, cmd.ExtraFiles = []string{cageName}, os.Environ(), files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: p.Clone}
	if p.Own != nil {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: p.Own.User, HostID: p.Own.User, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: p.Own.Group, HostID: p.Own.Group, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return cmd
}

// start starts a cage and returns where its orders are written to.
func start(cmd *exec.Cmd) (*os.File, error) {
	orders, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	cmd.ExtraFiles[0] = orders
	if err := cmd.Start(); err != nil {
		end.Close()
		return nil, fmt.Errorf("starting the cage: %w", err)
	}
	return end, nil
}

// tree is a program with all that it has started.
type tree struct {
	session int // and process group: of all of them, as none may leave it
	first   int // process: the program, or the first of its namespace
	status  *os.File
	started time.Time
	group   *group // of cgroups
	nested  bool   // the first is ours

	report Report
	ended  bool // the first process has
	how    unix.WaitStatus
	cpu    time.Duration // of those that have ended
}

// follow waits for the end of the program, or for the reason to bring it about,
// ends all and reports.
func (t *tree) follow(p *plan, stop <-chan os.Signal) Report {
	defer t.status.Close()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	forced := t.watch(p, stop, children)
	t.end()
	if forced == "" && newWalker(p.Write, p.Limits).over() {
		forced = OverDisk
	}
	t.report.Wall = time.Since(t.started)
	t.judge(forced)
	t.report.CPU = max(t.report.CPU, t.cpu)
	t.report.MemoryBy = t.group.memoryBy()
	return t.report
}

// watch waits for the end of the first process, or for the reason to bring it about.
func (t *tree) watch(p *plan, stop, children <-chan os.Signal) (forced End) {
	disk := newDisk(p.Write, p.Limits)
	defer disk.stop()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		var began time.Time
		select {
		case <-stop:
			return Killed
		case <-disk.full:
			return OverDisk
		case <-children:
			if t.reap(); t.ended {
				return t.group.end()
			}
			continue
		case began = <-look.C:
		}
		if t.reap(); t.ended {
			return t.group.end()
		}
		use := t.look(p.Limits.Processes)
		t.report.PeakMemory, t.report.CPU = max(t.report.PeakMemory, use.memory), max(t.report.CPU, use.cpu)
		t.report.PeakProcesses = max(t.report.PeakProcesses, use.threads)
		limits := p.Limits
		switch {
		case limits.Memory > 0 && use.memory > limits.Memory:
			return OverMemory
		case limits.Processes > 0 && use.threads > limits.Processes:
			return OverProcesses
		case limits.Disk > 0 && use.unlinked > limits.Disk:
			return OverDisk
		case limits.Wall > 0 && time.Since(t.started) > limits.Wall:
			return OverTime
		}
		next := min(max(looks, 10*time.Since(began)), time.Second) // at a tenth of a core
		if limits.Wall > 0 {
			next = min(next, max(time.Millisecond, limits.Wall-time.Since(t.started)))
		}
		look.Reset(next)
	}
}

// reap collects the ends of the processes of the tree that are children of this one.
func (t *tree) reap() {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-t.session, &status, unix.WNOHANG, &usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		t.cpu += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		if pid == t.first {
			t.ended, t.how = true, status
		}
	}
}

// end kills all of the tree until there is nothing left. A process group is killed
// at once, with what is just being started.
func (t *tree) end() {
	for {
		err := syscall.Kill(-t.session, syscall.SIGKILL)
		t.reap()
		if err == syscall.ESRCH {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// judge says how the program ended. With a namespace of processes its first one
// was told, and says so.
func (t *tree) judge(forced End) {
	var told uint32
	if binary.Read(t.status, binary.NativeEndian, &told) == nil { // nothing is written where the program is the first itself
		t.how = unix.WaitStatus(told)
	}
	r := &t.report
	if t.how.Exited() {
		r.End, r.ExitCode = Exited, t.how.ExitStatus()
	} else {
		r.End, r.ExitCode, r.Signal = Killed, -1, t.how.Signal()
	}
	if r.Signal == syscall.SIGXCPU {
		r.End = OverTime
	}
	if forced != "" {
		r.End = forced
	}
}
