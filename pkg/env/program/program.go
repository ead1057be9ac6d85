// Package program is the environment of whoever brings a reward, data or an
// environment of their own: a program in any language that answers JSON lines. It
// may have the tasks, word the prompts, answer the policy's messages and score
// them; what of it the program does not do, files and templates do.
//
// Nothing later than a request depends on the program again: tasks, prompts, answers
// and scores are sealed. A program that crashes, hangs or says what it must not is
// our failure (outcome infra), named with its last words, and never a reward.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// Name is the name of this environment in recipes and rows.
const Name = "program"

// maxTasks bounds the tasks of a split that a program gives.
const maxTasks = 5_000_000

// Env is the environment. It is safe for concurrent use.
type Env struct {
	*env.TaskSet
	settings Settings
	pool     *pool
	tasks    map[string]known // by id
}

var (
	_ env.Env      = (*Env)(nil)
	_ env.Programs = (*Env)(nil)
)

// known is what there is to a task beside its columns in a table.
type known struct {
	task   env.Task
	split  env.Split
	source source
}

// source is what a row of tasks.parquet keeps of a task beside its columns.
type source struct {
	Seed     uint64          `json:"seed"`               // of the task, 53 bits: every language reads it
	Messages []message       `json:"messages,omitempty"` // that ask, where the question is no text
	Answer   json.RawMessage `json:"answer,omitempty"`   // where it is no text
	Columns  json.RawMessage `json:"columns,omitempty"`  // all of the line, as it was
	Words    bool            `json:"words,omitempty"`    // the program words the prompts
	Response string          `json:"response,omitempty"` // to learn from in a warm start
}

// taskView is a task as a program is shown it.
type taskView struct {
	ID       string          `json:"id"`
	Split    env.Split       `json:"split"`
	Kind     string          `json:"kind"`
	Level    int             `json:"level"`
	Question string          `json:"question"`
	Answer   any             `json:"answer"`
	Seed     uint64          `json:"seed"`
	Chat     bool            `json:"chat"` // the question is a list of messages
	Columns  json.RawMessage `json:"columns,omitempty"`
}

// loader reads the tasks of files, or asks the program for them.
type loader struct {
	*env.TaskSet
	settings *Settings
	data     *Data
	seed     uint64
	folder   string
	about    *description
}

// load loads the tasks, and sees in any case that there is a program which speaks the
// protocol. One that ends on the way is started again, as often as the settings say.
func load(settings *Settings, data *Data, seed uint64, folder string) (*env.TaskSet, error) {
	for try := 0; ; try++ {
		l := loader{TaskSet: env.NewTaskSet(Name), settings: settings, data: data, seed: seed, folder: folder}
		err := l.load()
		if ended := new(stdio.EndedError); !errors.As(err, &ended) || try >= settings.Program.Retries {
			return l.TaskSet, err
		}
	}
}

func (l *loader) load() error {
	started, about, err := newPool(newLauncher(l.settings.Program, l.folder)).start()
	if err != nil {
		return err
	}
	defer started.Close()
	l.about = about
	if err := l.fits(); err != nil {
		return err
	}
	if err := l.readCommand(); err != nil {
		return err
	}
	for _, part := range l.data.parts() {
		if len(part.Files) > 0 {
			err = l.readFiles(part)
		} else if slices.Contains(about.Does, verbTasks) && l.data.Train.TestShare == 0 {
			err = l.askTasks(started, part)
		}
		if err == nil {
			err = part.CheckSplit(len(l.Tasks(env.Train)), len(l.Tasks(env.Test)))
		}
		if err == nil && part.SkipRepeated { // before the limit, which would else leave fewer
			err = l.keepApart()
		}
		if err != nil {
			return err
		}
		if part.Limit == 0 {
			continue
		}
		kept := map[string]bool{}
		for _, t := range env.Limit(l.Tasks(part.split), part.Limit, l.seed, part.split) {
			kept[t.ID] = true
		}
		l.Remove(part.split, func(t env.Task) bool { return !kept[t.ID] })
	}
	return l.keepApart()
}

// keepApart keeps what is held out apart from what is trained on. What differs in an
// answer or another column asks something else.
func (l *loader) keepApart() error {
	return l.KeepApart(env.Test, "data.test", "task", l.data.Test.SkipRepeated, func(task env.Task) string {
		k, _ := read(l.TaskSet, task)                                                                    // as it was written
		text, _ := plainjson.Line([]any{task.Question, k.source.Messages, task.Answer, k.source.Answer}) // texts always can be
		return string(text)
	})
}

