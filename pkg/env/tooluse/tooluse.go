// Package tooluse is the environment of requests that are executed by
// calling functions: those of BFCL's multi-turn tasks, which package bfcl
// simulates, or those of a program of the user's own. Prompts, rewards and the
// split of the tasks are those of ExIt §5 and App. A.3.
//
// A message of the policy may reason, and ends in one of three ways: with
//
//	<tool>[{"name": "f", "args": {"x": 1}}, …]</tool>
//
// whose results come back in <tool_result>, a JSON list of texts; with
// <TASK_FINISHED>, after which the user may ask for more; or with <TASK_ERROR>,
// which gives up. The calls of a list are made in its order, up to the first
// that fails.
package tooluse

import (
	"fmt"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// Name is the name of this environment in recipes and rows.
const Name = "tooluse"

// Env is the environment. It is read-only once made, and safe for concurrent
// use.
type Env struct {
	*env.TaskSet
	settings Settings
	tasks    map[string]*task
	program  *program // of the functions; nil where they are ours
}

var (
	_ env.Env      = (*Env)(nil)
	_ env.Programs = (*Env)(nil)
)

// Close ends the processes of the program of the functions.
func (e *Env) Close() {
	if e.program != nil {
		e.program.close()
	}
}

// Start logs what that program writes to its standard error.
func (e *Env) Start(_ int, log func(format string, args ...any)) {
	if e.program != nil {
		e.program.said.To(func(line string) { log("%s: %s", filepath.Base(e.settings.ToolUse.Command[0]), line) })
	}
}

// Waiting lists the requests that the program has not answered.
func (e *Env) Waiting() []env.Wait {
	if e.program == nil {
		return nil
	}
	return e.program.waits.Open()
}

// task is a problem as the rules of its split let it be played.
type task struct {
	env.Task
	problem
	rules    EpisodeRules
	turns    []string // of the user that are played
	requests []string // what the user's message of each turn says
	system   string   // the system message
}

// load reads the tasks and functions that the recipe names. Relative names start
// at folder, the recipe's. The seed draws halves that no file gives, and which
// tasks a limit keeps.
func load(tools *ToolUse, data *Data, seed uint64, folder string) (*env.TaskSet, error) {
	set := env.NewTaskSet(Name)
	bfclFolder, halves, functions, err := tools.Resolve(folder)
	if err != nil {
		return nil, fmt.Errorf("env.tooluse: %w", err)
	}
	var parts map[env.Split][]problem
	if bfclFolder != "" {
		parts, err = bfclParts(set, bfclFolder, halves, seed)
	} else {
		parts, err = customParts(set, functions, data, folder)
	}
	if err != nil {
		return nil, err
	}
	parts[env.Train] = env.Limit(parts[env.Train], data.Train.Limit, seed, env.Train)
	parts[env.Test] = env.Limit(parts[env.Test], data.Test.Limit, seed, env.Test)
	if n := data.Validation; n > 0 {
		if n >= len(parts[env.Train]) {
			return nil, exitcode.Usagef("data.validation is %d: training has %s", n, plural.Count(len(parts[env.Train]), "task"))
		}
		parts[Validation], parts[env.Train] = env.Draw(parts[env.Train], n, rng.New(seed, rng.PurposeData, 0, "validation", 0))
	}
	for _, split := range []env.Split{env.Train, env.Test, Validation} {
		for _, p := range parts[split] {
			if err := file(set, split, p); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}

// file adds a problem to a set.
func file(set *env.TaskSet, split env.Split, p problem) error {
	if _, twice := set.Task(p.id); twice {
		return exitcode.Dataf("two tasks have the id %q: an id must be unique over both splits", p.id)
	}
	if len(p.turns) == 0 {
		return exitcode.Dataf("task %q: the user says nothing", p.id)
	}
	t := env.Task{ID: p.id, Kind: p.kind, Level: len(p.turns), Question: p.turns[0]}
	if p.truth != nil {
		answer, err := plainjson.Line(p.truth)
		if err != nil {
			return err
		}
		t.Answer = string(answer)
	}
	text, err := p.source()
	if err != nil {
		return exitcode.Bugf("writing task %q: %w", t.ID, err)
	}
	set.Add(t, env.Facts{Split: split, Source: text})
	return nil
}

// fromTasks is the environment of the tasks. A relative name of a program starts at folder.
func fromTasks(settings *Settings, tasks *env.TaskSet, folder string) (*Env, error) {
	e := &Env{TaskSet: tasks, settings: *settings, tasks: map[string]*task{}}
	if e.settings.ToolUse.BFCL == "" {
		var err error
		if e.program, err = newProgram(&e.settings.ToolUse, folder); err != nil {
			return nil, err
		}
	}
	for _, split := range []env.Split{env.Train, env.Test, Validation} {
		for _, t := range tasks.Tasks(split) {
			if err := e.open(split, t); err != nil {
				return nil, exitcode.Dataf("task %q: %w", t.ID, err)
			}
		}
	}
	return e, nil
}

// rules are those of a split's episodes.
func (u ToolUse) rules(split env.Split) EpisodeRules {
	if split == env.Train {
		return u.Train
	}
	return u.Test
}

// bfclParts splits BFCL's tasks by the file of halves, or by the seed.
func bfclParts(set *env.TaskSet, folder, halves string, seed uint64) (map[env.Split][]problem, error) {
	problems, paths, err := readBFCL(folder)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := addInput(set, path); err != nil {
			return nil, err
		}
	}
	if halves == "" {
		return stratify(problems, rng.New(seed, rng.PurposeData, 0, "halves", 0)), nil
	}
	if err := addInput(set, halves); err != nil {
		return nil, err
	}
	return readHalves(halves, problems)
}

// addInput records a file by its digest.
func addInput(set *env.TaskSet, path string) error {
	input, err := env.ReadInput(path)
	if err != nil {
		return exitcode.Dataf("reading a file of env.tooluse: %w", err)
	}
	set.Inputs = append(set.Inputs, input)
	return nil
}

// open prepares a task to be played.
func (e *Env) open(split env.Split, of env.Task) error {
	facts, err := e.Facts(of.ID)
	if err != nil {
		return err
	}
	p, err := readSource(of, facts.Source, e.program)
	if err != nil {
		return err
	}
	t := &task{Task: of, problem: p, rules: e.settings.ToolUse.rules(split), turns: p.turns}
	if t.rules.UserTurns > 0 {
		t.turns = t.turns[:min(t.rules.UserTurns, len(t.turns))]
	}
	for _, turn := range t.turns {
		t.requests = append(t.requests, env.Fill(e.settings.Prompts.Initial, turn, turn, ""))
	}
	docs, err := describe(p.functions, e.settings.ToolUse.Docs)
	if err != nil {
		return err
	}
	t.system = fillTools(e.settings.ToolUse.System, docs)
	e.tasks[of.ID] = t
	return nil
}

// Traits follow from the settings.
func (e *Env) Traits() env.Traits { return e.settings.traits() }
