package mlebench

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// Table is a CSV file: names of columns, each once, and rows of as many cells.
type Table struct {
	Header []string
	Rows   [][]string
}

// bounds are what is read of a table; 0 is no bound.
type bounds struct {
	bytes   int64
	columns int // of any row, beyond which it is an error
	rows    int // beyond which the rest is not read
}

// ReadTable reads a CSV file in UTF-8 with a header. A byte order mark, lines
// that end in CR LF and empty lines make no difference. Errors are data errors
// that name the line, or the row, counted from 1 below the header.
func ReadTable(content []byte) (Table, error) { return readTable(content, bounds{}) }

// readTable reads a table, or the first rows of one that has more than it may.
func readTable(content []byte, most bounds) (Table, error) {
	if most.bytes > 0 && int64(len(content)) > most.bytes {
		return Table{}, exitcode.Dataf("the file has %d bytes, and at most %d are read", len(content), most.bytes)
	}
	if bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff")) {
		return Table{}, exitcode.Dataf("the file is UTF-16; write it as UTF-8")
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if len(bytes.TrimSpace(content)) == 0 {
		return Table{}, exitcode.Dataf("the file is empty")
	}
	for line, at := 1, content; len(at) > 0; line++ {
		end := bytes.IndexByte(at, '\n') + 1
		if end == 0 {
			end = len(at)
		}
		if !utf8.Valid(at[:end]) {
			return Table{}, exitcode.Dataf("line %d is not UTF-8", line)
		}
		at = at[end:]
	}
	if !bytes.Contains(content, []byte("\n")) && bytes.Contains(content, []byte("\r")) {
		return Table{}, exitcode.Dataf("lines end in CR alone; write LF or CR LF")
	}
	if line := tooWide(content, most.columns); line > 0 {
		return Table{}, exitcode.Dataf("line %d has more than %d cells", line, most.columns)
	}
	reader := csv.NewReader(bytes.NewReader(content))
	reader.FieldsPerRecord = -1 // a row of another length has our own message
	var t Table
	for {
		record, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return t, t.check()
		case err != nil:
			return Table{}, exitcode.Dataf("the file is no CSV: %w", err)
		case t.Header == nil:
			t.Header = record
		case len(record) != len(t.Header):
			return Table{}, exitcode.Dataf("row %d has %d cells and the header %d", len(t.Rows)+1, len(record), len(t.Header))
		default:
			t.Rows = append(t.Rows, record)
			if len(t.Rows) == most.rows {
				return t, t.check()
			}
		}
	}
}

// tooWide is the line in which a record ends that has more cells than it may, 0
// for none. In what is no CSV it may find none: the reader ends where that begins.
func tooWide(content []byte, most int) int {
	if most == 0 {
		return 0
	}
	quoted, cells, line := false, 1, 1
	for _, c := range content {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			if cells++; cells > most {
				return line
			}
		case c == '\n':
			if line++; !quoted {
				cells = 1
			}
		}
	}
	return 0
}

func (t Table) check() error {
	seen := map[string]bool{}
	for _, name := range t.Header {
		if seen[name] {
			return exitcode.Dataf("column %q is there twice", name)
		}
		seen[name] = true
	}
	if len(t.Rows) == 0 {
		return exitcode.Dataf("there is a header and no row")
	}
	return nil
}

// columns finds the columns of given names, in their order, and refuses a table
// that lacks one.
func (t Table) columns(names []string) ([]int, error) {
	found := make([]int, len(names))
	for i, name := range names {
		if found[i] = slices.Index(t.Header, name); found[i] < 0 {
			return nil, exitcode.Dataf("column %q is missing; asked for are %s", name, frame.Quoted(names))
		}
	}
	return found, nil
}

// columnsAlone is the same, and refuses a table that has another column.
func (t Table) columnsAlone(names []string) ([]int, error) {
	found, err := t.columns(names)
	if err != nil || len(found) == len(t.Header) { // a name is there once
		return found, err
	}
	for i, name := range t.Header {
		switch {
		case slices.Contains(names, name):
		case name == "":
			return nil, exitcode.Dataf("column %d has no name, as when the index of a data frame is written too; asked for are %s", i+1, frame.Quoted(names))
		default:
			return nil, exitcode.Dataf("column %q is not asked for; asked for are %s", name, frame.Quoted(names))
		}
	}
	return found, nil
}

// number reads a cell as a finite decimal number. A problem is empty, or says
// what is wrong.
func number(cell string) (v float64, problem string) {
	trimmed := strings.TrimSpace(cell)
	if trimmed == "" {
		return v, "it is empty"
	}
	v, err := strconv.ParseFloat(trimmed, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		problem = strconv.Quote(cell) + " is out of the range of float64"
	case err != nil || strings.ContainsAny(trimmed, "xX_"): // hexadecimal is no number of a CSV
		problem = frame.Shortened(cell) + " is not a number"
	case math.IsNaN(v):
		problem = "it is NaN"
	case math.IsInf(v, 0):
		problem = "it is infinite"
	}
	return v, problem
}
