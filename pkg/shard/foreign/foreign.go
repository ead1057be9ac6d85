// Package foreign reads tables that other programs have written, Parquet or Arrow IPC,
// of any columns. For one whose columns are those of a row type, package shard has
// ReadForeign.
//
// A value is what the logical type of its column says, as JSON; the same table is the
// same rows in both formats, and the values are those that pyarrow has:
//
//	true and false          true, false
//	whole numbers           the number, up to 64 bits, signed or not, with all digits
//	floats of 16 to 64 bits the number with all digits; "nan", "inf" and "-inf" as texts
//	DECIMAL                 a text with all digits: "1.50"
//	STRING, ENUM, JSON      the text, which must be UTF-8
//	bytes, BSON, geometries the text that they are where they are UTF-8, for old writers do
//	                        not tell texts from bytes; else base64. Of a fixed length: base64
//	UUID                    "00000000-0000-0000-1234-567812345678"
//	DATE                    "2024-02-29"
//	TIME                    "12:34:56", with 6 or 9 digits behind it where they are not all 0
//	TIMESTAMP, INT96        "2024-02-29T12:34:56.789123"; of a moment, in UTC, with "+00:00" behind it
//	                        years that have no four digits have a sign: "+12024-02-29"
//	a duration              the whole number of its unit, as Parquet has it
//	INTERVAL                {"months": 1, "days": 2, "milliseconds": 3}
//	a struct                an object with every field
//	LIST, a repeated field  a list, in every encoding that writers have had for it
//	MAP                     a list of [key, value], in its order, with keys of any type
//	a dictionary, an extension, runs, a union: what they stand for
//	a null                  null, at any depth
//
// What cannot be read so is an error that names the column: two columns of one name,
// VARIANT, a text that is not UTF-8, a codec or an encoding that is not read, and
// every contradiction between a page and its header.
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
	// MaxRowBytes bounds a row as JSON, and so does a line of JSONL.
	MaxRowBytes = 16 << 20

	unpackedRoom  = 1 << 30 // bytes that the rows of a small file may take as JSON, and its pages unpacked
	unpackedRatio = 64      // times a file's size that they may take
	rowOverhead   = 512     // bytes that a row counts for beside its JSON
	maxDepth      = 64      // of a column
)

// Rows reads a table that another program has written, of any columns, and
// gives each row as JSON. A table that cannot be read is an error without an exit
// code; so is that of each.
func Rows(r io.ReaderAt, size int64, format Format, each func(row map[string]json.RawMessage) error) error {
	out := &rows{left: unpackedRoom + unpackedRatio*size, each: each}
	if format == Arrow {
		return arrowRows(r, size, out)
	}
	return parquetRows(r, size, out)
}

// rows makes rows of the columns' JSON and hands them out.
type rows struct {
	left  int64 // bytes that they may still take
	count int64
	text  []byte // of this row, one column behind the other
	ends  []int
	each  func(row) error
}

type row = map[string]json.RawMessage

var errNoColumns = errors.New("it has rows and no columns: write it with its columns")

var errUnpacked = errors.New("it unpacks to more than 1 GiB and 64 times its size: write fewer rows or shorter cells into a file")

func (r *rows) begin() { r.text, r.ends = r.text[:0], r.ends[:0] }

// add adds a column, which write appends to the row's text.
func (r *rows) add(write func(text []byte) ([]byte, error)) (err error) {
	if r.text, err = write(r.text); err != nil {
		return err
	}
	r.ends = append(r.ends, len(r.text))
	return nil
}

// end hands the row out.
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

// where adds to an error the column and the row that it is of.
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
