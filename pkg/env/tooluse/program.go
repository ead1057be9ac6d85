package tooluse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// program is the command that runs the user's functions. Each episode
// has a process of its own, which is killed when the episode ends; when there
// are too many of them, the one that has rested longest is killed earlier and
// started again once its episode goes on.
//
// The command runs as it is, with the rights of whoever runs Lathe and little of
// the environment: what a policy can do through its functions is for the command
// to bound.
type program struct {
	stdio.Program
	folder string // where it runs

	said    *child.Lines
	timeout time.Duration
	waits   env.Waits // requests that are not answered
	retries int
	most    int // processes at a time, those at work not counted

	mutex sync.Mutex
	alive map[*programBackend]bool // those that have a process
	clock int64                    // counts uses
}

// commandHint says what env.tooluse.command is.
const commandHint = "env.tooluse.command is the command, one word to an entry; it runs in the folder of the recipe, %s"

// newProgram makes sure that there is such a program, before anything is
// blamed on its functions.
func newProgram(tools *ToolUse, folder string) (*program, error) {
	path := tools.Command[0]
	if strings.ContainsRune(path, filepath.Separator) && !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	if _, err := exec.LookPath(path); err != nil {
		return nil, exitcode.WithHint(exitcode.Unavailablef("the program of the functions: %w", err), commandHint, folder)
	}
	said := &child.Lines{Bytes: saidBytes}
	return &program{
		Program: stdio.Command(tools.Command, folder, child.Environment(tools.PassEnvironment...), said), said: said, folder: folder, timeout: time.Duration(tools.CallSeconds * float64(time.Second)),
		retries: tools.Retries, most: tools.Processes, alive: map[*programBackend]bool{},
	}, nil
}

// saidBytes is how much of what programs say of themselves is logged.
const saidBytes = 256 << 10

// close ends all processes. No backend is busy.
func (p *program) close() {
	p.mutex.Lock()
	alive := slices.Collect(maps.Keys(p.alive))
	p.mutex.Unlock()
	for _, b := range alive {
		b.stop()
	}
}

// start is what the program is told at the beginning of an episode.
type start struct {
	Task  string          `json:"task"`
	State json.RawMessage `json:"state,omitempty"` // as the task's line has it
	Turns int             `json:"turns"`           // of the user that are played
}

// programBackend is what the program holds for one episode. Its process can be
// lost at any time: the calls that were made bring another one to where it was.
type programBackend struct {
	program   *program
	start     start
	functions map[string]bool
	truth     [][]Call

	busy    bool // guarded by the program's mutex
	used    int64
	process *stdio.Process // guarded by the program's mutex unless busy

	history  []exchange
	restarts int
}

// exchange is a call that the program has answered.
type exchange struct {
	call   Call
	result Result
}

func (p *program) backend(begin start, functions map[string]bool, truth [][]Call) *programBackend {
	return &programBackend{program: p, start: begin, functions: functions, truth: truth}
}

