package dataset

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard/foreign"
)

// endOfCSV follows the records of a file .csv: a quote that is never closed
// takes it into its field.
const endOfCSV = "\x00end of the file\x00"

// readCSV reads a file .csv (RFC 4180), whose first record names the fields. Where rows are
// kept whole, their cells have the types of their columns.
func (r *reader) readCSV(stream io.Reader) error {
	buffered, err := r.skipBOM(stream)
	if err != nil {
		return err
	}
	rows := csv.NewReader(io.MultiReader(buffered, strings.NewReader("\n"+endOfCSV)))
	rows.LazyQuotes = true    // a quote inside of a quoted field that is not doubled stands for itself
	rows.FieldsPerRecord = -1 // a record of another length is one bad line
	var names []string
	var numbers []int
	var records [][]string
read:
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
			break read
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
		if fault := badCells(names, record); fault != "" {
			r.fault(number, fault)
			continue
		}
		if r.rows == nil { // a problem is made of texts
			r.record(number, names, record, nil)
			continue
		}
		numbers, records = append(numbers, number), append(records, record)
	}
	kinds := make([]cellKind, len(names))
	for i := range names {
		kinds[i] = kindOf(records, i)
	}
	for i, record := range records {
		r.record(numbers[i], names, record, kinds)
	}
	return nil
}

// badCells says what is wrong with a record of the right length.
func badCells(names, record []string) string {
	size := 0
	for i, value := range record {
		if !utf8.ValidString(value) {
			return fmt.Sprintf("field %q is not UTF-8: convert the file with iconv -t UTF-8", names[i])
		}
		size += len(value)
	}
	if size > foreign.MaxRowBytes {
		return fmt.Sprintf("the record is longer than %d bytes: rows must be shorter", foreign.MaxRowBytes)
	}
	return ""
}

// record makes a problem of one record, whose cells are texts where there are no kinds.
func (r *reader) record(number int, names, record []string, kinds []cellKind) {
	fields := map[string]json.RawMessage{}
	for i, value := range record {
		if kinds == nil {
			fields[names[i]] = quoted(value)
		} else {
			fields[names[i]] = kinds[i].value(value)
		}
	}
	if fault := r.problem(number, fields); fault != "" {
		r.fault(number, fault)
	}
}
