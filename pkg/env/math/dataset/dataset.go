// Package dataset reads problems from files, JSONL, JSON, CSV, Parquet or Arrow, whose fields a
// recipe maps to questions, reference answers, options, kinds and levels, and
// writes problems as JSONL.
package dataset

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plural"
)

// faultsShown is how many bad lines an error shows in full.
const faultsShown = 5

// reader reads the problems of one file.
type reader struct {
	where  string // the recipe's name of the source, for example "data.train"
	path   string
	stem   string // the file's name without its extension: the start of every id
	source Source
	set    *Set // of files that this one is read with

	tasks    []env.Task
	rows     *[]Row         // where lines are kept whole; nil where they become tasks
	lineOf   map[string]int // of an id
	faults   []string       // the first few
	bad      int
	lines    int
	filtered map[string]bool // fields of the filter that some line has
}

// read reads a file, or a folder of data that was saved as one, into tasks or rows.
func (s *Set) read(path string, source Source, rows *[]Row) ([]env.Task, []env.Input, error) {
	where := s.where
	parts, isFolder, err := savedParts(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s.files: %w", where, err)
	}
	if isFolder {
		return s.readFolder(path, parts, source, rows)
	}
	f, size, err := plainfile.Open(path)
	var other *plainfile.KindError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, exitcode.Dataf("%s.files: there is no file %q; a relative name starts at the recipe's folder", where, path)
	case errors.As(err, &other):
		return nil, nil, exitcode.Dataf("%s.files: %q is %s, not a regular file: name the files themselves, as in %[2]s/*.parquet", where, path, other.Kind)
	case err != nil:
		return nil, nil, fmt.Errorf("opening problems: %w", err)
	}
	defer f.Close()

	digest := sha256.New()
	r := s.reader(path, source, rows)
	if format := formatOf(path); format != "" {
		if _, err := io.Copy(digest, f); err != nil {
			return nil, nil, fmt.Errorf("reading problems %q: %w", path, err)
		}
		err = r.readTable(f, size, format)
	} else {
		err = r.readStream(io.TeeReader(f, digest))
	}
	if err == nil {
		err = r.finish()
	}
	if err != nil {
		return nil, nil, err
	}
	return r.tasks, []env.Input{{Path: path, SHA256: hex.EncodeToString(digest.Sum(nil))}}, nil
}

func (s *Set) reader(path string, source Source, rows *[]Row) *reader {
	return &reader{
		where: s.where, path: path, stem: stemOf(path), source: source, set: s, rows: rows, lineOf: map[string]int{}, filtered: map[string]bool{},
	}
}

// readStream reads a file of text.
func (r *reader) readStream(stream io.Reader) (err error) {
	switch strings.ToLower(filepath.Ext(r.path)) {
	case ".csv":
		err = r.readCSV(stream)
	case ".json":
		err = r.readList(stream)
	default:
		err = r.readLines(asJSON(bufio.NewReaderSize(stream, 64<<10)))
	}
	return err
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
		return exitcode.Dataf("%s: %s are bad:\n  %s", r.path, plural.Of(r.bad, r.lines, "line"), text)
	case r.bad > r.source.MaxBad:
		return exitcode.Dataf("%s", r.faults[0])
	case r.lines == 0:
		return exitcode.Dataf("%s: the file has no problems: it needs one JSON object a line", r.path)
	case len(r.lineOf) == 0:
		for i, f := range r.source.Filter {
			if !r.filtered[f.Field] {
				return exitcode.Dataf("%s: no line has the field %q that %s.filter[%d] asks for", r.path, f.Field, r.where, i)
			}
		}
		return exitcode.Dataf("%s: none of its %s passes %s.filter", r.path, plural.Count(r.lines, "line"), r.where)
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
	if r.set != nil && r.set.whole != nil {
		r.set.keepWhole(number, fields)
		r.lineOf[strconv.Itoa(number)] = number
		return ""
	}
	var row Row
	var fault string
	if r.rows != nil {
		row, fault = r.keep(number, fields)
	} else {
		row.Task, fault = r.task(number, fields)
	}
	if fault != "" {
		return fault
	}
	task := row.Task
	if earlier, ok := r.lineOf[task.ID]; ok {
		return fmt.Sprintf("the id %q is that of line %d too: ids must be unique, or leave %s.fields.id empty to use line numbers", task.ID, earlier, r.where)
	}
	r.lineOf[task.ID] = number
	if r.rows != nil {
		*r.rows = append(*r.rows, row)
		return ""
	}
	r.tasks = append(r.tasks, task)
	return ""
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
		all = all && ok && config.Matches(text, f.In)
	}
	return all
}
