package arrowmessage

import "encoding/binary"

// damaged is what reading a flatbuffer panics with where it contradicts itself, and wide where
// a schema has integers that are not supported.
type (
	damaged struct{}
	wide    struct{}
)

// table is a table of a flatbuffer: fields by their numbers, each of which may be missing.
type table struct {
	data   []byte
	at     int
	fields []byte // where each field lies in the table, 2 bytes each
	size   int
}

func tableAt(data []byte, at int) table {
	behind := func(from, n int) []byte {
		if from < 0 || n < 0 || from > len(data)-n {
			panic(damaged{})
		}
		return data[from : from+n]
	}
	head := at - int(int32(binary.LittleEndian.Uint32(behind(at, 4))))
	lengths := behind(head, 4)
	n, size := int(binary.LittleEndian.Uint16(lengths)), int(binary.LittleEndian.Uint16(lengths[2:]))
	if n < 4 || n%2 != 0 || size < 4 {
		panic(damaged{})
	}
	behind(at, size)
	return table{data: data, at: at, fields: behind(head, n)[4:], size: size}
}

// root is the table that a flatbuffer begins with.
func root(data []byte) table {
	if len(data) < 4 {
		panic(damaged{})
	}
	return tableAt(data, int(binary.LittleEndian.Uint32(data)))
}

// position is where a field of size bytes lies; false where it is missing.
func (t table) position(field, size int) (int, bool) {
	if 2*field+2 > len(t.fields) {
		return 0, false
	}
	at := int(binary.LittleEndian.Uint16(t.fields[2*field:]))
	if at == 0 {
		return 0, false
	}
	if at+size > t.size {
		panic(damaged{})
	}
	return t.at + at, true
}

func (t table) byte(field int) byte {
	at, ok := t.position(field, 1)
	if !ok {
		return 0
	}
	return t.data[at]
}

// flag is true or false. Other readers differ on what a third value is.
func (t table) flag(field int) bool {
	value := t.byte(field)
	if value > 1 {
		panic(damaged{})
	}
	return value == 1
}

func (t table) int16(field int) int16 {
	at, ok := t.position(field, 2)
	if !ok {
		return 0
	}
	return int16(binary.LittleEndian.Uint16(t.data[at:]))
}

func (t table) int32(field int) int32 {
	at, ok := t.position(field, 4)
	if !ok {
		return 0
	}
	return int32(binary.LittleEndian.Uint32(t.data[at:]))
}

func (t table) int64(field int) int64 {
	at, ok := t.position(field, 8)
	if !ok {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(t.data[at:]))
}

// follow is what the offset at a position leads to.
func (t table) follow(at int) int { return at + int(binary.LittleEndian.Uint32(t.data[at:])) }

// inside is the table that a field leads to.
func (t table) inside(field int) (table, bool) {
	at, ok := t.position(field, 4)
	if !ok {
		return table{}, false
	}
	return tableAt(t.data, t.follow(at)), true
}

// vector is the list that a field leads to: where its first item lies, and how many
// items of size bytes there are.
func (t table) vector(field, size int) (at, n int) {
	at, ok := t.position(field, 4)
	if !ok {
		return 0, 0
	}
	at = t.follow(at)
	if at > len(t.data)-4 {
		panic(damaged{})
	}
	n = int(binary.LittleEndian.Uint32(t.data[at:]))
	if n > (len(t.data)-at-4)/size {
		panic(damaged{})
	}
	return at + 4, n
}

// eachInside calls with each table of the list that a field leads to.
func (t table) eachInside(field int, each func(table)) {
	at, n := t.vector(field, 4)
	for i := range n {
		each(tableAt(t.data, t.follow(at+4*i)))
	}
}
