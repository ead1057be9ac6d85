package arrowfile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// Tensor is a named array of float32 in row-major order: Data holds the
// product of Shape numbers, one when Shape is empty.
type Tensor struct {
	Name  string    `json:"name"`
	Shape []int     `json:"shape"`
	Data  []float32 `json:"-"`
}

// tensorSchema names the layout of grad/NNNNN.arrow: record batch i holds the
// numbers of tensor i in its one column, and the file's metadata lists names
// and shapes in that order.
var tensorSchema = seal.Schema{Name: "tensors", Major: 1}

// tensorsKey is the metadata key of the list of names and shapes.
const tensorsKey = "tensors"

var tensorFields = []arrow.Field{{Name: "value", Type: arrow.PrimitiveTypes.Float32}}

// size is the number of elements that a shape holds; ok is false when a
// dimension is negative or the product overflows.
func size(shape []int) (n int, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		if d > 0 && n > (1<<48)/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// WriteTensors seals tensors, in the given order, as an Arrow IPC file. meta
// is kept in the file and may be nil; its keys "schema" and "tensors" are
// taken.
func WriteTensors(path string, tensors []Tensor, meta map[string]string, a seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	return WriteTensorsFrom(path, tensors, meta, func(i int) ([]float32, error) { return tensors[i].Data, nil }, a, m)
}

// WriteTensorsFrom is WriteTensors for tensors whose numbers come one tensor
// after the other, in order, as they are written: next(i) returns those of
// tensor i, which are used until it is called again.
func WriteTensorsFrom(path string, tensors []Tensor, meta map[string]string, next func(i int) ([]float32, error), a seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	metadata, err := tensorMetadata(tensors, meta)
	if err != nil {
		return seal.Manifest{}, exitcode.Bugf("encoding %q: %w", path, err)
	}
	m.Schema, m.Rows = tensorSchema, int64(len(tensors))
	schema := arrow.NewSchema(tensorFields, metadata)
	write := func(put func(arrow.Record) error) error {
		for i, t := range tensors {
			numbers, err := next(i)
			if err != nil {
				return fmt.Errorf("tensor %q: %w", t.Name, err)
			}
			if n, _ := size(t.Shape); n != len(numbers) {
				return exitcode.Bugf("encoding %q: tensor %q has shape %v and %d elements", path, t.Name, t.Shape, len(numbers))
			}
			if err := putNumbers(schema, numbers, put); err != nil {
				return fmt.Errorf("tensor %q: %w", t.Name, err)
			}
		}
		return nil
	}
	return codec.Seal(path, true, a, m, func(w io.Writer) error { return encodeArrow(w, schema, write) })
}

// putNumbers writes one tensor. The record borrows its memory: nothing is copied.
func putNumbers(schema *arrow.Schema, numbers []float32, put func(arrow.Record) error) error {
	values := memory.NewBufferBytes(arrow.Float32Traits.CastToBytes(numbers))
	data := array.NewData(arrow.PrimitiveTypes.Float32, len(numbers), []*memory.Buffer{nil, values}, nil, 0, 0)
	defer data.Release()
	column := array.NewFloat32Data(data)
	defer column.Release()
	record := array.NewRecord(schema, []arrow.Array{column}, int64(len(numbers)))
	defer record.Release()
	return put(record)
}

func tensorMetadata(tensors []Tensor, meta map[string]string) (*arrow.Metadata, error) {
	names := make(map[string]bool, len(tensors))
	list := make([]Tensor, len(tensors))
	for i, t := range tensors {
		if _, ok := size(t.Shape); !ok {
			return nil, fmt.Errorf("tensor %q has shape %v", t.Name, t.Shape)
		}
		if names[t.Name] {
			return nil, fmt.Errorf("two tensors are named %q", t.Name)
		}
		names[t.Name] = true
		list[i] = t
		if list[i].Shape == nil {
			list[i].Shape = []int{}
		}
	}
	if _, taken := meta[tensorsKey]; taken {
		return nil, fmt.Errorf("metadata key %q is taken", tensorsKey)
	}
	described, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	all := map[string]string{tensorsKey: string(described)}
	for key, value := range meta {
		all[key] = value
	}
	return arrowMetadata(tensorSchema, all)
}

// ReadTensors returns the tensors of a sealed file, in their order, and its
// metadata.
func ReadTensors(ctx context.Context, path string, o seal.Options) ([]Tensor, map[string]string, seal.Manifest, error) {
	var tensors []Tensor
	meta, m, err := VisitTensors(ctx, path, o, func(t Tensor) error {
		t.Data = append(make([]float32, 0, len(t.Data)), t.Data...)
		tensors = append(tensors, t)
		return nil
	})
	if err != nil {
		return nil, nil, seal.Manifest{}, err
	}
	return tensors, meta, m, nil
}

// VisitTensors calls visit for the tensors of a sealed file, in their order;
// their numbers are valid until it returns. An error of visit's ends it and is
// returned.
func VisitTensors(ctx context.Context, path string, o seal.Options, visit func(t Tensor) error) (map[string]string, seal.Manifest, error) {
	data, m, err := seal.Open(ctx, path, o)
	if err != nil {
		return nil, seal.Manifest{}, err
	}
	var visitors error
	n, meta, err := decodeTensors(data, func(t Tensor) error {
		visitors = visit(t)
		return visitors
	})
	if visitors != nil {
		return nil, seal.Manifest{}, visitors
	}
	if err == nil && int64(n) != m.Rows {
		err = fmt.Errorf("it holds %d tensors, its manifest says %d", n, m.Rows)
	}
	if err != nil {
		return nil, seal.Manifest{}, codec.Unreadable(path, err)
	}
	return meta, m, nil
}

// decodeTensors visits the tensors of a file and counts them.
func decodeTensors(data []byte, visit func(t Tensor) error) (n int, meta map[string]string, err error) {
	var tensors []Tensor
	read := 0
	meta, err = decodeArrow(data, tensorSchema, tensorFields, func(i int, meta map[string]string, r arrow.Record) error {
		if i == 0 {
			if err := parseTensors(meta, &tensors); err != nil {
				return err
			}
		}
		if i >= len(tensors) {
			return fmt.Errorf("it has no name: the file lists %d tensors", len(tensors))
		}
		column, err := columnOf[*array.Float32](r, "value")
		if err != nil {
			return err
		}
		if n, ok := size(tensors[i].Shape); !ok || n != column.Len() {
			return fmt.Errorf("tensor %q has shape %v and %d elements", tensors[i].Name, tensors[i].Shape, column.Len())
		}
		t := tensors[i]
		t.Data = column.Float32Values()
		read++
		return visit(t)
	})
	if err != nil {
		return 0, nil, err
	}
	if read == 0 {
		if err := parseTensors(meta, &tensors); err != nil {
			return 0, nil, err
		}
	}
	if read != len(tensors) {
		return 0, nil, fmt.Errorf("it lists %d tensors and holds %d", len(tensors), read)
	}
	delete(meta, tensorsKey)
	return read, meta, nil
}

// parseTensors reads the names and shapes.
func parseTensors(meta map[string]string, tensors *[]Tensor) error {
	described, ok := meta[tensorsKey]
	if !ok {
		return fmt.Errorf("metadata key %q is missing", tensorsKey)
	}
	if err := json.Unmarshal([]byte(described), tensors); err != nil {
		return fmt.Errorf("metadata key %q: %w", tensorsKey, err)
	}
	return nil
}
