// Package math is the environment of short-answer mathematics: problems read
// from JSONL or generated, prompts from the recipe's templates, and verified
// answers: those of ExIt §5 and App. A.2, and for refinement turns of FlipTS §3.1.
package math

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/env/math/generate"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mathverify"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name is the name of this environment in recipes and rows.
const Name = "math"

// Env is the environment, ready to prompt and score. It is read-only once
// made, and safe for concurrent use.
type Env struct {
	settings Settings
	grader   answer.Grader
	order    []env.Split // of the splits that there are
	splits   map[env.Split][]env.Task
	setOf    map[string]string // by task; of the sets of data.held_out alone
	previous map[string]string // by task; of those of data.offline alone: the response to refine
	byID     map[string]env.Task
	inputs   []env.Input
	leftOut  int
	others   []namedVerifier
}

var _ env.Env = (*Env)(nil)

// New loads or generates all splits. Relative file names start at folder,
// the recipe's. The seed decides which problems are generated and which ones
// a limit keeps.
func New(settings Settings, data Data, seed uint64, folder string) (*Env, error) {
	e, err := empty(settings)
	if err != nil {
		return nil, err
	}
	parts := data.parts()
	// Files come first: what they ask is never generated.
	asked := map[string]bool{}
	for _, p := range parts {
		if train, own := data.Train.Generate, p.Generate; train != nil && own != nil && train.TestShare != own.TestShare {
			return nil, exitcode.Usagef("data.train.generate.test_share is %v and %s.generate.test_share is %v: they must be equal, or the splits overlap", train.TestShare, p.where, own.TestShare)
		}
		if err := e.read(p, folder); err != nil {
			return nil, err
		}
		for _, task := range e.splits[p.split] {
			asked[task.Question] = true
		}
	}
	for _, p := range parts {
		if err := e.generate(p, seed, asked); err != nil {
			return nil, err
		}
		if err := e.finish(p, seed); err != nil {
			return nil, err
		}
	}
	for _, p := range parts[1:] {
		if err := e.keepApart(p); err != nil {
			return nil, err
		}
	}
	if data.Offline == "" {
		return e, nil
	}
	offline, err := config.ResolvePath(data.Offline, folder)
	if err != nil {
		return nil, fmt.Errorf("data.offline: %w", err)
	}
	return e, e.withOffline(offline)
}

// FromRows makes the environment that the rows are of.
func FromRows(settings Settings, rows []shard.TaskRow) (*Env, error) {
	e, err := empty(settings)
	if err != nil {
		return nil, err
	}
	e.byID = make(map[string]env.Task, len(rows))
	for _, row := range rows {
		task, split := env.TaskOf(row), env.Split(row.Split)
		e.add(split, task)
		if row.Source != "" {
			e.previous[task.ID] = row.Source
		}
	}
	return e, nil
}

// add files a problem under its split.
func (e *Env) add(split env.Split, task env.Task) {
	if len(e.splits[split]) == 0 {
		e.order = append(e.order, split)
	}
	e.splits[split] = append(e.splits[split], task)
	e.byID[task.ID] = task
	if split != env.Train && split != env.Test {
		e.setOf[task.ID] = string(split)
	}
}

// empty is an environment without problems.
func empty(settings Settings) (*Env, error) {
	grader, err := answer.NewGrader(settings.Answer)
	if err != nil {
		return nil, err
	}
	if err := checkPrompts(settings); err != nil {
		return nil, err
	}
	others, err := otherVerifiers(settings.Answer)
	if err != nil {
		return nil, err
	}
	return &Env{others: others, settings: settings, grader: grader, splits: map[env.Split][]env.Task{}, byID: map[string]env.Task{}, setOf: map[string]string{}, previous: map[string]string{}}, nil
}

// read adds the problems of a split's files.
func (e *Env) read(p part, folder string) error {
	paths, err := p.Resolve(folder)
	if err != nil {
		return fmt.Errorf("%s.files: %w", p.where, err)
	}
	set, err := dataset.Together(paths, p.where)
	if err != nil {
		return err
	}
	for _, path := range paths {
		read, inputs, err := set.Read(path, p.Source.Source)
		if err != nil {
			return err
		}
		for _, input := range inputs {
			if !slices.Contains(e.inputs, input) { // a file may be in several sets
				e.inputs = append(e.inputs, input)
			}
		}
		for _, task := range read {
			split := p.split
			if p.HoldsOut(task.Question) {
				split = env.Test
			}
			e.splits[split] = append(e.splits[split], task)
		}
	}
	return p.CheckSplit(len(e.splits[env.Train]), len(e.splits[env.Test]))
}

