package tooluse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// program is the command that carries out the user's functions. Each episode
// has a process of its own, which is killed when the episode ends; when there
// are too many of them, the one that has rested longest is killed earlier and
// started again once its episode goes on.
//
// The command runs as it is, with the rights of whoever runs Lathe and little of
// the environment: what a policy can do through its functions is for the command
// to bound.
type program struct {
	command []string
	folder  string // where it runs

	passEnvironment []string // names of the variables that it gets beside the basic ones

	timeout time.Duration
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
	return &program{
		command: tools.Command, folder: folder, passEnvironment: tools.PassEnvironment, timeout: time.Duration(tools.CallSeconds * float64(time.Second)),
		retries: tools.Retries, most: tools.Processes, alive: map[*programBackend]bool{},
	}, nil
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
	process *process // guarded by the program's mutex unless busy

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
	err := b.use(ctx, func(p *process) (err error) {
		result, err = p.call(ctx, call)
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
	err := b.use(ctx, func(p *process) (err error) {
		grade, err = p.score(ctx, b.start.Task, b.truth[:min(len(b.truth), b.start.Turns)], calls)
		return err
	})
	return grade, err
}

// use does something with the backend's process. A process that fails is
// replaced, a bounded number of times in an episode.
func (b *programBackend) use(ctx context.Context, do func(*process) error) error {
	b.acquire()
	defer b.release()
	for {
		err := b.ready(ctx)
		if err == nil {
			err = do(b.process)
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
	started, err := b.program.launch()
	if err != nil {
		return err
	}
	b.process = started
	b.program.mutex.Lock()
	b.program.alive[b] = true
	b.program.mutex.Unlock()
	if err := b.process.reset(ctx, b.start); err != nil {
		return err
	}
	for i, before := range b.history {
		result, err := b.process.call(ctx, before.call)
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
		lost.kill()
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
	var evicted []*process
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
		lost.kill()
	}
}

func (b *programBackend) release() {
	b.program.mutex.Lock()
	b.program.clock++
	b.used, b.busy = b.program.clock, false
	b.program.mutex.Unlock()
}

// request is one line for the program: a call, or one of the other two.
type request struct {
	ID        int             `json:"id"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"args,omitempty"`
	Reset     *start          `json:"reset,omitempty"`
	Score     *scoring        `json:"score,omitempty"`
}

// scoring is what the program is told when it is to judge an episode.
type scoring struct {
	Task  string   `json:"task"`
	Truth [][]Call `json:"truth,omitempty"` // reference calls of each turn that was played
	Calls [][]Call `json:"calls"`           // those that succeeded, by turn
}

// answer is one line of the program.
type answer struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *string         `json:"error"`
}

// text is a result as the policy is shown it: a text as it is, any other value
// as JSON.
func (a answer) text() (string, error) {
	if len(a.Result) > 0 && a.Result[0] == '"' {
		var text string
		err := json.Unmarshal(a.Result, &text)
		return text, err
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, a.Result)
	return compact.String(), err
}

func (p *process) call(ctx context.Context, call Call) (Result, error) {
	a, err := p.ask(ctx, request{Name: call.Name, Arguments: call.Arguments})
	if err != nil {
		return Result{}, err
	}
	if a.Error != nil {
		return Result{Text: "Error: " + *a.Error, Failed: true}, nil
	}
	text, err := a.text()
	return Result{Text: text}, err
}

func (p *process) reset(ctx context.Context, begin start) error {
	a, err := p.ask(ctx, request{Reset: &begin})
	if err == nil && a.Error != nil {
		return exitcode.Dataf("env.tooluse.command cannot start task %q: %s", begin.Task, *a.Error)
	}
	return err
}

func (p *process) score(ctx context.Context, task string, truth, calls [][]Call) (Grade, error) {
	a, err := p.ask(ctx, request{Score: &scoring{Task: task, Truth: truth, Calls: calls}})
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
	if err := json.Unmarshal(a.Result, &verdict); err != nil || verdict.Score == nil || !(*verdict.Score >= 0 && *verdict.Score <= 1) {
		return Grade{}, exitcode.Dataf(`env.tooluse.command scores task %q with %s: {"score": a number from 0 to 1} is wanted`, task, clip(string(a.Result), 200))
	}
	return Grade{Score: *verdict.Score, Why: verdict.Why, Milestones: verdict.Milestones}, nil
}
