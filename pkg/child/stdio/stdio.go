// Package stdio asks programs by lines of JSON: a request {"id": N, …} on their
// standard input, and {"id": N, "result": …} or {"id": N, "error": "…"} on their
// standard output. What a program does wrong is an error that says how it ended and
// what it said last on its standard error.
package stdio

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
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// StderrTail is how many bytes of a program's standard error are kept.
const StderrTail = 4 << 10

const (
	maxAnswerBytes = 16 << 20 // of one line of the program
	maxLastWords   = 400      // bytes of its standard error that an error shows

	ending = 500 * time.Millisecond // that a program without output has to end by itself
)

// Program is one that can be started.
type Program struct {
	Name string // the command's first word, for errors
	// Start starts it with its standard input and output, which are the started
	// program's to close, also when it does not start.
	Start func(in, out *os.File) (Running, error)
}

// Running is a program that was started.
type Running struct {
	Kill func() // kills it and all that it has started
	Gone <-chan struct{}
	How  func() (ended, said string) // how it ended and its standard error's end, once it is gone
}

// Command is a program that runs as it is, with nothing but an environment. What it
// writes to its standard error goes to log too, unless that is nil.
func Command(command []string, folder string, environment []string, log io.Writer) Program {
	start := func(in, out *os.File) (Running, error) {
		said := &child.Tail{Bytes: StderrTail}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = folder, in, out, said
		if log != nil {
			cmd.Stderr = io.MultiWriter(said, log)
		}
		cmd.Env = slices.Clip(environment) // each start adds to it
		cmd.WaitDelay = time.Second        // for who has inherited its error output
		c, err := child.Start(cmd, syscall.SIGKILL)
		_ = in.Close() // the child has its own
		_ = out.Close()
		if err != nil {
			return Running{}, err
		}
		return Running{
			Kill: func() { c.SignalGroup(syscall.SIGKILL) },
			Gone: c.Gone(),
			How:  func() (string, string) { return c.How(), said.String() },
		}, nil
	}
	return Program{Name: command[0], Start: start}
}

// Process is a program at work. One goroutine at a time asks it.
type Process struct {
	name    string
	running Running
	stdin   *os.File
	stdout  *os.File
	lines   *bufio.Reader
	id      int // of the last request
}

// Open starts a program.
func (p Program) Open() (*Process, error) {
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), stdin.Close())
	}
	running, err := p.Start(theirIn, theirOut)
	if err != nil {
		_ = stdin.Close()
		_ = stdout.Close()
		return nil, exitcode.Unavailablef("starting the program %q: %w", p.Name, err)
	}
	return &Process{name: p.Name, running: running, stdin: stdin, stdout: stdout, lines: bufio.NewReaderSize(stdout, 64<<10)}, nil
}

// Kill kills the program and all that it has started, while others may ask it.
func (p *Process) Kill() { p.running.Kill() }

// Close kills the program and waits until it is gone.
func (p *Process) Close() {
	p.running.Kill()
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	<-p.running.Gone
}

// Answer is one line of a program, which says one thing.
type Answer struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *string         `json:"error"`
	Task   json.RawMessage `json:"task"` // one of many, before the result
}

// Request has the fields of a request, but for its id.
type Request map[string]any

// Ask sends a request and waits for its answer. A program that failed, was late or
// was waited for until the context's end is ended.
func (p *Process) Ask(ctx context.Context, r Request, patience time.Duration) (a Answer, err error) {
	if err := p.Extend(patience); err != nil {
		return a, err
	}
	defer context.AfterFunc(ctx, func() { _ = p.until(time.Unix(1, 0)) })() // a pipe that is closed needs no deadline
	if err = p.write(r, patience); err == nil {
		a, err = p.Receive(patience)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return a, ctx.Err()
	case err == nil && a.Task != nil:
		return a, p.unwanted(a.Task)
	}
	return a, err
}

// Send sends a request whose answers are received, the first within so long.
func (p *Process) Send(r Request, patience time.Duration) error {
	if err := p.Extend(patience); err != nil {
		return err
	}
	return p.write(r, patience)
}

