package pages

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// maxThriftDepth bounds the nesting of structs: the format needs 6.
const maxThriftDepth = 24

var errThrift = errors.New("the metadata are damaged")

// ThriftLength returns the length of the struct, in Thrift's compact protocol, at the start
// of data, or io.ErrUnexpectedEOF if data is too short. The decoder of parquet-go allocates
// what a list claims to hold and follows structs to any depth, so it only gets what
// ThriftLength accepts.
func ThriftLength(data []byte) (int, error) {
	w := walker{rest: data}
	if err := w.structure(0); err != nil {
		return 0, err
	}
	return len(data) - len(w.rest), nil
}

type walker struct{ rest []byte }

func (w *walker) skip(n uint64) error {
	if n > uint64(len(w.rest)) {
		return io.ErrUnexpectedEOF
	}
	w.rest = w.rest[n:]
	return nil
}

func (w *walker) one() (byte, error) {
	if len(w.rest) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	b := w.rest[0]
	w.rest = w.rest[1:]
	return b, nil
}

func (w *walker) uvarint() (uint64, error) {
	u, n := binary.Uvarint(w.rest)
	switch {
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	case n < 0:
		return 0, errThrift
	}
	w.rest = w.rest[n:]
	return u, nil
}

func (w *walker) structure(depth int) error {
	if depth > maxThriftDepth {
		return errThrift
	}
	for {
		head, err := w.one()
		if err != nil {
			return err
		}
		if thrift.Type(head) == thrift.STOP {
			return nil
		}
		if head>>4 == 0 { // its id follows
			if _, err := w.uvarint(); err != nil {
				return err
			}
		}
		kind := thrift.Type(head & 0xF)
		if kind == thrift.TRUE || kind == thrift.FALSE { // the value is the type
			continue
		}
		if err := w.value(kind, depth); err != nil {
			return err
		}
	}
}

func (w *walker) value(kind thrift.Type, depth int) error {
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8:
		return w.skip(1)
	case thrift.I16, thrift.I32, thrift.I64:
		_, err := w.uvarint()
		return err
	case thrift.DOUBLE:
		return w.skip(8)
	case thrift.UUID:
		return w.skip(16)
	case thrift.BINARY:
		n, err := w.uvarint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case thrift.STRUCT:
		return w.structure(depth + 1)
	case thrift.LIST, thrift.SET:
		return w.list(depth)
	}
	return errThrift // maps have no place in the format
}

func (w *walker) list(depth int) error {
	head, err := w.one()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 0xF {
		if n, err = w.uvarint(); err != nil {
			return err
		}
	}
	if depth >= maxThriftDepth {
		return errThrift
	}
	for range n { // each takes a byte or more
		if err := w.value(thrift.Type(head&0xF), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// Unmarshal decodes the struct at the start of data and returns its length. Required fields
// may be missing: each is checked where it is used.
func Unmarshal(data []byte, into any) (int, error) {
	n, err := ThriftLength(data)
	if err != nil {
		return 0, err
	}
	if thrift.Unmarshal(new(thrift.CompactProtocol), data[:n], into) != nil {
		return 0, errThrift
	}
	return n, nil
}
