package command

import (
	"bufio"
	"encoding/json"
	"errors"
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
		Flags: []cli.Flag{
			model,
			&cli.BoolFlag{Name: "add-special-tokens", Usage: "put the special tokens around each text that the tokenizer puts around texts"},
			&cli.BoolFlag{Name: "split-special-tokens", Usage: "take the name of a special token in a text as text"},
		},
		Action: policyTokenize,
	}
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
	encode := t.Encode
	if c.Bool("split-special-tokens") {
		encode = t.EncodeText
	}
	if c.Bool("add-special-tokens") {
		plain := encode
		encode = func(text string) []int32 { return t.WithSpecial(plain(text)) }
	}
	return tokenizeLines(os.Stdin, stdout, encode)
}

// tokenizeLines answers each line before it waits for the next: what reads
// the answers may write the questions.
func tokenizeLines(in io.Reader, out io.Writer, encode func(string) []int32) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	for number := 1; ; number++ {
		line, err := readLine(reader)
		if err == io.EOF {
			return writer.Flush()
		}
		if err == nil {
			var q question
			if q, err = parseTextQuestion(line); err == nil {
				err = encoder.Encode(tokenized{ID: q.ID, TokenIDs: encode(*q.Text)})
			} else {
				err = exit.Dataf("standard input, line %d: %w", number, err)
			}
		} else {
			err = exit.Dataf("standard input, line %d: %w", number, err)
		}
		if err != nil {
			return errors.Join(err, writer.Flush())
		}
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return err
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

// readLine returns a line without its end; the last one may lack it. A line
// beyond maxLineBytes is an error.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLineBytes:
			return nil, bufio.ErrTooLong
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) > 0:
			return line, nil
		}
		return line, err
	}
}
