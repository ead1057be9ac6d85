// Package mle is the environment of machine-learning engineering: the policy
// writes a Python program, the program runs on a task's data in a sandbox, and what
// it submits is graded. It has the prompts, transitions and rewards of
// ExIt App. A.4 and App. B; of RL-MLE §3.2, §3.3 and App. C; of AceGRPO §4.1 and
// App. C; and of MLE-RL §4.1, §4.2 and App. B.
package mle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Env is the environment. It is safe for concurrent use.
type Env struct {
	settings Settings
	style    style
	runner   *runner
	splits   map[env.Split][]env.Task
	entries  map[string]*entry // by task id
	inputs   []env.Input
	leftOut  []string

	assistant env.Assistant // nil for none
	tail      env.Tail      // cuts feedback
}

var (
	_ env.Env      = (*Env)(nil)
	_ env.Brief    = (*Env)(nil)
	_ env.Assisted = (*Env)(nil)
	_ env.Weighted = (*Env)(nil)
)

// entry is a task with its folder, which is read when it is first needed.
type entry struct {
	task   env.Task
	folder string
	source source
	open   func() (*task.Task, error)
}

// source is what a row of tasks.parquet says of a task's folder.
type source struct {
	Folder string            `json:"folder,omitempty"` // in rows before task/1.1, which have no column for it
	SHA256 map[string]string `json:"sha256"`           // by path below the folder, or whole
	Bytes  int64             `json:"bytes"`            // of what programs read

	Demonstrations []demonstration `json:"demonstrations,omitempty"`
}

// New reads the tasks of folders. A task that is asked for in both splits, or
// whose answers are those of a held-out one, is held out and left out of
// training.
func New(settings Settings, data Data, folder string) (*Env, error) {
	e, err := empty(settings)
	if err != nil {
		return nil, err
	}
	folders, err := config.ResolvePaths(data.Tasks, folder)
	if err != nil {
		return nil, fmt.Errorf("data.tasks: %w", err)
	}
	tasks, err := task.Find(folders, slices.Concat(data.Train, data.Test))
	if err != nil {
		return nil, fmt.Errorf("data.tasks: %w", err)
	}
	held := map[string]bool{} // names and digests of answers
	in := func(t *task.Task, names []string, split string) bool {
		if len(data.Train)+len(data.Test) == 0 {
			return t.Split == split
		}
		return config.Matches(t.Name, names)
	}
	for _, t := range tasks {
		if in(t, data.Test, "test") {
			held[t.Name], held[t.Input(t.Answers)] = true, true
			e.add(env.Test, t)
		}
	}
	for _, t := range tasks {
		switch {
		case !in(t, data.Train, "train"):
		case held[t.Name] || held[t.Input(t.Answers)]:
			e.leftOut = append(e.leftOut, t.Name)
		default:
			e.add(env.Train, t)
		}
	}
	if data.Demonstrations == "" {
		return e, nil
	}
	path, err := config.ResolvePath(data.Demonstrations, folder)
	if err != nil {
		return nil, fmt.Errorf("data.demonstrations: %w", err)
	}
	return e, e.readDemonstrations(path)
}

// add files a task that has been read.
func (e *Env) add(split env.Split, t *task.Task) {
	row := env.Task{ID: t.Name, Kind: t.Modality, Question: t.Description, Level: slices.Index([]string{"low", "medium", "high"}, t.Complexity) + 1}
	s := source{SHA256: map[string]string{}, Bytes: t.PublicBytes}
	for _, input := range t.Inputs {
		name := input.Path
		if below, err := filepath.Rel(t.Folder, input.Path); err == nil && filepath.IsLocal(below) {
			name = below
		}
		s.SHA256[name] = input.SHA256
		e.inputs = append(e.inputs, env.Input(input))
	}
	e.splits[split] = append(e.splits[split], row)
	e.entries[row.ID] = &entry{task: row, folder: t.Folder, source: s, open: func() (*task.Task, error) { return t, nil }}
}

