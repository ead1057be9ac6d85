package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/jinja"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// PolicyRenderOptions are those of lathe policy render.
type PolicyRenderOptions struct {
	Model            string // folder
	Date             string // that the chat template tells, as 2026-11-21; empty is none
	GenerationPrompt bool   // open the assistant's next message
	ContinueFinal    bool   // leave the last message open for the policy to continue
	SpellOut         bool   // encode the names of special tokens in messages as text
}

func policyRenderCommand() *cli.Command {
	var o PolicyRenderOptions
	return cmdline.Help{
		Example: `echo '{"id": 1, "messages": [{"role": "user", "content": "hqcaxtbnze="}]}' | lathe policy render --model runs/quickstart/policy/v000000`,
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "render", Usage: `apply the chat template: reads lines of {"id","messages","tools"}, prints {"id","text","token_ids","assistant_mask"}`,
		Flags: []cli.Flag{
			modelFlag(&o.Model), dateFlag(&o.Date),
			&cli.BoolFlag{Name: "add-generation-prompt", Usage: "start the assistant's next message", Destination: &o.GenerationPrompt},
			&cli.BoolFlag{Name: "continue-final-message", Usage: "leave the last message unterminated, for the policy to continue", Destination: &o.ContinueFinal},
			&cli.BoolFlag{Name: "spell-out", Usage: "encode the names of special tokens in messages as plain text, as training does", Destination: &o.SpellOut},
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PolicyRender(c.Context, c.App.Reader, c.App.Writer, o) }),
	})
}

// conversation is a line of lathe policy render. Messages and tools are read
// with their keys in order, for templates print them.
type conversation struct {
	ID json.RawMessage `json:"id"`
	templated
}

// templated are the parts of a line that templates read.
type templated struct {
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

// PolicyRender applies a policy's chat template to each line of the input.
func PolicyRender(ctx context.Context, in io.Reader, out io.Writer, o PolicyRenderOptions) error {
	if o.GenerationPrompt && o.ContinueFinal {
		return cmdline.Misusef("--add-generation-prompt and --continue-final-message exclude each other")
	}
	if err := checkModel(o.Model); err != nil {
		return err
	}
	date, err := parseDate(o.Date)
	if err != nil {
		return err
	}
	format, err := chat.Load(o.Model, date)
	if err != nil {
		return err
	}
	options := chat.RenderOptions{GenerationPrompt: o.GenerationPrompt, ContinueFinal: o.ContinueFinal, SpellOut: o.SpellOut}
	lines := jsonlines.NewReader(ctx, in)
	var refused []error
	err = jsonlines.Answerer{
		Answer: func(line []byte) (any, error) { return render(format, line, options) },
		Refuse: func(line []byte, fault error) any {
			refused = append(refused, lines.Fault(fault))
			return lines.Refusal(line, fault)
		},
	}.Run(lines, out)
	if err != nil || len(refused) == 0 {
		return err
	}
	return exitcode.Dataf("%s could not be rendered; the output gives each reason; the first: %w", plural.Of(len(refused), lines.Number, "line"), refused[0])
}

func render(format chat.Chat, line []byte, o chat.RenderOptions) (rendering, error) {
	var in conversation
	if err := plainjson.Strict(line, &in); err != nil {
		return rendering{}, aboutVariables(err)
	}
	c, err := in.read()
	if err != nil {
		return rendering{}, err
	}
	if err := format.Check(c); err != nil {
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

// aboutVariables adds to the error about an unknown field where variables of
// templates belong.
func aboutVariables(err error) error {
	if strings.HasPrefix(err.Error(), "there is no field ") {
		return fmt.Errorf(`%w; put variables of the chat template, such as enable_thinking, into "chat_template_kwargs"`, err)
	}
	return err
}

// read reads the parts of a conversation whose keys keep their order.
func (in templated) read() (chat.Conversation, error) {
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
		if err := mistyped(message); err != nil {
			return c, fmt.Errorf("message %d: %w", i, err)
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

// mistyped refuses a message whose role is no string, or whose content is neither a
// string nor, as some templates take it, a list of parts. What a tool returned is any
// value.
func mistyped(message *jinja.Dict) error {
	role, _ := message.Get("role")
	switch name, ok := role.(string); {
	case !ok:
		return exitcode.Dataf(`"role" must be a string`)
	case name == "tool":
		return nil
	}
	switch content, _ := message.Get("content"); content.(type) {
	case nil, string, *jinja.Sequence:
		return nil
	}
	return exitcode.Dataf(`"content" must be a string`)
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
