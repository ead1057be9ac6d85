// Package jsonlines answers lines of JSON with lines of JSON, as commands do
// on standard input and output: each line before the next is waited for, with
// faults that name the line in words that are not Go's.
package jsonlines

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Answerer answers the lines of standard input with rows of JSON.
type Answerer struct {
	// Answer makes the row of a line.
	Answer func(line []byte) (row any, err error)
	// Refuse makes the row of a line that could not be answered. Without it
	// the first such line ends the command.
	Refuse func(line []byte, fault error) (row any)
	// Gather lets rows wait until as many lines were read as are there.
	Gather bool
}

// Run answers each line before it waits for the next: whoever writes the lines
// may wait for the answer.
func (a Answerer) Run(in *Reader, out io.Writer) error {
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
		if err == nil && (in.waits() || !a.Gather) {
			err = writer.Flush()
		}
		if err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
}

// next makes the row of the next line.
func (a Answerer) next(in *Reader) (row any, err error) {
	line, err := in.Next()
	if err != nil && !errors.Is(err, ErrLong) {
		return nil, err
	}
	if err == nil {
		row, err = a.Answer(line)
	}
	switch {
	case err == nil:
		return row, nil
	case a.Refuse != nil:
		return a.Refuse(line, err), nil
	}
	return nil, in.Fault(err)
}
