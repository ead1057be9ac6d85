package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The files that come with a program for a warm interpreter: the three of a
// supervisor, the standard ones, and one that ends when the program shall.
const warmFiles = 7

// superviseWarm starts an interpreter and supervises the programs that it runs,
// until the other side is closed.
func superviseWarm() error {
	// The interpreter dies with this thread.
	runtime.LockOSThread()
	stop, err := adopt()
	if err != nil {
		return err
	}
	socket := os.NewFile(reportFD, "socket")
	unix.CloseOnExec(reportFD)
	text, err := io.ReadAll(os.NewFile(ordersFD, "orders"))
	if err != nil {
		return fmt.Errorf("reading the interpreter: %w", err)
	}
	var orders warmOrders
	if err := json.Unmarshal(text, &orders); err != nil {
		return fmt.Errorf("reading the interpreter: %w", err)
	}
	ours, theirs, err := pair()
	if err != nil {
		return err
	}
	// It ends with this process, and with it what is in namespaces of its own. Nobody
	// else has the other end.
	var lifeline [2]int
	if err := unix.Pipe2(lifeline[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	cmd := exec.Command(orders.Args[0], orders.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = "/", append(orders.Env, os.Environ()...), os.Stderr
	cmd.ExtraFiles = []*os.File{theirs, os.NewFile(uintptr(lifeline[0]), "lifeline")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	theirs.Close()
	hello := make([]byte, 64<<10)
	n, err := unix.Read(int(ours.Fd()), hello)
	if err != nil || string(hello[:n]) != "ready" {
		_ = cmd.Process.Kill()
		return fmt.Errorf("importing its modules: %s", hello[:max(n, 0)])
	}
	unix.Close(faultsFD)
	go func() {
		<-stop
		os.Exit(1)
	}()
	for {
		files, err := receiveFiles(socket)
		if err != nil || len(files) != warmFiles {
			os.Exit(0) // the other side is closed
		}
		go superviseProgram(ours, files)
	}
}

// receiveFiles receives the files that come with a packet.
func receiveFiles(from *os.File) ([]*os.File, error) {
	packet, ancillary := make([]byte, 64), make([]byte, unix.CmsgSpace(warmFiles*4))
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

// superviseProgram has the interpreter start a program, and reports what came of it.
func superviseProgram(interpreter *os.File, files []*os.File) {
	faults, report := files[1], files[2]
	defer report.Close()
	r, err := followProgram(interpreter, files)
	if err != nil {
		fmt.Fprintln(faults, err)
	}
	faults.Close()
	if r != nil {
		_ = json.NewEncoder(report).Encode(r) // who is gone does not read it
	}
}

func followProgram(interpreter *os.File, files []*os.File) (*Report, error) {
	orders, faults, standard, end := files[0], files[1], files[3:6], files[6]
	text, err := io.ReadAll(orders)
	orders.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	begin, err := json.Marshal(map[string]any{"clone": p.Clone, "own": p.Own})
	if err != nil {
		return nil, err
	}
	plan, planEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer planEnd.Close()
	status, statusEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	group := newGroup(p.Limits)
	defer group.remove()
	t := &tree{status: status, started: time.Now(), group: group, nested: p.View != nil}
	err = sendFiles(interpreter, begin, append([]*os.File{plan, statusEnd, faults}, standard...))
	for _, file := range append(standard, plan, statusEnd) {
		file.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("the interpreter has ended: %w", err)
	}
	var started [2]int32 // session, and first process
	if err := binary.Read(status, binary.NativeEndian, &started); err != nil {
		return nil, nil // it has said why
	}
	t.session, t.first = int(started[0]), int(started[1])
	if err := group.add(t.first); err != nil {
		return nil, err
	}
	go func() {
		_, _ = planEnd.Write(text) // who does not read it says so
		planEnd.Close()
	}()
	faults.Close() // to be read to its end
	stop := make(chan os.Signal, 1)
	go func() {
		_, _ = end.Read(make([]byte, 1)) // it is closed on the other side
		stop <- syscall.SIGTERM
	}()
	defer end.Close()
	r := t.follow(&p, stop)
	return &r, nil
}
