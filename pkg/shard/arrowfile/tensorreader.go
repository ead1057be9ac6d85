package arrowfile

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// Tensors reads some tensors of a sealed file, and no more of it than they take.
// Nothing is decoded whose digest does not match. It is for one goroutine.
type Tensors struct {
	Names []string          // in the order of the file
	Meta  map[string]string // the file's metadata

	path   string
	shapes [][]int
	at     map[string]int // by name
	file   *arrowFile
	sealed *seal.ReaderAt
}

// OpenTensors opens a sealed file of tensors and reads what they are.
func OpenTensors(ctx context.Context, path string, o seal.Options) (*Tensors, seal.Manifest, error) {
	r, m, err := seal.OpenAt(ctx, path, o)
	if err != nil {
		return nil, seal.Manifest{}, err
	}
	t := &Tensors{path: path, at: map[string]int{}, sealed: r}
	if err := t.open(m); err != nil {
		r.Close()
		return nil, seal.Manifest{}, codec.Failed(path, r, err)
	}
	return t, m, nil
}

func (t *Tensors) open(m seal.Manifest) (err error) {
	if t.file, err = openArrow(t.sealed, t.sealed.Size(), tensorSchema, tensorFields); err != nil {
		return err
	}
	t.Meta = t.file.meta
	var list []Tensor
	if err := parseTensors(t.Meta, &list); err != nil {
		return err
	}
	delete(t.Meta, tensorsKey)
	if n := t.file.reader.NumRecords(); n != len(list) || int64(n) != m.Rows {
		return fmt.Errorf("it lists %d tensors and holds %d, its manifest says %d", len(list), n, m.Rows)
	}
	for i, one := range list {
		t.Names, t.shapes, t.at[one.Name] = append(t.Names, one.Name), append(t.shapes, one.Shape), i
	}
	return nil
}

// Read calls use with the numbers of a tensor, which must have so many. They are valid
// during the call.
func (t *Tensors) Read(name string, elements int, use func(numbers []float32) error) error {
	i, there := t.at[name]
	if !there {
		return exitcode.Dataf("%q holds no tensor %q", t.path, name)
	}
	if n, ok := size(t.shapes[i]); !ok || n != elements {
		return exitcode.Dataf("%q holds %q with shape %v where %d elements are expected", t.path, name, t.shapes[i], elements)
	}
	var users error
	err := t.file.record(i, func(r arrow.Record) error {
		column, err := columnOf[*array.Float32](r, "value")
		if err != nil {
			return err
		}
		if column.Len() != elements {
			return fmt.Errorf("tensor %q has shape %v and %d elements", name, t.shapes[i], column.Len())
		}
		users = use(column.Float32Values())
		return nil
	})
	if users != nil {
		return users
	}
	if err != nil {
		return codec.Failed(t.path, t.sealed, fmt.Errorf("tensor %q: %w", name, err))
	}
	return nil
}

// BytesRead is how much of the file was read so far.
func (t *Tensors) BytesRead() int64 { return t.sealed.BytesRead() }

// Close ends the reading.
func (t *Tensors) Close() error { return t.sealed.Close() }
