package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard/foreign"
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
			r.fault(number, fmt.Sprintf("the line is longer than %d bytes: problems must be shorter", foreign.MaxRowBytes))
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
		if len(line) > foreign.MaxRowBytes {
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
		return "the file is Parquet: give it a name that ends in .parquet"
	case bytes.HasPrefix(line, []byte("ARROW1")), bytes.HasPrefix(line, []byte("\xff\xff\xff\xff")):
		return "the file is Arrow: give it a name that ends in .arrow"
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
	buffered = asJSON(buffered)
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
		if len(item) > foreign.MaxRowBytes {
			r.fault(number, fmt.Sprintf("the entry is longer than %d bytes: problems must be shorter", foreign.MaxRowBytes))
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
