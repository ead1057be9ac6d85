package foreign

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// leafOf is what a handmade file has of a leaf: levels of every entry, one digit each
// where the column has such levels, and the values as PLAIN has them.
type leafOf struct {
	reps, defs string
	values     []byte
	n          int32 // entries of a column without levels
}

// handmade writes a file of one row group of which every leaf has one page.
func handmade(t *testing.T, rows int64, schema []format.SchemaElement, leaves ...leafOf) []byte {
	t.Helper()
	file := []byte("PAR1")
	group := format.RowGroup{NumRows: rows}
	var types []format.Type
	for _, e := range schema {
		if e.Type.Valid {
			types = append(types, e.Type.V)
		}
	}
	for i, leaf := range leaves {
		var page []byte
		for _, digits := range []string{leaf.reps, leaf.defs} {
			if digits != "" {
				page = append(page, levelRuns(digits)...)
			}
		}
		page = append(page, leaf.values...)
		n := max(leaf.n, int32(len(leaf.defs)))
		header, err := thrift.Marshal(new(thrift.CompactProtocol), &format.PageHeader{
			Type: format.DataPage, UncompressedPageSize: int32(len(page)), CompressedPageSize: int32(len(page)),
			DataPageHeader: thrift.New(format.DataPageHeader{NumValues: n, Encoding: format.Plain, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}),
		})
		if err != nil {
			t.Fatal(err)
		}
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: format.ColumnMetaData{
			Type: types[i], PathInSchema: []string{"a"}, NumValues: int64(n), DataPageOffset: int64(len(file)),
		}})
		file = append(append(file, header...), page...)
	}
	footer := must.Get(thrift.Marshal(new(thrift.CompactProtocol), &format.FileMetaData{Version: 1, Schema: schema, NumRows: rows, RowGroups: []format.RowGroup{group}}))(t)
	file = append(file, footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
}

// levelRuns writes each level as a run of its own.
func levelRuns(digits string) []byte {
	var runs []byte
	for _, digit := range []byte(digits) {
		runs = append(runs, 1<<1, digit-'0')
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(runs))), runs...)
}

func int32s(values ...int32) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return data
}

func strs(values ...string) (data []byte) {
	for _, v := range values {
		data = append(binary.LittleEndian.AppendUint32(data, uint32(len(v))), v...)
	}
	return data
}

const (
	required = format.Required
	optional = format.Optional
	repeated = format.Repeated
)

func group(name string, r presence, children int32, converted ...deprecated.ConvertedType) format.SchemaElement {
	e := format.SchemaElement{Name: name, RepetitionType: thrift.New(r), NumChildren: thrift.New(children)}
	for _, c := range converted {
		e.ConvertedType = thrift.New(c)
	}
	return e
}

func leaf(name string, r presence, physical format.Type, converted ...deprecated.ConvertedType) format.SchemaElement {
	e := format.SchemaElement{Name: name, RepetitionType: thrift.New(r), Type: thrift.New(physical)}
	for _, c := range converted {
		e.ConvertedType = thrift.New(c)
	}
	return e
}

