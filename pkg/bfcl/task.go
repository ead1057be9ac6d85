package bfcl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// Message is one message of a user's turn.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Task is one conversation to have with the tools.
type Task struct {
	ID       string
	Turns    [][]Message // what the user says, turn by turn
	Classes  []string    // the API classes whose tools there are
	Excluded []string    // tools that are not offered
	Truth    [][]Call    // the reference calls of each turn
	Source   Source      // what all of this was read from
	config   *python.Dict
}

// Source is a task as BFCL's files have it: its line of the file of tasks and
// that of the file of answers.
type Source struct {
	Task   json.RawMessage `json:"task"`
	Answer json.RawMessage `json:"answer"`
}

// FirstTurns is the task with no more than its first turns.
func (t Task) FirstTurns(n int) Task {
	t.Turns, t.Truth = t.Turns[:min(n, len(t.Turns))], t.Truth[:min(n, len(t.Truth))]
	return t
}

// Simulator makes the objects of the task as they are at its beginning.
func (t Task) Simulator() (*Simulator, error) { return NewSimulator(t.Classes, t.config) }

// The file of the tasks and, in AnswersFolder, that of their answers, as BFCL
// names them.
const (
	TasksFile     = "BFCL_v4_multi_turn_base.json"
	AnswersFolder = "possible_answer"
)

// maxLineBytes bounds a line of the task files.
const maxLineBytes = 16 << 20

// ReadTasks reads the tasks of a folder and their answers, in the order of the
// file. Errors name the file and the line.
func ReadTasks(folder string) ([]Task, error) {
	answers := map[string]answer{}
	err := eachLine(filepath.Join(folder, AnswersFolder, TasksFile), func(line []byte) error {
		a, err := readAnswer(line)
		answers[a.id] = a
		return err
	})
	if err != nil {
		return nil, err
	}
	var tasks []Task
	err = eachLine(filepath.Join(folder, TasksFile), func(line []byte) error {
		task, err := readTask(line)
		if err != nil {
			return err
		}
		a, known := answers[task.ID]
		if !known {
			return fmt.Errorf("%s has no answer", task.ID)
		}
		task, err = task.answered(a)
		tasks = append(tasks, task)
		return err
	})
	return tasks, err
}

// ParseTask reads one task.
func ParseTask(source Source) (Task, error) {
	task, err := readTask(source.Task)
	if err != nil {
		return Task{}, err
	}
	a, err := readAnswer(source.Answer)
	switch {
	case err != nil:
		return Task{}, err
	case a.id != task.ID:
		return Task{}, fmt.Errorf("%s has the answer of %s", task.ID, a.id)
	}
	return task.answered(a)
}

// answer is a line of the file of answers: the reference calls of each turn of
// a task.
type answer struct {
	id    string
	turns [][]Call
	line  json.RawMessage
}

// answered is the task with its reference calls.
func (t Task) answered(a answer) (Task, error) {
	if len(a.turns) != len(t.Turns) {
		return Task{}, fmt.Errorf("%s has %d turns and answers to %d", t.ID, len(t.Turns), len(a.turns))
	}
	truth, err := t.named(a.turns)
	if err != nil {
		return Task{}, fmt.Errorf("%s: %w", t.ID, err)
	}
	t.Truth, t.Source.Answer = truth, a.line
	return t, nil
}

func readAnswer(line []byte) (answer, error) {
	var row struct {
		ID    string     `json:"id"`
		Truth [][]string `json:"ground_truth"`
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return answer{}, err
	}
	a := answer{id: row.ID, turns: make([][]Call, len(row.Truth)), line: slices.Clone(line)}
	for i, written := range row.Truth {
		for _, text := range written {
			call, err := ParseCall(text)
			if err != nil {
				return answer{}, fmt.Errorf("%s, %s: %w", row.ID, text, err)
			}
			a.turns[i] = append(a.turns[i], call)
		}
	}
	return a, nil
}

func readTask(line []byte) (Task, error) {
	var row struct {
		ID       string          `json:"id"`
		Turns    [][]Message     `json:"question"`
		Config   json.RawMessage `json:"initial_config"`
		Classes  []string        `json:"involved_classes"`
		Excluded []string        `json:"excluded_function"`
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return Task{}, err
	}
	task := Task{ID: row.ID, Turns: row.Turns, Classes: row.Classes, Excluded: row.Excluded, Source: Source{Task: slices.Clone(line)}, config: &python.Dict{}}
	if len(row.Config) > 0 {
		value, err := python.FromJSON(row.Config)
		if err != nil {
			return Task{}, fmt.Errorf("initial_config: %w", err)
		}
		config, ok := value.(*python.Dict)
		if !ok {
			return Task{}, fmt.Errorf("%s: initial_config is no object", row.ID)
		}
		task.config = config
	}
	return task, nil
}

// named names the positional arguments of the reference calls.
func (t Task) named(turns [][]Call) ([][]Call, error) {
	simulator, err := t.Simulator()
	if err != nil {
		return nil, err
	}
	all := make([][]Call, len(turns))
	for i, calls := range turns {
		for _, call := range calls {
			call, err := simulator.named(call)
			if err != nil {
				return nil, fmt.Errorf("turn %d: %w", i+1, err)
			}
			all[i] = append(all[i], call)
		}
	}
	return all, nil
}

func eachLine(path string, read func(line []byte) error) error {
	f, _, err := plainfile.Open(path)
	if err != nil {
		return exitcode.Dataf("opening the tasks: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLineBytes)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\uFEFF")))
		if len(line) == 0 {
			continue
		}
		if err := read(line); err != nil {
			return exitcode.Dataf("%s, line %d: %w", path, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return exitcode.Dataf("reading %s: %w", path, err)
	}
	return nil
}
