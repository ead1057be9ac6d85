// Package math is the environment of short-answer mathematics: problems read
// from JSONL or generated, prompts from the recipe's templates, and verified
// answers: those of ExIt (Jiang, Lupu, Bachrach, "Bootstrapping Task Spaces for
// Self-Improvement"), section 5 and appendix A.2, and for refinement turns of
// "FlipTS: Failure-to-Success Mathematical Self-Refinement via Trajectory-Aware
// Sampling in End-to-End Online RL", section 3.1.
package math

import (
	"fmt"
	"slices"

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
	splits   map[env.Split][]env.Task
	byID     map[string]env.Task
	inputs   []env.Input
	leftOut  int
	others   []namedVerifier

	skipRepeated bool // leave out test problems that training asks
}

var _ env.Env = (*Env)(nil)

// New loads or generates both splits. Relative file names start at folder,
// the recipe's. The seed decides which problems are generated and which ones
// a limit keeps.
func New(settings Settings, data Data, seed uint64, folder string) (*Env, error) {
	e, err := empty(settings)
	if err != nil {
		return nil, err
	}
	if train, test := data.Train.Generate, data.Test.Generate; train != nil && test != nil && train.TestShare != test.TestShare {
		return nil, exitcode.Usagef("data.train.generate.test_share is %v and data.test.generate.test_share is %v: they must be equal, or the splits overlap", train.TestShare, test.TestShare)
	}
	e.skipRepeated = data.Test.SkipRepeated
	// Files come first: what they ask is never generated.
	asked := map[string]bool{}
	for _, part := range []struct {
		split  env.Split
		source Source
	}{{env.Train, data.Train}, {env.Test, data.Test}} {
		if err := e.read(part.split, part.source, folder); err != nil {
			return nil, err
		}
		for _, task := range e.splits[part.split] {
			asked[task.Question] = true
		}
	}
	for _, part := range []struct {
		split  env.Split
		source Source
	}{{env.Train, data.Train}, {env.Test, data.Test}} {
		if err := e.generate(part.split, part.source, seed, asked); err != nil {
			return nil, err
		}
		if err := e.finish(part.split, part.source, seed); err != nil {
			return nil, err
		}
	}
	return e, e.checkDisjoint()
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
		e.splits[split] = append(e.splits[split], task)
		e.byID[task.ID] = task
	}
	return e, nil
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
	return &Env{others: others, settings: settings, grader: grader, splits: map[env.Split][]env.Task{}, byID: map[string]env.Task{}}, nil
}

// read adds the problems of a split's files.
func (e *Env) read(split env.Split, source Source, folder string) error {
	where := "data." + string(split)
	paths, err := source.Resolve(folder)
	if err != nil {
		return fmt.Errorf("%s.files: %w", where, err)
	}
	for _, path := range paths {
		read, input, err := dataset.Read(path, where, source.Source)
		if err != nil {
			return err
		}
		e.inputs = append(e.inputs, input)
		e.splits[split] = append(e.splits[split], read...)
	}
	return nil
}

// generate adds the generated problems of a split, but those that a file of
// either split asks.
func (e *Env) generate(split env.Split, source Source, seed uint64, asked map[string]bool) error {
	if source.Generate == nil {
		return nil
	}
	generated, err := generate.Tasks(*source.Generate, split, seed)
	if err != nil {
		return err
	}
	count := len(generated)
	generated = slices.DeleteFunc(generated, func(task env.Task) bool { return asked[task.Question] })
	e.leftOut += count - len(generated)
	e.splits[split] = append(e.splits[split], generated...)
	return nil
}

// finish applies the limit of a split and files its problems under their ids.
// A test split may be left out.
func (e *Env) finish(split env.Split, source Source, seed uint64) error {
	where := "data." + string(split)
	if split == env.Train && source.Generate == nil && len(source.Files) == 0 {
		return exitcode.Usagef("%s names no problems: give generate or files, or both", where)
	}
	if source.Limit < 0 {
		return exitcode.Usagef("%s.limit is %d: it must be 0 (all) or more", where, source.Limit)
	}
	tasks := e.splits[split]
	if source.Limit > 0 {
		tasks = choose(tasks, source.Limit, rng.New(seed, rng.PurposeData, 0, "limit/"+string(split), 0))
	}
	for _, task := range tasks {
		if earlier, ok := e.byID[task.ID]; ok {
			return exitcode.Dataf("%s: two problems have the id %q (%q and %q): an id starts with its file's name, so rename one of the files, or list it once", where, task.ID, mathverify.Clip(earlier.Question), mathverify.Clip(task.Question))
		}
		e.byID[task.ID] = task
	}
	e.splits[split] = tasks
	return nil
}

// choose keeps limit of the tasks, any of them with equal probability, in
// their order.
func choose(tasks []env.Task, limit int, stream rng.Stream) []env.Task {
	if limit >= len(tasks) {
		return tasks
	}
	keep := stream.Permutation(0, len(tasks))[:limit]
	slices.Sort(keep)
	kept := make([]env.Task, limit)
	for i, at := range keep {
		kept[i] = tasks[at]
	}
	return kept
}

// checkDisjoint refuses a question that is in both splits: what is held out
// must not be trained on.
func (e *Env) checkDisjoint() error {
	trained := make(map[string]string, len(e.splits[env.Train]))
	for _, task := range e.splits[env.Train] {
		trained[task.Question] = task.ID
	}
	if e.skipRepeated {
		e.splits[env.Test] = slices.DeleteFunc(e.splits[env.Test], func(task env.Task) bool {
			_, repeated := trained[task.Question]
			if repeated {
				delete(e.byID, task.ID)
			}
			return repeated
		})
	}
	shared, first := 0, ""
	for _, task := range e.splits[env.Test] {
		if id, ok := trained[task.Question]; ok {
			if shared++; shared == 1 {
				first = fmt.Sprintf("%q is %q", task.ID, id)
			}
		}
	}
	if shared > 0 {
		return exitcode.Dataf("data.test shares %d questions with data.train (%s): remove them from one of the two, or set data.test.skip_repeated", shared, first)
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

// Rows lists the problems of both splits.
func (e *Env) Rows() ([]shard.TaskRow, error) {
	var rows []shard.TaskRow
	for _, split := range []env.Split{env.Train, env.Test} {
		for _, task := range e.splits[split] {
			rows = append(rows, task.Row(Name, split, ""))
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
func (e *Env) LeftOut() int { return e.leftOut }

// Inputs lists the data files that were read, with their digests.
func (e *Env) Inputs() []env.Input { return e.inputs }
