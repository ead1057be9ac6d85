package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The files that come with a program: the three of a
// supervisor, the standard ones, and one that ends when the program shall.
const programFiles = 7

// supervise starts programs, or the interpreter that does, and supervises them until
// the other side is closed.
func supervise() error {
	// The interpreter dies with this thread.
	runtime.LockOSThread()
	stop, err := adopt()
	if err != nil {
		return err
	}
	socket := os.NewFile(reportFD, "socket")
	unix.CloseOnExec(reportFD)
	told := os.NewFile(ordersFD, "orders")
	text, err := io.ReadAll(told)
	if err != nil {
		return fmt.Errorf("read orders: %w", err)
	}
	told.Close()
	var orders serverOrders
	if err := json.Unmarshal(text, &orders); err != nil {
		return fmt.Errorf("read orders: %w", err)
	}
	start := startCage
	if len(orders.Args) > 0 {
		interpreter, err := startInterpreter(orders)
		if err != nil {
			return err
		}
		start = interpreter.start
	}
	unix.Close(faultsFD)
	go func() {
		<-stop
		os.Exit(1)
	}()
	for {
		files, err := receiveFiles(socket)
		if err != nil || len(files) != programFiles {
			os.Exit(0) // the other side is closed
		}
		go superviseProgram(start, files)
	}
}

// starter starts a program by its plan, and returns its session and first process.
// Its files are its plan, where its end is told by the first process of a namespace,
// where it is said why it cannot start, and the standard ones. It begins when
// the plan has been read to its end.
type starter func(p *plan, files []*os.File) (session, first int, err error)

// startCage starts a program in a process of its own.
func startCage(p *plan, files []*os.File) (session, first int, err error) {
	cmd := p.sandboxCommand()
	cmd.ExtraFiles = []*os.File{files[0], files[2], files[1]}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[3], files[4], files[5]
	if err := cmd.Start(); err != nil {
		return 0, 0, fmt.Errorf("start the sandbox: %w", err)
	}
	pid := cmd.Process.Pid
	return pid, pid, cmd.Process.Release() // its end is collected with those of what it leaves
}

// interpreter is a warm one, as its supervisor sees it.
type interpreter struct{ socket *os.File }

func startInterpreter(orders serverOrders) (*interpreter, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	// It ends with this process, and with it what is in namespaces of its own. Nobody
	// else has the other end.
	var lifeline [2]int
	if err := unix.Pipe2(lifeline[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	cmd := exec.Command(orders.Args[0], orders.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = "/", append(orders.Env, os.Environ()...), os.Stderr
	cmd.ExtraFiles = []*os.File{theirs, os.NewFile(uintptr(lifeline[0]), "lifeline")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	theirs.Close()
	hello := make([]byte, 64<<10)
	n, err := unix.Read(int(ours.Fd()), hello)
	if err != nil || string(hello[:n]) != "ready" {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("importing its modules: %s", hello[:max(n, 0)])
	}
	return &interpreter{ours}, nil
}

// start has the interpreter fork a program.
func (i *interpreter) start(p *plan, files []*os.File) (session, first int, err error) {
	begin, err := json.Marshal(map[string]any{"clone": p.Clone, "own": p.Own})
	if err != nil {
		return 0, 0, err
	}
	answer, end, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	defer answer.Close()
	err = sendFiles(i.socket, begin, append(slices.Clone(files), end))
	end.Close()
	if err != nil {
		return 0, 0, fmt.Errorf("the interpreter has ended: %w", err)
	}
	var started [2]int32
	if err := binary.Read(answer, binary.NativeEndian, &started); err != nil {
		return 0, 0, errSaid
	}
	return int(started[0]), int(started[1]), nil
}

// errSaid is that of an interpreter that has itself said why.
var errSaid = errors.New("")

// receiveFiles receives the files that come with a packet.
func receiveFiles(from *os.File) ([]*os.File, error) {
	packet, ancillary := make([]byte, 64), make([]byte, unix.CmsgSpace(programFiles*4))
	var n, size int
	var err error
	for {
		n, size, _, _, err = unix.Recvmsg(int(from.Fd()), packet, ancillary, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil || n == 0 {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(ancillary[:size])
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), "received"))
	}
	return files, nil
}

// superviseProgram starts a program and reports what came of it.
func superviseProgram(start starter, files []*os.File) {
	// A sandbox dies with this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Among processes without number this thread must still get to run. Who is not
	// root may not, and has a limit of processes that holds.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	faults, report := files[1], files[2]
	defer report.Close()
	r, err := followProgram(start, files)
	if err != nil && err != errSaid {
		fmt.Fprintln(faults, err)
	}
	faults.Close()
	if err == nil {
		_ = json.NewEncoder(report).Encode(r) // who is gone does not read it
	}
}

func followProgram(start starter, files []*os.File) (*Report, error) {
	orders, faults, standard, end := files[0], files[1], files[3:6:6], files[6]
	defer end.Close()
	for _, file := range append(standard, orders) {
		defer file.Close()
	}
	text, err := io.ReadAll(orders)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	plan, planEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer planEnd.Close()
	status, statusEnd, err := os.Pipe()
	if err != nil {
		plan.Close()
		return nil, err
	}
	defer status.Close()
	group := newGroup(p.Limits)
	defer group.remove()
	t := &tree{status: status, started: time.Now(), group: group, nested: p.View != nil, sockets: p.View != nil && p.Clone&unix.CLONE_NEWNET != 0}
	t.session, t.first, err = start(&p, append([]*os.File{plan, statusEnd, faults}, standard...))
	for _, file := range append(standard, plan, statusEnd) {
		file.Close()
	}
	if err != nil {
		return nil, err
	}
	if err := group.add(t.first); err != nil {
		t.end()
		return nil, err
	}
	go func() {
		_, _ = planEnd.Write(text) // a pipe takes less than a plan may be long; who does not read it says so
		planEnd.Close()
	}()
	faults.Close() // it is read to its end
	stop := make(chan os.Signal, 1)
	go func() {
		_, _ = end.Read(make([]byte, 1)) // it is closed on the other side
		stop <- syscall.SIGTERM
	}()
	r := t.follow(&p, stop)
	return &r, nil
}

// adopt makes this process the one that inherits what programs leave behind, and
// returns the signals by which it is told to stop.
func adopt() (<-chan os.Signal, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopt the processes that a program leaves behind: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	return stop, nil
}

// sandboxCommand is the command that starts a program's sandbox.
func (p *plan) sandboxCommand() *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Env = []string{cageName}, os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: p.Clone}
	if p.Own != nil {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: p.Own.User, HostID: p.Own.User, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: p.Own.Group, HostID: p.Own.Group, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return cmd
}
