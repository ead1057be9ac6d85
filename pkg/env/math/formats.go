package math

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// readList reads a file .json: one list of objects, whose problems count from
// 1; or one object a line, as some sets have it under that name.
func (r *reader) readList(stream io.Reader) error {
	buffered, err := r.afterMark(stream)
	if err != nil {
		return err
	}
	for {
		c, err := buffered.ReadByte()
		if err == nil && (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
			continue
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading problems %q: %w", r.path, err)
		}
		if err == nil {
			if err := buffered.UnreadByte(); err != nil {
				return fmt.Errorf("reading problems %q: %w", r.path, err)
			}
		}
		if err == io.EOF || c != '[' {
			return r.readLines(buffered)
		}
		break
	}
	decoder := json.NewDecoder(buffered)
	if _, err := decoder.Token(); err != nil {
		return r.listFault(0, err)
	}
	number := 0
	for decoder.More() {
		var item json.RawMessage
		if err := decoder.Decode(&item); err != nil {
			return r.listFault(number, err)
		}
		number++
		r.lines++
		if len(item) > maxLineBytes {
			r.fault(number, fmt.Sprintf("the entry is longer than %d bytes: problems must be shorter", maxLineBytes))
		} else if fault := r.line(number, item); fault != "" {
			r.fault(number, fault)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return r.listFault(number, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return exitcode.Dataf("%s: something follows the JSON list: the file must be one list", r.path)
	}
	return nil
}

// listFault is the error of a list that is not JSON, or of the file.
func (r *reader) listFault(number int, err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return exitcode.Dataf("%s: not JSON at byte %d, after entry %d of the list: %v", r.path, syntax.Offset, number, syntax)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return exitcode.Dataf("%s: the JSON list is cut off after entry %d", r.path, number)
	}
	return fmt.Errorf("reading problems %q: %w", r.path, err)
}

// afterMark buffers what follows a byte order mark, if there is one.
func (r *reader) afterMark(stream io.Reader) (*bufio.Reader, error) {
	mark := []byte("\uFEFF")
	buffered := bufio.NewReaderSize(stream, 64<<10)
	start, err := buffered.Peek(len(mark))
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("reading problems %q: %w", r.path, err)
	}
	if bytes.Equal(start, mark) {
		_, _ = buffered.Discard(len(mark)) // what has been peeked at is there
	}
	return buffered, nil
}

// endOfCSV follows the records of a file .csv: a quote that is never closed
// takes it into its field.
const endOfCSV = "\x00end of the file\x00"

// readCSV reads a file .csv (RFC 4180), whose first record names the fields.
func (r *reader) readCSV(stream io.Reader) error {
	buffered, err := r.afterMark(stream)
	if err != nil {
		return err
	}
	rows := csv.NewReader(io.MultiReader(buffered, strings.NewReader("\n"+endOfCSV)))
	rows.LazyQuotes = true    // a quote inside of a quoted field that is not doubled stands for itself
	rows.FieldsPerRecord = -1 // a record of another length is one bad line
	var names []string
	for {
		record, err := rows.Read()
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			return exitcode.Dataf("%s: %v: the file must be CSV as RFC 4180 has it", r.path, bad)
		}
		if err != nil {
			return fmt.Errorf("reading problems %q: %w", r.path, err)
		}
		number, _ := rows.FieldPos(0)
		last := len(record) - 1
		switch {
		case last == 0 && record[0] == endOfCSV:
			return nil
		case strings.HasSuffix(record[last], endOfCSV):
			line, column := rows.FieldPos(last)
			return exitcode.Dataf("%s:%d: the quote at byte %d of the line is never closed: all that follows it is in one field", r.path, line, column)
		}
		if names == nil {
			names = append(names, record...)
			for i, name := range names {
				if name != "" && slices.Contains(names[:i], name) {
					return exitcode.Dataf("%s:%d: two columns are named %q: which one is meant nobody can tell", r.path, number, name)
				}
			}
			continue
		}
		r.lines++
		if len(record) != len(names) {
			r.fault(number, fmt.Sprintf("the record has %d fields, the first one names %d", len(record), len(names)))
			continue
		}
		fields, fault := map[string]json.RawMessage{}, ""
		for i, value := range record {
			if !utf8.ValidString(value) {
				fault = fmt.Sprintf("field %q is not UTF-8: convert the file with iconv -t UTF-8", names[i])
			}
			fields[names[i]] = quoted(value)
		}
		if fault == "" {
			fault = r.problem(number, fields)
		}
		if fault != "" {
			r.fault(number, fault)
		}
	}
}
