// Package frame reads CSV files as pandas does (read_csv of pandas 2.2 with
// float_precision="round_trip" and otherwise its defaults): the words for missing
// values, the types of columns, blank lines, byte order marks and quotes. Graders
// that were written for pandas decide on what it makes of a file, so a file has to
// mean the same here.
package frame

import (
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Bounds are what is read of a file; 0 is no bound.
type Bounds struct {
	Columns int // of any row, beyond which it is an error
	Rows    int // beyond which it is an error
}

// Read reads a CSV file with a header. A file of no bytes is a table without
// columns. Errors are data errors that name the line.
func Read(content []byte, most Bounds) (*Frame, error) {
	if !utf8.Valid(content) {
		return nil, exitcode.Dataf("the file is not UTF-8")
	}
	// The cells are parts of one string: a large file is in memory once.
	text := strings.TrimPrefix(string(content), "\ufeff")
	if text == "" {
		return &Frame{}, nil
	}
	r := reader{rest: text, most: most.Columns}
	header, err := r.record()
	if err != nil {
		return nil, err
	}
	if header == nil {
		return nil, exitcode.Dataf("the file has no column: its lines are blank")
	}
	columns := make([][]string, len(header))
	// width is the number of cells of a row. Where the first row has more than the
	// header, the cells in front are taken for the index, whose name is not given.
	width := len(header)
	for rows := 0; ; rows++ {
		cells, err := r.record()
		if err != nil {
			return nil, err
		}
		if cells == nil {
			break
		}
		if rows == 0 {
			width = max(width, len(cells))
		}
		if len(cells) > width {
			return nil, exitcode.Dataf("line %d has %d cells, and %d are expected", r.line, len(cells), width)
		}
		if most.Rows > 0 && rows == most.Rows {
			return nil, exitcode.Dataf("the file has more than %d rows", most.Rows)
		}
		for c := range columns {
			cell := ""
			if at := c + width - len(header); at < len(cells) {
				cell = cells[at]
			}
			columns[c] = append(columns[c], cell)
		}
	}
	f := &Frame{}
	for c, name := range names(header) {
		f.Columns = append(f.Columns, columnOf(name, columns[c]))
	}
	return f, nil
}

// reader cuts a file into records, as the tokenizer of pandas does: a quote opens
// a quoted part at the beginning of a cell only, and behind its end the cell goes
// on without quotes; lines of white space are no records.
type reader struct {
	rest string
	line int // of the record that was read last, from 1
	ends int // line ends so far
	most int // cells of a record; 0 is no bound
}

// record is the next one; nil at the end.
func (r *reader) record() ([]string, error) {
	for len(r.rest) > 0 {
		end := strings.IndexAny(r.rest, "\r\n")
		if end < 0 {
			end = len(r.rest)
		}
		if strings.Trim(r.rest[:end], " \t") != "" {
			break
		}
		r.rest = r.rest[end:]
		r.endLine()
	}
	if len(r.rest) == 0 {
		return nil, nil
	}
	r.line = r.ends + 1
	var cells []string
	for {
		cell, more, err := r.cell()
		if err != nil {
			return nil, err
		}
		if cells = append(cells, cell); r.most > 0 && len(cells) > r.most {
			return nil, exitcode.Dataf("line %d has more than %d cells", r.line, r.most)
		}
		if !more {
			return cells, nil
		}
	}
}

// endLine takes a line's end: LF, CR LF or CR.
func (r *reader) endLine() {
	switch {
	case strings.HasPrefix(r.rest, "\r\n"):
		r.rest = r.rest[2:]
	case len(r.rest) > 0:
		r.rest = r.rest[1:]
	}
	r.ends++
}

// cell is the next one; more says that another follows in the record.
func (r *reader) cell() (cell string, more bool, err error) {
	var quoted strings.Builder
	if strings.HasPrefix(r.rest, `"`) {
		r.rest = r.rest[1:]
		for {
			end := strings.IndexByte(r.rest, '"')
			if end < 0 {
				return "", false, exitcode.Dataf("line %d: a quoted cell has no end", r.line)
			}
			quoted.WriteString(r.rest[:end])
			r.ends += strings.Count(r.rest[:end], "\n")
			if r.rest = r.rest[end+1:]; !strings.HasPrefix(r.rest, `"`) {
				break
			}
			quoted.WriteByte('"')
			r.rest = r.rest[1:]
		}
	}
	end := strings.IndexAny(r.rest, ",\r\n")
	if end < 0 {
		end = len(r.rest)
	}
	cell = quoted.String() + r.rest[:end]
	if r.rest = r.rest[end:]; strings.HasPrefix(r.rest, ",") {
		r.rest = r.rest[1:]
		return cell, true, nil
	}
	return cell, false, nil // the line's end is left to the next record, as that of a blank line
}
