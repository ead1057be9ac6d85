package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// maxLineBytes bounds a line of standard input.
const maxLineBytes = 16 << 20

// errLongLine is a fault of a line; the lines after it can be read.
var errLongLine = fmt.Errorf("the line is longer than %d bytes", maxLineBytes)

// interruptible reads a file until a context ends.
type interruptible struct {
	ctx    context.Context
	file   io.Reader
	buffer []byte
}

// Read leaves a blocked read behind when the context ends: nothing else ends
// one, and the process is about to. Until then one read follows the other, so
// that the buffer is theirs alone.
func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.buffer) < len(p) {
		r.buffer = make([]byte, len(p))
	}
	buffer, n := r.buffer[:len(p)], 0
	read := make(chan error, 1)
	go func() {
		var err error
		n, err = r.file.Read(buffer)
		read <- err
	}()
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case err := <-read:
		return copy(p, buffer[:n]), err
	}
}

// lineInput is standard input, read line by line.
type lineInput struct {
	ctx    context.Context
	reader *bufio.Reader
	number int // of the line that was read last, from 1
}

func standardInput(c *cli.Context) *lineInput {
	return &lineInput{ctx: c.Context, reader: bufio.NewReaderSize(&interruptible{ctx: c.Context, file: os.Stdin}, 1<<16)}
}

// line returns the next line without its end, which may be CRLF, and without
// a byte order mark at the beginning of the input. After the last one it
// returns io.EOF. Of a line that is too long it returns the beginning and
// errLongLine.
func (in *lineInput) line() ([]byte, error) {
	err := in.ctx.Err()
	var line []byte
	if err == nil {
		line, err = readLine(in.reader)
	}
	if err != nil && !errors.Is(err, errLongLine) {
		if err == io.EOF {
			return nil, err
		}
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	if in.number++; in.number == 1 {
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	return bytes.TrimSuffix(line, []byte("\r")), err
}

// next is line but for blank ones.
func (in *lineInput) next() ([]byte, error) {
	for {
		line, err := in.line()
		if err != nil || len(bytes.TrimSpace(line)) > 0 {
			return line, err
		}
	}
}

// waits reports whether nothing of the next line is there yet.
func (in *lineInput) waits() bool { return in.reader.Buffered() == 0 }

// place names the line that was read last.
func (in *lineInput) place() string { return fmt.Sprintf("standard input, line %d", in.number) }

// fault is an error in the line that was read last.
func (in *lineInput) fault(err error) error { return faultAt(in.place(), err) }

// faultAt says where an error is. It is one of the data, unless it has a kind
// of its own.
func faultAt(place string, err error) error {
	if exitcode.Code(err) == exitcode.Failed {
		return exitcode.Dataf("%s: %w", place, err)
	}
	return fmt.Errorf("%s: %w", place, err)
}

// readLine reads one line. Of a line that is too long it returns the
// beginning and errLongLine, and skips the rest.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, more, err := r.ReadLine()
		if err == io.EOF && line != nil { // the last line filled the buffer
			return line, nil
		}
		if err != nil {
			return nil, err
		}
		if len(line)+len(part) <= maxLineBytes {
			line = append(line, part...)
		} else {
			for more && err == nil {
				_, more, err = r.ReadLine()
			}
			return line, errLongLine
		}
		if !more {
			return line, nil
		}
	}
}

// answerer answers the lines of standard input with rows of JSON.
type answerer struct {
	// answer makes the row of a line.
	answer func(line []byte) (row any, err error)
	// refuse makes the row of a line that could not be answered. Without it
	// the first such line ends the command.
	refuse func(line []byte, fault error) (row any)
	// gather lets rows wait until as many lines were read as are there.
	gather bool
}

// run answers each line before it waits for the next: whoever writes the lines
// may wait for the answer.
func (a answerer) run(in *lineInput, out io.Writer) error {
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		row, err := a.next(in)
		if err == io.EOF {
			return writer.Flush()
		}
		if err != nil {
			return errors.Join(err, writer.Flush())
		}
		err = encoder.Encode(row)
		if err == nil && (in.waits() || !a.gather) {
			err = writer.Flush()
		}
		if err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
	}
}

// next makes the row of the next line.
func (a answerer) next(in *lineInput) (row any, err error) {
	line, err := in.next()
	if err != nil && !errors.Is(err, errLongLine) {
		return nil, err
	}
	if err == nil {
		row, err = a.answer(line)
	}
	switch {
	case err == nil:
		return row, nil
	case a.refuse != nil:
		return a.refuse(line, err), nil
	}
	return nil, in.fault(err)
}

// decode reads the JSON object of a line. What is wrong with it is said in
// our words. strict refuses fields that v does not have.
func decode(line []byte, v any, strict bool) error {
	if !utf8.Valid(line) {
		return errors.New("it is not UTF-8")
	}
	if !strict {
		return explainJSON(line, json.Unmarshal(line, v))
	}
	var whole json.RawMessage
	if err := json.Unmarshal(line, &whole); err != nil { // also what follows the object
		return explainJSON(line, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	return explainJSON(line, decoder.Decode(v))
}

// explainJSON says an error of encoding/json without the words of Go.
func explainJSON(line []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return explainSyntax(line, syntax)
	case errors.As(err, &kind):
		what := "the line"
		if kind.Field != "" {
			what = fmt.Sprintf("%q", strings.ToLower(kind.Field)) // that of a field without a tag is Go's
		}
		return fmt.Errorf("%s has %s where %s must be", what, foundJSON(kind.Value), wantedJSON(kind.Type))
	}
	if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fmt.Errorf("there is no field %s", field)
	}
	return err
}

func explainSyntax(line []byte, err *json.SyntaxError) error {
	at := int(err.Offset) - 1 // the offset counts what was read, the fault included
	if strings.HasPrefix(err.Error(), "unexpected end") || at < 0 || at >= len(line) {
		return errors.New("it is not JSON: it ends too early")
	}
	found, _ := utf8.DecodeRune(line[at:])
	return fmt.Errorf("it is not JSON: %q at byte %d does not belong there", found, at+1)
}

// foundJSON names the kind of a value, which encoding/json calls "string",
// "number" or "number 1.5".
func foundJSON(value string) string {
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return "the number " + number
	}
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + value
}

// wantedJSON names the kind of values that a type takes.
func wantedJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int32:
		return "a whole number of 32 bits"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}
