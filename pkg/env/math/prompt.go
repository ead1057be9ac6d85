package math

import (
	"cmp"
	"context"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The roles of messages.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
)

// checkPrompts refuses templates that cannot ask what they are for.
func checkPrompts(settings Settings) error {
	p := settings.Prompts
	if !strings.Contains(p.Initial, "{question}") {
		return exitcode.Usagef("env.prompts.initial is %q: it must contain {question}", p.Initial)
	}
	if settings.MaxTurns < 1 {
		return exitcode.Usagef("env.max_turns is %d: it must be 1 or more", settings.MaxTurns)
	}
	if settings.MaxTurns > 1 && strings.TrimSpace(p.Refine) == "" {
		return exitcode.Usagef("env.prompts.refine is empty: env.max_turns %d needs it", settings.MaxTurns)
	}
	return nil
}

// Prompt builds the messages of an instance.
//
// A conversation of this environment is a function of the task and of the
// policy's responses y_1 … y_t, one a turn: the request of turn 1 is the
// initial template, that of a later turn the refine template. Prompt reads
// the responses from history, so it does not matter which request led to
// them: after a self-improve step the earlier turns show the latest iterate
// beneath the original request, which is the history that the policy conditions on
// (ExIt §2.1: y_t^k and the last iterates y_{<t}^K).
//
// For improve and diverge the request of turn t is replaced by the template
// filled with the task's initial prompt and y_t, and the turns before stay in
// front. With one turn that is the paper's single message (ExIt App. B). For
// refine the request of turn t+1 is appended.
func (e *Env) Prompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	responses := responsesOf(parent.Messages)
	if kind == shard.KindDebug { // of a wrong answer no more is known than of another
		kind = shard.KindImprove
	}
	switch kind {
	case shard.KindInitial:
		if len(responses) > 0 {
			return nil, exitcode.Bugf("prompting %q: an initial prompt has no history, and was given %d responses", task.ID, len(responses))
		}
		return e.conversation(task, nil), nil
	case shard.KindRefine, shard.KindImprove, shard.KindDiverge:
	default:
		return nil, exitcode.Bugf("prompting %q: the math environment has no instances of kind %q", task.ID, kind)
	}
	if len(responses) == 0 {
		return nil, exitcode.Bugf("prompting %q: %s needs an earlier response, and the history has none", task.ID, kind)
	}
	if kind == shard.KindRefine {
		return e.conversation(task, responses), nil
	}
	template, name := e.prompts(task).Improve, "improve"
	if kind == shard.KindDiverge {
		template, name = e.prompts(task).Diverge, "diverge"
	}
	if strings.TrimSpace(template) == "" {
		return nil, exitcode.Usagef("env.prompts.%s is empty: the run asks for %s steps", name, name)
	}
	last := len(responses) - 1
	messages := e.conversation(task, responses[:last])
	messages[len(messages)-1].Content = env.Fill(template, task.Question, e.instruction(task), responses[last])
	return messages, nil
}

// Begin starts an episode, which asks for one more turn until env.max_turns
// turns are done. The turn of a conversation is the number of its responses,
// those of the history that its prompt continued included, so an episode that
// improves on turn 2 of an earlier one continues with turn 3.
func (e *Env) Begin(_ context.Context, task env.Task, _ []shard.Message) (env.Episode, error) {
	return env.Reply(func(conversation []shard.Message) ([]shard.Message, error) { return e.nextTurn(task, conversation) }), nil
}

func (e *Env) nextTurn(task env.Task, conversation []shard.Message) ([]shard.Message, error) {
	if len(conversation) == 0 || conversation[len(conversation)-1].Role != roleAssistant {
		return nil, exitcode.Bugf("continuing %q: the conversation does not end with a response", task.ID)
	}
	responses := responsesOf(conversation)
	if len(responses) >= e.settings.MaxTurns {
		return nil, nil
	}
	return []shard.Message{e.request(task, responses)}, nil
}

// prompts are the templates that a task is asked by: those of its held-out set
// where it has its own.
func (e *Env) prompts(task env.Task) Prompts {
	p := e.settings.Prompts
	facts, _ := e.Facts(task.ID)
	for _, own := range e.settings.PromptsOf {
		if own.Set == string(facts.Split) {
			p.System = cmp.Or(own.System, p.System)
			p.Initial, p.Refine = cmp.Or(own.Initial, p.Initial), cmp.Or(own.Refine, p.Refine)
			p.Improve, p.Diverge = cmp.Or(own.Improve, p.Improve), cmp.Or(own.Diverge, p.Diverge)
		}
	}
	return p
}

// instruction is the task's prompt: what {instruction} stands for. For a response
// of data.offline it asks to refine that.
func (e *Env) instruction(task env.Task) string {
	p := e.prompts(task)
	asked := env.Fill(p.Initial, task.Question, task.Question, "")
	if facts, _ := e.Facts(task.ID); facts.Source != "" {
		return env.Fill(p.Improve, task.Question, asked, facts.Source)
	}
	return asked
}

// request is the user's message of the turn after the given responses.
func (e *Env) request(task env.Task, responses []string) shard.Message {
	if len(responses) == 0 {
		return shard.Message{Role: roleUser, Content: e.instruction(task)}
	}
	previous := responses[len(responses)-1]
	return shard.Message{Role: roleUser, Content: env.Fill(e.prompts(task).Refine, task.Question, e.instruction(task), previous)}
}

// conversation is the responses, each beneath its request, and the request of
// the turn after them.
func (e *Env) conversation(task env.Task, responses []string) []shard.Message {
	var messages []shard.Message
	if system := e.prompts(task).System; system != "" {
		messages = append(messages, shard.Message{Role: roleSystem, Content: system})
	}
	for turn := 0; ; turn++ {
		messages = append(messages, e.request(task, responses[:turn]))
		if turn == len(responses) {
			return messages
		}
		messages = append(messages, shard.Message{Role: roleAssistant, Content: responses[turn]})
	}
}

func responsesOf(messages []shard.Message) []string {
	var responses []string
	for _, m := range messages {
		if m.Role == roleAssistant {
			responses = append(responses, m.Content)
		}
	}
	return responses
}
