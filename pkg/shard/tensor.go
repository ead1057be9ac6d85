package shard

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/seal"
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
	metadata, err := tensorMetadata(tensors, meta)
	if err != nil {
		return seal.Manifest{}, exit.Bugf("encoding %q: %w", path, err)
	}
	m.Schema, m.Rows = tensorSchema, int64(len(tensors))
	schema := arrow.NewSchema(tensorFields, metadata)
	return sealArrow(path, schema, a, m, func(put func(arrow.Record) error) error {
		for _, t := range tensors {
			// The array borrows the tensor's memory: nothing is copied.
			values := memory.NewBufferBytes(arrow.Float32Traits.CastToBytes(t.Data))
			data := array.NewData(arrow.PrimitiveTypes.Float32, len(t.Data), []*memory.Buffer{nil, values}, nil, 0, 0)
			column := array.NewFloat32Data(data)
			record := array.NewRecord(schema, []arrow.Array{column}, int64(len(t.Data)))
			err := put(record)
			record.Release()
			column.Release()
			data.Release()
			if err != nil {
				return fmt.Errorf("tensor %q: %w", t.Name, err)
			}
		}
		return nil
	})
}

func tensorMetadata(tensors []Tensor, meta map[string]string) (*arrow.Metadata, error) {
	names := make(map[string]bool, len(tensors))
	list := make([]Tensor, len(tensors))
	for i, t := range tensors {
		if n, ok := size(t.Shape); !ok || n != len(t.Data) {
			return nil, fmt.Errorf("tensor %q has shape %v and %d elements", t.Name, t.Shape, len(t.Data))
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
	data, m, err := seal.Open(ctx, path, o)
	if err != nil {
		return nil, nil, seal.Manifest{}, err
	}
	tensors, meta, err := decodeTensors(data)
	if err == nil && int64(len(tensors)) != m.Rows {
		err = fmt.Errorf("it holds %d tensors, its manifest says %d", len(tensors), m.Rows)
	}
	if err != nil {
		return nil, nil, seal.Manifest{}, unreadable(path, err)
	}
	return tensors, meta, m, nil
}

func decodeTensors(data []byte) ([]Tensor, map[string]string, error) {
	var tensors []Tensor
	read := 0
	meta, err := decodeArrow(data, tensorSchema, tensorFields, func(i int, meta map[string]string, r arrow.Record) error {
		if i == 0 {
			if err := parseTensors(meta, &tensors); err != nil {
				return err
			}
		}
		if i >= len(tensors) {
			return fmt.Errorf("there is no name for it: the file lists %d tensors", len(tensors))
		}
		column, err := columnOf[*array.Float32](r, "value")
		if err != nil {
			return err
		}
		if n, ok := size(tensors[i].Shape); !ok || n != column.Len() {
			return fmt.Errorf("tensor %q has shape %v and %d elements", tensors[i].Name, tensors[i].Shape, column.Len())
		}
		tensors[i].Data = append(make([]float32, 0, column.Len()), column.Float32Values()...)
		read++
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if read == 0 {
		if err := parseTensors(meta, &tensors); err != nil {
			return nil, nil, err
		}
	}
	if read != len(tensors) {
		return nil, nil, fmt.Errorf("it lists %d tensors and holds %d", len(tensors), read)
	}
	delete(meta, tensorsKey)
	return tensors, meta, nil
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
