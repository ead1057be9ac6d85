package dataset

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

// readLines reads one object a line.
func (r *reader) readLines(buffered *bufio.Reader) error {
	for number := 1; ; number++ {
		line, long, err := readLine(buffered)
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading problems %q: %w", r.path, err)
		}
		if number == 1 {
			if problem := otherFormat(line); problem != "" {
				return exitcode.Dataf("%s: %s", r.path, problem)
			}
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		if long {
			r.lines++
			r.fault(number, fmt.Sprintf("the line is longer than %d bytes: problems must be shorter", maxLineBytes))
		} else if line = bytes.TrimSpace(line); len(line) > 0 {
			r.lines++
			if fault := r.line(number, line); fault != "" {
				r.fault(number, fault)
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// readLine reads to the next line feed. Of a line that is too long it keeps
// nothing.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLineBytes {
			line, long = nil, true
		}
		if err != bufio.ErrBufferFull {
			return line, long, err
		}
	}
}

// otherFormat recognises files that are something else, from their first line.
func otherFormat(line []byte) string {
	switch {
	case bytes.HasPrefix(line, []byte{0xFF, 0xFE}), bytes.HasPrefix(line, []byte{0xFE, 0xFF}):
		return "the file is UTF-16: convert it with iconv -f UTF-16 -t UTF-8"
	case bytes.HasPrefix(line, []byte{0x1F, 0x8B}):
		return "the file is compressed: unpack it with gunzip"
	case bytes.HasPrefix(line, []byte{0x28, 0xB5, 0x2F, 0xFD}):
		return "the file is compressed: unpack it with unzstd"
	case bytes.HasPrefix(line, []byte("PAR1")):
		return "the file is Parquet: write its rows as JSONL, one object a line"
	case bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")):
		return "the file is one JSON list: write one object a line with jq -c '.[]'"
	}
	return ""
}

// readList reads a file .json: one list of objects, whose problems count from
// 1; or one object a line, as some sets have it under that name.
func (r *reader) readList(stream io.Reader) error {
	buffered, err := r.skipBOM(stream)
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

// skipBOM buffers what follows a byte order mark, if there is one.
func (r *reader) skipBOM(stream io.Reader) (*bufio.Reader, error) {
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
	buffered, err := r.skipBOM(stream)
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

func firstInvalid(line []byte) int {
	at := 0
	for at < len(line) {
		c, size := utf8.DecodeRune(line[at:])
		if c == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return at
}

func notAnObject(line []byte, err error) string {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType):
		return fmt.Sprintf("the line is a JSON %s: it must be an object", wrongType.Value)
	case errors.As(err, &syntax) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return "the JSON object is cut off: it must be whole, on one line"
	case errors.As(err, &syntax) && strings.Contains(syntax.Error(), "after top-level value"):
		return fmt.Sprintf("something follows the JSON object at byte %d: write one object a line", syntax.Offset)
	case errors.As(err, &syntax):
		return fmt.Sprintf("not JSON at byte %d: %v", syntax.Offset, syntax)
	}
	return fmt.Sprintf("not JSON: %v", err)
}
