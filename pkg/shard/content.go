package shard

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"reflect"

	"github.com/lathe-rl/lathe/pkg/seal"
)

// ContentDigest is the SHA-256 of rows without their volatile columns: the
// same for every attempt at the same work. hasVolatile says whether the row
// type has such columns; when it has none, a file's content is its bytes.
//
// The digest is over, in this order:
//
//	"lathe-rows/1\n", the schema as NAME/vMAJOR.MINOR, "\n"
//	one line "NAME TYPE\n" for each column that is not volatile, in the order
//	of the row type's fields, TYPE being the Go type with named structs as
//	struct{NAME TYPE;...}
//	the number of rows
//	row by row, column by column: the value
//
// with these values, all integers little-endian: bool as one byte 0 or 1;
// int32 and float32 as 4 bytes, int64 and float64 as 8 (IEEE 754 bits);
// string as its length in bytes (uint64) and its bytes; list as its length
// (uint64) and its values; struct as its fields in order, volatile ones left
// out. The number of rows is a uint64. An absent list is an empty list.
func ContentDigest[T Row](rows []T) (sum string, hasVolatile bool) {
	var zero T
	return digestRows(rows, zero.Schema(), func(c column) bool { return c.volatile })
}

// ReplayDigest is [ContentDigest] without measured columns either: what a stage
// that is executed again must come to. hasMeasured says whether there are
// any.
func ReplayDigest[T Row](rows []T) (sum string, hasMeasured bool) {
	var zero T
	sum, _ = digestRows(rows, zero.Schema(), func(c column) bool {
		hasMeasured = hasMeasured || c.measured
		return c.volatile || c.measured
	})
	return sum, hasMeasured
}

// digestRows digests the columns that skip does not name, those inside structs
// included.
func digestRows[T Row](rows []T, named seal.Schema, skip func(column) bool) (sum string, skipped bool) {
	d := &digester{sum: sha256.New(), columns: map[reflect.Type][]column{}, skip: skip}
	d.w = bufio.NewWriterSize(d.sum, 1<<16)
	d.text(fmt.Sprintf("lathe-rows/1\n%s\n", named))
	columns := d.kept(reflect.TypeFor[T]())
	for _, c := range columns {
		d.text(fmt.Sprintf("%s %s\n", c.name, d.typeText(c.typ)))
	}
	d.uint64(uint64(len(rows)))
	for i := range rows {
		row := reflect.ValueOf(&rows[i]).Elem()
		for _, c := range columns {
			d.value(row.Field(c.index))
		}
	}
	d.w.Flush()
	return hex.EncodeToString(d.sum.Sum(nil)), d.skipped
}

// kept lists the columns of a struct that are digested.
func (d *digester) kept(t reflect.Type) []column {
	if columns, known := d.columns[t]; known {
		return columns
	}
	columns := []column{}
	for _, c := range columnsOf(t) {
		if d.skip(c) {
			d.skipped = true
			continue
		}
		columns = append(columns, c)
	}
	d.columns[t] = columns
	return columns
}

// typeText spells a type without the names of packages and Go structs.
func (d *digester) typeText(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "[]" + d.typeText(t.Elem())
	case reflect.Struct:
		s := "struct{"
		for _, c := range d.kept(t) {
			s += c.name + " " + d.typeText(c.typ) + ";"
		}
		return s + "}"
	}
	return t.Kind().String()
}

type digester struct {
	sum     hash.Hash
	w       *bufio.Writer // writing to a hash cannot fail
	scratch [8]byte

	skip    func(column) bool
	skipped bool                      // a column was left out
	columns map[reflect.Type][]column // that are digested, by struct
}

func (d *digester) text(s string) { io.WriteString(d.w, s) }

func (d *digester) uint32(v uint32) {
	binary.LittleEndian.PutUint32(d.scratch[:], v)
	d.w.Write(d.scratch[:4])
}

func (d *digester) uint64(v uint64) {
	binary.LittleEndian.PutUint64(d.scratch[:], v)
	d.w.Write(d.scratch[:8])
}

func (d *digester) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	d.w.WriteByte(b)
}

func (d *digester) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		d.bool(v.Bool())
	case reflect.Int32:
		d.uint32(uint32(int32(v.Int())))
	case reflect.Int64:
		d.uint64(uint64(v.Int()))
	case reflect.Float32:
		d.uint32(math.Float32bits(float32(v.Float())))
	case reflect.Float64:
		d.uint64(math.Float64bits(v.Float()))
	case reflect.String:
		d.uint64(uint64(v.Len()))
		d.text(v.String())
	case reflect.Struct:
		for _, c := range d.kept(v.Type()) {
			d.value(v.Field(c.index))
		}
	case reflect.Slice:
		d.uint64(uint64(v.Len()))
		d.list(v)
	default:
		panic(fmt.Sprintf("shard: a column of type %s has no canonical encoding", v.Type()))
	}
}

// list writes the values of a list, the long ones without reflection.
func (d *digester) list(v reflect.Value) {
	switch list := v.Interface().(type) {
	case []int32:
		for _, x := range list {
			d.uint32(uint32(x))
		}
	case []float32:
		for _, x := range list {
			d.uint32(math.Float32bits(x))
		}
	case []bool:
		for _, x := range list {
			d.bool(x)
		}
	default:
		for i := range v.Len() {
			d.value(v.Index(i))
		}
	}
}
