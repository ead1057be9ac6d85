package sandbox

import (
	"encoding/binary"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a program with all that it has started.
type tree struct {
	session int // and process group: of all of them, as none may leave it
	first   int // process: the program, or the first of its namespace
	status  *os.File
	started time.Time
	group   *group // of cgroups
	nested  bool   // the first is ours
	sockets bool   // it has a network of its own, in which all sockets are its own

	report Report
	ended  bool // the first process has
	how    unix.WaitStatus
	cpu    time.Duration // of those that have ended

	others  map[string]bool // processes of other sessions, by number
	learned time.Time       // when the first of them was seen
}

// follow waits for the end of the program, or for the reason to bring it about,
// ends all and reports.
func (t *tree) follow(p *plan, stop <-chan os.Signal) Report {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	forced := t.watch(p, stop, children)
	t.end()
	if forced == "" && newWalker(p.Write, p.Limits).over() {
		forced = OverDisk
	}
	t.report.Wall = time.Since(t.started)
	t.conclude(forced)
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

// conclude says how the program ended. With a namespace of processes its first one
// was told, and says so.
func (t *tree) conclude(forced End) {
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
