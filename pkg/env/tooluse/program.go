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
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// program is the command that carries out the user's functions. Each episode
// has a process of its own, which is killed when the episode ends; when there
// are too many of them, the one that has rested longest is killed earlier and
// started again once its episode goes on.
//
// The command runs as it is, with the rights of whoever runs Lathe: what a
// policy can do through its functions is for the command to bound.
type program struct {
	command []string
	folder  string // where it runs
	timeout time.Duration
	retries int
	most    int // processes at a time, those at work not counted

	mutex sync.Mutex
	alive map[*programWorld]bool // those that have a process
	clock int64                  // counts uses
}

// commandHint says what env.tooluse.command is.
const commandHint = "env.tooluse.command is the command, one word to an entry; it runs in the folder of the recipe, %s"

// newProgram makes sure that there is such a program, before anything is
// blamed on its functions.
func newProgram(tools *recipe.ToolUse, folder string) (*program, error) {
	path := tools.Command[0]
	if strings.ContainsRune(path, filepath.Separator) && !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	if _, err := exec.LookPath(path); err != nil {
		return nil, exitcode.WithHint(exitcode.Unavailablef("the program of the functions: %w", err), commandHint, folder)
	}
	return &program{
		command: tools.Command, folder: folder, timeout: time.Duration(tools.CallSeconds * float64(time.Second)),
		retries: tools.Retries, most: tools.Processes, alive: map[*programWorld]bool{},
	}, nil
}

// start is what the program is told at the beginning of an episode.
type start struct {
	Task  string          `json:"task"`
	State json.RawMessage `json:"state,omitempty"` // as the task's line has it
	Turns int             `json:"turns"`           // of the user that are played
}

// programWorld is what the program holds for one episode. Its process can be
// lost at any time: the calls that were made bring another one to where it was.
type programWorld struct {
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

func (p *program) world(begin start, functions map[string]bool, truth [][]Call) *programWorld {
	return &programWorld{program: p, start: begin, functions: functions, truth: truth}
}

// Call asks the program, but for a function that there is not.
func (w *programWorld) Call(ctx context.Context, call Call) (Result, error) {
	if !w.functions[call.Name] {
		return Result{Text: fmt.Sprintf("Error: there is no function %q.", call.Name), Failed: true}, nil
	}
	var result Result
	err := w.use(ctx, func(p *process) (err error) {
		result, err = p.call(ctx, call)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	w.history = append(w.history, exchange{call, result})
	return result, nil
}

// Judge asks the program for a score.
func (w *programWorld) Judge(ctx context.Context, made [][]Made) (Judgement, error) {
	calls := succeeded(made)
	for len(calls) < w.start.Turns {
		calls = append(calls, []Call{})
	}
	var judgement Judgement
	err := w.use(ctx, func(p *process) (err error) {
		judgement, err = p.score(ctx, w.start.Task, w.truth[:min(len(w.truth), w.start.Turns)], calls)
		return err
	})
	return judgement, err
}

// use does something with the world's process. A process that fails is
// replaced, a bounded number of times in an episode.
func (w *programWorld) use(ctx context.Context, do func(*process) error) error {
	w.acquire()
	defer w.release()
	for {
		err := w.ready(ctx)
		if err == nil {
			err = do(w.process)
		}
		if err == nil {
			return nil
		}
		w.stop()
		if exitcode.Code(err) != exitcode.Failed || w.restarts >= w.program.retries {
			return err
		}
		w.restarts++
	}
}

// ready makes sure that there is a process in the world's state.
func (w *programWorld) ready(ctx context.Context) error {
	if w.process != nil {
		return nil
	}
	started, err := w.program.launch()
	if err != nil {
		return err
	}
	w.process = started
	w.program.mutex.Lock()
	w.program.alive[w] = true
	w.program.mutex.Unlock()
	if err := w.process.reset(ctx, w.start); err != nil {
		return err
	}
	for i, before := range w.history {
		result, err := w.process.call(ctx, before.call)
		if err != nil {
			return err
		}
		if result != before.result {
			return exitcode.WithHint(exitcode.Dataf("task %q: call %d, of %s, gave %q, and gives %q when the same calls are made again",
				w.start.Task, i+1, before.call.Name, clip(before.result.Text, 200), clip(result.Text, 200)),
				"env.tooluse.command must do the same whenever the same calls are made in the same order")
		}
	}
	return nil
}

// stop kills the world's process. The world is busy, or nobody's any more.
func (w *programWorld) stop() {
	w.program.mutex.Lock()
	lost := w.process
	w.process = nil
	delete(w.program.alive, w)
	w.program.mutex.Unlock()
	if lost != nil {
		lost.kill()
	}
}

// Close kills the world's process.
func (w *programWorld) Close() error {
	w.acquire()
	defer w.release()
	w.stop()
	return nil
}

// acquire takes the world for the caller, and makes room for a process if it
// has none.
func (w *programWorld) acquire() {
	p := w.program
	var evicted []*process
	p.mutex.Lock()
	w.busy = true
	for w.process == nil && len(p.alive) >= p.most {
		var oldest *programWorld
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

func (w *programWorld) release() {
	w.program.mutex.Lock()
	w.program.clock++
	w.used, w.busy = w.program.clock, false
	w.program.mutex.Unlock()
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

func (p *process) score(ctx context.Context, task string, truth, calls [][]Call) (Judgement, error) {
	a, err := p.ask(ctx, request{Score: &scoring{Task: task, Truth: truth, Calls: calls}})
	if err != nil {
		return Judgement{}, err
	}
	if a.Error != nil {
		return Judgement{}, fmt.Errorf("env.tooluse.command cannot score task %q: %s", task, *a.Error)
	}
	var verdict struct {
		Score      *float64 `json:"score"`
		Why        string   `json:"why"`
		Milestones []string `json:"milestones"`
	}
	if err := json.Unmarshal(a.Result, &verdict); err != nil || verdict.Score == nil || !(*verdict.Score >= 0 && *verdict.Score <= 1) {
		return Judgement{}, exitcode.Dataf(`env.tooluse.command scores task %q with %s: {"score": a number from 0 to 1} is wanted`, task, clip(string(a.Result), 200))
	}
	return Judgement{Score: *verdict.Score, Why: verdict.Why, Milestones: verdict.Milestones}, nil
}