// fromTasks is the environment of the tasks. No program is started before it is needed.
func fromTasks(settings *Settings, tasks *env.TaskSet, folder string) (*Env, error) {
	e := &Env{tasks, *settings, newPool(newLauncher(settings.Program, folder)), map[string]known{}}
	for _, of := range slices.Concat(tasks.Tasks(env.Train), tasks.Tasks(env.Test)) {
		k, err := read(tasks, of)
		if err != nil {
			return nil, err
		}
		e.tasks[of.ID] = k
	}
	return e, nil
}

// fits checks that the program does what the recipe leaves to it.
func (l *loader) fits() error {
	does := func(what string) bool { return slices.Contains(l.about.Does, what) }
	hint := func(err error) error { return exitcode.WithHint(err, "the program offers %q", l.about.Does) }
	switch turns := l.settings.Program.MaxTurns; {
	case !does(verbScore):
		return hint(exitcode.Dataf("env.program.command: the program %q does not score (score)", l.about.Name))
	case turns > 1 && !does(verbNext):
		return hint(exitcode.Usagef("env.program.max_turns is %d: the program %q answers no messages (begin, next)", turns, l.about.Name))
	case len(l.data.Train.Files) == 0 && !does(verbTasks):
		return hint(exitcode.Usagef("data.train.files is empty, and the program %q has no tasks: name files of tasks", l.about.Name))
	}
	return nil
}

// readCommand keeps the digests of the files that the command names.
func (l *loader) readCommand() error {
	for _, word := range l.settings.Program.Command {
		path, _, _ := strings.Cut(word, ":") // a function in a file
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.folder, path)
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		input, err := env.ReadInput(path)
		if err != nil {
			return fmt.Errorf("env.program.command: %w", err)
		}
		l.Inputs = append(l.Inputs, input)
	}
	return nil
}

// asks is what a row asks: its question, and all of the messages that ask it.
func asks(row dataset.Row) string {
	text, _ := plainjson.Line([]any{row.Task.Question, row.Messages}) // texts always can be
	return string(text)
}

func (l *loader) readFiles(part part) error {
	paths, set, err := part.Open(l.folder, part.where)
	if err != nil {
		return err
	}
	set.AnswerOptional = l.about.Answer != nil && !*l.about.Answer
	for _, path := range paths {
		rows, inputs, err := set.ReadRows(path, part.Source.Source)
		if err != nil {
			return err
		}
		l.AddInputs(inputs...)
		responses := 0
		for _, row := range rows {
			response := ""
			if raw, ok := dataset.Lookup(row.Columns, part.Response); ok && part.Response != "" {
				if response, ok = responseText(raw); !ok {
					return exitcode.Dataf("%s: task %q: field %q must be a text or a number (%s.response)", path, row.Task.ID, part.Response, part.where)
				}
				responses++
			}
			columns, err := plainjson.Line(row.Columns)
			if err != nil {
				return exitcode.Bugf("encoding task %q: %w", row.Task.ID, err)
			}
			if err := l.add(part, row, columns, response); err != nil {
				return err
			}
		}
		if part.Response != "" && len(rows) > 0 && responses == 0 {
			return exitcode.Dataf("%s: no line has a field %q; the first has %s: set %s.response", path, part.Response, strings.Join(slices.Sorted(maps.Keys(rows[0].Columns)), ", "), part.where)
		}
	}
	return nil
}

// responseText is a response to learn from, which may be a number, as an answer may be.
func responseText(raw json.RawMessage) (text string, ok bool) {
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	var number json.Number
	err := json.Unmarshal(raw, &number)
	return number.String(), err == nil
}

// taskSource maps the fields of a task that a program gives.
func taskSource() dataset.Source {
	return dataset.Source{Fields: dataset.Fields{ID: "id", Question: "prompt", Answer: "answer", AnswerFrom: "text", Kind: "kind", Level: "level"}}
}

