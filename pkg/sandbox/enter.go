package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How a binary is started to supervise programs, and to become one.
const supervisorName, cageName = "lathe-sandbox-supervisor", "lathe-sandbox-cage"

// The descriptors of a supervisor and of a sandbox: what is to be done is read from the
// first, and why it cannot be is written to the second. A supervisor receives
// programs from the third, and a sandbox tells there how its program ended.
const ordersFD, faultsFD, reportFD = 3, 4, 5

// entered is whether this binary can be started as what it is not.
var entered atomic.Bool

// The first thread of a process, on which it begins, is the process to whoever signals it
// or looks at it. That of a sandbox never is restricted, so its program may do neither: it is
// kept for what waits in enter.
func init() {
	if os.Args[0] == cageName {
		runtime.LockOSThread()
	}
}

// Enter makes this process the supervisor of a sandbox, or its program, if that is
// what it was started for, and does not return then. It is the first thing that
// main does in a binary that runs sandboxes.
func Enter() {
	roles := map[string]func() error{supervisorName: supervise, cageName: enter}
	do, ok := roles[os.Args[0]]
	if len(os.Args) != 1 || !ok {
		entered.Store(true)
		return
	}
	unix.CloseOnExec(faultsFD)
	if err := do(); err != nil {
		fmt.Fprintln(os.NewFile(faultsFD, "faults"), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// enter builds the sandbox and becomes the program. With namespaces of its own it is
// their first process, and the program another. It returns when it has failed.
func enter() error {
	// All that follows holds for this thread, and for what it becomes or starts (see init).
	orders := os.NewFile(ordersFD, "orders")
	text, err := io.ReadAll(orders)
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	orders.Close()
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	unix.Umask(0o077)
	if err := closeOthers(); err != nil {
		return err
	}
	for _, s := range p.View {
		if err := s.take(); err != nil {
			return err
		}
	}
	if err := unix.Chdir(p.Dir); err != nil {
		return fmt.Errorf("change to folder %q: %w", p.Dir, err)
	}
	for _, limit := range p.Rlimits {
		if err := limit.set(); err != nil {
			return err
		}
	}
	if p.View == nil {
		if err := p.restrict(); err != nil || len(p.Args) == 0 {
			return err
		}
		return fmt.Errorf("starting %q: %w", p.Args[0], unix.Exec(p.Args[0], p.Args, p.environ()))
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("isolate this process: %w", err)
	}
	if err := giveUp(); err != nil {
		return err
	}
	started := make(chan error)
	go p.first(started)
	if err := <-started; err != nil {
		return err
	}
	unix.Close(faultsFD)
	select {}
}

// first starts the program as a process of its own, and carries on as the first of
// its namespaces, which no signal of theirs reaches. What restricts the program
// restricts this thread, and not the process: it is none of what the program may
// signal.
func (p *plan) first(started chan<- error) {
	runtime.LockOSThread()
	if err := p.restrict(); err != nil || len(p.Args) == 0 {
		if err == nil {
			os.Exit(0)
		}
		started <- err
		return
	}
	program, err := syscall.ForkExec(p.Args[0], p.Args, &syscall.ProcAttr{
		Env: p.environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		started <- fmt.Errorf("starting %q: %w", p.Args[0], err)
		return
	}
	for fd := range 3 { // they are the program's
		unix.Close(fd)
	}
	for signal := 1; signal <= 64; signal++ {
		unhandle(signal)
	}
	started <- nil
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if pid == program {
			_ = binary.Write(os.NewFile(reportFD, "report"), binary.NativeEndian, uint32(status)) // who reads it sees that it is not there
			os.Exit(0)
		}
		if err != nil && err != unix.EINTR {
			os.Exit(1)
		}
	}
}

// environ is the program's environment, with the mark by which a child finds it.
func (p *plan) environ() []string { return append(slices.Clone(p.Env), os.Environ()...) }

// unhandle gives a signal back its default, which the kernel does not apply to
// the first process of a namespace. A handler, such as those of Go's, would be
// called, and end it.
func unhandle(signal int) {
	var none [32]byte // struct sigaction of the kernel
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
}

// restrict restricts the calling thread, and all that it starts.
func (p *plan) restrict() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, p.Nice); err != nil {
		return fmt.Errorf("restore the priority: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up privileges: %w", err)
	}
	if err := giveUp(); err != nil {
		return err
	}
	if err := p.Files.restrict(); err != nil {
		return fmt.Errorf("restricting files: %w", err)
	}
	for _, filter := range p.Filters {
		program := unix.SockFprog{Len: uint16(len(filter) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
			return fmt.Errorf("filtering system calls: %w", err)
		}
	}
	return nil
}

// giveUp gives up, for the calling thread, what root may do and others may not, and
// what a user may do in a namespace of its own.
func giveUp() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	return nil
}

func (l rlimit) set() error {
	limit := unix.Rlimit{Cur: l.Soft, Max: l.Hard}
	var now unix.Rlimit
	if err := unix.Getrlimit(l.Resource, &now); err == nil { // nobody may raise it
		limit.Max = min(limit.Max, now.Max)
		limit.Cur = min(limit.Cur, limit.Max)
	}
	if err := unix.Setrlimit(l.Resource, &limit); err != nil {
		return fmt.Errorf("limiting %s to %d: %w", l.Name, l.Soft, err)
	}
	return nil
}

// closeOthers lets no descriptor of ours reach the program but its standard ones.
func closeOthers() error {
	if err := unix.CloseRange(ordersFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing descriptors: %w", err)
	}
	for _, entry := range entries {
		var fd int
		if _, err := fmt.Sscan(entry.Name(), &fd); err == nil && fd >= ordersFD {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
