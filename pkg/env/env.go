// Package env is the interface between Lathe and what policies act in: prompts,
// transitions and verification.
//
// An environment never knows the curriculum; a curriculum never knows the
// environment; neither knows Slurm.
package env

import (
	"context"
	"errors"
	"slices"

	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TurnVerdict is the judgement on one message of the policy: what the attempt
// would come to if it ended there.
type TurnVerdict struct {
	Outcome         shard.Outcome
	RawScore        float64 // in the task's own unit
	NormalizedScore float64 // in [0, 1]
	Reward          float64 // of a base task; the credit's reward derives those of iteration steps
	Parts           []shard.RewardPart
	Milestones      []string
	Feedback        string // why
	Extracted       string // the answer that was scored
	// ExecuteSeconds is how long the policy's program ran, queueing excluded; 0
	// in environments that run none. It is data: it may become a weight.
	ExecuteSeconds  float64
	CPUSeconds      float64 // the same on all cores together
	GenerateSeconds float64 // that the policy took for the message; set by the score stage, and 0 unless the trace has a budget
	Fingerprint     string  // of the policy's program, where the settings ask for it
	ValidationScore float64 // what the program says of itself on its own hold-out; see [TurnVerdict.Validation]
}

// PartValidation is the part that holds what a program says of itself, its sign
// flipped where lower is better. Without it, it has said nothing.
const PartValidation = "validation"

// Part finds a part of the reward.
func (v TurnVerdict) Part(name string) (value float64, ok bool) {
	for _, part := range v.Parts {
		if part.Name == name {
			return part.Value, true
		}
	}
	return 0, false
}

// Validation is what the program says of itself on its own hold-out data: more
// is better.
func (v TurnVerdict) Validation() (score float64, ok bool) { return v.Part(PartValidation) }

// Blind is the score without what comes from held-out answers: what an
// evaluation may choose by, and tell the policy.
func (v TurnVerdict) Blind() TurnVerdict {
	v.RawScore, v.NormalizedScore, v.Reward = 0, 0, 0
	v.Parts = slices.DeleteFunc(slices.Clone(v.Parts), func(part shard.RewardPart) bool { return part.Name != PartValidation })
	return v
}

// Row is the score as score.parquet has it.
func (v TurnVerdict) Row() shard.TurnScore {
	return shard.TurnScore{
		Outcome: string(v.Outcome), RawScore: v.RawScore, NormalizedScore: v.NormalizedScore, Reward: v.Reward,
		RewardParts: append([]shard.RewardPart{}, v.Parts...), Milestones: append([]string{}, v.Milestones...),
		ExecuteSeconds: v.ExecuteSeconds, GenerateSeconds: v.GenerateSeconds, CPUSeconds: v.CPUSeconds, Fingerprint: v.Fingerprint, ValidationScore: v.ValidationScore, Feedback: v.Feedback, Extracted: v.Extracted,
	}
}

// TurnVerdictOf is the inverse of [TurnVerdict.Row].
func TurnVerdictOf(row shard.TurnScore) TurnVerdict {
	return TurnVerdict{
		Outcome: shard.Outcome(row.Outcome), RawScore: row.RawScore, NormalizedScore: row.NormalizedScore, Reward: row.Reward,
		Parts: row.RewardParts, Milestones: row.Milestones,
		ExecuteSeconds: row.ExecuteSeconds, GenerateSeconds: row.GenerateSeconds, CPUSeconds: row.CPUSeconds, Fingerprint: row.Fingerprint, ValidationScore: row.ValidationScore, Feedback: row.Feedback, Extracted: row.Extracted,
	}
}

// Verdict is the judgement on one attempt: that on its last message, and on
// each of them.
type Verdict struct {
	TurnVerdict
	Turns []TurnVerdict // one for each message of the policy in the attempt

	// For audits of rewards; any of them may be empty.
	Reason string  // why, in words from a small set
	Form   string  // of the reference answer: integer, rational, set …
	Others []Other // what other verifiers or options make of the response

	Protection string // in force around the policy's last program; empty where none ran
}

// NoRoom is the score where the prompt alone fills the policy's context, so
// that it has said nothing: no answer, as any that cannot be scored.
func NoRoom() Verdict {
	return Verdict{
		TurnVerdict: TurnVerdict{Outcome: shard.OutcomeInvalid, Feedback: "the prompt leaves no room for a response"}, Reason: "no room",
	}
}

// Attempt is one attempt at a task, finished or waiting for its score.
type Attempt struct {
	Task     Task
	Kind     shard.Kind
	Messages []shard.Message // of all its contexts, one after the other
	// Own are the positions in Messages of what the policy said in the attempt;
	// the history of a prompt has messages of the policy too.
	Own     []int
	Finish  string        // finish reason of the last turn
	Earlier []TurnVerdict // on its first messages, where an earlier wave has given them
	// SecondsLeft is what the trace's budget leaves to the programs of messages without
	// a score; nil without a budget. What ends after it does not count.
	SecondsLeft *float64
}

// Said lists the positions of the policy's messages from a position on.
func Said(messages []shard.Message, from int) []int {
	var at []int
	for i := from; i < len(messages); i++ {
		if messages[i].Role == "assistant" {
			at = append(at, i)
		}
	}
	return at
}

// Begins reports whether a prompt ends with the beginning of what the policy says.
func Begins(prompt []shard.Message) bool {
	return len(prompt) > 0 && prompt[len(prompt)-1].Role == "assistant"
}

// Answer appends what the policy said to a conversation that the first prompt
// messages began. A prompt that ends with a message of the policy is the
// beginning of what it says: the two become one message, and the prompt ends
// before it.
func Answer(messages []shard.Message, prompt int, said string) (_ []shard.Message, promptEnd int) {
	if prompt == len(messages) && Begins(messages) {
		prompt--
		said = messages[prompt].Content + said
		messages = messages[:prompt]
	}
	return append(slices.Clip(messages), shard.Message{Role: "assistant", Content: said}), prompt
}

// Parent is what an instance of a kind other than a first attempt starts from.
type Parent struct {
	Messages []shard.Message // the conversation whose last message of the policy is iterated on, earlier turns included
	Verdict  *TurnVerdict    // on that message; nil where it is not known
	Partner  *Parent         // the other of two, of kind crossover; nil else
}

// Other is another verifier's judgement on the same episode.
type Other struct {
	Name  string
	Right bool
}

// Step is what comes after a message of the policy.
type Step struct {
	Messages []shard.Message // to append before the policy speaks again; none when the attempt is over or waits
	// Fresh says that Messages are a whole new context: the policy goes on from
	// them and nothing else.
	Fresh bool
	// Wait says that the next turn needs the score of this message, which is
	// slow: the attempt goes on in the next wave, by Begin and Next with it.
	Wait bool
}

// Over reports whether the attempt has ended.
func (s Step) Over() bool { return len(s.Messages) == 0 && !s.Wait }

// ErrOwnProgram is that of an item to which a program of the user's, which runs well, gave
// an error in the place of an answer.
var ErrOwnProgram = errors.New("the program refused an item")

// Episode is the environment's side of one attempt that is under way. It
// is for one goroutine at a time; different episodes do not share anything.
//
// An error without an exit code of its own means that we failed this episode
// and no other (outcome infra). Any other error ends the work on all of them.
type Episode interface {
	// Next answers the policy's message that the conversation ends with. The
	// conversation is that of the whole attempt, contexts one after the other.
	// last is the score of the message if Next has asked to wait for it, in
	// the wave before, and else nil.
	Next(ctx context.Context, conversation []shard.Message, last *TurnVerdict) (Step, error)
	// Close gives back what the episode holds.
	Close() error
}

// Reply is an episode without a state of its own: all is in the conversation.
type Reply func(conversation []shard.Message) ([]shard.Message, error)

// Next calls the function.
func (r Reply) Next(_ context.Context, conversation []shard.Message, _ *TurnVerdict) (Step, error) {
	messages, err := r(conversation)
	return Step{Messages: messages}, err
}

// Close does nothing.
func (r Reply) Close() error { return nil }

// Traits are what the rest of Lathe has to know of an environment to schedule
// its work. They follow from its settings alone.
type Traits struct {
	Turns     int     // bound on the policy's messages in one attempt
	Slow      bool    // a score may take minutes: what is scored is kept in a journal
	Threads   int     // that one score keeps busy; 0 is 1
	AtATime   int     // scores given at a time, where they keep no threads busy; 0 for as many as there are threads
	Batch     int     // scores best asked for together, by which those at a time are multiplied; 0 is 1
	Programs  bool    // what is extracted from a response is a program: instances that start from the same one are the same
	Validated bool    // an attempt says of itself how good it is: evaluations choose by that alone, and no score of theirs shows more ([TurnVerdict.Blind])
	Waves     int     // bound on the waves that one attempt takes: 1 unless turns wait for scores
	MaxFailed float64 // share of a task's episodes that may fail by the environment's fault
	// MaxFailedSetting names the setting that MaxFailed is; empty for none.
	MaxFailedSetting string
	// ByMessage says that an attempt is many messages, each of which is improved
	// on before the environment sees it (ExIt §2.1), rather than one
	// answer that is improved on whole.
	ByMessage bool
	// Transcript says that the last message alone tells nothing of what the
	// policy did: whoever compares responses takes all that it said.
	Transcript bool
	Joins      bool // it words prompts that join two responses ([shard.KindCrossover])
}

// Assistant is a policy that is never trained. It gives its most probable answer
// to a conversation; cut says that the answer ended at its bound.
type Assistant func(ctx context.Context, messages []shard.Message) (text string, cut bool, err error)

// Tail is the end of a text that takes at most so many of a policy's tokens.
type Tail func(text string, tokens int) string

// Assisted is an environment whose scores depend on policies: feedback is cut to a
// number of the trained policy's tokens, and programs may be instrumented by an
// assistant.
type Assisted interface {
	// CutBy is called before the first score, wherever a policy is known.
	CutBy(tail Tail)
	// Assist is called before the first score, if at all: evaluations have an assistant
	// only where the recipe asks for it.
	Assist(a Assistant)
}

// Env is one environment, set up by a recipe: its tasks, and what it asks, answers and
// scores.
type Env interface {
	// Set holds the tasks. An environment embeds it, or returns it.
	Set() *TaskSet

	// Traits say how the environment behaves.
	Traits() Traits

	// Prompt builds the messages of an instance. The parent of a first attempt
	// ([shard.KindInitial]) is empty.
	Prompt(task Task, kind shard.Kind, parent Parent) ([]shard.Message, error)

	// Begin starts the environment's side of an attempt from a prompt that
	// Prompt made, or, in a later wave, from the attempt's whole conversation,
	// which ends with the message that waits for its score. What the prompt's
	// history did to the environment is done again, and must come out as the
	// history says; it is an error with the exit code for data if it does not.
	Begin(ctx context.Context, task Task, prompt []shard.Message) (Episode, error)

	// Score scores an attempt. It never fails for what a policy wrote: that is
	// a score. An error means that we failed (outcome infra), or, with the
	// exit code for data, that the conversation cannot have been had with this
	// environment. Messages that Earlier has scores of are not scored again.
	Score(ctx context.Context, attempt Attempt) (Verdict, error)

	// Demonstration makes a correct response to the prompt of an instance of
	// the given kind, drawing what it needs from the stream, for supervised
	// warm starts. ok is false when the task or the kind has none. An error
	// means that we failed.
	Demonstration(task Task, kind shard.Kind, stream rng.Stream) (conversation []shard.Message, ok bool, err error)
}
