// Package foreign reads tables that other programs wrote, Parquet or Arrow IPC, with any
// columns. To read a table with the columns of a row type, use ReadForeign of package shard.
//
// A value is decoded by the logical type of its column and becomes JSON. The same table
// gives the same rows in both formats, and the values are those that pyarrow reads:
//
//	booleans                  true, false
//	integers                  the number, up to 64 bits, signed or unsigned, all digits
//	floats of 16 to 64 bits   the number, all digits (5.0 stays 5.0); "nan", "inf", "-inf"
//	DECIMAL                   text with all digits: "1.50"
//	STRING, ENUM, JSON        text, which must be UTF-8
//	bytes, BSON, geometries   text if the value is UTF-8 (old writers do not mark text
//	                          columns), else base64; bytes of a fixed length: base64
//	UUID                      "00000000-0000-0000-1234-567812345678"
//	DATE                      "2024-02-29"
//	TIME                      "12:34:56", plus 6 or 9 digits unless they are zero
//	TIMESTAMP, INT96          "2024-02-29T12:34:56.789123"; with a time zone in UTC, plus
//	                          "+00:00"; years without 4 digits have a sign: "+12024-02-29"
//	duration                  the integer, in the column's unit, as Parquet stores it
//	INTERVAL                  {"months": 1, "days": 2, "milliseconds": 3}
//	struct                    an object with every field
//	LIST, repeated field      a list, in every encoding that writers have used
//	MAP                       a list of [key, value] in file order, keys of any type
//	dictionary, extension, run-end encoding, union: the value that they stand for
//	null                      null, at any depth
//
// Anything else is an error that names the column: two columns of one name, VARIANT, text
// that is not UTF-8, an unsupported codec or encoding, and every page whose content
// contradicts its header.
package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Format is a format of tables that others write.
type Format string

// The formats of others' tables.
const (
	Parquet Format = "Parquet"
	Arrow   Format = "Arrow" // IPC, as a file or as a stream
)

const (
	// MaxRowBytes bounds a row as JSON, and a line of JSONL.
	MaxRowBytes = 16 << 20

	unpackedRoom  = 1 << 30 // bytes that the rows of a small file may have as JSON, or its pages unpacked
	unpackedRatio = 64      // times a file's size that they may have beyond that
	rowOverhead   = 512     // bytes that a row counts for beside its JSON
	maxDepth      = 64      // of a column
)

// Rows reads a table with any columns and calls each with every row as JSON. An error has
// no exit code, whether it is of the table or of each.
func Rows(r io.ReaderAt, size int64, format Format, each func(row map[string]json.RawMessage) error) error {
	out := &rows{left: unpackedRoom + unpackedRatio*size, each: each}
	if format == Arrow {
		return arrowRows(r, size, out)
	}
	return parquetRows(r, size, out)
}

// rows assembles rows from the JSON of their columns and passes them to each.
type rows struct {
	left  int64 // bytes that they may still have
	count int64
	text  []byte // of this row, one column behind the other
	ends  []int
	each  func(row) error
}

type row = map[string]json.RawMessage

var errNoColumns = errors.New("the table has rows but no columns: write it with its columns")

var errUnpacked = errors.New("the file unpacks to more than 1 GiB plus 64 times its size: split it into smaller files")

func (r *rows) begin() { r.text, r.ends = r.text[:0], r.ends[:0] }

// add adds a column, which write appends to the row's text.
func (r *rows) add(write func(text []byte) ([]byte, error)) (err error) {
	if r.text, err = write(r.text); err != nil {
		return err
	}
	r.ends = append(r.ends, len(r.text))
	return nil
}

// end passes the row to each.
func (r *rows) end(names []string) error {
	r.count++
	if r.left -= int64(len(r.text) + rowOverhead); r.left < 0 {
		return errUnpacked
	}
	text := append([]byte(nil), r.text...)
	columns := make(row, len(names))
	start := 0
	for i, name := range names {
		columns[name] = text[start:r.ends[i]:r.ends[i]]
		start = r.ends[i]
	}
	return r.each(columns)
}

// where adds the column and the row to an error.
func (r *rows) where(column string, err error) error {
	return fmt.Errorf("column %q, row %d: %w", column, r.count+1, err)
}

// within refuses a row that is too long.
func within(text []byte) ([]byte, error) {
	if len(text) > MaxRowBytes {
		return text, fmt.Errorf("the row is longer than %d bytes: rows must be shorter", MaxRowBytes)
	}
	return text, nil
}
