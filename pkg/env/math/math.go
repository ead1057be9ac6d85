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
	"github.com/lathe-rl/lathe/pkg/env/math/generate"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// Name is the name of this environment in recipes and rows.
const Name = "math"

// Env is the environment, ready to prompt and score. It is read-only once
// made, and safe for concurrent use.
type Env struct {
	*env.TaskSet
	settings Settings
	grader   answer.Grader
	others   []namedVerifier
}

var _ env.Env = (*Env)(nil)

// loader reads and generates problems.
type loader struct {
	*env.TaskSet
	splits map[env.Split][]env.Task // before limits
	asked  map[string]bool          // questions of files
}

// load reads or generates all splits. Relative file names start at folder, the
// recipe's. The seed, which is the run's where the data have none of their own (reading
// exit-subset), decides which problems are generated and which ones a limit keeps.
func load(data *Data, seed uint64, folder string) (*env.TaskSet, error) {
	if data.Seed != nil {
		seed = *data.Seed
	}
	l := loader{env.NewTaskSet(Name), map[env.Split][]env.Task{}, map[string]bool{}}
	parts := data.parts()
	// Files come first: what they ask is never generated.
	for _, p := range parts {
		if train, own := data.Train.Generate, p.Generate; train != nil && own != nil && train.TestShare != own.TestShare {
			return nil, exitcode.Usagef("data.train.generate.test_share is %v and %s.generate.test_share is %v: they must be equal, or the splits overlap", train.TestShare, p.where, own.TestShare)
		}
		if err := l.read(p, folder); err != nil {
			return nil, err
		}
		for _, task := range l.splits[p.split] {
			l.asked[task.Question] = true
		}
	}
	for _, p := range parts {
		if err := l.generate(p, seed); err != nil {
			return nil, err
		}
		if err := l.finish(p, seed); err != nil {
			return nil, err
		}
	}
	for _, p := range parts[1:] {
		if err := l.KeepApart(p.split, p.where, "question", p.SkipRepeated, func(t env.Task) string { return t.Question }); err != nil {
			return nil, err
		}
	}
	if data.Offline == "" {
		return l.TaskSet, nil
	}
	offline, err := config.ResolvePath(data.Offline, folder)
	if err != nil {
		return nil, fmt.Errorf("data.offline: %w", err)
	}
	return l.TaskSet, withOffline(l.TaskSet, offline)
}

// fromTasks is the environment of the problems.
func fromTasks(settings *Settings, tasks *env.TaskSet) (*Env, error) {
	grader, err := answer.NewGrader(settings.Answer)
	if err != nil {
		return nil, err
	}
	if err := checkPrompts(*settings); err != nil {
		return nil, err
	}
	others, err := otherVerifiers(settings.Answer)
	return &Env{tasks, *settings, grader, others}, err
}

// read adds the problems of a split's files.
func (l loader) read(p part, folder string) error {
	paths, set, err := p.Open(folder, p.where)
	if err != nil {
		return err
	}
	for _, path := range paths {
		read, inputs, err := set.Read(path, p.Source.Source)
		if err != nil {
			return err
		}
		l.AddInputs(inputs...)
		for _, task := range read {
			split := p.split
			if p.HoldsOut(task.Question) {
				split = env.Test
			}
			l.splits[split] = append(l.splits[split], task)
		}
	}
	return p.CheckSplit(len(l.splits[env.Train]), len(l.splits[env.Test]))
}

// generate adds the generated problems of a split, but those that a file of
// any split asks.
func (l loader) generate(p part, seed uint64) error {
	if p.Generate == nil {
		return nil
	}
	generated, err := generate.Tasks(*p.Generate, p.generating(), seed)
	if err != nil {
		return err
	}
	count := len(generated)
	generated = slices.DeleteFunc(generated, func(task env.Task) bool { return l.asked[task.Question] })
	l.LeftOut += count - len(generated)
	l.splits[p.split] = append(l.splits[p.split], generated...)
	return nil
}

// finish applies the limit of a split and files its problems under their ids.
// A test split may be left out.
func (l loader) finish(p part, seed uint64) error {
	if p.split == env.Train && p.Generate == nil && len(p.Files) == 0 {
		return exitcode.Usagef("%s names no problems: give generate or files, or both", p.where)
	}
	if p.Limit < 0 {
		return exitcode.Usagef("%s.limit is %d: it must be 0 (all) or more", p.where, p.Limit)
	}
	problems := l.splits[p.split]
	if p.SkipRepeated { // before the limit, which would else leave fewer
		problems = l.unrepeated(problems)
	}
	for _, task := range env.Limit(problems, p.Limit, seed, p.split) {
		if p.split != env.Train && p.split != env.Test {
			task.ID = string(p.split) + "/" + task.ID
		}
		if earlier, ok := l.Task(task.ID); ok {
			return exitcode.Dataf("%s: two problems have the id %q (%q and %q): an id starts with its file's name, so rename one of the files, or list it once", p.where, task.ID, mathverify.Clip(earlier.Question), mathverify.Clip(task.Question))
		}
		l.Add(task, env.Facts{Split: p.split})
	}
	return nil
}

// unrepeated leaves out the problems that training has too.
func (l loader) unrepeated(problems []env.Task) []env.Task {
	trained := map[string]bool{}
	for _, task := range l.Tasks(env.Train) {
		trained[task.Question] = true
	}
	return slices.DeleteFunc(slices.Clone(problems), func(task env.Task) bool { return trained[task.Question] })
}

// Traits follow from the settings.
func (e *Env) Traits() env.Traits { return e.settings.traits() }
