package program

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
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

const (
	maxAnswerBytes = 16 << 20 // of one line of the program
	stderrTail     = 4 << 10  // bytes of what it says of itself that are kept
	maxLastWords   = 400      // bytes of them that an error shows

	ending = 500 * time.Millisecond // that a program without output has to end by itself
)

// process is the program at work: it reads requests and writes answers, a JSON line
// each.
type process struct {
	command string
	stdin   *os.File
	stdout  *os.File
	lines   *bufio.Reader
	id      int // of the last request
	kill    func()
	gone    <-chan struct{}
	how     func() (ended, said string) // once it is gone
}

// launcher starts programs.
type launcher struct {
	settings Program
	folder   string // where they run
}

// launch starts the program.
func (l *launcher) launch() (*process, error) {
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), stdin.Close())
	}
	p := &process{command: l.settings.Command[0], stdin: stdin, stdout: stdout, lines: bufio.NewReaderSize(stdout, 64<<10)}
	start := l.free
	if l.settings.Cage != nil {
		start = l.caged
	}
	if err := start(p, theirIn, theirOut); err != nil {
		_ = stdin.Close()
		_ = stdout.Close()
		return nil, exitcode.WithHint(exitcode.Unavailablef("starting the program %q: %w", p.command, err), commandHint, l.folder)
	}
	return p, nil
}

// free starts the program as it is.
func (l *launcher) free(p *process, in, out *os.File) error {
	said := &child.Tail{Bytes: stderrTail}
	cmd := exec.Command(l.settings.Command[0], l.settings.Command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = l.folder, in, out, said
	cmd.Env = child.Environment(l.settings.PassEnvironment...)
	cmd.WaitDelay = time.Second // for who has inherited its error output
	c, err := child.Start(cmd, syscall.SIGKILL)
	_ = in.Close() // the child has its own
	_ = out.Close()
	if err != nil {
		return err
	}
	p.gone = c.Gone()
	p.kill = func() { c.SignalGroup(syscall.SIGKILL) }
	p.how = func() (string, string) { return c.How(), said.String() }
	return nil
}

// caged starts the program in a cage.
func (l *launcher) caged(p *process, in, out *os.File) error {
	gone := make(chan struct{})
	program, remove, err := l.cage()
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	program.Stdin, program.Stdout = in, out
	ctx, cancel := context.WithCancel(context.Background())
	var result sandbox.Result
	go func() {
		defer close(gone)
		result, err = sandbox.Run(ctx, program)
		_ = in.Close() // what copied from and to them has ended with the program
		_ = out.Close()
		err = errors.Join(err, remove())
	}()
	p.gone, p.kill = gone, cancel
	p.how = func() (string, string) {
		switch said := strings.ToValidUTF8(result.Stderr.String(), "\uFFFD"); {
		case err != nil:
			return err.Error(), said
		case result.End == sandbox.Exited:
			return fmt.Sprintf("exit code %d", result.ExitCode), said
		case result.End == sandbox.Killed:
			return result.Signal.String(), said
		default:
			return "ended for " + string(result.End), said
		}
	}
	return nil
}

// cage is the program with what it is granted, and what removes its folder.
func (l *launcher) cage() (p sandbox.Program, remove func() error, err error) {
	settings := l.settings.Cage
	read, err := config.ResolvePaths(settings.Read, l.folder)
	if err != nil {
		return p, nil, fmt.Errorf("env.program.cage.read: %w", err)
	}
	args := append([]string{}, l.settings.Command...)
	if args[0], err = l.executable(); err != nil {
		return p, nil, err
	}
	read = append(read, l.folder, filepath.Dir(args[0]))
	for _, word := range args[1:] { // a file that the command names may be anywhere
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.folder, path)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			read = append(read, filepath.Dir(path))
		}
	}
	scratch, err := os.MkdirTemp("", "lathe-program-")
	if err != nil {
		return p, nil, err
	}
	if scratch, err = filepath.EvalSymlinks(scratch); err != nil {
		return p, nil, err
	}
	remove = func() error { return errors.Join(sandbox.Clean(scratch), os.Remove(scratch)) }
	return sandbox.Program{
		Args: args, Dir: l.folder, Read: read, Write: []string{scratch}, Require: settings.Require,
		Env:    append(child.Environment(l.settings.PassEnvironment...), "HOME="+scratch, "TMPDIR="+scratch, "PYTHONDONTWRITEBYTECODE=1"),
		Limits: sandbox.Limits{Memory: int64(settings.MemoryMB) << 20, Output: stderrTail},
	}, remove, nil
}

