package tokenizer

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// ChatFormat is the text around each message of a conversation. The names of
// special tokens in it become those tokens. The assistant's suffix holds the
// special token at which generation stops.
type ChatFormat struct {
	SystemPrefix    string `json:"system_prefix"`
	SystemSuffix    string `json:"system_suffix"`
	UserPrefix      string `json:"user_prefix"`
	UserSuffix      string `json:"user_suffix"`
	AssistantPrefix string `json:"assistant_prefix"`
	AssistantSuffix string `json:"assistant_suffix"`
}

// Chat renders conversations for one tokenizer in one format.
//
// Prefix, content and suffix are encoded apart from each other, so that
// rendering a conversation with an answer in it gives exactly the tokens that
// the policy saw and made: the prompt, the answer's tokens, the stop token.
type Chat struct {
	tokenizer *Tokenizer
	format    ChatFormat
	pieces    map[string]affixes // by role
	stopAt    int                // where the stop token is in the assistant's suffix
}

type affixes struct{ prefix, suffix []int32 }

// NewChat encodes a format's strings. An assistant's suffix without a special
// token is a usage error: generation would never stop.
func NewChat(t *Tokenizer, format ChatFormat) (*Chat, error) {
	c := &Chat{tokenizer: t, format: format, stopAt: -1, pieces: map[string]affixes{
		"system":    {t.Encode(format.SystemPrefix), t.Encode(format.SystemSuffix)},
		"user":      {t.Encode(format.UserPrefix), t.Encode(format.UserSuffix)},
		"assistant": {t.Encode(format.AssistantPrefix), t.Encode(format.AssistantSuffix)},
	}}
	for i, id := range c.pieces["assistant"].suffix {
		if t.IsSpecial(id) {
			c.stopAt = i
			break
		}
	}
	if c.stopAt < 0 {
		return nil, exitcode.Usagef("the assistant suffix %q has no special token of the tokenizer for generation to stop at",
			format.AssistantSuffix)
	}
	return c, nil
}

// maxChatFileBytes bounds a lathe_chat.json.
const maxChatFileBytes = 1 << 20

// LoadChat reads the tokenizer and lathe_chat.json of a model folder.
func LoadChat(folder string) (*Chat, error) {
	t, err := Load(folder)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, ChatFile)
	raw, err := plainfile.Read(path, maxChatFileBytes)
	if err != nil {
		return nil, err
	}
	var format ChatFormat
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&format); err != nil {
		return nil, exitcode.Dataf("reading %q: %w", path, err)
	}
	c, err := NewChat(t, format)
	if err != nil {
		return nil, exitcode.Dataf("reading %q: %w", path, err)
	}
	return c, nil
}

// Tokenizer returns the tokenizer that the chat renders with.
func (c *Chat) Tokenizer() *Tokenizer { return c.tokenizer }

// Format returns the chat's format.
func (c *Chat) Format() ChatFormat { return c.format }

// StopToken is the special token that ends an assistant's message.
func (c *Chat) StopToken() int32 { return c.pieces["assistant"].suffix[c.stopAt] }

// Render returns the token ids of a conversation and, of the same length,
// which of them the policy makes: the content of assistant messages and their
// suffix up to the stop token. With addGenerationPrompt the assistant's prefix
// follows, ready for generation. Special tokens named in a message's content
// are spelled out as text. A role other than system, user and assistant is a
// data error.
func (c *Chat) Render(messages []shard.Message, addGenerationPrompt bool) (ids []int32, assistant []bool, err error) {
	add := func(more []int32, byPolicy bool) {
		ids = append(ids, more...)
		for range more {
			assistant = append(assistant, byPolicy)
		}
	}
	for i, m := range messages {
		around, ok := c.pieces[m.Role]
		if !ok {
			return nil, nil, exitcode.Dataf("message %d has the role %q; system, user and assistant can be rendered", i, m.Role)
		}
		byPolicy := m.Role == "assistant"
		add(around.prefix, false)
		add(c.tokenizer.EncodeText(m.Content), byPolicy)
		if byPolicy {
			add(around.suffix[:c.stopAt+1], true)
			add(around.suffix[c.stopAt+1:], false)
		} else {
			add(around.suffix, false)
		}
	}
	if addGenerationPrompt {
		add(c.pieces["assistant"].prefix, false)
	}
	return ids, assistant, nil
}

// CloseResponse returns the tokens that follow a sampled response in a
// conversation that goes on: what the assistant's suffix has after the stop
// token or, when the response was cut off, the whole suffix.
func (c *Chat) CloseResponse(stopped bool) []int32 {
	suffix := c.pieces["assistant"].suffix
	if stopped {
		return suffix[c.stopAt+1:]
	}
	return suffix
}

// Jinja is the same format as a chat template of Hugging Face transformers.
func (f ChatFormat) Jinja() string {
	var b strings.Builder
	b.WriteString("{% for message in messages %}")
	keyword := "if"
	for _, role := range []struct{ name, prefix, suffix string }{
		{"system", f.SystemPrefix, f.SystemSuffix},
		{"user", f.UserPrefix, f.UserSuffix},
		{"assistant", f.AssistantPrefix, f.AssistantSuffix},
	} {
		b.WriteString("{% " + keyword + " message['role'] == '" + role.name + "' %}{{ " +
			jinjaQuote(role.prefix) + " + message['content'] + " + jinjaQuote(role.suffix) + " }}")
		keyword = "elif"
	}
	b.WriteString("{% endif %}{% endfor %}{% if add_generation_prompt %}{{ " + jinjaQuote(f.AssistantPrefix) + " }}{% endif %}")
	return b.String()
}

// jinjaQuote writes a string literal; Jinja reads Python's escapes.
func jinjaQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + "'"
}
