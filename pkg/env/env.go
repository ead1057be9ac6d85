// Package env is the interface between Lathe and the worlds that policies act
// in: prompts, transitions and verification.
//
// An environment never knows the curriculum; a curriculum never knows the
// environment; neither knows Slurm.
package env

import (
	"context"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Split is a part of a task set.
type Split string

// The splits of a task set. No task is in both.
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

// Row is the task as tasks.parquet has it. source is whatever else the
// environment needs to know of it.
func (t Task) Row(environment string, split Split, source string) shard.TaskRow {
	return shard.TaskRow{
		TaskID: t.ID, Env: environment, Split: string(split), Kind: t.Kind, Level: int32(t.Level),
		Question: t.Question, Answer: t.Answer, Form: t.Form, Choices: t.Choices, Source: source,
	}
}

// TaskOf is the inverse of [Task.Row].
func TaskOf(row shard.TaskRow) Task {
	return Task{
		ID: row.TaskID, Kind: row.Kind, Level: int(row.Level),
		Question: row.Question, Answer: row.Answer, Form: row.Form, Choices: row.Choices,
	}
}

// Matches reports whether a text is one of the values; a * at the end of a value
// matches any rest. It chooses kinds of tasks, and rows by their fields.
func Matches(text string, values []string) bool {
	return slices.ContainsFunc(values, func(value string) bool {
		if prefix, open := strings.CutSuffix(value, "*"); open {
			return strings.HasPrefix(text, prefix)
		}
		return text == value
	})
}

// TrainingTasks are the tasks of the training split whose kind is one of kinds
// ([Matches]); all of them for no kinds. It is an error to have none: of the
// data, or of the setting by which the recipe names the kinds.
func TrainingTasks(e Env, setting string, kinds []string) ([]Task, error) {
	tasks := e.Tasks(Train)
	if len(tasks) == 0 {
		return nil, exitcode.Dataf("the training split of environment %q is empty", e.Name())
	}
	if len(kinds) == 0 {
		return tasks, nil
	}
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return !Matches(t.Kind, kinds) })
	if len(tasks) == 0 {
		return nil, exitcode.Usagef("environment %q has no training task of a kind in %s %q", e.Name(), setting, kinds)
	}
	return tasks, nil
}

// Verdict is the judgement on one finished episode.
type Verdict struct {
	Outcome         shard.Outcome
	RawScore        float64 // in the task's own unit
	NormalizedScore float64 // in [0, 1]
	Reward          float64 // of a base task; the buffer stage derives rewards of iteration steps
	Parts           []shard.RewardPart
	Milestones      []string
	Feedback        string // why
	Extracted       string // the answer that was judged
	ExecuteSeconds  float64

	// For audits of rewards; any of them may be empty.
	Reason string  // why, in words from a small set
	Form   string  // of the reference answer: integer, rational, set …
	Others []Other // what other verifiers or options make of the response
}

// NoRoom is the verdict where the prompt alone fills the policy's context, so
// that it has said nothing: no answer, as any that cannot be judged.
func NoRoom() Verdict {
	return Verdict{Outcome: shard.OutcomeInvalid, Reason: "no room", Feedback: "the prompt leaves no room for a response"}
}

// Other is another verifier's judgement on the same episode.
type Other struct {
	Name  string
	Right bool
}

// Input is a data file that an environment was made from.
type Input struct {
	Split  Split
	Path   string
	SHA256 string // hexadecimal, of the whole file
	Bytes  int64
	Lines  int // problems in the file: lines that are not blank
	Kept   int // of them, those that pass the filter, before env limits
}

// Episode is the environment's side of one conversation that is under way. It
// is for one goroutine at a time; different episodes do not share anything.
//
// An error without an exit code of its own means that we failed this episode
// and no other (outcome infra). Any other error ends the work on all of them.
type Episode interface {
	// Next answers the policy's message that the conversation ends with, as
	// far as that takes no slow feedback: it returns the messages to append
	// before the policy speaks again, or none when the episode is over.
	Next(ctx context.Context, conversation []shard.Message) ([]shard.Message, error)
	// Close gives back what the episode holds.
	Close() error
}

// Reply is an episode without a state of its own: all is in the conversation.
type Reply func(conversation []shard.Message) ([]shard.Message, error)

// Next calls the function.
func (r Reply) Next(_ context.Context, conversation []shard.Message) ([]shard.Message, error) {
	return r(conversation)
}

// Close does nothing.
func (r Reply) Close() error { return nil }

// Env is one environment, set up by a recipe.
type Env interface {
	Name() string

	// Inputs lists the data files that the tasks were read from.
	Inputs() []Input

	// LeftOut counts the tasks that were generated and left out because a
	// file of either split has the same.
	LeftOut() int

	// Tasks lists the tasks of a split in a fixed order.
	Tasks(split Split) []Task
	// Task finds a task of any split by its id.
	Task(id string) (Task, bool)

	// Rows is everything that the environment knows of its tasks: those to
	// train on and then those held out, each in their order. From the rows and
	// the recipe the same environment can be made without the files.
	Rows() ([]shard.TaskRow, error)

	// Prompt builds the messages of an instance. For [shard.KindInitial]
	// history is empty; for improve and diverge it is the conversation whose
	// last assistant message is iterated on, earlier turns included.
	Prompt(task Task, kind shard.Kind, history []shard.Message) ([]shard.Message, error)

	// Begin starts the environment's side of an episode from a prompt that
	// Prompt made. What the prompt's history did to the environment is done
	// again, and must come out as the history says; it is an error with the
	// exit code for data if it does not.
	Begin(ctx context.Context, task Task, prompt []shard.Message) (Episode, error)

	// Score judges a finished episode. finish is the finish reason of the
	// last turn. It never fails for what a policy wrote: that is a verdict.
	// An error means that we failed (outcome infra), or, with the
	// exit code for data, that the conversation cannot have been had with this
	// environment.
	Score(ctx context.Context, task Task, conversation []shard.Message, finish string) (Verdict, error)

	// Demonstration makes a correct response to the prompt of an instance of
	// the given kind, drawing what it needs from the stream, for supervised
	// warm starts. ok is false when the task or the kind has none. An error
	// means that we failed.
	Demonstration(task Task, kind shard.Kind, stream rng.Stream) (conversation []shard.Message, ok bool, err error)
}
