package command

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// PolicyTokenizeOptions are those of lathe policy tokenize.
type PolicyTokenizeOptions struct {
	Model string // folder; it needs no weights
	TextOptions
}

func policyTokenizeCommand() *cli.Command {
	var o PolicyTokenizeOptions
	return cmdline.Help{
		Example: `echo '{"id": 1, "text": "hqcaxtbnze="}' | lathe policy tokenize --model runs/quickstart/policy/v000000`,
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "tokenize", Usage: `tokenize text: reads lines of {"id","text"}, prints {"id","token_ids"}; needs no weights`,
		Flags:  append([]cli.Flag{modelFlag(&o.Model)}, o.TextOptions.flags()...),
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PolicyTokenize(c.Context, c.App.Reader, c.App.Writer, o) }),
	})
}

// textLine is a line of lathe policy tokenize.
type textLine struct {
	ID   json.RawMessage `json:"id"`
	Text *string         `json:"text"`
}

// tokenized is a line that lathe policy tokenize prints.
type tokenized struct {
	ID       json.RawMessage `json:"id"`
	TokenIDs []int32         `json:"token_ids"`
}

// PolicyTokenize encodes the text of each line of the input.
func PolicyTokenize(ctx context.Context, in io.Reader, out io.Writer, o PolicyTokenizeOptions) error {
	if err := cmdline.Required("model", o.Model); err != nil {
		return err
	}
	t, err := tokenizer.Load(o.Model)
	if err != nil {
		return err
	}
	encode := o.encoder(t)
	return jsonlines.Answerer{Gather: true, Answer: func(line []byte) (any, error) {
		var q textLine
		if err := plainjson.Strict(line, &q); err != nil {
			return nil, err
		}
		if q.Text == nil {
			return nil, errors.New(`"text" is missing`)
		}
		return tokenized{ID: q.ID, TokenIDs: encode(*q.Text)}, nil
	}}.Run(jsonlines.NewReader(ctx, in), out)
}
