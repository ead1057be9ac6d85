package shard

import (
	"fmt"
	"io"
	"reflect"
)

// A file of a few kilobytes can hold gigabytes of rows: one long text that a
// million rows have, or a page of zeros. Tables of numbers and texts that repeat
// grow a hundredfold; what grows more than growthRatio, and beyond growthFloor, is
// made to fill a memory.
const (
	growthRatio = 1000
	growthFloor = 512 << 20 // bytes
	// foreignRowsPerRead bounds what is decoded between two looks at the growth.
	foreignRowsPerRead = 16
)

// mostDecoded bounds the bytes that a file may grow to.
func mostDecoded(fileBytes int) int64 { return max(growthFloor, growthRatio*int64(fileBytes)) }

func grows(fileBytes int, decoded int64) error {
	return fmt.Errorf("its %d bytes grow to more than %d; at most %d are read: split the file, or write it with less compression",
		fileBytes, decoded-1, mostDecoded(fileBytes))
}

// allForeign is all for a file of so many bytes that nobody vouches for.
func (t *table[T]) allForeign(fileBytes int) (rows []T, err error) {
	decoded := int64(0)
	for err == nil {
		var more []T
		more, err = t.read(foreignRowsPerRead)
		for i := range more {
			decoded += footprint(reflect.ValueOf(&more[i]).Elem())
		}
		if decoded > mostDecoded(fileBytes) {
			return nil, grows(fileBytes, decoded)
		}
		rows = append(rows, more...)
	}
	if err != io.EOF {
		return nil, fmt.Errorf("row %d and on: %w", len(rows), err)
	}
	return t.counted(rows)
}

// footprint is the memory of a value, with what it points to.
func footprint(v reflect.Value) int64 { return int64(v.Type().Size()) + beyond(v) }

func beyond(v reflect.Value) (bytes int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Struct:
		for i := range v.NumField() {
			bytes += beyond(v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return footprint(v.Elem())
		}
	case reflect.Slice:
		element := v.Type().Elem()
		bytes = int64(v.Cap()) * int64(element.Size())
		switch element.Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer, reflect.Slice:
			for i := range v.Len() {
				bytes += beyond(v.Index(i))
			}
		}
	}
	return bytes
}
