package env

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shares"
)

// Split is a part of a task set.
type Split string

// The splits of a task set. No task is in both, unless it is measured as one that is
// trained on.
const (
	Train Split = "train"
	Test  Split = "test" // held out: evaluation only
)

// Task is one problem.
type Task struct {
	ID       string // unique over all splits; stable between runs
	Kind     string // for breakdowns in reports, for example "add" or the data file's module
	Level    int    // difficulty, where the source says; 0 else
	Question string
	Answer   string // reference answer; of a multiple-choice problem the letter of the right option

	Form    string   // of the answer, where the source says: integer, float, bool, list or option; empty else
	Choices []string // options of a multiple-choice problem, in the order of their letters from A
}

// Facts are what an environment keeps of a task beside its columns.
type Facts struct {
	Env    string // in the run, of several; empty where there is one
	Split  Split
	Source string // whatever else the environment needs to know of the task, as text
	Folder string // of the task's files; empty for none
	Opened any    // what the loader has made of the task already; nil from rows
}

// TaskSet holds the tasks of an environment. The environment's loader builds it from
// data files or a generator, [TasksOf] builds the same from the rows of tasks.parquet.
// It is read-only once the environment is made, and safe for concurrent use.
type TaskSet struct {
	Inputs []Input // data files that the tasks were read from
	// LeftOut counts the tasks that are not trained on because they are held out, or
	// that were generated and a file of either split has the same; LeftOutNames are
	// those of tasks that have one.
	LeftOut      int
	LeftOutNames []string
	// Notes are what whoever makes a run of the tasks should know of them.
	Notes []string

	// Cost is what a score of a task costs, in any unit, 0 or more; nil where all cost
	// the same. It is the same wherever the task is read, so no measured time.
	Cost func(taskID string) float64
	// Texts are like what a policy reads and writes, for the training of a tokenizer;
	// nil where the problems are.
	Texts func() []string

	name   string
	order  []Split // in which Rows lists them
	splits map[Split][]Task
	tasks  map[string]filed // by id

	weights map[string]float64  // of several environments, by name in the run
	parts   map[string]*TaskSet // of several environments, as they were loaded, by name in the run; nil from rows
}

type filed struct {
	task  Task
	facts Facts
}

// NewTaskSet is a set without tasks, of the environment of a name.
func NewTaskSet(environment string) *TaskSet {
	return &TaskSet{name: environment, order: []Split{Train, Test}, splits: map[Split][]Task{}, tasks: map[string]filed{}}
}

// TasksOf is the set that the rows are of.
func TasksOf(environment string, rows []shard.TaskRow) *TaskSet {
	s := NewTaskSet(environment)
	for _, row := range rows {
		s.Add(Task{
			ID: row.TaskID, Kind: row.Kind, Level: int(row.Level),
			Question: row.Question, Answer: row.Answer, Form: row.Form, Choices: row.Choices,
		}, Facts{Env: row.Env, Split: Split(row.Split), Source: row.Source, Folder: row.Folder})
	}
	return s
}

// Set returns s: an environment that embeds its task set is asked for it.
func (s *TaskSet) Set() *TaskSet { return s }

// Name is that of the environment, as recipes and rows have it.
func (s *TaskSet) Name() string { return s.name }

// Environment is the name of the environment that a task is of: of several the name
// in the run.
func (s *TaskSet) Environment(taskID string) string {
	return cmp.Or(s.tasks[taskID].facts.Env, s.name)
}

// Apart lists tasks by environment, each group in the order of the tasks, with the
// shares that the environments have of what is drawn.
func (s *TaskSet) Apart(tasks []Task) (groups [][]Task, of shares.Shares) {
	var weights []float64
	at := map[string]int{}
	for _, t := range tasks {
		name := s.Environment(t.ID)
		i, known := at[name]
		if !known {
			i = len(groups)
			at[name], groups = i, append(groups, nil)
			weights = append(weights, cmp.Or(s.weights[name], 1))
		}
		groups[i] = append(groups[i], t)
	}
	return groups, shares.New(weights)
}

// Tasks lists the tasks of a split in a fixed order. The caller must not change the slice.
func (s *TaskSet) Tasks(split Split) []Task { return s.splits[split] }

// All lists the tasks of all splits, each once.
func (s *TaskSet) All() []Task {
	var all []Task
	listed := map[string]bool{}
	for _, split := range s.order {
		for _, t := range s.splits[split] {
			if !listed[t.ID] {
				listed[t.ID] = true
				all = append(all, t)
			}
		}
	}
	return all
}

