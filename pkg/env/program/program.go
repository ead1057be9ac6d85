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
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/child/stdio"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name is the name of this environment in recipes and rows.
const Name = "program"

// maxTasks bounds the tasks of a split that a program gives.
const maxTasks = 5_000_000

// Env is the environment. It is safe for concurrent use.
type Env struct {
	settings Settings
	pool     *pool
	splits   map[env.Split][]env.Task
	tasks    map[string]known
	inputs   []env.Input
}

var (
	_ env.Env      = (*Env)(nil)
	_ env.Threaded = (*Env)(nil)
	_ env.Closer   = (*Env)(nil)
	_ env.Logged   = (*Env)(nil)
	_ env.Waiting  = (*Env)(nil)
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

// New reads the tasks of files, or asks the program for them, and sees in any case
// that there is a program which speaks the protocol. One that ends on the way is
// started again, as often as the settings say.
func New(settings Settings, data Data, seed uint64, folder string) (*Env, error) {
	for try := 0; ; try++ {
		e, err := load(settings, data, seed, folder)
		if ended := new(stdio.EndedError); !errors.As(err, &ended) || try >= settings.Program.Retries {
			return e, err
		}
	}
}

func load(settings Settings, data Data, seed uint64, folder string) (*Env, error) {
	e := empty(settings, folder)
	started, about, err := e.pool.start()
	if err != nil {
		return nil, err
	}
	defer started.Close()
	if err := e.fits(about, data); err != nil {
		return nil, err
	}
	if err := e.readCommand(folder); err != nil {
		return nil, err
	}
	for _, part := range data.parts() {
		add := func(row dataset.Row, columns json.RawMessage, response string) error {
			split := part.split
			if part.HoldsOut(asks(row)) {
				split = env.Test
			}
			return e.add(split, row, source{Columns: columns, Response: response, Words: slices.Contains(about.Does, verbPrompt)}, seed)
		}
		if len(part.Files) > 0 {
			err = e.readFiles(part, folder, about.Answer != nil && !*about.Answer, add)
		} else if slices.Contains(about.Does, verbTasks) && data.Train.TestShare == 0 {
			err = e.askTasks(started, part.split, seed, add)
		}
		if err == nil {
			err = part.CheckSplit(len(e.splits[env.Train]), len(e.splits[env.Test]))
		}
		if err != nil {
			return nil, err
		}
		if part.Limit > 0 {
			e.limit(part, seed)
		}
	}
	if err := e.keepApart(data); err != nil {
		return nil, err
	}
	return e, nil
}

// FromRows makes the environment that the rows are of. No program is started before
// it is needed.
func FromRows(settings Settings, folder string, rows []shard.TaskRow) (*Env, error) {
	e := empty(settings, folder)
	for _, row := range rows {
		k := known{task: env.TaskOf(row), split: env.Split(row.Split)}
		if err := json.Unmarshal([]byte(row.Source), &k.source); err != nil {
			return nil, exitcode.Dataf("task %q: its source: %w", row.TaskID, err)
		}
		e.splits[k.split] = append(e.splits[k.split], k.task)
		e.tasks[k.task.ID] = k
	}
	return e, nil
}

func empty(settings Settings, folder string) *Env {
	return &Env{settings: settings, pool: newPool(newLauncher(settings.Program, folder)), splits: map[env.Split][]env.Task{}, tasks: map[string]known{}}
}

// fits checks that the program does what the recipe leaves to it.
func (e *Env) fits(about *description, data Data) error {
	does := func(what string) bool { return slices.Contains(about.Does, what) }
	hint := func(err error) error { return exitcode.WithHint(err, "the program offers %q", about.Does) }
	switch {
	case !does(verbScore):
		return hint(exitcode.Dataf("env.program.command: the program %q does not score (score)", about.Name))
	case e.settings.Program.MaxTurns > 1 && !does(verbNext):
		return hint(exitcode.Usagef("env.program.max_turns is %d: the program %q answers no messages (begin, next)", e.settings.Program.MaxTurns, about.Name))
	case len(data.Train.Files) == 0 && !does(verbTasks):
		return hint(exitcode.Usagef("data.train.files is empty, and the program %q has no tasks: name files of tasks", about.Name))
	}
	return nil
}

// readCommand keeps the digests of the files that the command names.
func (e *Env) readCommand(folder string) error {
	for _, word := range e.settings.Program.Command {
		word, _, _ = strings.Cut(word, ":") // a function in a file
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, _, err := plainfile.Open(path)
		if err != nil {
			return fmt.Errorf("env.program.command: %w", err)
		}
		digest := sha256.New()
		_, err = io.Copy(digest, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("env.program.command: reading %q: %w", path, err)
		}
		e.inputs = append(e.inputs, env.Input{Path: path, SHA256: hex.EncodeToString(digest.Sum(nil))})
	}
	return nil
}

// asks is what a row asks: its question, and all of the messages that ask it.
func asks(row dataset.Row) string {
	text, _ := plainjson.Line([]any{row.Task.Question, row.Messages}) // texts always can be
	return string(text)
}

func (e *Env) readFiles(part part, folder string, withoutAnswer bool, add func(dataset.Row, json.RawMessage, string) error) error {
	paths, err := part.Resolve(folder)
	if err != nil {
		return fmt.Errorf("%s.files: %w", part.where, err)
	}
	set, err := dataset.Together(paths, part.where)
	if err != nil {
		return err
	}
	set.AnswerOptional = withoutAnswer
	for _, path := range paths {
		rows, inputs, err := set.ReadRows(path, part.Source.Source)
		if err != nil {
			return err
		}
		for _, input := range inputs {
			if !slices.Contains(e.inputs, input) {
				e.inputs = append(e.inputs, input)
			}
		}
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
			if err := add(row, columns, response); err != nil {
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
func (e *Env) askTasks(p *stdio.Process, split env.Split, seed uint64, add func(dataset.Row, json.RawMessage, string) error) error {
	name, patience := e.settings.Program.Command[0], seconds(max(e.settings.Program.Seconds, e.settings.Program.StartSeconds))
	// Both splits have the same seed: a program can draw all tasks and part them.
	asked := map[string]any{"split": split, "seed": small(rng.New(seed, rng.PurposeData, 0, "tasks", 0).Block(0))}
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
		if err := add(row, a.Task, response); err != nil {
			return err
		}
		if err := p.Extend(patience); err != nil {
			return err
		}
	}
}

// add files a task.
func (e *Env) add(split env.Split, row dataset.Row, s source, seed uint64) error {
	task := row.Task
	if earlier, ok := e.tasks[task.ID]; ok {
		return exitcode.Dataf("two tasks have the id %q (%q and %q): an id starts with its file's name or its split, so rename one of the files, or list it once",
			task.ID, stdio.Clip(earlier.task.Question, 80), stdio.Clip(task.Question, 80))
	}
	if len(row.Messages) > 0 {
		s.Messages = toMessages(row.Messages)
	}
	s.Answer = row.Answer
	var compact bytes.Buffer // as it comes back from a row
	if err := json.Compact(&compact, s.Columns); err != nil {
		return exitcode.Bugf("encoding task %q: %w", task.ID, err)
	}
	s.Columns = compact.Bytes()
	s.Seed = small(rng.New(seed, rng.PurposeData, 0, "program/"+task.ID, 0).Block(0))
	e.splits[split] = append(e.splits[split], task)
	e.tasks[task.ID] = known{task, split, s}
	return nil
}

// small is a number that every language reads from JSON.
func small(words [4]uint32) uint64 { return uint64(words[0])<<21 | uint64(words[1])>>11 }

// limit keeps some tasks of a split.
func (e *Env) limit(part part, seed uint64) {
	kept, left := env.Draw(e.splits[part.split], part.Limit, rng.New(seed, rng.PurposeData, 0, "limit/"+string(part.split), 0))
	e.splits[part.split] = kept
	for _, task := range left {
		delete(e.tasks, task.ID)
	}
}

// keepApart refuses a held-out task that asks what a task to train on does, or leaves
// it out. What differs in an answer or another column asks something else.
func (e *Env) keepApart(data Data) error {
	asks := func(task env.Task) string {
		s := e.tasks[task.ID].source
		text, _ := plainjson.Line([]any{task.Question, s.Messages, task.Answer, s.Answer}) // texts always can be
		return string(text)
	}
	trained := map[string]string{}
	for _, task := range e.splits[env.Train] {
		trained[asks(task)] = task.ID
	}
	shared, first := 0, ""
	e.splits[env.Test] = slices.DeleteFunc(e.splits[env.Test], func(task env.Task) bool {
		id, repeated := trained[asks(task)]
		if !repeated {
			return false
		}
		if data.Test.SkipRepeated {
			delete(e.tasks, task.ID)
			return true
		}
		if shared++; shared == 1 {
			first = fmt.Sprintf("%q is %q", task.ID, id)
		}
		return false
	})
	if shared > 0 {
		return exitcode.Dataf("data.test shares %d tasks with data.train (%s): remove them from one of the two, or set data.test.skip_repeated", shared, first)
	}
	return nil
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

// Name returns "program".
func (e *Env) Name() string { return Name }

// Traits follow from the settings.
func (e *Env) Traits() env.Traits { return e.settings.Program.traits() }

// UseThreads bounds the programs by the cores of the task.
func (e *Env) UseThreads(n int) { e.pool.useThreads(n) }

// Inputs lists the files of the command and of the tasks.
func (e *Env) Inputs() []env.Input { return e.inputs }

// LeftOut counts none: what is held out and trained on is refused.
func (e *Env) LeftOut() (int, []string) { return 0, nil }

// Tasks lists the tasks of a split in the order of the files, or of the program.
func (e *Env) Tasks(split env.Split) []env.Task { return e.splits[split] }

// Task finds a task by its id.
func (e *Env) Task(id string) (env.Task, bool) {
	k, ok := e.tasks[id]
	return k.task, ok
}

// Rows lists the tasks of both splits.
func (e *Env) Rows() ([]shard.TaskRow, error) {
	var rows []shard.TaskRow
	for _, split := range []env.Split{env.Train, env.Test} {
		for _, task := range e.splits[split] {
			text, err := plainjson.Line(e.tasks[task.ID].source)
			if err != nil {
				return nil, exitcode.Bugf("writing task %q: %w", task.ID, err)
			}
			rows = append(rows, task.Row(Name, split, string(text)))
		}
	}
	return rows, nil
}

// Close ends the programs with all that they have started, and waits until they are
// gone.
func (e *Env) Close() { e.pool.close() }

// LogTo logs what programs write to their standard error.
func (e *Env) LogTo(log func(format string, args ...any)) {
	name := filepath.Base(e.settings.Program.Command[len(e.settings.Program.Command)-1])
	e.pool.launcher.said.To(func(line string) { log("%s: %s", name, line) })
}

// Waiting lists the requests that programs have not answered.
func (e *Env) Waiting() []env.Wait { return e.pool.waits.Open() }

// ask asks the program for one thing, outside of any episode.
func (e *Env) ask(ctx context.Context, verb string, item any) (json.RawMessage, error) {
	return e.pool.ask(ctx, verb, item)
}
