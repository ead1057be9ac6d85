package chat

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// house is the format of lathe_chat.json.
type house struct{ format *tokenizer.Chat }

// House is the chat of a format that puts tokens together.
func House(format *tokenizer.Chat) Chat { return house{format} }

func (h house) Tokenizer() *tokenizer.Tokenizer { return h.format.Tokenizer() }

func (h house) StopTokens() []int32 { return []int32{h.format.StopToken()} }

func (h house) Prompt(conversation []shard.Message) ([]int32, error) {
	ids, _, err := h.prompt(conversation, !beginsAnswer(conversation), beginsAnswer(conversation))
	return ids, err
}

// prompt renders messages, of which the last one may be left open.
func (h house) prompt(messages []shard.Message, generationPrompt, continueFinal bool) (ids []int32, assistant []bool, err error) {
	if !continueFinal {
		return h.format.Render(messages, generationPrompt)
	}
	last := messages[len(messages)-1]
	if last.Role != "assistant" {
		return nil, nil, exitcode.Dataf("the last message has the role %q; only the assistant's can be continued", last.Role)
	}
	if ids, assistant, err = h.format.Render(messages[:len(messages)-1], true); err != nil {
		return nil, nil, err
	}
	begun := h.Tokenizer().EncodeText(last.Content)
	return append(ids, begun...), append(assistant, make([]bool, len(begun))...), nil
}

func (h house) Continue(conversation []shard.Message, stopped bool) ([]int32, error) {
	answered, err := lastAnswer(conversation)
	if err != nil {
		return nil, err
	}
	ids, _, err := h.format.Render(conversation[answered+1:], true)
	if err != nil {
		return nil, err
	}
	return append(append([]int32{}, h.format.CloseResponse(stopped)...), ids...), nil
}

func (h house) Demonstrate(conversation []shard.Message) ([]int32, []bool, error) {
	if err := endsInAnswer(conversation); err != nil {
		return nil, nil, err
	}
	return h.format.Render(conversation, false)
}

// Render renders in the house format, which has neither tools nor messages
// other than a role and a text. It always spells out.
func (h house) Render(c Conversation, o RenderOptions) (Rendered, error) {
	if c.Tools != nil && c.Tools.Len() > 0 {
		return Rendered{}, exitcode.Dataf("the chat format of %s has no tools", tokenizer.ChatFile)
	}
	messages := make([]shard.Message, len(c.Messages))
	for i, m := range c.Messages {
		for _, field := range []struct {
			name string
			text *string
		}{{"role", &messages[i].Role}, {"content", &messages[i].Content}} {
			value, _ := m.Get(field.name)
			text, ok := value.(string)
			if !ok {
				return Rendered{}, exitcode.Dataf("message %d: the chat format of %s needs a %s that is a text", i, tokenizer.ChatFile, field.name)
			}
			*field.text = text
		}
	}
	if len(messages) == 0 {
		return Rendered{}, exitcode.Dataf("the conversation is empty")
	}
	if o.ContinueFinal && o.GenerationPrompt {
		return Rendered{}, errBothEnds
	}
	ids, assistant, err := h.prompt(messages, o.GenerationPrompt, o.ContinueFinal)
	if err != nil {
		return Rendered{}, err
	}
	text := h.text(messages, o.GenerationPrompt)
	if o.ContinueFinal {
		last := len(messages) - 1
		text = h.text(messages[:last], true) + messages[last].Content
	}
	return Rendered{Text: text, TokenIDs: ids, Assistant: assistant}, nil
}

func (h house) text(messages []shard.Message, generationPrompt bool) string {
	f := h.format.Format()
	around := map[string][2]string{
		"system": {f.SystemPrefix, f.SystemSuffix}, "user": {f.UserPrefix, f.UserSuffix},
		"assistant": {f.AssistantPrefix, f.AssistantSuffix},
	}
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(around[m.Role][0] + m.Content + around[m.Role][1])
	}
	if generationPrompt {
		b.WriteString(f.AssistantPrefix)
	}
	return b.String()
}

// lastAnswer finds the last assistant message.
func lastAnswer(conversation []shard.Message) (int, error) {
	for i := len(conversation) - 1; i >= 0; i-- {
		if conversation[i].Role == "assistant" {
			return i, nil
		}
	}
	return 0, exitcode.Bugf("a conversation of %d messages cannot continue after the assistant's answer: it has no message of the assistant", len(conversation))
}

func endsInAnswer(conversation []shard.Message) error {
	if n := len(conversation); n == 0 || conversation[n-1].Role != "assistant" {
		return exitcode.Dataf("a demonstration of %d messages does not end with one of the assistant", n)
	}
	return nil
}
