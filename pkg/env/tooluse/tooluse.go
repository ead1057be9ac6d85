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
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// Name is the name of this environment in recipes and rows.
const Name = "tooluse"

// Env is the environment. It is read-only once made, and safe for concurrent
// use.
type Env struct {
	settings Settings
	splits   map[env.Split][]env.Task
	tasks    map[string]*task
	inputs   []env.Input
	program  *program // of the functions; nil where they are ours
}

var (
	_ env.Env     = (*Env)(nil)
	_ env.Closer  = (*Env)(nil)
	_ env.Logged  = (*Env)(nil)
	_ env.Waiting = (*Env)(nil)
)

// Close ends the processes of the program of the functions.
func (e *Env) Close() {
	if e.program != nil {
		e.program.close()
	}
}

// LogTo logs what that program writes to its standard error.
func (e *Env) LogTo(log func(format string, args ...any)) {
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

// New reads the tasks and functions that the recipe names. Relative names start
// at folder, the recipe's. The seed draws halves that no file gives, and which
// tasks a limit keeps.
func New(settings Settings, data Data, seed uint64, folder string) (*Env, error) {
	e := empty(settings)
	tools := settings.ToolUse
	bfclFolder, halves, functions, err := tools.Resolve(folder)
	if err != nil {
		return nil, fmt.Errorf("env.tooluse: %w", err)
	}
	var parts map[env.Split][]problem
	if bfclFolder != "" {
		parts, err = e.bfclParts(bfclFolder, halves, seed)
	} else {
		parts, err = e.customParts(functions, data, folder)
	}
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		split env.Split
		limit int
	}{{env.Train, data.Train.Limit}, {env.Test, data.Test.Limit}} {
		if part.limit > 0 {
			parts[part.split], _ = env.Draw(parts[part.split], part.limit, rng.New(seed, rng.PurposeData, 0, "limit/"+string(part.split), 0))
		}
	}
	if n := data.Validation; n > 0 {
		if n >= len(parts[env.Train]) {
			return nil, exitcode.Usagef("data.validation is %d: training has %d tasks", n, len(parts[env.Train]))
		}
		parts[Validation], parts[env.Train] = env.Draw(parts[env.Train], n, rng.New(seed, rng.PurposeData, 0, "validation", 0))
	}
	for _, split := range splits {
		for _, p := range parts[split] {
			if err := e.add(split, p, tools.rules(split)); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

// splits are those of the environment, in the order of their rows.
var splits = []env.Split{env.Train, env.Test, Validation}

// rules are those of a split's episodes.
func (u ToolUse) rules(split env.Split) EpisodeRules {
	if split == env.Train {
		return u.Train
	}
	return u.Test
}

// empty is an environment without tasks.
func empty(settings Settings) *Env {
	return &Env{settings: settings, splits: map[env.Split][]env.Task{}, tasks: map[string]*task{}}
}

// bfclParts splits BFCL's tasks by the file of halves, or by the seed.
func (e *Env) bfclParts(folder, halves string, seed uint64) (map[env.Split][]problem, error) {
	problems, paths, err := readBFCL(folder)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := e.input(path); err != nil {
			return nil, err
		}
	}
	if halves == "" {
		return stratify(problems, rng.New(seed, rng.PurposeData, 0, "halves", 0)), nil
	}
	if err := e.input(halves); err != nil {
		return nil, err
	}
	return readHalves(halves, problems)
}

// input records a file by its digest.
func (e *Env) input(path string) error {
	f, _, err := plainfile.Open(path)
	if err != nil {
		return exitcode.Dataf("reading a file of env.tooluse: %w", err)
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return exitcode.Dataf("reading a file of env.tooluse: %w", err)
	}
	e.inputs = append(e.inputs, env.Input{Path: path, SHA256: hex.EncodeToString(digest.Sum(nil))})
	return nil
}

// add files a problem under its id.
func (e *Env) add(split env.Split, p problem, rules EpisodeRules) error {
	if _, twice := e.tasks[p.id]; twice {
		return exitcode.Dataf("two tasks have the id %q: an id must be unique over both splits", p.id)
	}
	if len(p.turns) == 0 {
		return exitcode.Dataf("task %q: the user says nothing", p.id)
	}
	t := &task{problem: p, rules: rules, turns: p.turns}
	if rules.UserTurns > 0 {
		t.turns = t.turns[:min(rules.UserTurns, len(t.turns))]
	}
	for _, turn := range t.turns {
		t.requests = append(t.requests, fill(e.settings.Prompts.Initial, turn, turn, ""))
	}
	docs, err := describe(p.functions, e.settings.ToolUse.Docs)
	if err != nil {
		return exitcode.Dataf("task %q: %w", p.id, err)
	}
	t.system = fillTools(e.settings.ToolUse.System, docs)
	answer, err := plainjson.Line(p.truth)
	if err != nil {
		return err
	}
	t.Task = env.Task{ID: p.id, Kind: p.kind, Level: len(p.turns), Question: p.turns[0]}
	if p.truth != nil {
		t.Answer = string(answer)
	}
	e.tasks[p.id] = t
	e.splits[split] = append(e.splits[split], t.Task)
	return nil
}

// Name returns "tooluse".
func (e *Env) Name() string { return Name }

// Traits follow from the settings.
func (e *Env) Traits() env.Traits { return e.settings.traits() }

// Inputs lists the files that tasks and functions were read from.
func (e *Env) Inputs() []env.Input { return e.inputs }

// LeftOut is 0: nothing is generated.
func (e *Env) LeftOut() (int, []string) { return 0, nil }

// Tasks lists the tasks of a split in the order of their files. The caller must
// not change the slice.
func (e *Env) Tasks(split env.Split) []env.Task { return e.splits[split] }

// Task finds a task of any split by its id. Its kind is the API classes that
// it involves, or what its file says, and its level the number of the user's
// turns.
func (e *Env) Task(id string) (env.Task, bool) {
	t, known := e.tasks[id]
	if !known {
		return env.Task{}, false
	}
	return t.Task, true
}
