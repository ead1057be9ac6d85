package sandbox

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Warm is a Python interpreter that has imported modules, and runs programs in
// processes that are forked from it: each in a cage of its own, which is built
// after the fork by the same plan as that of [Run], before anything of the program's
// runs. No program reaches the interpreter, nor another program.
//
// What differs from a new interpreter: the modules are there, with all that they
// need, and what they have read of the environment when they were imported, such as
// numbers of threads, is that of Env; and so is the seed of hashes. The zero value
// is to be started.
type Warm struct {
	// Env is the environment in which modules are imported. PYTHONHASHSEED is 0
	// unless it says otherwise.
	Env []string

	interpreter string
	protection  Protection
	child       *child.Child
	socket      *os.File
	stderr      *keeper
	closing     sync.Once
}

//go:embed warm.py
var warmScript string

// warmOrders are what the supervisor of a warm interpreter is told.
type warmOrders struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

// Start starts an interpreter, a path, and imports modules, by their names. A
// context that ends before ends it.
func (w *Warm) Start(ctx context.Context, interpreter string, modules []string) error {
	if modules == nil {
		modules = []string{}
	}
	list, err := json.Marshal(modules)
	if err != nil {
		return exitcode.Bugf("encoding modules: %w", err)
	}
	env := slices.Clone(w.Env)
	if variable(env, "PYTHONHASHSEED") == "" {
		env = append(env, "PYTHONHASHSEED=0")
	}
	w.Env, w.interpreter, w.protection = env, interpreter, Probe()
	text, err := json.Marshal(warmOrders{[]string{interpreter, "-s", "-c", warmScript, string(list)}, env})
	if err != nil {
		return exitcode.Bugf("encoding an interpreter: %w", err)
	}
	l := &lines{text: text}
	defer l.close()
	for i := range l.ends[:2] {
		if l.ends[i][0], l.ends[i][1], err = os.Pipe(); err != nil {
			return fmt.Errorf("starting an interpreter: %w", err)
		}
	}
	var theirs *os.File
	if w.socket, theirs, err = pair(); err != nil {
		return fmt.Errorf("starting an interpreter: %w", err)
	}
	w.stderr = newKeeper(8 << 10)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Env, cmd.Stderr = []string{warmName}, []string{}, w.stderr
	cmd.ExtraFiles, cmd.WaitDelay = []*os.File{l.ends[0][0], l.ends[1][1], theirs}, patience
	if w.child, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		w.socket.Close()
		theirs.Close()
		return fmt.Errorf("starting an interpreter: %w", err)
	}
	theirs.Close()
	go l.order()
	stop := context.AfterFunc(ctx, w.child.Kill)
	defer stop()
	fault := l.fault()
	if err := ctx.Err(); err != nil {
		w.Close()
		return err
	}
	if len(fault) > 0 {
		w.Close()
		return exitcode.Unavailablef("starting the interpreter %q: %s", interpreter, strings.TrimSpace(string(fault)+w.stderr.kept().String()))
	}
	return w.try(ctx)
}

// try sees what protection its programs have, by running one that does nothing.
func (w *Warm) try(ctx context.Context) error {
	nothing := Program{Args: []string{w.interpreter, "-c", ""}, Limits: Limits{Wall: time.Minute}}
	_, err := w.Run(ctx, nothing)
	if err != nil && ctx.Err() == nil && w.protection.Namespaces != nil {
		p := w.protection
		p.Namespaces, p.Reasons = nil, map[string]string{"namespaces": err.Error()}
		w.protection = p
		_, err = w.Run(ctx, nothing)
	}
	if err != nil {
		w.Close()
	}
	return err
}

// Protection is what its programs have.
func (w *Warm) Protection() Protection { return w.protection }

// Close ends the interpreter and all programs that it runs. One that was not
// started is closed.
func (w *Warm) Close() {
	w.closing.Do(func() {
		if w.child != nil {
			w.socket.Close()
			w.child.Kill()
		}
	})
}

