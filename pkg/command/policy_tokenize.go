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
		Name: "tokenize", Usage: `token ids: {"id","text"} per line in, {"id","token_ids"} out; the folder needs no weights`,
		Flags:  append([]cli.Flag{modelFlag(&o.Model)}, o.TextOptions.flags()...),
		Action: cmdline.NoArguments(func(c *cli.Context) error { return PolicyTokenize(c.Context, c.App.Reader, c.App.Writer, o) }),
	})
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
		q, err := parseTextQuestion(line)
		if err != nil {
			return nil, err
		}
		return tokenized{ID: q.ID, TokenIDs: encode(*q.Text)}, nil
	}}.Run(jsonlines.NewReader(ctx, in), out)
}

func parseTextQuestion(line []byte) (question, error) {
	var q question
	if err := jsonlines.Decode(line, &q, false); err != nil {
		return q, err
	}
	if q.Text == nil {
		return q, errors.New(`no "text"`)
	}
	return q, nil
}