// Call asks the program, but for a function that there is not.
func (b *programBackend) Call(ctx context.Context, call Call) (Result, error) {
	if !b.functions[call.Name] {
		return Result{Text: fmt.Sprintf("Error: there is no function %q.", call.Name), Failed: true}, nil
	}
	var result Result
	err := b.use(ctx, func() (err error) {
		result, err = b.call(ctx, call)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	b.history = append(b.history, exchange{call, result})
	return result, nil
}

// Grade asks the program for a score.
func (b *programBackend) Grade(ctx context.Context, executed [][]Executed) (Grade, error) {
	calls := succeeded(executed)
	for len(calls) < b.start.Turns {
		calls = append(calls, []Call{})
	}
	var grade Grade
	err := b.use(ctx, func() (err error) {
		grade, err = b.score(ctx, calls)
		return err
	})
	return grade, err
}

// use does something with the backend's process at hand. A process that fails is
// replaced, a bounded number of times in an episode.
func (b *programBackend) use(ctx context.Context, do func() error) error {
	b.acquire()
	defer b.release()
	for {
		err := b.ready(ctx)
		if err == nil {
			err = do()
		}
		if err == nil {
			return nil
		}
		b.stop()
		if exitcode.Code(err) != exitcode.Failed || b.restarts >= b.program.retries {
			return err
		}
		b.restarts++
	}
}

// ready makes sure that there is a process in the backend's state.
func (b *programBackend) ready(ctx context.Context) error {
	if b.process != nil {
		return nil
	}
	started, err := b.program.Open()
	if err != nil {
		return exitcode.WithHint(err, commandHint, b.program.folder)
	}
	b.process = started
	b.program.mutex.Lock()
	b.program.alive[b] = true
	b.program.mutex.Unlock()
	if err := b.reset(ctx); err != nil {
		return err
	}
	for i, before := range b.history {
		result, err := b.call(ctx, before.call)
		if err != nil {
			return err
		}
		if result != before.result {
			return exitcode.WithHint(exitcode.Dataf("task %q: call %d, of %s, gave %q, and gives %q when the same calls are made again",
				b.start.Task, i+1, before.call.Name, clip(before.result.Text, 200), clip(result.Text, 200)),
				"env.tooluse.command must do the same whenever the same calls are made in the same order")
		}
	}
	return nil
}

// stop kills the backend's process. The backend is busy, or nobody's any more.
func (b *programBackend) stop() {
	b.program.mutex.Lock()
	lost := b.process
	b.process = nil
	delete(b.program.alive, b)
	b.program.mutex.Unlock()
	if lost != nil {
		lost.Close()
	}
}

// Close kills the backend's process.
func (b *programBackend) Close() error {
	b.acquire()
	defer b.release()
	b.stop()
	return nil
}

// acquire takes the backend for the caller, and makes room for a process if it
// has none.
func (b *programBackend) acquire() {
	p := b.program
	var evicted []*stdio.Process
	p.mutex.Lock()
	b.busy = true
	for b.process == nil && len(p.alive) >= p.most {
		var oldest *programBackend
		for other := range p.alive {
			if !other.busy && (oldest == nil || other.used < oldest.used) {
				oldest = other
			}
		}
		if oldest == nil {
			break // all are at work
		}
		evicted = append(evicted, oldest.process)
		oldest.process = nil
		delete(p.alive, oldest)
	}
	p.mutex.Unlock()
	for _, lost := range evicted {
		lost.Close()
	}
}

func (b *programBackend) release() {
	b.program.mutex.Lock()
	b.program.clock++
	b.used, b.busy = b.program.clock, false
	b.program.mutex.Unlock()
}

// scoring is what the program is told when it is to score an episode.
type scoring struct {
	Task  string   `json:"task"`
	Truth [][]Call `json:"truth,omitempty"` // reference calls of each turn that was played
	Calls [][]Call `json:"calls"`           // those that succeeded, by turn
}

// text is a result as the policy is shown it: a text as it is, any other value
// as JSON.
func text(result json.RawMessage) (string, error) {
	if len(result) > 0 && result[0] == '"' {
		var text string
		err := json.Unmarshal(result, &text)
		return text, err
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, result)
	return compact.String(), err
}

func (b *programBackend) call(ctx context.Context, call Call) (Result, error) {
	a, err := b.ask(ctx, "call "+call.Name, stdio.Request{"name": call.Name, "args": call.Arguments})
	if err != nil {
		return Result{}, err
	}
	if a.Error != nil {
		return Result{Text: "Error: " + *a.Error, Failed: true}, nil
	}
	text, err := text(a.Result)
	return Result{Text: text}, err
}

func (b *programBackend) ask(ctx context.Context, what string, r stdio.Request) (stdio.Answer, error) {
	defer b.program.waits.Begin(env.Wait{Program: b.program.Name, Request: what, Since: time.Now(), Limit: b.program.timeout, Setting: "env.tooluse.call_seconds"})()
	return b.process.Ask(ctx, r, b.program.timeout)
}

func (b *programBackend) reset(ctx context.Context) error {
	a, err := b.ask(ctx, "start task "+b.start.Task, stdio.Request{"reset": b.start})
	if err == nil && a.Error != nil {
		return exitcode.Dataf("env.tooluse.command cannot start task %q: %s", b.start.Task, *a.Error)
	}
	return err
}

func (b *programBackend) score(ctx context.Context, calls [][]Call) (Grade, error) {
	task := b.start.Task
	a, err := b.ask(ctx, "score task "+task, stdio.Request{"score": scoring{Task: task, Truth: b.truth[:min(len(b.truth), b.start.Turns)], Calls: calls}})
	if err != nil {
		return Grade{}, err
	}
	if a.Error != nil {
		return Grade{}, fmt.Errorf("env.tooluse.command cannot score task %q: %s", task, *a.Error)
	}
	var verdict struct {
		Score      *float64 `json:"score"`
		Why        string   `json:"why"`
		Milestones []string `json:"milestones"`
	}
	if err := plainjson.Strict(a.Result, &verdict); err != nil {
		return Grade{}, exitcode.Dataf(`env.tooluse.command scores task %q with %s, want {"score", "why", "milestones"}: %w`, task, clip(string(a.Result), 200), err)
	}
	if verdict.Score == nil || !(*verdict.Score >= 0 && *verdict.Score <= 1) {
		return Grade{}, exitcode.Dataf(`env.tooluse.command scores task %q with %s, want {"score": a number from 0 to 1}`, task, clip(string(a.Result), 200))
	}
	return Grade{Score: *verdict.Score, Why: verdict.Why, Milestones: verdict.Milestones}, nil
}