// askTasks asks the program for the tasks of a split, which come a line each.
func (l *loader) askTasks(p *stdio.Process, part part) error {
	split, settings := part.split, l.settings.Program
	name, patience := settings.Command[0], seconds(max(settings.Seconds, settings.StartSeconds))
	// Both splits have the same seed: a program can draw all tasks and part them.
	asked := map[string]any{"split": split, "seed": small(rng.New(l.seed, rng.PurposeData, 0, "tasks", 0).Block(0))}
	if err := p.Send(stdio.Request{verbTasks: asked}, patience); err != nil {
		return exitcode.Unavailablef("%w", err)
	}
	reader := dataset.NewRowReader(string(split), "env.program", taskSource())
	for n := 1; ; n++ {
		a, err := p.Receive(patience)
		switch {
		case err != nil:
			return exitcode.Unavailablef("asking for the tasks of split %q: %w", split, err)
		case a.Error != nil:
			return exitcode.Dataf("the program %q has no tasks of split %q: %s", name, split, stdio.Clip(*a.Error, maxSaidBytes))
		case a.Result != nil:
			return nil
		case n > maxTasks:
			return exitcode.Dataf("the program %q gives more than %d tasks of split %q", name, maxTasks, split)
		}
		row, fault := reader.Row(n, a.Task)
		if fault != "" {
			return exitcode.Dataf("the program %q, task %d of split %q: %s", name, n, split, fault)
		}
		var also struct {
			Response json.RawMessage `json:"response"`
		}
		response, ok := "", json.Unmarshal(a.Task, &also) == nil
		if ok && also.Response != nil {
			response, ok = responseText(also.Response)
		}
		if !ok {
			return exitcode.Dataf("the program %q, task %d of split %q: a response must be a text or a number", name, n, split)
		}
		if err := l.add(part, row, a.Task, response); err != nil {
			return err
		}
		if err := p.Extend(patience); err != nil {
			return err
		}
	}
}

// add adds a task to the split of a part, or to those that it holds out.
func (l *loader) add(part part, row dataset.Row, columns json.RawMessage, response string) error {
	task := row.Task
	if earlier, ok := l.Task(task.ID); ok {
		return exitcode.Dataf("two tasks have the id %q (%q and %q): an id starts with its file's name or its split, so rename one of the files, or list it once",
			task.ID, stdio.Clip(earlier.Question, 80), stdio.Clip(task.Question, 80))
	}
	split := part.split
	if part.HoldsOut(asks(row)) {
		split = env.Test
	}
	s := source{
		Seed:   small(rng.New(l.seed, rng.PurposeData, 0, "program/"+task.ID, 0).Block(0)),
		Answer: row.Answer, Columns: columns, Response: response, Words: slices.Contains(l.about.Does, verbPrompt),
	}
	if len(row.Messages) > 0 {
		s.Messages = toMessages(row.Messages)
	}
	text, err := plainjson.Line(s)
	if err != nil {
		return exitcode.Bugf("writing task %q: %w", task.ID, err)
	}
	l.Add(task, env.Facts{Split: split, Source: string(text)})
	return nil
}

// small is a number that every language reads from JSON.
func small(words [4]uint32) uint64 { return uint64(words[0])<<21 | uint64(words[1])>>11 }

// read is a task with its source.
func read(tasks *env.TaskSet, of env.Task) (k known, err error) {
	facts, err := tasks.Facts(of.ID)
	if err != nil {
		return k, err
	}
	k.task, k.split = of, facts.Split
	if err := json.Unmarshal([]byte(facts.Source), &k.source); err != nil {
		return k, exitcode.Dataf("task %q: its source: %w", of.ID, err)
	}
	return k, nil
}

// known finds a task with its source.
func (e *Env) known(of env.Task) (known, error) {
	k, ok := e.tasks[of.ID]
	if !ok {
		return k, exitcode.Bugf("there is no task %q", of.ID)
	}
	return k, nil
}

// view is a task as the program is shown it.
func (e *Env) view(of env.Task) (taskView, error) {
	k, err := e.known(of)
	if err != nil {
		return taskView{}, err
	}
	v := taskView{ID: of.ID, Split: k.split, Kind: of.Kind, Level: of.Level, Question: of.Question, Answer: of.Answer, Seed: k.source.Seed, Chat: len(k.source.Messages) > 0, Columns: k.source.Columns}
	if k.source.Answer != nil {
		v.Answer = k.source.Answer
	}
	return v, nil
}

// Traits follow from the settings.
func (e *Env) Traits() env.Traits { return e.settings.Program.traits() }

// Start bounds the programs by the cores of the task, and logs what they write to their
// standard error.
func (e *Env) Start(threads int, log func(format string, args ...any)) {
	e.pool.useThreads(threads)
	name := filepath.Base(e.settings.Program.Command[len(e.settings.Program.Command)-1])
	e.pool.launcher.said.To(func(line string) { log("%s: %s", name, line) })
}

// Close ends the programs with all that they have started, and waits until they are
// gone.
func (e *Env) Close() { e.pool.close() }

// Waiting lists the requests that programs have not answered.
func (e *Env) Waiting() []env.Wait { return e.pool.waits.Open() }

// ask asks the program for one thing, outside of any episode.
func (e *Env) ask(ctx context.Context, verb string, item any) (json.RawMessage, error) {
	return e.pool.ask(ctx, verb, item)
}
