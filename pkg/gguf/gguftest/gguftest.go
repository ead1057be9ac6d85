// Package gguftest writes GGUF files for tests.
package gguftest

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// File is what is written.
type File struct {
	Version uint32 // 0 is 3
	Keys    []Key
	Tensors []Tensor
}

// Key is a key of the metadata. The value is of a Go type for each of GGUF's, or a slice.
type Key struct {
	Name  string
	Value any
}

// Tensor is a tensor and its bytes.
type Tensor struct {
	Name  string
	Type  uint32
	Shape []int // rows first
	Data  []byte
}

// Bytes is the content of the file.
func (f File) Bytes() []byte {
	w := &writer{}
	version := f.Version
	if version == 0 {
		version = 3
	}
	w.WriteString("GGUF")
	w.put(version, uint64(len(f.Tensors)), uint64(len(f.Keys)))
	for _, k := range f.Keys {
		w.text(k.Name)
		w.value(k.Value)
	}
	const alignment = 32
	var data []byte
	for _, t := range f.Tensors {
		w.text(t.Name)
		w.put(uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			w.put(uint64(d))
		}
		w.put(t.Type, uint64(len(data)))
		data = append(data, t.Data...)
		data = append(data, make([]byte, -len(data)&(alignment-1))...)
	}
	w.Write(make([]byte, -w.Len()&(alignment-1)))
	w.Write(data)
	return w.Bytes()
}

// Floats are the bytes of a tensor of type F32.
func Floats(values ...float32) []byte {
	var raw []byte
	for _, x := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}

type writer struct{ bytes.Buffer }

func (w *writer) put(values ...any) {
	for _, v := range values {
		if err := binary.Write(w, binary.LittleEndian, v); err != nil {
			panic(err) // of a test
		}
	}
}

func (w *writer) text(s string) {
	w.put(uint64(len(s)))
	w.WriteString(s)
}

func (w *writer) value(value any) {
	switch v := value.(type) {
	case string:
		w.put(uint32(8))
		w.text(v)
	case []string:
		w.put(uint32(9), uint32(8), uint64(len(v)))
		for _, s := range v {
			w.text(s)
		}
	case []int32:
		w.put(uint32(9), uint32(5), uint64(len(v)), v)
	case []float32:
		w.put(uint32(9), uint32(6), uint64(len(v)), v)
	case []bool:
		w.put(uint32(9), uint32(7), uint64(len(v)), v)
	default:
		w.put(kindOf(v), v)
	}
}

// kindOf numbers the types of single values.
func kindOf(value any) uint32 {
	switch value.(type) {
	case uint8:
		return 0
	case int8:
		return 1
	case uint16:
		return 2
	case int16:
		return 3
	case uint32:
		return 4
	case int32:
		return 5
	case float32:
		return 6
	case bool:
		return 7
	case uint64:
		return 10
	case int64:
		return 11
	}
	return 12 // float64
}
