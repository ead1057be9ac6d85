package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// server is the process of this binary that supervises programs, as the one that
// started it sees it. It ends with that one.
type server struct {
	child   *child.Child
	socket  *os.File
	stderr  *keeper
	closing sync.Once
}

// serverOrders are what it is told: the interpreter that starts programs, or
// nothing, and it starts them itself.
type serverOrders struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

// keptOfServer is how many bytes of what a server and an interpreter complain of are kept.
const keptOfServer = 8 << 10

// startServer starts a server. A context that ends before it has ends it.
func startServer(ctx context.Context, orders serverOrders) (*server, error) {
	l, err := newLines(orders)
	if err != nil {
		return nil, err
	}
	defer l.close()
	s := &server{stderr: newKeeper(keptOfServer)}
	var theirs *os.File
	if s.socket, theirs, err = pair(); err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Env, cmd.Stderr = []string{supervisorName}, child.Marks(), s.stderr
	cmd.ExtraFiles, cmd.WaitDelay = []*os.File{l.ends[0][0], l.ends[1][1], theirs}, patience
	if s.child, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		s.socket.Close()
		return nil, err
	}
	theirs.Close() // that of a server that ends is the last
	go l.order()
	stop := context.AfterFunc(ctx, s.child.Kill)
	defer stop()
	fault := l.fault()
	if err := ctx.Err(); err != nil {
		s.close()
		return nil, err
	}
	if len(fault) > 0 {
		s.close()
		return nil, exitcode.Unavailablef("%s", strings.TrimSpace(string(fault)+s.stderr.kept().String()))
	}
	return s, nil
}

// close ends the server and all programs that it supervises.
func (s *server) close() {
	s.closing.Do(func() {
		s.socket.Close()
		s.child.Kill()
	})
}

// resident is the server of [Run], which is started by the first program.
var resident residentServer

type residentServer struct {
	mutex  sync.Mutex
	server *server
}

// get is the server, another one if it has been killed.
func (r *residentServer) get() (*server, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.server != nil {
		select {
		case <-r.server.child.Exited():
			r.server.close()
		default:
			return r.server, nil
		}
	}
	var err error
	if r.server, err = startServer(context.Background(), serverOrders{}); err != nil {
		r.server = nil
		return nil, fmt.Errorf("starting the supervisor of sandboxes: %w", err)
	}
	return r.server, nil
}

// run has a program started and supervised by its plan, and waits for its end.
func (s *server) run(ctx context.Context, p *Program, pl *plan, r *Result) error {
	l, err := newLines(pl)
	if err != nil {
		return fmt.Errorf("starting a program: %w", err)
	}
	defer l.close()
	standard, err := newStandard(p)
	if err != nil {
		return fmt.Errorf("starting a program: %w", err)
	}
	defer standard.close()
	if err := sendFiles(s.socket, []byte("run"), append(l.theirs(), standard.theirs...)); err != nil {
		return fmt.Errorf("starting a program: its supervisor has ended: %w: %s", err, s.stderr.kept())
	}
	standard.started()
	go l.order()
	stop := context.AfterFunc(ctx, standard.stop)
	defer stop()
	fault := l.fault()
	err = json.NewDecoder(l.ends[2][0]).Decode(&r.Report)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(fault) > 0 {
		r.End = NotStarted
		return exitcode.Unavailablef("building a sandbox: %s", bytes.TrimSpace(fault))
	}
	if err != nil {
		return fmt.Errorf("the supervisor of a sandbox ended without a report: %s", s.stderr.kept())
	}
	r.Stdout, r.Stderr = standard.finish()
	return nil
}

// lines are the pipes by which a supervisor is spoken with.
type lines struct {
	ends [3][2]*os.File // orders, faults, report: to read, to write
	text []byte
}

func newLines(orders any) (*lines, error) {
	text, err := json.Marshal(orders)
	if err != nil {
		return nil, exitcode.Bugf("encoding orders: %w", err)
	}
	l := &lines{text: text}
	for i := range l.ends {
		if l.ends[i][0], l.ends[i][1], err = os.Pipe(); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// theirs are the ends of the other side.
func (l *lines) theirs() []*os.File { return []*os.File{l.ends[0][0], l.ends[1][1], l.ends[2][1]} }

// order sends what is to be done.
func (l *lines) order() {
	_, _ = l.ends[0][1].Write(l.text) // who does not read it says so
	l.ends[0][1].Close()
}

// fault waits until the sandbox is built, or why it cannot be is said.
func (l *lines) fault() []byte {
	for _, end := range l.theirs() {
		end.Close()
	}
	text, _ := io.ReadAll(io.LimitReader(l.ends[1][0], 64<<10))
	return text
}

func (l *lines) close() {
	for _, pipe := range l.ends {
		for _, end := range pipe {
			if end != nil {
				end.Close()
			}
		}
	}
}
