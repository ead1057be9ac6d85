package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go/format"

	"github.com/lathe-rl/lathe/pkg/shard/internal/pages"
)

// The decoder of Parquet believes every size that a file states, and asks
// for that much memory: a flipped bit in a size can end the process, which
// no recover prevents. Files that no digest vouches for pass these checks
// first. They bound what is stated by what the file can hold.

var errShort = errors.New("it is damaged: a length runs over its end")

// checkFooter checks the footer of a Parquet file (parquet-format, README,
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
	_, err := pages.ThriftLength(data[end-int(size) : end])
	return damaged(err)
}

// damaged is the error of metadata that cannot be decoded.
func damaged(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errShort
	}
	return errors.New("it is damaged: its metadata cannot be decoded")
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
	rest := data[at : at+m.TotalCompressedSize]
	sum := int64(0) // of the values of all pages
	for len(rest) > 0 {
		var page format.PageHeader
		n, err := pages.Unmarshal(rest, &page)
		if err != nil {
			return damaged(err)
		}
		rest = rest[n:]
		v2, entries := page.DataPageHeaderV2.V, page.DictionaryPageHeader.V.NumValues
		size, plain := int64(page.CompressedPageSize), int64(page.UncompressedPageSize)
		values := int64(max(page.DataPageHeader.V.NumValues, v2.NumValues))
		switch {
		case size < 0 || size > int64(len(rest)) || plain < 0,
			v2.DefinitionLevelsByteLength < 0 || v2.RepetitionLevelsByteLength < 0 || int64(v2.DefinitionLevelsByteLength)+int64(v2.RepetitionLevelsByteLength) > size:
			return errShort
		case plain > m.TotalUncompressedSize:
			return fmt.Errorf("it is damaged: a page states %d bytes, its column %d", plain, m.TotalUncompressedSize)
		case min(page.DataPageHeader.V.NumValues, v2.NumValues) < 0 || entries < 0 || int64(entries) > plain:
			return fmt.Errorf("it is damaged: a page of %d bytes states %d values", plain, max(values, int64(entries)))
		}
		if sum += values; sum > m.NumValues {
			return fmt.Errorf("it is damaged: its pages state more than its %d values", m.NumValues)
		}
		rest = rest[size:]
	}
	return nil
}
