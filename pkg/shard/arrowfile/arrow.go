package arrowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/arrowmemory"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// arrowMetadata is the metadata of an Arrow file, in the order of its keys.
func arrowMetadata(schema seal.Schema, meta map[string]string) (*arrow.Metadata, error) {
	if _, taken := meta[codec.SchemaKey]; taken {
		return nil, fmt.Errorf("metadata key %q is taken", codec.SchemaKey)
	}
	keys, values := []string{codec.SchemaKey}, []string{schema.String()}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		keys, values = append(keys, key), append(values, meta[key])
	}
	m := arrow.NewMetadata(keys, values)
	return &m, nil
}

// encodeArrow writes an Arrow IPC file, uncompressed.
func encodeArrow(w io.Writer, schema *arrow.Schema, write func(put func(arrow.Record) error) error) (err error) {
	defer codec.Recovered(&err)
	writer, err := ipc.NewFileWriter(&position{w: w}, ipc.WithSchema(schema), ipc.WithAllocator(memory.NewGoAllocator()))
	if err != nil {
		return err
	}
	if err := write(writer.Write); err != nil {
		return err
	}
	return writer.Close()
}

// position gives a writer the one kind of Seek that the Arrow file writer
// needs: asking where it is.
type position struct {
	w      io.Writer
	offset int64
}

func (p *position) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.offset += int64(n)
	return n, err
}

func (p *position) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.New("this writer cannot seek backwards")
	}
	return p.offset, nil
}

// arrowFile is an open Arrow IPC file of known fields.
type arrowFile struct {
	reader    *ipc.FileReader
	allocator *arrowmemory.Allocator
	room      int               // memory that a record may take
	meta      map[string]string // without the schema's key
}

// openArrow opens an Arrow IPC file and compares its schema with the expected
// fields. Record batches are not compressed, so what they decode to is no larger
// than the file. Nothing but the digest stands before the lengths in the
// metadata, which is why these files are read sealed or not at all.
func openArrow(r io.ReaderAt, size int64, want seal.Schema, fields []arrow.Field) (f *arrowFile, err error) {
	defer codec.Recovered(&err)
	if size == 0 {
		return nil, errors.New("it is empty")
	}
	room := 4*int(size) + 1<<20
	f = &arrowFile{room: room, allocator: arrowmemory.New(room)}
	if f.reader, err = ipc.NewFileReader(io.NewSectionReader(r, 0, size), ipc.WithAllocator(f.allocator)); err != nil {
		return nil, err
	}
	f.meta = f.reader.Schema().Metadata().ToMap()
	found, ok := f.meta[codec.SchemaKey]
	if !ok {
		return nil, fmt.Errorf("it does not name its schema; expected %s", want)
	}
	if _, err := codec.CheckVersion(found, want); err != nil {
		return nil, err
	}
	delete(f.meta, codec.SchemaKey)
	return f, compareFields(fields, f.reader.Schema())
}

// record calls use with a record batch, which is valid during the call.
func (f *arrowFile) record(i int, use func(r arrow.Record) error) (err error) {
	defer codec.Recovered(&err)
	f.allocator.Left = f.room
	record, err := f.reader.RecordAt(i)
	if err != nil {
		return err
	}
	defer record.Release()
	return use(record)
}

// decodeArrow calls each for every record batch of an Arrow IPC file, which is
// valid during the call. It returns the file's metadata without the schema's.
func decodeArrow(data []byte, want seal.Schema, fields []arrow.Field, each func(i int, meta map[string]string, r arrow.Record) error) (map[string]string, error) {
	f, err := openArrow(bytes.NewReader(data), int64(len(data)), want, fields)
	if err != nil {
		return nil, err
	}
	for i := range f.reader.NumRecords() {
		if err := f.record(i, func(r arrow.Record) error { return each(i, f.meta, r) }); err != nil {
			return nil, fmt.Errorf("record batch %d: %w", i, err)
		}
	}
	return f.meta, nil
}

// compareFields reports every field that a file lacks or holds otherwise.
func compareFields(want []arrow.Field, found *arrow.Schema) error {
	var problems []error
	for _, field := range want {
		at := found.FieldIndices(field.Name)
		switch {
		case len(at) == 0:
			problems = append(problems, fmt.Errorf("column %s: missing (expected %s)", field.Name, field.Type))
		case len(at) > 1:
			problems = append(problems, fmt.Errorf("column %s: found %d times", field.Name, len(at)))
		case !arrow.TypeEqual(found.Field(at[0]).Type, field.Type):
			problems = append(problems, fmt.Errorf("column %s: expected %s, found %s", field.Name, field.Type, found.Field(at[0]).Type))
		}
	}
	return errors.Join(problems...)
}

// columnOf returns the column of a record by name, as its Go type.
func columnOf[A arrow.Array](r arrow.Record, name string) (A, error) {
	var none A
	at := r.Schema().FieldIndices(name)
	if len(at) != 1 {
		return none, fmt.Errorf("column %s: found %d times", name, len(at))
	}
	column, ok := r.Column(at[0]).(A)
	if !ok {
		return none, fmt.Errorf("column %s: unexpected type %s", name, r.Column(at[0]).DataType())
	}
	if column.NullN() != 0 {
		return none, fmt.Errorf("column %s: holds NULL", name)
	}
	return column, nil
}
