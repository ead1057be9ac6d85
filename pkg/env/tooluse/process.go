package tooluse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

const (
	maxAnswerBytes = 16 << 20 // of one line of the program
	stderrTail     = 2 << 10  // bytes of what it says of itself that an error shows
)

// process is the program at work for one episode: it reads requests and writes
// answers, a JSON line each.
type process struct {
	command string
	timeout time.Duration
	child   *child.Child
	stdin   *os.File
	stdout  *os.File
	lines   *bufio.Reader
	errors  *child.Tail
	id      int // of the last request
}

// launch starts the program.
func (p *program) launch() (*process, error) {
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), stdin.Close())
	}
	s := &process{
		command: p.command[0], timeout: p.timeout,
		stdin: stdin, stdout: stdout, lines: bufio.NewReader(stdout), errors: &child.Tail{Bytes: stderrTail},
	}
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.folder, childIn, childOut, s.errors
	cmd.Env = child.Environment(p.passEnvironment...)
	cmd.WaitDelay = time.Second // for who has inherited its error output
	s.child, err = child.Start(cmd, syscall.SIGKILL)
	_ = childIn.Close() // the child has its own
	_ = childOut.Close()
	if err != nil {
		_ = stdin.Close()
		_ = stdout.Close()
		return nil, exitcode.WithHint(exitcode.Unavailablef("starting the program of the functions, %q: %w", p.command[0], err), commandHint, p.folder)
	}
	return s, nil
}

// kill ends the program and all that it started.
func (p *process) kill() {
	p.child.SignalGroup(syscall.SIGKILL)
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	<-p.child.Gone()
}

// ask sends a request and waits for its answer.
func (p *process) ask(ctx context.Context, r request) (answer, error) {
	p.id++
	r.ID = p.id
	line, err := encode(r)
	if err != nil {
		return answer{}, err
	}
	deadline := time.Now().Add(p.timeout)
	if err := errors.Join(p.stdin.SetDeadline(deadline), p.stdout.SetDeadline(deadline)); err != nil {
		return answer{}, fmt.Errorf("bounding an answer of %q: %w", p.command, err)
	}
	now := func() {
		past := time.Unix(1, 0)
		_, _ = p.stdin.SetDeadline(past), p.stdout.SetDeadline(past) // a pipe that is closed needs none
	}
	defer context.AfterFunc(ctx, now)()
	_, err = p.stdin.Write(append(line, '\n'))
	var said []byte
	if err == nil || errors.Is(err, syscall.EPIPE) {
		said, err = p.readLine()
	}
	if err != nil {
		return answer{}, p.explain(ctx, err)
	}
	var a answer
	if err := json.Unmarshal(said, &a); err != nil || a.ID == nil || *a.ID != r.ID || (a.Error == nil) == (a.Result == nil) {
		return answer{}, fmt.Errorf(`the program %q answered request %d with %s: one line {"id": %d, "result": …} or {"id": %d, "error": "…"} is wanted`,
			p.command, r.ID, clip(string(bytes.TrimSpace(said)), 200), r.ID, r.ID)
	}
	return a, nil
}

func (p *process) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxAnswerBytes:
			return nil, fmt.Errorf("its answer has more than %d bytes", maxAnswerBytes)
		}
	}
}

// explain says what a failed exchange means.
func (p *process) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the program %q did not answer within %s%s", p.command, p.timeout, p.lastWords())
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("asking the program %q: %w", p.command, err)
	}
	// It has closed its output: that is the end of it, whether it knows or not.
	p.child.Kill()
	return fmt.Errorf("the program %q ended: %s%s", p.command, p.child.How(), p.lastWords())
}

// lastWords is what the program has said of itself.
func (p *process) lastWords() string {
	if said := strings.TrimSpace(p.errors.String()); said != "" {
		return "; it said:\n" + said
	}
	return ""
}