// executable is the path of the command's first word.
func (l *launcher) executable() (string, error) {
	path := l.settings.Command[0]
	if strings.ContainsRune(path, filepath.Separator) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.folder, path)
		}
		return path, nil
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(found)
}

// end ends the program and all that it has started.
func (p *process) end() {
	p.kill()
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	<-p.gone
}

// answer is one line of the program.
type answer struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *string         `json:"error"`
	Task   json.RawMessage `json:"task"` // one of many, before the result
}

// send writes a request, whose answer may take so long.
func (p *process) send(verb string, content any, patience time.Duration) error {
	p.id++
	line, err := encode(map[string]any{"id": p.id, verb: content})
	if err != nil {
		return exitcode.Bugf("encoding a request of %q: %w", verb, err)
	}
	if err := p.until(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = p.stdin.Write(append(line, '\n'))
	if err != nil && !errors.Is(err, syscall.EPIPE) { // who does not listen any more may have said why
		return p.explain(err, patience)
	}
	return nil
}

func (p *process) until(deadline time.Time) error {
	return errors.Join(p.stdin.SetDeadline(deadline), p.stdout.SetDeadline(deadline))
}

// talks reports whether the program has said something that nobody has asked for.
func (p *process) talks() bool {
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

// receive reads the next line of the answer to the last request.
func (p *process) receive(patience time.Duration) (answer, error) {
	line, err := p.line()
	if err != nil {
		return answer{}, p.explain(err, patience)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil || a.ID == nil || *a.ID != p.id || !a.whole() {
		return answer{}, fmt.Errorf(`the program %q answered request %d with %s: one line {"id": %d, "result": …} or {"id": %d, "error": "…"} is wanted`,
			p.command, p.id, shown(line), p.id, p.id)
	}
	return a, nil
}

// whole reports whether a line says one thing.
func (a answer) whole() bool {
	n := 0
	for _, said := range []bool{a.Result != nil, a.Error != nil, a.Task != nil} {
		if said {
			n++
		}
	}
	return n == 1
}

func (p *process) line() ([]byte, error) {
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

func (c *cutOff) Error() string { return "in the middle of an answer, " + shown(c.line) }

// explain says what a failed exchange means, after which the program is ended.
func (p *process) explain(err error, patience time.Duration) error {
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if !late {
		select { // it is about to end: how is what it has to say
		case <-p.gone:
		case <-time.After(ending):
		}
	}
	p.end()
	ended, said := p.how()
	var cut *cutOff
	switch {
	case late:
		return fmt.Errorf("the program %q did not answer within %s%s", p.command, patience, lastWords(said))
	case errors.As(err, &cut):
		return &endedError{fmt.Errorf("the program %q ended, %s, %w%s", p.command, ended, cut, lastWords(said))}
	case errors.Is(err, io.EOF):
		return &endedError{fmt.Errorf("the program %q ended: %s%s", p.command, ended, lastWords(said))}
	}
	return fmt.Errorf("asking the program %q: %w%s", p.command, err, lastWords(said))
}

// endedError is of a program that ended before it had answered.
type endedError struct{ error }

func (e *endedError) Unwrap() error { return e.error }

// lastWords are the last line of what a program has said of itself.
func lastWords(said string) string {
	said = strings.TrimSpace(said)
	if said == "" {
		return ""
	}
	return "; its last words: " + clip(strings.TrimSpace(said[strings.LastIndexByte(said, '\n')+1:]), maxLastWords)
}

// shown is a line as an error shows it.
func shown(line []byte) string {
	return clip(strings.ToValidUTF8(string(bytes.TrimSpace(line)), "\uFFFD"), 200)
}

// clip is the beginning of a text, of at most about n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + " …"
}

// encode is JSON without escapes that only HTML needs.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