// Extend gives the program so long from now.
func (p *Process) Extend(patience time.Duration) error { return p.until(time.Now().Add(patience)) }

func (p *Process) until(deadline time.Time) error {
	return errors.Join(p.stdin.SetDeadline(deadline), p.stdout.SetDeadline(deadline))
}

func (p *Process) write(r Request, patience time.Duration) error {
	p.id++
	r["id"] = p.id
	line, err := plainjson.Line(r)
	if err != nil {
		return exitcode.Bugf("encoding a request of the program %q: %w", p.name, err)
	}
	_, err = p.stdin.Write(append(line, '\n'))
	if err != nil && !errors.Is(err, syscall.EPIPE) { // who does not listen any more may have said why
		return p.explain(err, patience)
	}
	return nil
}

// Receive reads the next line of the answer to the last request.
func (p *Process) Receive(patience time.Duration) (Answer, error) {
	line, err := p.line()
	if err != nil {
		return Answer{}, p.explain(err, patience)
	}
	var a Answer
	if err := json.Unmarshal(line, &a); err != nil || a.ID == nil || *a.ID != p.id || !a.whole() {
		return Answer{}, p.unwanted(line)
	}
	return a, nil
}

func (p *Process) unwanted(line []byte) error {
	return fmt.Errorf(`the program %q answered request %d with %s: one line {"id": %d, "result": …} or {"id": %d, "error": "…"} is wanted`,
		p.name, p.id, Shown(line), p.id, p.id)
}

// whole reports whether a line says one thing.
func (a Answer) whole() bool {
	n := 0
	for _, said := range []bool{a.Result != nil, a.Error != nil, a.Task != nil} {
		if said {
			n++
		}
	}
	return n == 1
}

// Talks reports whether the program has said something that nobody has asked for.
func (p *Process) Talks() bool {
	if p.lines.Buffered() > 0 {
		return true
	}
	raw, err := p.stdout.SyscallConn()
	if err != nil {
		return false
	}
	waiting := false
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		waiting = err == nil && n > 0 && poll[0].Revents&unix.POLLIN != 0
	})
	return err == nil && waiting
}

func (p *Process) line() ([]byte, error) {
	var line []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0:
			return nil, &cutOff{line}
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxAnswerBytes:
			return nil, fmt.Errorf("its answer has more than %d bytes", maxAnswerBytes)
		}
	}
}

// cutOff is a line that the program's end has cut off.
type cutOff struct{ line []byte }

func (c *cutOff) Error() string { return "in the middle of an answer, " + Shown(c.line) }

// explain says what a failed exchange means, after which the program is ended.
func (p *Process) explain(err error, patience time.Duration) error {
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if !late {
		select { // it is about to end: how is what it has to say
		case <-p.running.Gone:
		case <-time.After(ending):
		}
	}
	p.Close()
	ended, said := p.running.How()
	var cut *cutOff
	switch {
	case late:
		return fmt.Errorf("the program %q did not answer within %s%s", p.name, patience, lastWords(said))
	case errors.As(err, &cut):
		return &EndedError{fmt.Errorf("the program %q ended, %s, %w%s", p.name, ended, cut, lastWords(said))}
	case errors.Is(err, io.EOF):
		return &EndedError{fmt.Errorf("the program %q ended: %s%s", p.name, ended, lastWords(said))}
	}
	return fmt.Errorf("asking the program %q: %w%s", p.name, err, lastWords(said))
}

// EndedError is of a program that ended before it had answered.
type EndedError struct{ error }

func (e *EndedError) Unwrap() error { return e.error }

// lastWords are the last line of what a program has said of itself.
func lastWords(said string) string {
	said = strings.TrimSpace(said)
	if said == "" {
		return ""
	}
	return "; its last words: " + Clip(strings.TrimSpace(said[strings.LastIndexByte(said, '\n')+1:]), maxLastWords)
}

// Shown is a line as an error shows it.
func Shown(line []byte) string {
	return Clip(strings.ToValidUTF8(string(bytes.TrimSpace(line)), "\uFFFD"), 200)
}

// Clip is the beginning of a text, of at most about n bytes.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + " …"
}
