package math

import (
	"math/big"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/env/math/generate/deepmind"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// correctBefore is the probability that the response which a demonstration
// improves on is right already, so that a policy learns to keep it too.
const correctBefore = 0.5

// Positions of a demonstration's draws in its stream.
const (
	drawTurn    = 0 // turns of an initial demonstration
	drawCorrect = 1 // whether the earlier response is right
	drawWrong   = 2 // and up: the wrong one
)

// Demonstration makes a conversation that ends with a correct response: the
// answer in the form that env.answer asks for, after the steps that lead to it
// if env.answer.worked names its kind and they are known, else bare.
//
// With initial, every response of the conversation is correct; its turns are
// drawn evenly from 1 … env.max_turns. With refine, improve and diverge an
// earlier response is right or plausibly wrong, with probability ½ each: only
// the last message demonstrates anything. It is false when the reference
// answer cannot be demonstrated, or when there is no template for the kind.
func (e *Env) Demonstration(task env.Task, kind shard.Kind, stream rng.Stream) ([]shard.Message, bool, error) {
	steps := e.steps(task)
	right := steps + e.format(task.Answer)
	if !e.grader.Verify(task.Answer, right).Equal {
		return nil, false, nil
	}
	var messages []shard.Message
	if kind == shard.KindInitial {
		earlier := make([]string, stream.IntN(drawTurn, e.settings.MaxTurns))
		for i := range earlier {
			earlier[i] = right
		}
		messages = e.conversation(task, earlier)
	} else {
		previous := right
		if !stream.Bool(drawCorrect, correctBefore) {
			previous = steps + e.format(e.wrong(task.Answer, stream))
		}
		history := append(e.conversation(task, nil), shard.Message{Role: roleAssistant, Content: previous})
		var err error
		if messages, err = e.Prompt(task, kind, env.Parent{Messages: history}); err != nil {
			return nil, false, nil
		}
	}
	return append(messages, shard.Message{Role: roleAssistant, Content: right}), true, nil
}

// steps are those that lead to the reference answer, if they are known.
func (e *Env) steps(task env.Task) string {
	if !config.Matches(task.Kind, e.settings.Answer.Worked) {
		return ""
	}
	steps, worked, ok := deepmind.Work(task.Question)
	if !ok || steps == "" || worked != task.Answer {
		return ""
	}
	return steps
}

// format writes an answer as a response.
func (e *Env) format(text string) string {
	switch e.settings.Answer.Extract {
	case answer.ExtractMarked:
		return e.settings.Answer.Marker + " " + text
	case answer.ExtractBoxed:
		return `\boxed{` + text + "}"
	case answer.ExtractLast:
		// A list or an expression is found as a formula only.
		if e.settings.Answer.Verifier == answer.VerifierMath && !e.grader.Verify(text, text).Equal {
			return "$" + text + "$"
		}
	}
	return text
}

// wrong makes an answer that is plausible and not right. If no attempt yields
// one, the answer itself comes back.
func (e *Env) wrong(reference string, stream rng.Stream) string {
	const attempts, perAttempt = 16, 3
	for i := range attempts {
		candidate := perturb(reference, stream, uint64(drawWrong+i*perAttempt))
		found := e.grader.Verify(reference, e.format(candidate))
		if found.Readable && !found.Equal {
			return candidate
		}
	}
	return reference
}

// opposites are the answers in words that have one plausible alternative.
var opposites = map[string]string{
	"True": "False", "False": "True", "true": "false", "false": "true",
	"Yes": "No", "No": "Yes", "yes": "no", "no": "yes",
}

// perturb changes an answer with three draws from position on: a whole number
// by ±1, ±2 or ±10 half of the time, the opposite of a word, else one digit,
// else one letter.
func perturb(text string, stream rng.Stream, position uint64) string {
	if opposite, ok := opposites[text]; ok {
		return opposite
	}
	if n, ok := answer.Integer(text); ok && stream.Bool(position, 0.5) {
		steps := []int64{-1, 1, -1, 1, -2, 2, -10, 10}
		step := steps[stream.IntN(position+1, len(steps))]
		return new(big.Int).Add(n, big.NewInt(step)).String()
	}
	return changeOne(text, stream, position+1)
}

// changeOne replaces one digit by another or, where there is none, one lower
// case letter by another.
func changeOne(text string, stream rng.Stream, position uint64) string {
	for _, set := range []struct {
		alphabet string
		offsets  int // another option is near: a, b, c, d
	}{{"0123456789", 9}, {"abcdefghijklmnopqrstuvwxyz", 3}} {
		var at []int
		for i := 0; i < len(text); i++ {
			if strings.IndexByte(set.alphabet, text[i]) >= 0 {
				at = append(at, i)
			}
		}
		if len(at) == 0 {
			continue
		}
		place := at[stream.IntN(position, len(at))]
		old := strings.IndexByte(set.alphabet, text[place])
		next := (old + 1 + stream.IntN(position+1, set.offsets)) % len(set.alphabet)
		return text[:place] + set.alphabet[next:next+1] + text[place+1:]
	}
	return text
}
