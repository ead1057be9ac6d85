package pages

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

var errShort = errors.New("a page is damaged: it ends before its last value")

// bitsAt reads width bits that begin at a bit of data, the lowest first. The bits
// must be there.
func bitsAt(data []byte, at uint64, width int) uint64 {
	var window [9]byte
	copy(window[:], data[at/8:])
	shift := at % 8
	value := binary.LittleEndian.Uint64(window[:]) >> shift
	if shift > 0 {
		value |= uint64(window[8]) << (64 - shift)
	}
	if width < 64 {
		value &= 1<<width - 1
	}
	return value
}

// runs are the numbers of RLE, runs of one number and of packed ones.
type runs struct {
	data   []byte
	width  int    // bits of a number
	left   uint64 // of this run
	value  uint32 // that a run repeats
	packed []byte // numbers of a run of packed ones
	at     uint64 // bit in it
}

func (r *runs) next() (uint32, error) {
	for r.left == 0 {
		if err := r.begin(); err != nil {
			return 0, err
		}
	}
	r.left--
	if r.packed == nil {
		return r.value, nil
	}
	if r.at+uint64(r.width) > uint64(len(r.packed))*8 {
		return 0, errShort
	}
	value := bitsAt(r.packed, r.at, r.width)
	r.at += uint64(r.width)
	return uint32(value), nil
}

func (r *runs) begin() error {
	head, n := binary.Uvarint(r.data)
	if n <= 0 || head > 1<<32 {
		return errShort
	}
	r.data, r.packed, r.at = r.data[n:], nil, 0
	if head&1 == 1 {
		groups := head >> 1
		take := min(groups*uint64(r.width), uint64(len(r.data))) // the last group may be cut off behind its last value
		r.packed, r.data, r.left = r.data[:take:take], r.data[take:], groups*8
		if r.packed == nil {
			r.packed = []byte{}
		}
		return nil
	}
	width := (r.width + 7) / 8
	if len(r.data) < width {
		return errShort
	}
	r.value = 0
	for i := range width {
		r.value |= uint32(r.data[i]) << (8 * i)
	}
	r.data, r.left = r.data[width:], head>>1
	return nil
}

// levels are the repetition or definition levels of a page.
type levels struct {
	runs   runs
	top    int
	old    bool // the encoding BIT_PACKED, the highest bit first
	packed []byte
	at     int
}

func (l *levels) next() (int, error) {
	if l.top == 0 {
		return 0, nil
	}
	var value int
	if l.old {
		for range l.runs.width {
			if l.at/8 >= len(l.packed) {
				return 0, errShort
			}
			value = value<<1 | int(l.packed[l.at/8]>>(7-l.at%8)&1)
			l.at++
		}
	} else {
		u, err := l.runs.next()
		if err != nil {
			return 0, err
		}
		value = int(u)
	}
	if value > l.top {
		return 0, errors.New("a page is damaged: its levels are higher than the column's")
	}
	return value, nil
}

func widthOf(top int) int { return bits.Len(uint(top)) }
