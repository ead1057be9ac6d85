package command

import (
	"encoding/json"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func tokenizeCommand(model cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "tokenize", Usage: `token ids: {"id","text"} per line in, {"id","token_ids"} out; the folder needs no weights`,
		Flags:  append([]cli.Flag{model}, textFlags()...),
		Action: policyTokenize,
	}
}

// textFlags say how a text becomes token ids.
func textFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "add-special-tokens", Usage: "put the special tokens around each text that the tokenizer puts around texts"},
		&cli.BoolFlag{Name: "split-special-tokens", Usage: "take the name of a special token in a text as text"},
	}
}

// textEncoder encodes as the text flags say.
func textEncoder(c *cli.Context, t *tokenizer.Tokenizer) func(text string) []int32 {
	encode := t.Encode
	if c.Bool("split-special-tokens") {
		encode = t.EncodeText
	}
	if !c.Bool("add-special-tokens") {
		return encode
	}
	return func(text string) []int32 { return t.WithSpecial(encode(text)) }
}

// tokenized is a line that lathe policy tokenize prints.
type tokenized struct {
	ID       json.RawMessage `json:"id"`
	TokenIDs []int32         `json:"token_ids"`
}

func policyTokenize(c *cli.Context) error {
	values, err := need(c, "model")
	if err != nil {
		return err
	}
	t, err := tokenizer.Load(values["model"])
	if err != nil {
		return err
	}
	encode := textEncoder(c, t)
	return answerer{gather: true, answer: func(line []byte) (any, error) {
		q, err := parseTextQuestion(line)
		if err != nil {
			return nil, err
		}
		return tokenized{ID: q.ID, TokenIDs: encode(*q.Text)}, nil
	}}.run(standardInput(c), stdout)
}

func parseTextQuestion(line []byte) (question, error) {
	var q question
	if err := decode(line, &q, false); err != nil {
		return q, err
	}
	if q.Text == nil {
		return q, errors.New(`no "text"`)
	}
	return q, nil
}
