package pages

import (
	"encoding/binary"
	"errors"
)

var errDelta = errors.New("a page is damaged: its differences contradict their header")

const maxBlockValues = 1 << 20 // of DELTA_BINARY_PACKED; writers have 128

// deltas are the numbers of DELTA_BINARY_PACKED: a first one and differences, packed
// in blocks of some smaller ones.
type deltas struct {
	data   []byte
	width  int // bytes of a number
	each   int // numbers of a small block
	small  int // small blocks of a block
	left   uint64
	first  bool
	last   int64
	least  int64  // difference of this block
	widths []byte // bits of the differences of the small blocks that follow
	bits   int    // of this one
	packed []byte // this one
	at     int    // difference in it
	value  [8]byte
}

func newDeltas(data []byte, width int) (*deltas, error) {
	if len(data) == 0 { // of nulls alone
		return &deltas{}, nil
	}
	var head [3]uint64
	for i := range head {
		u, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, errDelta
		}
		head[i], data = u, data[n:]
	}
	first, n := binary.Varint(data)
	block, small := head[0], head[1]
	if n <= 0 || block == 0 || block > maxBlockValues || block%128 != 0 || small == 0 || block%small != 0 || block/small%32 != 0 || head[2] > 1<<31 {
		return nil, errDelta
	}
	return &deltas{data: data[n:], width: width, each: int(block / small), small: int(small), left: head[2], first: true, last: first, at: int(block / small)}, nil
}

// number is the next one.
func (d *deltas) number() (int64, error) {
	if d.left == 0 {
		return 0, errShort
	}
	d.left--
	if d.first {
		d.first = false
		return d.last, nil
	}
	if d.at == d.each {
		if err := d.begin(); err != nil {
			return 0, err
		}
	}
	d.last += d.least + int64(bitsAt(d.packed, uint64(d.at)*uint64(d.bits), d.bits))
	if d.width == 4 {
		d.last = int64(int32(d.last))
	}
	d.at++
	return d.last, nil
}

// begin begins a small block, and a block where one is due.
func (d *deltas) begin() error {
	if len(d.widths) == 0 {
		least, n := binary.Varint(d.data)
		if n <= 0 || len(d.data)-n < d.small {
			return errShort
		}
		d.least, d.widths, d.data = least, d.data[n:n+d.small], d.data[n+d.small:]
	}
	d.bits, d.widths = int(d.widths[0]), d.widths[1:]
	if d.bits > 8*d.width {
		return errDelta
	}
	size := d.each * d.bits / 8
	if size > len(d.data) {
		return errShort
	}
	d.packed, d.data, d.at = d.data[:size], d.data[size:], 0
	return nil
}

// behind is what follows the numbers.
func (d deltas) behind() ([]byte, error) {
	if d.left > 0 {
		d.left-- // the first
	}
	for d.left > 0 {
		if err := d.begin(); err != nil {
			return nil, err
		}
		d.left -= min(d.left, uint64(d.each))
	}
	return d.data, nil
}

func (d *deltas) next() ([]byte, error) {
	number, err := d.number()
	binary.LittleEndian.PutUint64(d.value[:], uint64(number))
	return d.value[:d.width], err
}

func (d *deltas) end() error {
	if d.left > 0 {
		return errRest
	}
	return nil
}

// lengths are texts behind the lengths of all (DELTA_LENGTH_BYTE_ARRAY).
type lengths struct {
	of   *deltas
	data []byte
}

func newLengths(data []byte) (*lengths, error) {
	of, err := newDeltas(data, 4)
	if err != nil {
		return nil, err
	}
	behind, err := of.behind()
	return &lengths{of: of, data: behind}, err
}

func (l *lengths) next() ([]byte, error) {
	n, err := l.of.number()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > int64(len(l.data)) {
		return nil, errShort
	}
	value := l.data[:n:n]
	l.data = l.data[n:]
	return value, nil
}

func (l *lengths) end() error {
	if len(l.data) > 0 {
		return errRest
	}
	return l.of.end()
}

// prefixes are texts that begin as the one before (DELTA_BYTE_ARRAY).
type prefixes struct {
	common *deltas
	rest   *lengths
	width  int // of each, 0 where they differ
	last   []byte
}

func newPrefixes(data []byte, width int) (*prefixes, error) {
	common, err := newDeltas(data, 4)
	if err != nil {
		return nil, err
	}
	behind, err := common.behind()
	if err != nil {
		return nil, err
	}
	rest, err := newLengths(behind)
	return &prefixes{common: common, rest: rest, width: width}, err
}

func (p *prefixes) next() ([]byte, error) {
	n, err := p.common.number()
	if err != nil {
		return nil, err
	}
	rest, err := p.rest.next()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > int64(len(p.last)) {
		return nil, errDelta
	}
	p.last = append(p.last[:n], rest...)
	if p.width > 0 && len(p.last) != p.width {
		return nil, errDelta
	}
	return p.last, nil
}

func (p *prefixes) end() error {
	if err := p.common.end(); err != nil {
		return err
	}
	return p.rest.end()
}
