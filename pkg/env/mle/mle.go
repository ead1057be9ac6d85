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
	"strings"
	"sync"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// Env is the environment. It is safe for concurrent use.
type Env struct {
	*env.TaskSet
	settings Settings
	style    style
	runner   *runner
	entries  map[string]*entry // by task id

	assistant env.Assistant // nil for none
	tail      env.Tail      // cuts feedback

	graders sync.Map // of a task's folder: func() (*ownGrader, error)
}

var (
	_ env.Env      = (*Env)(nil)
	_ env.Assisted = (*Env)(nil)
)

// entry is a task with its folder, which is read when it is first needed.
type entry struct {
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

// load reads the tasks of folders. A task that a held-out set has, or whose answers are
// those of one, is left out of training, unless data.trained names the set.
func load(data *Data, folder string) (*env.TaskSet, error) {
	set := env.NewTaskSet(Name)
	folders, err := config.ResolvePaths(data.Tasks, folder)
	if err != nil {
		return nil, fmt.Errorf("data.tasks: %w", err)
	}
	own, err := data.expanded(folder)
	if err != nil {
		return nil, err
	}
	var names []string // none where the tasks say their split
	if names = slices.Concat(own.Train, own.Test); len(names) > 0 {
		for _, held := range own.HeldOut {
			names = append(names, held.Tasks...)
		}
	}
	tasks, notes, err := task.Find(folders, names)
	if err != nil {
		return nil, fmt.Errorf("data.tasks: %w", err)
	}
	set.Notes = notes
	demonstrations, input, err := readDemonstrations(data.Demonstrations, folder)
	if err != nil {
		return nil, err
	}
	apart := own.apart(tasks)
	add := func(split env.Split, t *task.Task) error {
		row := env.Task{ID: t.Name, Kind: t.Modality, Question: t.Description, Level: slices.Index([]string{"low", "medium", "high"}, t.Complexity) + 1}
		s := source{SHA256: digests(t), Bytes: t.PublicBytes}
		for _, d := range demonstrations {
			if own.trains(t) && !apart[t.Name] && (d.Task == "" || config.Matches(t.Name, []string{d.Task})) {
				s.Demonstrations = append(s.Demonstrations, d)
			}
		}
		text, err := json.Marshal(s)
		set.Add(row, env.Facts{Split: split, Source: string(text), Folder: t.Folder, Opened: t})
		for _, input := range t.Inputs {
			set.AddInputs(env.Input(input))
		}
		return err
	}
	for _, held := range own.sets() {
		for _, t := range tasks {
			if own.has(held, t) {
				if err := add(env.Split(held.Name), t); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, t := range tasks {
		switch {
		case !own.trains(t):
		case apart[t.Name] || apart[t.Input(t.Answers)]:
			set.LeftOut++
			set.LeftOutNames = append(set.LeftOutNames, t.Name)
		default:
			if err := add(env.Train, t); err != nil {
				return nil, err
			}
		}
	}
	set.Inputs = append(set.Inputs, input...)
	return set, nil
}

// fromTasks is the environment of the tasks. The folders of those that are from rows
// must be as they were.
func fromTasks(settings *Settings, tasks *env.TaskSet) (*Env, error) {
	e := &Env{TaskSet: tasks, settings: *settings, style: styleOf(*settings), entries: map[string]*entry{}, tail: tailOfCharacters}
	e.runner = newRunner(&e.settings)
	var unranked, unbounded []string
	for _, of := range tasks.All() {
		facts, err := tasks.Facts(of.ID)
		if err != nil {
			return nil, err
		}
		var s source
		if err := json.Unmarshal([]byte(facts.Source), &s); err != nil {
			return nil, exitcode.Dataf("task %q: its source: %w", of.ID, err)
		}
		if t, opened := facts.Opened.(*task.Task); opened {
			if t.Board.Empty() {
				unranked = append(unranked, of.ID)
			}
			if settings.ranged(t).ScoreRange == nil {
				unbounded = append(unbounded, of.ID)
			}
		}
		folder := cmp.Or(facts.Folder, s.Folder)
		e.entries[of.ID] = &entry{folder, s, sync.OnceValues(func() (*task.Task, error) {
			if t, ok := facts.Opened.(*task.Task); ok {
				return settings.ranged(t), nil
			}
			t, err := reopen(folder, s)
			if err != nil {
				return nil, err
			}
			return settings.ranged(t), nil
		})}
	}
	if _, ranks := settings.humanRank(); ranks && len(unranked) > 0 {
		tasks.Notes = append(tasks.Notes, fmt.Sprintf("env.quality: %s is the place in score_range for %s without a leaderboard: %s", settings.Quality, plural.Count(len(unranked), "task"), strings.Join(unranked, ", ")))
	}
	if _, ranks := settings.humanRank(); !ranks && settings.Reward == "quality" && len(unbounded) > 0 {
		tasks.Notes = append(tasks.Notes, fmt.Sprintf("env.quality: range takes the ends of the leaderboard for %s without a score range (to set one: score_range in task.yaml, or env.ranges): %s", plural.Count(len(unbounded), "task"), strings.Join(unbounded, ", ")))
	}
	// A program takes longer where there is more to learn from.
	tasks.Cost = func(id string) float64 {
		if entry, ok := e.entries[id]; ok {
			return float64(entry.source.Bytes)
		}
		return 0
	}
	tasks.Texts = e.texts
	return e, nil
}

// digests are those of a task's files, by path below the folder, or whole.
func digests(t *task.Task) map[string]string {
	all := map[string]string{}
	for _, input := range t.Inputs {
		name := input.Path
		if below, err := filepath.Rel(t.Folder, input.Path); err == nil && filepath.IsLocal(below) {
			name = below
		}
		all[name] = input.SHA256
	}
	return all
}

// reopen reads a task's folder again.
func reopen(folder string, s source) (*task.Task, error) {
	t, err := task.Open(folder)
	if err != nil {
		return nil, exitcode.WithHint(err, "a run reads the folders of its tasks whenever it prompts or scores: put the folder back")
	}
	again := digests(t)
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

// folder is the folder of a task, read.
func (e *Env) folder(of env.Task) (*task.Task, error) {
	entry, ok := e.entries[of.ID]
	if !ok {
		return nil, exitcode.Bugf("there is no task %q", of.ID)
	}
	return entry.open()
}

// Traits follow from the settings.
func (e *Env) Traits() env.Traits { return e.settings.traits() }