// variable is the value of a variable of an environment, "" if it is not there.
func variable(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Run runs a program as the function [Run] does. It is the interpreter's, with a
// file, or with -c and a text, and what arguments it has. Several may run at once.
func (w *Warm) Run(ctx context.Context, p Program) (Result, error) {
	if p.protection == nil {
		p.protection = &w.protection
	}
	r, pl, err := prepare(&p)
	if err != nil {
		return r, err
	}
	if len(p.Args) < 2 || p.Args[0] != w.interpreter || p.Args[1] == "-c" && len(p.Args) < 3 || p.Args[1] != "-c" && strings.HasPrefix(p.Args[1], "-") {
		return r, exitcode.Usagef("a warm interpreter, %q, is given %q: it takes a file, or -c and a text", w.interpreter, p.Args)
	}
	if seed, own := variable(p.Env, "PYTHONHASHSEED"), variable(w.Env, "PYTHONHASHSEED"); cmp.Or(seed, own) != own {
		return r, exitcode.Usagef("a program wants PYTHONHASHSEED=%s of a warm interpreter that has %s", seed, own)
	}
	l, err := newLines(&p, pl)
	if err != nil {
		return r, err
	}
	defer l.close()
	standard, err := newStandard(&p, l)
	if err != nil {
		return r, fmt.Errorf("starting a program: %w", err)
	}
	defer standard.close()
	if err := sendFiles(w.socket, []byte("run"), append(l.theirs(), standard.theirs...)); err != nil {
		return r, fmt.Errorf("starting a program in a warm interpreter: %w: %s", err, w.stderr.kept())
	}
	standard.started()
	go l.order()
	stop := context.AfterFunc(ctx, standard.stop)
	defer stop()
	fault := l.fault()
	if err = l.result(&r, fault, "the interpreter's"); ctx.Err() != nil {
		return r, ctx.Err()
	}
	standard.finish()
	r.Stdout, r.Stderr = l.stdout.kept(), l.stderr.kept()
	return r, err
}

// standard are the standard files of a program in a warm interpreter, and a pipe
// that is closed to end it.
type standard struct {
	theirs, ours []*os.File
	copied       sync.WaitGroup
	input        io.Reader
	outputs      [2]io.Writer
	once         sync.Once
}

func newStandard(p *Program, l *lines) (*standard, error) {
	s := &standard{input: p.Stdin, outputs: [2]io.Writer{l.stdout, l.stderr}}
	for i := range 4 { // input, output, error, end
		read, write, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		if i == 1 || i == 2 {
			read, write = write, read
		}
		s.theirs, s.ours = append(s.theirs, read), append(s.ours, write)
	}
	return s, nil
}

// started copies what is read and written, once the program has its files.
func (s *standard) started() {
	for _, file := range s.theirs {
		file.Close()
	}
	go func() {
		if s.input != nil {
			_, _ = io.Copy(s.ours[0], s.input) // who does not read it has ended
		}
		s.ours[0].Close()
	}()
	for i, to := range s.outputs {
		s.copied.Go(func() { _, _ = io.Copy(to, s.ours[1+i]) }) // a keeper takes all
	}
}

// finish waits for the rest of what was written.
func (s *standard) finish() { s.copied.Wait() }

// stop ends the program.
func (s *standard) stop() { s.once.Do(func() { s.ours[3].Close() }) }

func (s *standard) close() {
	s.stop()
	for _, file := range slices.Concat(s.theirs, s.ours) {
		file.Close()
	}
	s.copied.Wait()
}

// pair are two ends of a connection that keeps packets apart and carries files.
func pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

// sendFiles sends a packet with files.
func sendFiles(to *os.File, packet []byte, files []*os.File) error {
	var fds []int
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	raw, err := to.SyscallConn()
	if err != nil {
		return err
	}
	var errSend error
	if err := raw.Control(func(fd uintptr) {
		errSend = unix.Sendmsg(int(fd), packet, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	}); err != nil {
		return err
	}
	return errSend
}
