package tooluse

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The roles of messages, and the finish reason of one that the length limit
// cut.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	finishLength  = "length"
)

// fillTools puts the functions into the template of the system message.
func fillTools(template, tools string) string { return strings.ReplaceAll(template, "{tools}", tools) }

// request is the user's message of a turn.
func (t *task) request(turn int) []shard.Message {
	return []shard.Message{{Role: roleUser, Content: t.requests[turn]}}
}

// opening is the conversation before the policy first speaks.
func (t *task) opening() []shard.Message {
	return append([]shard.Message{{Role: roleSystem, Content: t.system}}, t.request(0)...)
}

// Prompt builds the messages of an instance.
//
// A conversation of this environment is a function of the task and of the
// policy's messages y_1 … y_t, so it does not matter which prompts led to
// them: after a self-improve step the earlier steps show the latest iterate
// beneath the original request, with the results that it gave
// (ExIt §2.1).
//
// For improve and diverge the history ends with the message y_t that is
// iterated on. All before stays, and the template asks for another y_t, filled
// with the user's request of the turn that y_t belongs to, as in the
// examples of tool use of ExIt App. D: in the place of that request where y_t
// directly follows it, else as one more message of the user. What y_t did is
// not shown, for the next iterate is executed instead of it.
func (e *Env) Prompt(of env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	history := parent.Messages
	t, known := e.tasks[of.ID]
	if !known {
		return nil, exitcode.Bugf("prompting %q: there is no such task", of.ID)
	}
	if kind == shard.KindInitial {
		if len(history) > 0 {
			return nil, exitcode.Bugf("prompting %q: an initial prompt has no history, and was given %d messages", t.ID, len(history))
		}
		return t.opening(), nil
	}
	template, name := e.settings.Prompts.Improve, "improve"
	switch kind {
	case shard.KindImprove, shard.KindDebug: // of a failure no more is known than of another response
	case shard.KindDiverge:
		template, name = e.settings.Prompts.Diverge, "diverge"
	default:
		return nil, exitcode.Bugf("prompting %q: the environment %s has no instances of kind %q", t.ID, Name, kind)
	}
	if strings.TrimSpace(template) == "" {
		return nil, exitcode.Usagef("env.prompts.%s is empty: the run asks for %s steps", name, name)
	}
	before, err := t.before(history)
	if err != nil {
		return nil, err
	}
	messages := before.messages
	if before.requested {
		messages = messages[:len(messages)-1]
	}
	asked := env.Fill(template, t.turns[before.turn], t.requests[before.turn], before.response)
	return append(messages, shard.Message{Role: roleUser, Content: asked}), nil
}

// past is what lies before the last message of the policy in a history.
type past struct {
	messages  []shard.Message // without the prompts of iteration steps
	turn      int             // of the user, from 0
	requested bool            // the last of the messages is the user's request
	response  string          // the last message of the policy
}

// before makes the conversation that a history's messages of the policy belong
// to, up to the last of them.
func (t *task) before(history []shard.Message) (past, error) {
	last := -1
	for i, m := range history {
		if m.Role == roleAssistant {
			last = i
		}
	}
	if last < 0 {
		return past{}, exitcode.Bugf("prompting %q: the history has no message of the policy to iterate on", t.ID)
	}
	p := past{messages: t.opening(), requested: true, response: history[last].Content}
	for i, m := range history[:last] {
		if m.Role != roleAssistant {
			continue
		}
		p.messages = append(p.messages, m)
		end, _ := read(m.Content)
		p.requested = end == endsFinished
		switch {
		case end == endsCalls:
			p.messages = append(p.messages, history[i+1])
		case end == endsFinished && p.turn+1 < len(t.turns):
			p.turn++
			p.messages = append(p.messages, t.request(p.turn)...)
		default:
			return past{}, exitcode.Dataf("prompting %q: message %d of the history ends the episode, and the policy speaks again", t.ID, i+1)
		}
	}
	return p, nil
}

// Begin starts an episode, and brings the backend to where the history of the
// prompt has left it.
func (e *Env) Begin(ctx context.Context, of env.Task, prompt []shard.Message) (env.Episode, error) {
	t, known := e.tasks[of.ID]
	if !known {
		return nil, exitcode.Bugf("beginning an episode of %q: there is no such task", of.ID)
	}
	begun := e.newEpisode(t)
	err := begun.replay(ctx, prompt, nil)
	if err == nil && begun.over {
		err = exitcode.Dataf("beginning an episode of %q: the history of its prompt has ended already", t.ID)
	}
	if err != nil {
		return nil, closing(err, begun)
	}
	return begun, nil
}

// closing closes an episode that is of no use. Why it is not says more than
// what closing it may say.
func closing(err error, e *episode) error {
	_ = e.Close()
	return err
}

// docsSignature shows a function in one line instead of as JSON.
const docsSignature = "signature"

// describe shows functions to the policy.
func describe(functions []Function, docs string) (string, error) {
	lines := make([]string, len(functions))
	for i, f := range functions {
		if docs == docsSignature {
			signature, err := f.signature()
			if err != nil {
				return "", err
			}
			lines[i] = signature
			continue
		}
		text, err := plainjson.Line(f)
		if err != nil {
			return "", err
		}
		lines[i] = string(text)
	}
	return strings.Join(lines, "\n"), nil
}

// signature is the function in one line, in the manner of Python:
// name(required, optional=default).
func (f Function) signature() (string, error) {
	var schema struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(f.Parameters, &schema); err != nil {
		return "", fmt.Errorf("the parameters of %s: %w", f.Name, err)
	}
	names, err := keysInOrder(f.Parameters, "properties")
	if err != nil {
		return "", fmt.Errorf("the parameters of %s: %w", f.Name, err)
	}
	var words []string
	for _, required := range []bool{true, false} {
		for _, name := range names {
			if slices.Contains(schema.Required, name) != required {
				continue
			}
			word := name
			if !required {
				if word += "=?"; len(schema.Properties[name].Default) > 0 {
					word = name + "=" + string(schema.Properties[name].Default)
				}
			}
			words = append(words, word)
		}
	}
	return f.Name + "(" + strings.Join(words, ", ") + ")", nil
}

// keysInOrder lists the keys of an object inside an object as they stand in
// the text.
func keysInOrder(text json.RawMessage, field string) ([]string, error) {
	var outer map[string]json.RawMessage
	if err := json.Unmarshal(text, &outer); err != nil || len(outer[field]) == 0 {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(outer[field])))
	if _, err := decoder.Token(); err != nil { // {
		return nil, err
	}
	var keys []string
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name, isText := key.(string)
		if !isText {
			return nil, fmt.Errorf("%s is no object", field)
		}
		keys = append(keys, name)
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