// TestOldEncodings reads lists and maps as writers of old have encoded them: the rules of
// LogicalTypes.md, and what pyarrow makes of each.
func TestOldEncodings(t *testing.T) {
	t.Parallel()
	root, list, mapped, pairs, utf8 := group("schema", required, 1), deprecated.List, deprecated.Map, deprecated.MapKeyValue, deprecated.UTF8
	for name, c := range map[string]struct {
		schema []format.SchemaElement
		leaves []leafOf
		rows   int64
		want   []string
	}{
		"a repeated field alone": {[]format.SchemaElement{root, leaf("a", repeated, format.Int32)}, []leafOf{{reps: "010", defs: "110", values: int32s(1, 2)}}, 2, []string{`{"a":[1,2]}`, `{"a":[]}`}},
		"a repeated group alone": {
			[]format.SchemaElement{root, group("a", repeated, 2), leaf("k", required, format.Int32), leaf("v", optional, format.ByteArray, utf8)},
			[]leafOf{{reps: "010", defs: "110", values: int32s(1, 2)}, {reps: "010", defs: "210", values: strs("x")}},
			2,
			[]string{`{"a":[{"k":1,"v":"x"},{"k":2,"v":null}]}`, `{"a":[]}`},
		},
		"two levels of parquet-avro, of numbers":                {[]format.SchemaElement{root, group("a", optional, 1, list), leaf("array", repeated, format.Int32)}, []leafOf{{reps: "0100", defs: "2210", values: int32s(1, 2)}}, 3, []string{`{"a":[1,2]}`, `{"a":[]}`, `{"a":null}`}},
		"two levels of parquet-avro, of objects with one field": {[]format.SchemaElement{root, group("a", required, 1, list), group("array", repeated, 1), leaf("k", required, format.Int32)}, []leafOf{{reps: "01", defs: "11", values: int32s(1, 2)}}, 1, []string{`{"a":[{"k":1},{"k":2}]}`}},
		"two levels of Thrift":                                  {[]format.SchemaElement{root, group("a", required, 1, list), group("a_tuple", repeated, 1), leaf("k", optional, format.Int32)}, []leafOf{{reps: "01", defs: "12", values: int32s(2)}}, 1, []string{`{"a":[{"k":null},{"k":2}]}`}},
		"two levels, of objects with two fields": {
			[]format.SchemaElement{root, group("a", required, 1, list), group("element", repeated, 2), leaf("k", required, format.Int32), leaf("l", required, format.Int32)},
			[]leafOf{{reps: "01", defs: "11", values: int32s(1, 2)}, {reps: "01", defs: "11", values: int32s(3, 4)}},
			1,
			[]string{`{"a":[{"k":1,"l":3},{"k":2,"l":4}]}`},
		},
		"three levels of Hive":                        {[]format.SchemaElement{root, group("a", optional, 1, list), group("bag", repeated, 1), leaf("array_element", optional, format.Int32)}, []leafOf{{reps: "0100", defs: "3210", values: int32s(1)}}, 3, []string{`{"a":[1,null]}`, `{"a":[]}`, `{"a":null}`}},
		"lists of lists in two levels each":           {[]format.SchemaElement{root, group("a", required, 1, list), group("array", repeated, 1, list), leaf("array", repeated, format.Int32)}, []leafOf{{reps: "02100", defs: "22120", values: int32s(1, 2, 3)}}, 3, []string{`{"a":[[1,2],[]]}`, `{"a":[[3]]}`, `{"a":[]}`}},
		"lists of lists without an annotation inside": {[]format.SchemaElement{root, group("a", required, 1, list), group("bag", repeated, 1), leaf("array", repeated, format.Int32)}, []leafOf{{reps: "02", defs: "22", values: int32s(1, 2)}}, 1, []string{`{"a":[{"array":[1,2]}]}`}},
		"a map that is annotated at its pairs": {
			[]format.SchemaElement{root, group("a", optional, 1, pairs), group("map", repeated, 2), leaf("key", required, format.ByteArray, utf8), leaf("value", optional, format.Int32)},
			[]leafOf{{reps: "0100", defs: "2210", values: strs("x", "y")}, {reps: "0100", defs: "3210", values: int32s(1)}},
			3,
			[]string{`{"a":[["x",1],["y",null]]}`, `{"a":[]}`, `{"a":null}`},
		},
		"a map without values":                    {[]format.SchemaElement{root, group("a", optional, 1, mapped), group("map", repeated, 1), leaf("key", required, format.Int32)}, []leafOf{{reps: "01", defs: "22", values: int32s(4, 5)}}, 1, []string{`{"a":[4,5]}`}},
		"unsigned numbers of the old annotations": {[]format.SchemaElement{root, leaf("a", required, format.Int32, deprecated.Uint32)}, []leafOf{{values: int32s(-1), n: 1}}, 1, []string{`{"a":4294967295}`}},
	} {
		found, err := read(handmade(t, c.rows, c.schema, c.leaves...), Parquet)
		if diff := cmp.Diff(c.want, found); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// TestContradictions reads files whose parts do not agree: each is refused with its
// column, and no file gives a row that is not there.
func TestContradictions(t *testing.T) {
	t.Parallel()
	plain := []format.SchemaElement{group("schema", required, 1), leaf("a", required, format.Int32)}
	listed := []format.SchemaElement{group("schema", required, 1), group("a", optional, 1, deprecated.List), group("list", repeated, 2), leaf("k", optional, format.Int32), leaf("l", optional, format.Int32)}
	for name, c := range map[string]struct {
		schema []format.SchemaElement
		leaves []leafOf
		rows   int64
		want   string
	}{
		"fewer values than stated":      {plain, []leafOf{{values: int32s(1, 2), n: 3}}, 3, `row group 1: column "a": row 2: a page is damaged: it ends before its last value`},
		"more values than stated":       {plain, []leafOf{{values: int32s(1, 2), n: 1}}, 1, `row group 1: column "a": row 1: a page is damaged: it has more values than its header states`},
		"fewer rows than stated":        {plain, []leafOf{{values: int32s(1), n: 1}}, 2, `row group 1: column "a": the file is damaged: the column has fewer than the 2 rows of the row group`},
		"more rows than stated":         {plain, []leafOf{{values: int32s(1, 2), n: 2}}, 1, `row group 1: column "a": the file is damaged: the column has more than the 1 rows of the row group`},
		"lists of different lengths":    {listed, []leafOf{{reps: "01", defs: "33", values: int32s(1, 2)}, {reps: "00", defs: "33", values: int32s(1, 2)}}, 1, `row group 1: column "a": row 1: the file is damaged: its levels contradict each other`},
		"a list that is there and null": {listed, []leafOf{{reps: "0", defs: "3", values: int32s(1)}, {reps: "0", defs: "0", values: nil}}, 1, `row group 1: column "a": row 1: the file is damaged: its levels contradict each other`},
		"a number that is too long":     {[]format.SchemaElement{group("schema", required, 1), leaf("a", required, format.Int32, deprecated.Int8)}, []leafOf{{values: int32s(300), n: 1}}, 1, `row group 1: column "a": row 1: the number 300 does not fit into 8 bits`},
		"a text that is none":           {[]format.SchemaElement{group("schema", required, 1), leaf("a", required, format.ByteArray, deprecated.UTF8)}, []leafOf{{values: strs("\xff"), n: 1}}, 1, `row group 1: column "a": row 1: the text is not UTF-8: convert it to UTF-8, or write the column as bytes`},
		"a row that is too long":        {[]format.SchemaElement{group("schema", required, 1), leaf("a", required, format.ByteArray)}, []leafOf{{values: strs(strings.Repeat("x", MaxRowBytes+1)), n: 1}}, 1, `row group 1: column "a": row 1: the row is longer than 16777216 bytes: rows must be shorter`},
	} {
		if _, err := read(handmade(t, c.rows, c.schema, c.leaves...), Parquet); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
	whole := handmade(t, 1, plain, leafOf{values: int32s(1), n: 1})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"cut":       {whole[:len(whole)-3], "it does not end with PAR1: it is cut off; copy it again"},
		"encrypted": {append(bytes.Clone(whole[:len(whole)-4]), "PARE"...), "it is encrypted: write it without encryption"},
		"a text":    {[]byte("hello, I am a text"), "it does not begin with PAR1: it is not Parquet"},
		"empty":     {nil, "it is too short to be Parquet"},
	} {
		if _, err := read(c.data, Parquet); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}
