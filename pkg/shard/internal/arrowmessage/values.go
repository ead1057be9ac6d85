package arrowmessage

import (
	"encoding/binary"
	"io"
)

// Values says where a file has the values of its records, which have one column of
// numbers, no NULL and no compression: so that a part of a record can be read, and none is
// in memory whole.
type Values struct{ reader *Reader }

// NewValues reads the footer of a file.
func NewValues(r io.ReaderAt, size int64) (*Values, error) {
	reader, err := New(r, size)
	if err == nil && !reader.isFile {
		err = ErrDamaged
	}
	return &Values{reader}, err
}

// Of is the place of the first value of a record, and how many bytes its values have.
func (v *Values) Of(record int) (at, bytes int64, err error) {
	defer recovered(&err)
	records := v.reader.blocks
	if record < 0 || record >= len(records) {
		return 0, 0, ErrDamaged
	}
	metadata, body, length, err := v.reader.head(records[record].at)
	if err != nil {
		return 0, 0, err
	}
	header, there := root(metadata).inside(messageHeader)
	if !there || root(metadata).byte(messageKind) != recordKind {
		return 0, 0, ErrDamaged
	}
	if _, packed := header.inside(recordCompression); packed {
		return 0, 0, ErrDamaged
	}
	const pair, word = 16, 8 // offset and length: of the NULLs, of which there are none, and of the values
	first, buffers := header.vector(recordBuffers, pair)
	if buffers != 2 {
		return 0, 0, ErrDamaged
	}
	values := header.data[first+pair:]
	at, bytes = int64(binary.LittleEndian.Uint64(values)), int64(binary.LittleEndian.Uint64(values[word:]))
	if at < 0 || bytes < 0 || at > length-bytes {
		return 0, 0, ErrDamaged
	}
	return body + at, bytes, nil
}
