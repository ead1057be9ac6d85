package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exit"
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
	return tokenizeLines(os.Stdin, stdout, textEncoder(c, t))
}

// tokenizeLines answers each line before it waits for the next: whoever writes
// the lines may wait for the answer. The first bad line ends it.
func tokenizeLines(in io.Reader, out io.Writer, encode func(string) []int32) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	for number := 1; ; number++ {
		line, err := readLine(reader)
		if errors.Is(err, io.EOF) {
			return writer.Flush()
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return errors.Join(fmt.Errorf("reading standard input: %w", err), writer.Flush())
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var q question
		if err == nil {
			q, err = parseTextQuestion(line)
		}
		if err != nil {
			return errors.Join(exit.Dataf("standard input, line %d: %w", number, err), writer.Flush())
		}
		if err := encoder.Encode(tokenized{ID: q.ID, TokenIDs: encode(*q.Text)}); err != nil {
			return fmt.Errorf("writing token ids: %w", err)
		}
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return fmt.Errorf("writing token ids: %w", err)
			}
		}
	}
}

func parseTextQuestion(line []byte) (question, error) {
	var q question
	if !utf8.Valid(line) {
		return q, errors.New("not UTF-8")
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return q, err
	}
	if q.Text == nil {
		return q, errors.New(`no "text"`)
	}
	return q, nil
}