// generate adds the generated problems of a split, but those that a file of
// any split asks.
func (e *Env) generate(p part, seed uint64, asked map[string]bool) error {
	if p.Generate == nil {
		return nil
	}
	generated, err := generate.Tasks(*p.Generate, p.generating(), seed)
	if err != nil {
		return err
	}
	count := len(generated)
	generated = slices.DeleteFunc(generated, func(task env.Task) bool { return asked[task.Question] })
	e.leftOut += count - len(generated)
	e.splits[p.split] = append(e.splits[p.split], generated...)
	return nil
}

// finish applies the limit of a split and files its problems under their ids.
// A test split may be left out.
func (e *Env) finish(p part, seed uint64) error {
	if p.split == env.Train && p.Generate == nil && len(p.Files) == 0 {
		return exitcode.Usagef("%s names no problems: give generate or files, or both", p.where)
	}
	if p.Limit < 0 {
		return exitcode.Usagef("%s.limit is %d: it must be 0 (all) or more", p.where, p.Limit)
	}
	tasks := e.splits[p.split]
	delete(e.splits, p.split)
	if p.Limit > 0 {
		tasks, _ = env.Draw(tasks, p.Limit, rng.New(seed, rng.PurposeData, 0, "limit/"+string(p.split), 0))
	}
	for _, task := range tasks {
		if p.split != env.Train && p.split != env.Test {
			task.ID = string(p.split) + "/" + task.ID
		}
		if earlier, ok := e.byID[task.ID]; ok {
			return exitcode.Dataf("%s: two problems have the id %q (%q and %q): an id starts with its file's name, so rename one of the files, or list it once", p.where, task.ID, mathverify.Clip(earlier.Question), mathverify.Clip(task.Question))
		}
		e.add(p.split, task)
	}
	return nil
}

// keepApart refuses a question that training has too, or leaves it out: what is
// held out must not be trained on.
func (e *Env) keepApart(p part) error {
	trained := make(map[string]string, len(e.splits[env.Train]))
	for _, task := range e.splits[env.Train] {
		trained[task.Question] = task.ID
	}
	shared, first := 0, ""
	e.splits[p.split] = slices.DeleteFunc(e.splits[p.split], func(task env.Task) bool {
		id, repeated := trained[task.Question]
		if !repeated {
			return false
		}
		if p.SkipRepeated {
			delete(e.byID, task.ID)
			return true
		}
		if shared++; shared == 1 {
			first = fmt.Sprintf("%q is %q", task.ID, id)
		}
		return false
	})
	if shared > 0 {
		return exitcode.Dataf("%s shares %d questions with data.train (%s): remove them from one of the two, or set %s.skip_repeated", p.where, shared, first, p.where)
	}
	return nil
}

// Name returns "math".
func (e *Env) Name() string { return Name }

// Traits follow from the settings.
func (e *Env) Traits() env.Traits { return e.settings.traits() }

// Tasks lists the problems of a split: of files in their order, then generated
// ones with kinds and levels in turn. The caller must not change the slice.
func (e *Env) Tasks(split env.Split) []env.Task { return e.splits[split] }

// Rows lists the problems of all splits.
func (e *Env) Rows() ([]shard.TaskRow, error) {
	var rows []shard.TaskRow
	for _, split := range e.order {
		for _, task := range e.splits[split] {
			rows = append(rows, task.Row(Name, split, e.previous[task.ID]))
		}
	}
	return rows, nil
}

// Task finds a problem of any split by its id.
func (e *Env) Task(id string) (env.Task, bool) {
	task, ok := e.byID[id]
	return task, ok
}

// LeftOut counts the problems that were generated and left out because a file
// of either split asks the same: what is held out must not be trained on.
func (e *Env) LeftOut() (int, []string) { return e.leftOut, nil }

// Inputs lists the data files that were read, with their digests.
func (e *Env) Inputs() []env.Input { return e.inputs }