// Cost is what there is to learn from, in bytes: a program takes longer on more.
func (e *Env) Cost(of env.Task) float64 {
	if entry, ok := e.entries[of.ID]; ok {
		return float64(entry.source.Bytes)
	}
	return 0
}

// FromRows makes the environment that the rows are of. The folders of the tasks
// must be as they were.
func FromRows(settings Settings, rows []shard.TaskRow) (*Env, error) {
	e, err := empty(settings)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		t := env.TaskOf(row)
		var s source
		if err := json.Unmarshal([]byte(row.Source), &s); err != nil {
			return nil, exitcode.Dataf("task %q: its source: %w", t.ID, err)
		}
		e.splits[env.Split(row.Split)] = append(e.splits[env.Split(row.Split)], t)
		folder := cmp.Or(row.Folder, s.Folder)
		e.entries[t.ID] = &entry{task: t, folder: folder, source: s, open: sync.OnceValues(func() (*task.Task, error) { return reopen(folder, s) })}
	}
	return e, nil
}

// reopen reads a task's folder again.
func reopen(folder string, s source) (*task.Task, error) {
	t, err := task.Open(folder)
	if err != nil {
		return nil, exitcode.WithHint(err, "a run reads the folders of its tasks whenever it prompts or scores: put the folder back")
	}
	again := map[string]string{}
	for _, input := range t.Inputs {
		name := input.Path
		if below, err := filepath.Rel(t.Folder, input.Path); err == nil && filepath.IsLocal(below) {
			name = below
		}
		again[name] = input.SHA256
	}
	if maps.Equal(again, s.SHA256) {
		return t, nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.SHA256)) {
		if again[name] != s.SHA256[name] {
			return nil, exitcode.Dataf("task %q: %q is not as it was when the run was made: put it back, or make another run", t.Name, filepath.Join(folder, name))
		}
	}
	return nil, exitcode.Dataf("task %q: its folder %q has files that it had not when the run was made", t.Name, folder)
}

func empty(settings Settings) (*Env, error) {
	e := &Env{settings: settings, splits: map[env.Split][]env.Task{}, entries: map[string]*entry{}, tail: tailOfCharacters}
	e.style = styleOf(settings)
	e.runner = newRunner(&e.settings)
	return e, nil
}

// folder is the folder of a task, read.
func (e *Env) folder(of env.Task) (*task.Task, error) {
	entry, ok := e.entries[of.ID]
	if !ok {
		return nil, exitcode.Bugf("there is no task %q", of.ID)
	}
	return entry.open()
}

// Name returns "mle".
func (e *Env) Name() string { return Name }

// Traits follow from the settings.
func (e *Env) Traits() env.Traits { return e.settings.traits() }

// Inputs lists the files of the tasks.
func (e *Env) Inputs() []env.Input { return e.inputs }

// LeftOut names the tasks that are not trained on because they are held out.
func (e *Env) LeftOut() (count int, names []string) { return len(e.leftOut), e.leftOut }

// Tasks lists the tasks of a split by name.
func (e *Env) Tasks(split env.Split) []env.Task { return e.splits[split] }

// Task finds a task by its id, which is its name.
func (e *Env) Task(id string) (env.Task, bool) {
	entry, ok := e.entries[id]
	if !ok {
		return env.Task{}, false
	}
	return entry.task, true
}

// Rows lists the tasks of both splits, with their folders.
func (e *Env) Rows() ([]shard.TaskRow, error) {
	var rows []shard.TaskRow
	for _, split := range []env.Split{env.Train, env.Test} {
		for _, t := range e.splits[split] {
			entry := e.entries[t.ID]
			text, err := json.Marshal(entry.source)
			if err != nil {
				return nil, err
			}
			row := t.Row(Name, split, string(text))
			row.Folder = entry.folder
			rows = append(rows, row)
		}
	}
	return rows, nil
}
