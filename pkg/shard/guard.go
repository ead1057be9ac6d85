package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go/format"
)

// The decoder of Parquet believes every size that a file states, and asks
// for that much memory: a flipped bit in a size can end the process, which
// no recover prevents. Files that no digest vouches for pass these checks
// first. They bound what is stated by what the file can hold.

var errShort = errors.New("it is damaged: a length runs over its end")

// checkFooter walks the footer of a Parquet file (parquet-format, README,
// "File format").
func checkFooter(data []byte) error {
	const magic = "PAR1"
	if len(data) < 12 || string(data[:4]) != magic || string(data[len(data)-4:]) != magic {
		return errors.New("it is not a whole Parquet file: it does not begin and end with PAR1; was its writer killed?")
	}
	size := int64(binary.LittleEndian.Uint32(data[len(data)-8:]))
	if size > int64(len(data)-12) {
		return fmt.Errorf("it is damaged: it states a footer of %d bytes and has %d bytes", size, len(data))
	}
	end := len(data) - 8
	t := thrift{data: data[end-int(size) : end]}
	return t.structure(nil)
}

// checkPages walks the headers of all pages.
func checkPages(data []byte, m *format.FileMetaData) error {
	decoded := int64(0)
	for i, group := range m.RowGroups {
		for _, column := range group.Columns {
			// No page states more than its column.
			if decoded += max(0, column.MetaData.TotalUncompressedSize); decoded > mostDecoded(len(data)) || decoded < 0 {
				return grows(len(data), decoded)
			}
			if err := checkChunk(data, &column.MetaData); err != nil {
				return fmt.Errorf("row group %d, column %s: %w", i, strings.Join(column.MetaData.PathInSchema, "."), err)
			}
		}
	}
	return nil
}

// checkChunk walks the pages of one column chunk (parquet-format,
// parquet.thrift, PageHeader).
func checkChunk(data []byte, m *format.ColumnMetaData) error {
	at := m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	if at < 4 || m.TotalCompressedSize < 0 || at > int64(len(data)) || m.TotalCompressedSize > int64(len(data))-at {
		return errShort
	}
	pages := data[at : at+m.TotalCompressedSize]
	values := int64(0)
	for len(pages) > 0 {
		var page pageHeader
		t := thrift{data: pages}
		if err := t.structure(page.field); err != nil {
			return err
		}
		pages = t.data
		switch {
		case page.compressed < 0 || page.compressed > int64(len(pages)), page.uncompressed < 0 || page.levels < 0 || page.levels > page.compressed:
			return errShort
		case page.uncompressed > m.TotalUncompressedSize:
			return fmt.Errorf("it is damaged: a page states %d bytes, its column %d", page.uncompressed, m.TotalUncompressedSize)
		case page.values < 0 || page.entries < 0 || page.entries > page.uncompressed:
			return fmt.Errorf("it is damaged: a page of %d bytes states %d values", page.uncompressed, max(page.values, page.entries))
		}
		if values += page.values; values > m.NumValues {
			return fmt.Errorf("it is damaged: its pages state more than its %d values", m.NumValues)
		}
		pages = pages[page.compressed:]
	}
	return nil
}

// pageHeader holds what a page states about its size.
type pageHeader struct {
	uncompressed, compressed int64 // bytes
	values                   int64 // of a data page
	entries                  int64 // of a dictionary page
	levels                   int64 // bytes of levels; -1 when one of the two is negative
}

// field takes one integer of the header; parent is 0 for its own fields.
func (p *pageHeader) field(parent, id int16, value int64) {
	switch [2]int16{parent, id} {
	case [2]int16{0, 2}:
		p.uncompressed = value
	case [2]int16{0, 3}:
		p.compressed = value
	case [2]int16{5, 1}, [2]int16{8, 1}:
		p.values = value
	case [2]int16{7, 1}:
		p.entries = value
	case [2]int16{8, 5}, [2]int16{8, 6}:
		if value < 0 || p.levels < 0 {
			p.levels = -1
			return
		}
		p.levels += value
	}
}

// thrift walks a value in Thrift's compact protocol without decoding it
// (thrift, doc/specs/thrift-compact-protocol.md). data is what is left.
type thrift struct{ data []byte }

// The types of the compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt16  = 4
	thriftInt32  = 5
	thriftInt64  = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftStruct = 12

	maxThriftDepth = 32
)

func (t *thrift) skip(n uint64) error {
	if n > uint64(len(t.data)) {
		return errShort
	}
	t.data = t.data[n:]
	return nil
}

func (t *thrift) byte() (byte, error) {
	if len(t.data) == 0 {
		return 0, errShort
	}
	b := t.data[0]
	t.data = t.data[1:]
	return b, nil
}

func (t *thrift) uvarint() (uint64, error) {
	v, n := binary.Uvarint(t.data)
	if n <= 0 {
		return 0, errShort
	}
	t.data = t.data[n:]
	return v, nil
}

// varint reads a zigzag number, as binary.Varint does.
func (t *thrift) varint() (int64, error) {
	v, n := binary.Varint(t.data)
	if n <= 0 {
		return 0, errShort
	}
	t.data = t.data[n:]
	return v, nil
}

// structure walks a struct. integer is called for its integers and for those
// of the structs directly in it, and may be nil.
func (t *thrift) structure(integer func(parent, id int16, value int64)) error {
	return t.fields(0, 0, integer)
}

func (t *thrift) fields(parent int16, depth int, integer func(parent, id int16, value int64)) error {
	if depth > maxThriftDepth {
		return errors.New("it is damaged: its structures are nested too deep")
	}
	id := int16(0)
	for {
		head, err := t.byte()
		if err != nil {
			return err
		}
		kind := head & 0x0f
		if kind == 0 {
			return nil
		}
		if delta := int16(head >> 4); delta != 0 {
			id += delta
		} else {
			v, err := t.varint()
			if err != nil {
				return err
			}
			id = int16(v)
		}
		switch kind {
		case thriftTrue, thriftFalse: // the value is in the type
		case thriftInt16, thriftInt32, thriftInt64:
			v, err := t.varint()
			if err != nil {
				return err
			}
			if integer != nil && depth <= 1 {
				integer(parent, id, v)
			}
		case thriftStruct:
			if err := t.fields(id, depth+1, integer); err != nil {
				return err
			}
		default:
			if err := t.value(kind, depth); err != nil {
				return err
			}
		}
	}
}

// value walks a value that is not a field's integer or struct.
func (t *thrift) value(kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return t.skip(1)
	case thriftInt16, thriftInt32, thriftInt64:
		_, err := t.varint()
		return err
	case thriftDouble:
		return t.skip(8)
	case thriftBinary:
		n, err := t.uvarint()
		if err != nil {
			return err
		}
		return t.skip(n)
	case thriftStruct:
		return t.fields(0, depth+1, nil)
	case thriftList, thriftSet:
		return t.list(depth + 1)
	}
	return fmt.Errorf("it is damaged: type %d in its metadata", kind)
}

func (t *thrift) list(depth int) error {
	if depth > maxThriftDepth {
		return errors.New("it is damaged: its lists are nested too deep")
	}
	head, err := t.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = t.uvarint(); err != nil {
			return err
		}
	}
	if n > uint64(len(t.data)) { // every element has at least one byte
		return errShort
	}
	for range n {
		if err := t.value(head&0x0f, depth); err != nil {
			return err
		}
	}
	return nil
}
