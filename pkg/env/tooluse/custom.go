package tooluse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// maxLineBytes bounds a line of a file of tasks.
const maxLineBytes = 16 << 20

// customParts reads the user's own functions and the tasks of both splits.
func customParts(set *env.TaskSet, path string, data *Data, folder string) (map[env.Split][]problem, error) {
	functions, err := readFunctions(path)
	if err != nil {
		return nil, err
	}
	if err := addInput(set, path); err != nil {
		return nil, err
	}
	parts := map[env.Split][]problem{}
	for _, part := range []struct {
		split  env.Split
		source Source
	}{{env.Train, data.Train}, {env.Test, data.Test}} {
		paths, err := config.ResolvePaths(part.source.Files, folder)
		if err != nil {
			return nil, fmt.Errorf("data.%s.files: %w", part.split, err)
		}
		for _, path := range paths {
			problems, err := readCustom(path, functions)
			if err != nil {
				return nil, err
			}
			if err := addInput(set, path); err != nil {
				return nil, err
			}
			parts[part.split] = append(parts[part.split], problems...)
		}
	}
	return parts, disjoint(parts[env.Train], parts[env.Test])
}

// disjoint refuses test tasks that training has under another id: the same
// requests from the same state with the same reference calls. Tasks that have
// neither state nor reference are left alone, since their program may tell them
// apart by their ids.
func disjoint(train, test []problem) error {
	trained := map[string]string{} // what a task is, to its id
	for _, p := range train {
		if p.state == nil && p.truth == nil {
			continue
		}
		content, err := p.content()
		if err != nil {
			return err
		}
		trained[content] = p.id
	}
	shared, first := 0, ""
	for _, p := range test {
		content, err := p.content()
		if err != nil {
			return err
		}
		if id, ok := trained[content]; ok {
			if shared++; shared == 1 {
				first = fmt.Sprintf("%q is %q", p.id, id)
			}
		}
	}
	if shared > 0 {
		return exitcode.Dataf("data.test.files shares %s with data.train.files (%s): remove what they share from one of the two", plural.Count(shared, "task"), first)
	}
	return nil
}

// content is all that makes a task what it is, but for its names.
func (p *problem) content() (string, error) {
	text, err := plainjson.Line(struct {
		Turns []string
		State json.RawMessage
		Truth [][]Call
	}{p.turns, p.state, p.truth})
	if err != nil {
		return "", fmt.Errorf("task %s: %w", p.id, err)
	}
	return string(text), nil
}

// readFunctions reads a JSON file with a list of functions.
func readFunctions(path string) ([]Function, error) {
	text, err := plainfile.Read(path, plainfile.MaxDocument)
	if err != nil {
		return nil, exitcode.Dataf("reading env.tooluse.functions: %w", err)
	}
	var functions []Function
	if err := plainjson.Strict(text, &functions); err != nil {
		return nil, exitcode.Dataf("%s: want a list of functions, each with name, description and parameters: %w", path, err)
	}
	if len(functions) == 0 {
		return nil, exitcode.Dataf("%s has no function", path)
	}
	seen := map[string]bool{}
	for i, f := range functions {
		switch parameters := bytes.TrimSpace(f.Parameters); {
		case f.Name == "":
			return nil, exitcode.Dataf("%s: function %d has no name", path, i+1)
		case seen[f.Name]:
			return nil, exitcode.Dataf("%s: two functions are called %q", path, f.Name)
		case len(parameters) == 0 || parameters[0] != '{':
			return nil, exitcode.Dataf("%s: the parameters of %s must be a JSON schema, an object", path, f.Name)
		}
		if _, err := f.signature(); err != nil {
			return nil, exitcode.Dataf("%s: %w", path, err)
		}
		seen[f.Name] = true
	}
	return functions, nil
}

// customTask is a line of a file of tasks.
type customTask struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`      // for breakdowns in reports
	Turns     []string        `json:"turns"`     // what the user asks for, turn by turn
	State     json.RawMessage `json:"state"`     // what the program starts from
	Truth     [][]Call        `json:"truth"`     // reference calls of each turn; may be left out
	Functions []string        `json:"functions"` // the names of those that there are; left out for all
}

// readCustom reads a file of tasks, one JSON object a line.
func readCustom(path string, functions []Function) ([]problem, error) {
	f, _, err := plainfile.Open(path)
	if err != nil {
		return nil, exitcode.Dataf("opening the tasks: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLineBytes)
	var problems []problem
	for number := 1; lines.Scan(); number++ {
		line := lines.Bytes()
		if number == 1 { // a byte order mark is no part of the task
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		p, err := parseCustom(line, functions)
		if err != nil {
			return nil, exitcode.Dataf("%s, line %d: %w", filepath.Clean(path), number, err)
		}
		problems = append(problems, p)
	}
	if err := lines.Err(); err != nil {
		return nil, exitcode.Dataf("reading %s: %w", path, err)
	}
	return problems, nil
}

func parseCustom(line []byte, functions []Function) (problem, error) {
	var t customTask
	if err := plainjson.Strict(line, &t); err != nil {
		return problem{}, err
	}
	switch {
	case t.ID == "":
		return problem{}, errors.New("the task has no id")
	case len(t.Turns) == 0 || slices.Contains(t.Turns, ""):
		return problem{}, fmt.Errorf("task %s: turns must be a list of texts, what the user asks for", t.ID)
	case t.Truth != nil && len(t.Truth) != len(t.Turns):
		return problem{}, fmt.Errorf("task %s has %d turns and reference calls for %d", t.ID, len(t.Turns), len(t.Truth))
	}
	p := problem{id: t.ID, kind: t.Kind, turns: t.Turns, truth: t.Truth, functions: functions, state: t.State}
	known := func(name string) bool {
		return slices.ContainsFunc(p.functions, func(f Function) bool { return f.Name == name })
	}
	if t.Functions != nil {
		for _, name := range t.Functions {
			if !known(name) {
				return problem{}, fmt.Errorf("task %s: there is no function %q", t.ID, name)
			}
		}
		p.functions = slices.DeleteFunc(slices.Clone(functions), func(f Function) bool { return !slices.Contains(t.Functions, f.Name) })
	}
	for i, turn := range t.Truth {
		for j, call := range turn {
			args := bytes.TrimSpace(call.Arguments)
			if !known(call.Name) || len(args) == 0 || args[0] != '{' {
				return problem{}, fmt.Errorf("task %s: reference call %d of turn %d must have the name of a function and an object of args", t.ID, j+1, i+1)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, args); err != nil {
				return problem{}, err
			}
			t.Truth[i][j].Arguments = compact.Bytes()
		}
	}
	return p, nil
}

// play has the program run the calls.
func (p *problem) play(program *program) {
	names := map[string]bool{}
	for _, f := range p.functions {
		names[f.Name] = true
	}
	begin, truth := start{Task: p.id, State: p.state}, p.truth
	p.open = func(turns int) Backend {
		begin := begin
		begin.Turns = turns
		return program.backend(begin, names, truth)
	}
}
