package command

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/jinja"
)

// dateFlag reads --date; the zero time when it is not given.
func dateFlag(c *cli.Context) (time.Time, error) {
	if !c.IsSet("date") {
		return time.Time{}, nil
	}
	date, err := time.Parse(time.DateOnly, c.String("date"))
	if err != nil {
		return date, exitcode.Usagef("--date: %w", err)
	}
	return date, nil
}

// conversation is a line of lathe policy render. Messages and tools are read
// with their keys in order, for templates print them.
type conversation struct {
	ID        json.RawMessage `json:"id"`
	Messages  json.RawMessage `json:"messages"`
	Tools     json.RawMessage `json:"tools"`
	Variables json.RawMessage `json:"chat_template_kwargs"`
}

// rendering is a line that it prints.
type rendering struct {
	ID        json.RawMessage `json:"id"`
	Text      string          `json:"text"`
	TokenIDs  []int32         `json:"token_ids"`
	Assistant []int           `json:"assistant_mask"`
}

func policyRender(c *cli.Context) error {
	folder, err := model(c)
	if err != nil {
		return err
	}
	date, err := dateFlag(c)
	if err != nil {
		return err
	}
	format, err := chat.Load(folder, date)
	if err != nil {
		return err
	}
	options := chat.RenderOptions{GenerationPrompt: c.Bool("add-generation-prompt"), SpellOut: c.Bool("spell-out")}
	return answerer{answer: func(line []byte) (any, error) { return render(format, line, options) }}.run(standardInput(c), stdout)
}

func render(format chat.Chat, line []byte, o chat.RenderOptions) (rendering, error) {
	var in conversation
	if err := decode(line, &in, false); err != nil {
		return rendering{}, err
	}
	c, err := in.read()
	if err != nil {
		return rendering{}, err
	}
	r, err := format.Render(c, o)
	if err != nil {
		return rendering{}, err
	}
	out := rendering{ID: in.ID, Text: r.Text, TokenIDs: r.TokenIDs, Assistant: make([]int, len(r.Assistant))}
	for i, said := range r.Assistant {
		if said {
			out.Assistant[i] = 1
		}
	}
	return out, nil
}

// read reads the parts of a conversation whose keys keep their order.
func (in conversation) read() (chat.Conversation, error) {
	var c chat.Conversation
	messages, err := parse[*jinja.Sequence](in.Messages, "messages is not a list")
	if err != nil {
		return c, err
	}
	if messages == nil {
		return c, exitcode.Dataf("messages is missing")
	}
	for i := range messages.Len() {
		message, ok := messages.Item(i).(*jinja.Dict)
		if !ok {
			return c, exitcode.Dataf("message %d is not an object", i)
		}
		c.Messages = append(c.Messages, message)
	}
	if c.Tools, err = parse[*jinja.Sequence](in.Tools, "tools is not a list"); err != nil {
		return c, err
	}
	for i := 0; c.Tools != nil && i < c.Tools.Len(); i++ {
		if _, ok := c.Tools.Item(i).(*jinja.Dict); !ok {
			return c, exitcode.Dataf("tool %d is not an object", i)
		}
	}
	c.Variables, err = parse[*jinja.Dict](in.Variables, "chat_template_kwargs is not an object")
	return c, err
}

// parse reads a JSON value of one type; nil when it is missing or null.
func parse[T any](raw json.RawMessage, fault string) (value T, err error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return value, nil
	}
	v, err := jinja.ParseJSON(raw)
	if err != nil {
		return value, err
	}
	value, ok := v.(T)
	if !ok {
		return value, exitcode.Dataf("%s", fault)
	}
	return value, nil
}
