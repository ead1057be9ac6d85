package supervised

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/shard"
)

type columns = map[string]json.RawMessage

// example makes an example of a row, or says what is wrong with it.
func (s Settings) example(row columns) (e Example, fault string) {
	switch {
	case s.Prompt != "":
		e, fault = s.named(row)
	case has(row, "messages"):
		e.Messages, fault = messages(row["messages"], "messages")
	case has(row, "conversations"):
		e.Messages, fault = messages(row["conversations"], "conversations")
	case has(row, "prompt") && has(row, "completion"):
		e, fault = pair(row["prompt"], row["completion"])
	case has(row, "instruction") && has(row, "output"):
		e, fault = instruction(row)
	default:
		return e, fmt.Sprintf("the row has the columns %q, and needs messages, conversations, prompt and completion, or instruction and output; or name its own with %s.prompt and %s.completion", slices.Sorted(maps.Keys(row)), where, where)
	}
	if fault != "" {
		return e, fault
	}
	if s.System != "" && e.Messages[0].Role != "system" {
		e.Messages = append([]shard.Message{{Role: "system", Content: s.System}}, e.Messages...)
		if e.Given > 0 {
			e.Given++
		}
	}
	return e, check(e.Messages)
}

// check refuses what no policy can be asked: an answer must follow a question.
func check(conversation []shard.Message) string {
	last := conversation[len(conversation)-1]
	switch {
	case last.Role != "assistant":
		return fmt.Sprintf("the conversation ends with a message of the %s; it must end with one of the assistant", last.Role)
	case conversation[0].Role == "assistant":
		return "the conversation begins with a message of the assistant; it must begin with a question"
	}
	for i, m := range conversation {
		if m.Role == "system" && i > 0 {
			return fmt.Sprintf("message %d is of the system, which may speak only first", i+1)
		}
		if m.Role == "assistant" && strings.TrimSpace(m.Content) == "" {
			return fmt.Sprintf("message %d, of the assistant, is empty", i+1)
		}
	}
	return ""
}

func has(row columns, name string) bool {
	raw, there := row[name]
	return there && string(raw) != "null"
}

// roles are the roles of published data sets.
var roles = map[string]string{
	"system": "system", "user": "user", "assistant": "assistant", "tool": "tool",
	"human": "user", "gpt": "assistant", "chatgpt": "assistant", "model": "assistant", "bot": "assistant",
}

// messages reads a list of messages, or a text that holds one as JSON. A message has a role
// and content, or the names that ShareGPT has for them.
func messages(raw json.RawMessage, column string) ([]shard.Message, string) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var list []columns
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Sprintf("column %q is no list of messages with %q and %q, or %q and %q", column, "role", "content", "from", "value")
	}
	var conversation []shard.Message
	for i, m := range list {
		var role, content string
		roleKey, textKey := "role", "content"
		if !has(m, roleKey) && has(m, "from") {
			roleKey, textKey = "from", "value"
		}
		if json.Unmarshal(m[roleKey], &role) != nil || json.Unmarshal(m[textKey], &content) != nil || !has(m, roleKey) || !has(m, textKey) {
			return nil, fmt.Sprintf("column %q, message %d: it needs the texts %q and %q", column, i+1, roleKey, textKey)
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if key == "tool_calls" && has(m, key) && string(m[key]) != "[]" {
				return nil, fmt.Sprintf("column %q, message %d has %q, which is not implemented: put the call into the text of its content", column, i+1, key)
			}
		}
		known, is := roles[role]
		if !is {
			return nil, fmt.Sprintf("column %q, message %d: the role is %.40q and must be system, user, assistant or tool", column, i+1, role)
		}
		conversation = append(conversation, shard.Message{Role: known, Content: content})
	}
	return conversation, ""
}

// pair is a prompt and a completion: texts, or lists of messages.
func pair(prompt, completion json.RawMessage) (e Example, fault string) {
	var question, answer string
	asked, answered := json.Unmarshal(prompt, &question), json.Unmarshal(completion, &answer)
	if asked == nil && answered == nil {
		return single(question, answer), ""
	}
	if (asked == nil) != (answered == nil) {
		return e, "one of the columns \"prompt\" and \"completion\" is a text and the other is none: both must be texts, or both lists of messages"
	}
	if e.Messages, fault = messages(prompt, "prompt"); fault != "" {
		return e, fault
	}
	e.Given = len(e.Messages)
	rest, fault := messages(completion, "completion")
	e.Messages = append(e.Messages, rest...)
	return e, fault
}

func single(question, answer string) Example {
	return Example{Messages: []shard.Message{{Role: "user", Content: question}, {Role: "assistant", Content: answer}}, Given: 1}
}

// instruction is a row of Alpaca's form: the input, which may be missing, follows the
// instruction.
func instruction(row columns) (e Example, fault string) {
	var texts [3]string
	for i, name := range []string{"instruction", "input", "output"} {
		if !has(row, name) {
			continue
		}
		if texts[i], fault = text(row, name); fault != "" {
			return e, fault
		}
	}
	question := texts[0]
	if texts[1] != "" {
		question += "\n\n" + texts[1]
	}
	return single(question, texts[2]), ""
}

// named is a row whose columns the recipe names.
func (s Settings) named(row columns) (e Example, fault string) {
	raw, there := dataset.Lookup(row, s.Prompt)
	if rest, both := dataset.Lookup(row, s.Completion); there && both && strings.HasPrefix(string(raw), "[") {
		return pair(raw, rest)
	}
	question, fault := fill(row, s.Prompt)
	if fault != "" {
		return e, where + ".prompt: " + fault
	}
	answer, fault := fill(row, s.Completion)
	if fault != "" {
		return e, where + ".completion: " + fault
	}
	return single(question, answer), ""
}

var braced = lazyregexp.New(`\{[^{}]+\}`)

// fill is the text of a field, or of a template with fields in braces.
func fill(row columns, template string) (filled, fault string) {
	if _, there := dataset.Lookup(row, template); there || !braced().MatchString(template) {
		return text(row, template)
	}
	filled = braced().ReplaceAllStringFunc(template, func(field string) string {
		value, wrong := text(row, field[1:len(field)-1])
		if wrong != "" {
			fault = wrong
		}
		return value
	})
	return filled, fault
}

// text is that of a field: a string, or a number or a bool as it is written.
func text(row columns, path string) (value, fault string) {
	raw, there := dataset.Lookup(row, path)
	switch {
	case !there:
		return "", fmt.Sprintf("there is no column %q: the row has %q", path, slices.Sorted(maps.Keys(row)))
	case json.Unmarshal(raw, &value) == nil && string(raw) != "null":
		return value, ""
	case strings.IndexByte("{[n", raw[0]) < 0:
		return string(raw), ""
	}
	return "", fmt.Sprintf("column %q is no text: %.60s", path, raw)
}
