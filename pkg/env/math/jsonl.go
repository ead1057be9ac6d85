package math

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

const (
	maxLineBytes = 1 << 20 // of one line of a data file
	faultsShown  = 5       // bad lines that an error shows in full
)

// Input is a data file that tasks were read from.
type Input = env.Input

// reader reads the problems of one JSONL file.
type reader struct {
	where  string // the recipe's name of the source, for example "data.train"
	path   string
	stem   string // the file's name without its extension: the start of every id
	source recipe.Source

	tasks    []env.Task
	lineOf   map[string]int // of an id
	faults   []string       // the first few
	bad      int
	lines    int
	filtered map[string]bool // fields of the filter that some line has
}

// readFile reads the problems of a file that pass the source's filter. Every
// line is read, and all bad ones are counted, before it fails.
func readFile(path, where string, source recipe.Source) ([]env.Task, Input, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Input{}, exitcode.Dataf("%s.files: there is no file %q; a relative name starts at the recipe's folder", where, path)
	case err != nil:
		return nil, Input{}, fmt.Errorf("opening problems: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, Input{}, fmt.Errorf("reading problems: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, Input{}, exitcode.Dataf("%s.files: %q is not a regular file: name the JSONL files themselves", where, path)
	}

	digest := sha256.New()
	counter := &byteCounter{}
	tasks, lines, err := readProblems(io.TeeReader(f, io.MultiWriter(digest, counter)), path, where, source)
	if err != nil {
		return nil, Input{}, err
	}
	return tasks, Input{
		Path:   path,
		SHA256: hex.EncodeToString(digest.Sum(nil)),
		Bytes:  counter.bytes,
		Lines:  lines,
		Kept:   len(tasks),
	}, nil
}

type byteCounter struct{ bytes int64 }

func (c *byteCounter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// readProblems reads the problems of one stream to its end.
func readProblems(stream io.Reader, path, where string, source recipe.Source) ([]env.Task, int, error) {
	base := filepath.Base(path)
	r := &reader{
		where:    where,
		path:     path,
		stem:     strings.TrimSuffix(base, filepath.Ext(base)),
		source:   source,
		lineOf:   map[string]int{},
		filtered: map[string]bool{},
	}
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		err = r.readCSV(stream)
	case ".json":
		err = r.readList(stream)
	default:
		err = r.readLines(bufio.NewReaderSize(stream, 64<<10))
	}
	if err != nil {
		return nil, 0, err
	}
	return r.tasks, r.lines, r.finish()
}

// readLines reads one object a line.
func (r *reader) readLines(buffered *bufio.Reader) error {
	for number := 1; ; number++ {
		line, long, err := readLine(buffered)
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading problems %q: %w", r.path, err)
		}
		if number == 1 {
			if problem := foreign(line); problem != "" {
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

// foreign recognises files that are something else, from their first line.
func foreign(line []byte) string {
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

func (r *reader) fault(line int, text string) {
	r.bad++
	if len(r.faults) < faultsShown {
		r.faults = append(r.faults, fmt.Sprintf("%s:%d: %s", r.path, line, text))
	}
}

// finish is the error of the whole file.
func (r *reader) finish() error {
	switch {
	case r.bad > max(1, r.source.MaxBad):
		text := strings.Join(r.faults, "\n  ")
		if rest := r.bad - len(r.faults); rest > 0 {
			text += fmt.Sprintf("\n  and %d more", rest)
		}
		return exitcode.Dataf("%s: %d of %d lines are bad:\n  %s", r.path, r.bad, r.lines, text)
	case r.bad > r.source.MaxBad:
		return exitcode.Dataf("%s", r.faults[0])
	case r.lines == 0:
		return exitcode.Dataf("%s: the file has no problems: it needs one JSON object a line", r.path)
	case len(r.tasks) == 0:
		for i, f := range r.source.Filter {
			if !r.filtered[f.Field] {
				return exitcode.Dataf("%s: no line has the field %q that %s.filter[%d] asks for", r.path, f.Field, r.where, i)
			}
		}
		return exitcode.Dataf("%s: none of its %d lines passes %s.filter", r.path, r.lines, r.where)
	}
	return nil
}

// line reads one problem, or says what is wrong with it.
func (r *reader) line(number int, line []byte) string {
	if !utf8.Valid(line) {
		return fmt.Sprintf("byte %d is not UTF-8: convert the file with iconv -t UTF-8", firstInvalid(line)+1)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return notAnObject(line, err)
	}
	if fields == nil {
		return "the line is null: it must be a JSON object"
	}
	return r.problem(number, fields)
}

// problem makes a task of the fields of one line, or says what is wrong.
func (r *reader) problem(number int, fields map[string]json.RawMessage) string {
	if !r.passes(fields) {
		return ""
	}
	task, fault := r.task(number, fields)
	if fault != "" {
		return fault
	}
	if earlier, ok := r.lineOf[task.ID]; ok {
		return fmt.Sprintf("the id %q is that of line %d too: ids must be unique, or leave %s.fields.id empty to use line numbers", task.ID, earlier, r.where)
	}
	r.lineOf[task.ID] = number
	r.tasks = append(r.tasks, task)
	return ""
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

// passes applies the filter.
func (r *reader) passes(fields map[string]json.RawMessage) bool {
	all := true
	for _, f := range r.source.Filter {
		raw, ok := lookup(fields, f.Field)
		if !ok {
			all = false
			continue
		}
		r.filtered[f.Field] = true
		text, ok := scalarText(raw)
		if jsonType(raw) == "null" {
			text, ok = "null", true
		}
		all = all && ok && env.Matches(text, f.In)
	}
	return all
}

func stringText(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// scalarText is the text of a string, or a number, true or false as written.
func scalarText(raw json.RawMessage) (string, bool) {
	if s, ok := stringText(raw); ok {
		return s, true
	}
	switch jsonType(raw) {
	case "a number", "true", "false":
		return string(raw), true
	}
	return "", false
}

// answerText is the text of an answer: True and False as DeepMind's data
// write them, and a number with an exponent written out.
func answerText(raw json.RawMessage) (string, bool) {
	text, ok := scalarText(raw)
	switch jsonType(raw) {
	case "true":
		return "True", true
	case "false":
		return "False", true
	case "a number":
		return plainNumber(text)
	}
	return text, ok
}

// maxExponent bounds the exponent of an answer: more than any float64 has.
const maxExponent = 400

// plainNumber writes a JSON number without its exponent.
func plainNumber(text string) (string, bool) {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok {
		return text, true
	}
	e, err := strconv.Atoi(exponent)
	if err != nil || e > maxExponent || e < -maxExponent || len(mantissa) > maxDigits/2 {
		return "", false
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return "", false
	}
	if value.IsInt() {
		return value.RatString(), true
	}
	places, _ := value.FloatPrec()
	return value.FloatString(places), true
}

func jsonType(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '"':
		return "a string"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "a list"
	case raw[0] == 't':
		return "true"
	case raw[0] == 'f':
		return "false"
	case raw[0] == 'n':
		return "null"
	}
	return "a number"
}
