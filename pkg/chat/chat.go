// Package chat turns conversations into the tokens that a policy sees and
// learns from.
//
// Two formats are implemented. The house format (lathe_chat.json, of policies
// that Lathe makes) puts tokens together exactly: prefix, content, suffix. The
// other one is the Jinja chat template that a model's folder brings along, as
// transformers' apply_chat_template renders it, tools and reasoning included.
//
// What a policy is trained on is what it saw and made: [Chat.Prompt] and
// [Chat.Continue] never touch the tokens that were sampled before, and
// [Chat.Demonstrate] puts a conversation with given answers together in just
// the same way. In all three the name of a special token in a message is
// spelled out as text: no message ends a turn or begins another one. Only
// [Chat.Render] encodes a text as transformers does, with such names taken for
// the tokens, unless told otherwise.
package chat

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Chat renders conversations for one policy. It is safe for concurrent use.
type Chat interface {
	Tokenizer() *tokenizer.Tokenizer

	// StopTokens end a response, each of them.
	StopTokens() []int32

	// Prompt returns the tokens of a conversation up to where the policy is to
	// speak. A last message of the assistant is the beginning of what it says.
	Prompt(conversation []shard.Message) ([]int32, error)

	// Continue returns the tokens that follow a response in a conversation
	// that goes on: the end of the message that the conversation's last
	// assistant message is, all after it, and the opening of the next one.
	// stopped says that the response ended in a stop token, which is then not
	// repeated.
	Continue(conversation []shard.Message, stopped bool) ([]int32, error)

	// Demonstrate returns the tokens of a conversation that ends in an
	// assistant message, as they would be had the policy said all that the
	// assistant says, and of the same length which of them it would have
	// sampled: the answers and the stop tokens.
	Demonstrate(conversation []shard.Message) (ids []int32, sampled []bool, err error)

	// Render renders a conversation as text and tokens.
	Render(c Conversation, o RenderOptions) (Rendered, error)

	// Check refuses a conversation with parts that the format leaves out:
	// fields of messages, tools and variables that its template never names.
	Check(c Conversation) error
}

// Conversation is a conversation with all that OpenAI's API puts into it.
type Conversation struct {
	Messages []*jinja.Dict // role, content, tool_calls, reasoning_content, …
	Tools    *jinja.Sequence
	// Variables are passed on to the template, such as enable_thinking.
	Variables *jinja.Dict
}

// RenderOptions say how to render.
type RenderOptions struct {
	GenerationPrompt bool // open the assistant's next message
	// ContinueFinal leaves the last message, a text, open at its end for the
	// policy to continue, as transformers' continue_final_message.
	ContinueFinal bool
	// SpellOut encodes the names of special tokens in messages and tools as
	// text, as transformers' sanitize_control_tokens does for special tokens.
	SpellOut bool
}

// Rendered is a rendered conversation.
type Rendered struct {
	Text     string
	TokenIDs []int32
	// Assistant marks the tokens that the assistant says. A template with
	// generation blocks marks them itself. Without, an answer is what follows
	// the prompt that asked for it, up to the token that ends its turn; an
	// answer that the whole conversation shows otherwise than when it was
	// given (Qwen3 takes the reasoning of earlier turns away) is not marked.
	Assistant []bool
}

// Settings are what a template cannot know by itself.
type Settings struct {
	// Date is what strftime_now tells, which is undefined when it is zero:
	// the same run gives the same prompts on any day.
	Date time.Time
	// Folder is where messages of errors say that the template is from.
	Folder string
	// StopTokens end a response beside the token that ends a turn in the
	// template.
	StopTokens []int32
	// Variables are the special tokens by their role (bos_token, …).
	Variables *jinja.Dict
	// Given are variables of every conversation, such as enable_thinking; those
	// of a conversation go before them.
	Given *jinja.Dict
}

// The files of a folder that say how its policy chats, beside tokenizer.ChatFile.
const (
	TemplateFile      = "chat_template.jinja"
	TemplatesFolder   = "additional_chat_templates" // NAME.jinja each
	generationFile    = "generation_config.json"
	modelConfigFile   = "config.json"
	longestTemplate   = 1 << 20 // bytes
	longestConfigFile = 64 << 20
)

// Load reads the tokenizer and the chat format of a model folder: the house
// format if there is one, otherwise the Jinja template.
func Load(folder string, date time.Time) (Chat, error) { return LoadGiven(folder, date, nil) }

// LoadGiven is Load with variables for the template of every conversation. It
// refuses those that the template never reads.
func LoadGiven(folder string, date time.Time, given *jinja.Dict) (Chat, error) {
	c, err := load(folder, date, given)
	if err != nil {
		return nil, err
	}
	if given != nil {
		err = c.Check(Conversation{Variables: given})
	}
	return c, err
}

func load(folder string, date time.Time, given *jinja.Dict) (Chat, error) {
	if _, err := os.Lstat(filepath.Join(folder, tokenizer.ChatFile)); !errors.Is(err, fs.ErrNotExist) {
		format, err := tokenizer.LoadChat(folder)
		if err != nil {
			return nil, err
		}
		return House(format), nil
	}
	t, err := tokenizer.Load(folder)
	if err != nil {
		return nil, err
	}
	config, err := plainfile.ReadFields(filepath.Join(folder, tokenizer.ConfigFile), longestConfigFile)
	if err != nil {
		return nil, err
	}
	templates, err := readTemplates(folder, config)
	if err != nil {
		return nil, err
	}
	stops, err := endTokens(folder, t)
	if err != nil {
		return nil, err
	}
	return New(t, templates, Settings{Date: date, Folder: folder, StopTokens: stops, Variables: roleTokens(t), Given: given})
}

// roleTokens lists the special tokens of a folder by their names.
func roleTokens(t *tokenizer.Tokenizer) *jinja.Dict {
	named, tokens := t.Named(), jinja.NewDict()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		tokens.Set(name, named[name])
	}
	return tokens
}

// endTokens lists the tokens at which generation ends: eos_token_id of
// generation_config.json and of config.json, and the tokenizer's eos_token.
func endTokens(folder string, t *tokenizer.Tokenizer) ([]int32, error) {
	var stops []int32
	add := func(id int32) {
		if !slices.Contains(stops, id) {
			stops = append(stops, id)
		}
	}
	for _, name := range []string{generationFile, modelConfigFile} {
		path := filepath.Join(folder, name)
		fields, err := plainfile.ReadFields(path, longestConfigFile)
		if err != nil {
			return nil, err
		}
		var one *int32
		var several []int32
		if raw := fields["eos_token_id"]; len(raw) > 0 && json.Unmarshal(raw, &several) != nil && json.Unmarshal(raw, &one) != nil {
			return nil, exitcode.Dataf("reading %q: eos_token_id: want a token id or a list of them", path)
		}
		if one != nil {
			several = []int32{*one}
		}
		for _, id := range several {
			add(id)
		}
	}
	if id, ok := t.SpecialID(t.Roles().EOS); ok {
		add(id)
	}
	return stops, nil
}

// FromMessages is a conversation of plain messages.
func FromMessages(messages []shard.Message) Conversation {
	c := Conversation{}
	for _, m := range messages {
		d := jinja.NewDict()
		d.Set("role", m.Role)
		d.Set("content", m.Content)
		c.Messages = append(c.Messages, d)
	}
	return c
}
