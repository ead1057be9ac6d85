package program

import (
	"context"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// promptView is what a program is asked to word.
type promptView struct {
	Task     taskView     `json:"task"`
	Kind     shard.Kind   `json:"kind"`
	Messages []message    `json:"messages"` // of the attempt that is gone on from
	Verdict  *verdictView `json:"verdict,omitempty"`
}

// Prompt builds the messages of an instance: as the program words them, where it
// does, or by the templates. A later kind of prompt keeps what was said before the
// request of the message that it iterates on, and has the template in the place of
// that request.
func (e *Env) Prompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	k, err := e.known(task)
	if err != nil {
		return nil, err
	}
	if k.source.Words {
		return e.askPrompt(task, kind, parent)
	}
	return e.templated(k, kind, parent)
}

func (e *Env) askPrompt(task env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	view, err := e.view(task)
	if err != nil {
		return nil, err
	}
	raw, err := e.ask(context.Background(), verbPrompt, promptView{view, kind, toMessages(parent.Messages), viewOf(parent.Verdict)})
	if err != nil {
		return nil, fmt.Errorf("prompting %q: %w", task.ID, err)
	}
	var said struct {
		refusal
		Messages []message `json:"messages"`
	}
	if err := plainjson.Strict(raw, &said); err != nil {
		return nil, fmt.Errorf("prompting %q: %w", task.ID, badAnswer(verbPrompt, raw, fmt.Sprintf(`want {"messages": […]}: %v`, err)))
	}
	if err := checkMessages(said.Messages); err != nil {
		return nil, fmt.Errorf("prompting %q: %w", task.ID, badAnswer(verbPrompt, raw, err.Error()))
	}
	return fromMessages(said.Messages), nil
}

// templated words a prompt by the templates.
func (e *Env) templated(k known, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	first := e.request(k)
	if kind == shard.KindInitial {
		return first, nil
	}
	template := ""
	switch kind {
	case shard.KindImprove, shard.KindDebug, shard.KindRefine: // of a wrong answer no more is known than of another
		template = e.settings.Prompts.Improve
	case shard.KindDiverge:
		template = e.settings.Prompts.Diverge
	default:
		return nil, exitcode.Bugf("prompting %q: there are no instances of kind %q", k.task.ID, kind)
	}
	said := env.Said(parent.Messages, 0)
	if len(said) == 0 {
		return nil, exitcode.Bugf("prompting %q: %s needs an earlier response, and the history has none", k.task.ID, kind)
	}
	last := said[len(said)-1]
	var messages []shard.Message
	if len(said) > 1 {
		messages = append(messages, parent.Messages[:said[len(said)-2]+1]...)
	} else {
		for _, m := range first {
			if m.Role == "system" {
				messages = append(messages, m)
			}
		}
	}
	asking := beforeAnswer(first)
	asked := asking[len(asking)-1].Content
	return append(messages, shard.Message{Role: "user", Content: env.Fill(template, k.task.Question, asked, parent.Messages[last].Content)}), nil
}

// request is what a first answer is asked for by.
func (e *Env) request(k known) []shard.Message {
	if len(k.source.Messages) > 0 {
		return fromMessages(k.source.Messages)
	}
	var messages []shard.Message
	if e.settings.Prompts.System != "" {
		messages = append(messages, shard.Message{Role: "system", Content: e.settings.Prompts.System})
	}
	return append(messages, shard.Message{Role: "user", Content: env.Fill(e.settings.Prompts.Initial, k.task.Question, k.task.Question, "")})
}

// beforeAnswer is a request without the beginning of the answer, where it has one.
func beforeAnswer(request []shard.Message) []shard.Message {
	if env.Begins(request) {
		return request[:len(request)-1]
	}
	return request
}

// opening counts the messages of a conversation that open its episode: the first
// request, which may show messages of the assistant as examples, or else what comes
// before the first message of the policy.
func (e *Env) opening(task env.Task, messages []shard.Message) int {
	k, err := e.known(task)
	if first := beforeAnswer(e.request(k)); err == nil && !k.source.Words && len(messages) >= len(first) && slices.Equal(messages[:len(first)], first) {
		return len(first)
	}
	if said := env.Said(messages, 0); len(said) > 0 {
		return said[0]
	}
	return len(messages)
}

// Demonstration shows the response that the task has, to its first prompt.
func (e *Env) Demonstration(task env.Task, kind shard.Kind, _ rng.Stream) ([]shard.Message, bool, error) {
	k, err := e.known(task)
	if err != nil || kind != shard.KindInitial || k.source.Response == "" {
		return nil, false, err
	}
	prompt, err := e.Prompt(task, kind, env.Parent{})
	if err != nil {
		return nil, false, err
	}
	answered, _ := env.Answer(prompt, len(prompt), k.source.Response)
	return answered, true, nil
}
