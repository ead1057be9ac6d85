package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// Metadata are the keys of a file and their values: an int64, a float64, a bool, a string,
// or a slice of these.
type Metadata map[string]any

// valueType is a type of the metadata, as numbered in the file.
type valueType uint32

const (
	typeBool   valueType = 7
	typeString valueType = 8
	typeArray  valueType = 9
)

// widths are the bytes of numbers and bools.
var widths = map[valueType]int64{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, typeBool: 1, 10: 8, 11: 8, 12: 8}

// cursor reads the start of a file, of which left bytes may still be read. Nothing is
// allocated for a length that is more than that.
type cursor struct {
	r    io.Reader
	at   int64
	left int64
}

func (c *cursor) bytes(n int64) ([]byte, error) {
	if n < 0 || n > c.left {
		return nil, fmt.Errorf("%d bytes are needed at byte %d, and %d are left of the file or of what metadata may take", n, c.at, c.left)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(c.r, raw); err != nil {
		return nil, fmt.Errorf("at byte %d: %w", c.at, err)
	}
	c.at += n
	c.left -= n
	return raw, nil
}

func (c *cursor) uint32() (n uint32, err error) {
	raw, err := c.bytes(4)
	if err == nil {
		n = binary.LittleEndian.Uint32(raw)
	}
	return n, err
}

// size reads a length or a number of things that take at least width bytes each.
func (c *cursor) size(width int64) (n int64, err error) {
	raw, err := c.bytes(8)
	if err != nil {
		return n, err
	}
	length := binary.LittleEndian.Uint64(raw)
	if length > uint64(c.left/width) {
		return n, fmt.Errorf("at byte %d: a length of %d, and the rest of the file, or of what metadata may take, is %d bytes", c.at-8, length, c.left)
	}
	return int64(length), nil
}

func (c *cursor) text() (string, error) {
	n, err := c.size(1)
	if err != nil {
		return "", err
	}
	raw, err := c.bytes(n)
	return string(raw), err
}

func (c *cursor) value() (any, error) {
	t, err := c.uint32()
	if err != nil {
		return nil, err
	}
	if valueType(t) != typeArray {
		values, err := c.values(valueType(t), 1)
		if err != nil {
			return nil, err
		}
		switch values := values.(type) {
		case []string:
			return values[0], nil
		case []bool:
			return values[0], nil
		case []float64:
			return values[0], nil
		default:
			return values.([]int64)[0], nil
		}
	}
	if t, err = c.uint32(); err != nil {
		return nil, err
	}
	width := widths[valueType(t)]
	if valueType(t) == typeString {
		width = 8
	}
	if width == 0 {
		return nil, fmt.Errorf("at byte %d: an array of type %d, which is not a number, a bool or a string", c.at-4, t)
	}
	n, err := c.size(width)
	if err != nil {
		return nil, err
	}
	return c.values(valueType(t), n)
}

// values reads n values of a type that is no array.
func (c *cursor) values(t valueType, n int64) (any, error) {
	if t == typeString {
		var texts []string
		for range n {
			text, err := c.text()
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
		return texts, nil
	}
	width := widths[t]
	if width == 0 {
		return nil, fmt.Errorf("at byte %d: a value of type %d, which GGUF does not have", c.at-4, t)
	}
	raw, err := c.bytes(n * width)
	if err != nil {
		return nil, err
	}
	return decodeValues(t, raw, int(n), int(width))
}

func decodeValues(t valueType, raw []byte, n, width int) (any, error) {
	switch t {
	case typeBool:
		bools := make([]bool, n)
		for i, b := range raw {
			bools[i] = b != 0
		}
		return bools, nil
	case 6, 12:
		floats := make([]float64, n)
		for i := range floats {
			if t == 6 {
				floats[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
			} else {
				floats[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
			}
		}
		return floats, nil
	}
	integers := make([]int64, n)
	signed := t == 1 || t == 3 || t == 5 || t == 11
	for i := range integers {
		var padded [8]byte
		copy(padded[:], raw[width*i:width*(i+1)])
		shift := 64 - 8*width
		u := binary.LittleEndian.Uint64(padded[:])
		switch {
		case signed:
			integers[i] = int64(u<<shift) >> shift
		case u > math.MaxInt64:
			return nil, fmt.Errorf("the number %d is out of range", u)
		default:
			integers[i] = int64(u)
		}
	}
	return integers, nil
}

// metadata reads n keys and their values.
func (c *cursor) metadata(n int64) (Metadata, error) {
	m := Metadata{}
	for range n {
		key, err := c.text()
		if err != nil {
			return nil, fmt.Errorf("metadata: a key: %w", err)
		}
		if _, twice := m[key]; twice || key == "" || !utf8.ValidString(key) {
			return nil, fmt.Errorf("metadata: key %.100q is empty, no UTF-8, or given twice", key)
		}
		if m[key], err = c.value(); err != nil {
			return nil, fmt.Errorf("metadata: %.100q: %w", key, err)
		}
	}
	return m, nil
}

// Get returns the value of a key as a T. there is false where the file does not have the
// key; a value of another type is an error.
func Get[T any](m Metadata, key string) (value T, there bool, err error) {
	found, there := m[key]
	if !there {
		return value, false, nil
	}
	value, ok := found.(T)
	if !ok {
		return value, true, fmt.Errorf("metadata: %q is %s, want %s", key, typeName(found), typeName(value))
	}
	return value, true, nil
}

func typeName(value any) string {
	switch value.(type) {
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a bool"
	case string:
		return "a string"
	case []string:
		return "a list of strings"
	case []int64:
		return "a list of integers"
	case []float64:
		return "a list of floats"
	}
	return "a list of bools"
}
