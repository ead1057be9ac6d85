package pages

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/format"
)

// decoder gives the values of a page one by one, as the bytes that PLAIN has for
// them. A value stands until the next one.
type decoder interface {
	next() ([]byte, error)
	// end is an error where values are left.
	end() error
}

var errRest = errors.New("a page is damaged: it has more values than its header states")

// padding is an error where what follows the last value is more than the zeros that
// fastparquet puts there.
func padding(data []byte) error {
	for _, b := range data {
		if b != 0 {
			return errRest
		}
	}
	return nil
}

type plainFixed struct {
	data  []byte
	width int
}

func (p *plainFixed) next() ([]byte, error) {
	if len(p.data) < p.width {
		return nil, errShort
	}
	value := p.data[:p.width:p.width]
	p.data = p.data[p.width:]
	return value, nil
}

func (p *plainFixed) end() error { return padding(p.data) }

type plainBytes struct{ data []byte }

func (p *plainBytes) next() ([]byte, error) {
	if len(p.data) < 4 {
		return nil, errShort
	}
	n := uint64(binary.LittleEndian.Uint32(p.data))
	if n > uint64(len(p.data)-4) {
		return nil, errShort
	}
	value := p.data[4 : 4+n : 4+n]
	p.data = p.data[4+n:]
	return value, nil
}

func (p *plainBytes) end() error { return padding(p.data) }

// bools are values of one byte.
var bools = [2][]byte{{0}, {1}}

type plainBools struct {
	data []byte
	at   uint64
}

func (p *plainBools) next() ([]byte, error) {
	if p.at/8 >= uint64(len(p.data)) {
		return nil, errShort
	}
	value := bools[p.data[p.at/8]>>(p.at%8)&1]
	p.at++
	return value, nil
}

func (p *plainBools) end() error { return padding(p.data[(p.at+7)/8:]) }

type runBools struct{ runs runs }

func (r *runBools) next() ([]byte, error) {
	u, err := r.runs.next()
	if err != nil {
		return nil, err
	}
	return bools[u&1], nil
}

func (*runBools) end() error { return nil } // the last run is padded

// dictionary is the values that numbers in the pages of a column stand for.
type dictionary struct {
	data  []byte
	width int   // of each, 0 where they differ
	ends  []int // where they differ
}

func newDictionary(data []byte, n int, leaf Leaf) (*dictionary, error) {
	d := &dictionary{data: data, width: leaf.width()}
	if leaf.Type == format.Boolean {
		return nil, errors.New("a page is damaged: a column of booleans has a dictionary")
	}
	if d.width > 0 {
		if len(data) != n*d.width {
			return nil, fmt.Errorf("a page is damaged: its dictionary has %d bytes for %d values of %d", len(data), n, d.width)
		}
		return d, nil
	}
	values := plainBytes{data: data}
	for range n { // each takes 4 bytes or more
		if _, err := values.next(); err != nil {
			return nil, err
		}
		d.ends = append(d.ends, len(data)-len(values.data))
	}
	return d, values.end()
}

func (d *dictionary) value(i uint32) ([]byte, bool) {
	if d.width > 0 {
		if uint64(i) >= uint64(len(d.data)/d.width) {
			return nil, false
		}
		at := int(i) * d.width
		return d.data[at : at+d.width : at+d.width], true
	}
	if uint64(i) >= uint64(len(d.ends)) {
		return nil, false
	}
	start := 4
	if i > 0 {
		start += d.ends[i-1]
	}
	return d.data[start:d.ends[i]:d.ends[i]], true
}

type ofDictionary struct {
	runs  runs
	among *dictionary
}

func (o *ofDictionary) next() ([]byte, error) {
	i, err := o.runs.next()
	if err != nil {
		return nil, err
	}
	value, ok := o.among.value(i)
	if !ok {
		return nil, errors.New("a page is damaged: a dictionary index is out of range")
	}
	return value, nil
}

func (*ofDictionary) end() error { return nil } // the last run is padded

// split are values whose first bytes stand together, then their second ones, and so on.
type split struct {
	data  []byte
	width int
	at    int
	value []byte
}

func (s *split) next() ([]byte, error) {
	n := len(s.data) / s.width
	if s.at >= n {
		return nil, errShort
	}
	for i := range s.value {
		s.value[i] = s.data[i*n+s.at]
	}
	s.at++
	return s.value, nil
}

func (s *split) end() error {
	if s.at*s.width != len(s.data) {
		return errRest
	}
	return nil
}

// oldDictionary is the encoding of dictionaries and of numbers in them that writers of
// old state.
const oldDictionary format.Encoding = 2

// dictionaryPages are the encodings of dictionaries.
var dictionaryPages = []format.Encoding{format.Plain, oldDictionary}

// valuesOf decodes the values of a page.
func valuesOf(encoding format.Encoding, data []byte, leaf Leaf, among *dictionary) (decoder, error) {
	width := leaf.width()
	switch {
	case encoding == format.Plain && leaf.Type == format.Boolean:
		return &plainBools{data: data}, nil
	case encoding == format.Plain && leaf.Type == format.ByteArray:
		return &plainBytes{data: data}, nil
	case encoding == format.Plain:
		return &plainFixed{data: data, width: width}, nil
	case encoding == format.RLE && leaf.Type == format.Boolean:
		if len(data) == 0 { // of nulls alone
			return &runBools{}, nil
		}
		data, _, err := prefixed(data)
		return &runBools{runs{data: data, width: 1}}, err
	case encoding == oldDictionary, encoding == format.RLEDictionary:
		switch {
		case len(data) == 0: // of nulls alone
			return &ofDictionary{}, nil
		case among == nil:
			return nil, errors.New("a page is damaged: its column has no dictionary")
		case data[0] > 32:
			return nil, fmt.Errorf("a page is damaged: its dictionary indices have %d bits", data[0])
		}
		return &ofDictionary{runs{data: data[1:], width: int(data[0])}, among}, nil
	case encoding == format.DeltaBinaryPacked && (leaf.Type == format.Int32 || leaf.Type == format.Int64):
		return newDeltas(data, width)
	case encoding == format.DeltaLengthByteArray && leaf.Type == format.ByteArray:
		return newLengths(data)
	case encoding == format.DeltaByteArray && (leaf.Type == format.ByteArray || leaf.Type == format.FixedLenByteArray):
		return newPrefixes(data, width)
	case encoding == format.ByteStreamSplit && width > 0 && leaf.Type != format.Boolean && leaf.Type != format.Int96:
		if len(data)%width != 0 {
			return nil, fmt.Errorf("a page is damaged: it has %d bytes for values of %d", len(data), width)
		}
		return &split{data: data, width: width, value: make([]byte, width)}, nil
	}
	return nil, fmt.Errorf("the encoding %s is not supported for values of type %s: write the file with the encoding PLAIN", encodingName(encoding), leaf.Type)
}

func encodingName(encoding format.Encoding) string {
	if name := encoding.String(); name != "Encoding(?)" {
		return name
	}
	return fmt.Sprintf("number %d", encoding)
}