// Task finds a task of any split by its id.
func (s *TaskSet) Task(id string) (Task, bool) {
	f, ok := s.tasks[id]
	return f.task, ok
}

// Facts are those of the task of an id, which must be there.
func (s *TaskSet) Facts(id string) (Facts, error) {
	f, ok := s.tasks[id]
	if !ok {
		return f.facts, exitcode.Bugf("there is no task %q", id)
	}
	return f.facts, nil
}

// Rows is everything that the environment knows of its tasks: those to train on, those
// held out, and those of other held-out sets, each in their order. From the rows and
// the recipe the same environment can be made without the files.
func (s *TaskSet) Rows() []shard.TaskRow {
	var rows []shard.TaskRow
	for _, split := range s.order {
		for _, t := range s.splits[split] {
			facts := s.tasks[t.ID].facts
			rows = append(rows, shard.TaskRow{
				TaskID: t.ID, Env: cmp.Or(facts.Env, s.name), Split: string(split), Kind: t.Kind, Level: int32(t.Level),
				Question: t.Question, Answer: t.Answer, Form: t.Form, Choices: t.Choices, Source: facts.Source, Folder: facts.Folder,
			})
		}
	}
	return rows
}

// Add appends a task to its split. Its id must be new, or that of the same task in another
// split.
func (s *TaskSet) Add(t Task, facts Facts) {
	if !slices.Contains(s.order, facts.Split) {
		s.order = append(s.order, facts.Split)
	}
	s.splits[facts.Split] = append(s.splits[facts.Split], t)
	s.tasks[t.ID] = filed{t, facts}
}

// AddInputs adds data files, each once: a file may be in several sets.
func (s *TaskSet) AddInputs(inputs ...Input) {
	for _, input := range inputs {
		if !slices.Contains(s.Inputs, input) {
			s.Inputs = append(s.Inputs, input)
		}
	}
}

// Remove takes the tasks of a split out of the set that remove returns true for.
func (s *TaskSet) Remove(split Split, remove func(Task) bool) {
	s.splits[split] = slices.DeleteFunc(slices.Clone(s.splits[split]), func(t Task) bool {
		gone := remove(t)
		if gone && !s.elsewhere(split, t.ID) {
			delete(s.tasks, t.ID)
		}
		return gone
	})
}

// elsewhere reports whether a split other than this one has a task.
func (s *TaskSet) elsewhere(split Split, id string) bool {
	for other, tasks := range s.splits {
		if other != split && slices.ContainsFunc(tasks, func(t Task) bool { return t.ID == id }) {
			return true
		}
	}
	return false
}

// KeepApart refuses tasks of a split that ask what a task to train on asks, or leaves
// them out where the recipe says skip_repeated: what is held out must not be trained
// on. where is the split's section of the recipe, and what one of its tasks is called.
func (s *TaskSet) KeepApart(split Split, where, what string, skipRepeated bool, asks func(Task) string) error {
	trained := make(map[string]string, len(s.splits[Train]))
	for _, t := range s.splits[Train] {
		trained[asks(t)] = t.ID
	}
	shared, first := 0, ""
	s.Remove(split, func(t Task) bool {
		id, repeated := trained[asks(t)]
		if repeated && !skipRepeated {
			if shared++; shared == 1 {
				first = fmt.Sprintf("%q is %q", t.ID, id)
			}
		}
		return repeated
	})
	if shared > 0 {
		return exitcode.Dataf("%s shares %s with data.train (%s): remove what they share from one of the two, or set %s.skip_repeated", where, plural.Count(shared, what), first, where)
	}
	return nil
}

// TrainingTasks are the tasks of the training split whose kind is one of kinds
// ([config.Matches]); all of them for no kinds. It is an error to have none: of the
// data, or of the setting by which the recipe names the kinds.
func (s *TaskSet) TrainingTasks(setting string, kinds []string) ([]Task, error) {
	tasks := s.splits[Train]
	if len(tasks) == 0 {
		return nil, exitcode.Dataf("the training split of environment %q is empty", s.name)
	}
	if len(kinds) == 0 {
		return tasks, nil
	}
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return !config.Matches(t.Kind, kinds) })
	if len(tasks) == 0 {
		return nil, exitcode.Usagef("environment %q has no training task of a kind in %s %q", s.name, setting, kinds)
	}
	return tasks, nil
}

// Input is a data file that an environment was made from.
type Input struct {
	Path   string
	SHA256 string // hexadecimal, of the whole file
}

// ReadInput digests a data file.
func ReadInput(path string) (Input, error) {
	digest, err := plainfile.Digest(path)
	return Input{path, digest}, err
}
