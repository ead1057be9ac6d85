package arrowfile

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/arrowmessage"
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
	values *arrowmessage.Values
	starts map[int]int64 // in the file, of the numbers of tensors that have been read
	sealed *seal.ReaderAt
}

// OpenTensors opens a sealed file of tensors and reads what they are.
func OpenTensors(ctx context.Context, path string, o seal.Options) (*Tensors, seal.Manifest, error) {
	r, m, err := seal.OpenAt(ctx, path, o)
	if err != nil {
		return nil, seal.Manifest{}, err
	}
	t := &Tensors{path: path, at: map[string]int{}, starts: map[int]int64{}, sealed: r}
	if err := t.open(m); err != nil {
		r.Close()
		return nil, seal.Manifest{}, codec.Failed(path, r, err)
	}
	return t, m, nil
}

func (t *Tensors) open(m seal.Manifest) (err error) {
	file, err := openArrow(t.sealed, t.sealed.Size(), tensorSchema, tensorFields)
	if err != nil {
		return err
	}
	if t.values, err = arrowmessage.NewValues(t.sealed, t.sealed.Size()); err != nil {
		return err
	}
	t.Meta = file.meta
	var list []Tensor
	if err := parseTensors(t.Meta, &list); err != nil {
		return err
	}
	delete(t.Meta, tensorsKey)
	if n := file.reader.NumRecords(); n != len(list) || int64(n) != m.Rows {
		return fmt.Errorf("it lists %d tensors and holds %d, its manifest says %d", len(list), n, m.Rows)
	}
	for i, one := range list {
		t.Names, t.shapes, t.at[one.Name] = append(t.Names, one.Name), append(t.shapes, one.Shape), i
	}
	return nil
}

// Read fills dst with the numbers from.. of a tensor of so many elements.
func (t *Tensors) Read(dst []float32, name string, elements, from int) error {
	i, there := t.at[name]
	if !there {
		return exitcode.Dataf("%q holds no tensor %q", t.path, name)
	}
	if n, ok := size(t.shapes[i]); !ok || n != elements {
		return exitcode.Dataf("%q holds %q with shape %v where %d elements are expected", t.path, name, t.shapes[i], elements)
	}
	if from < 0 || len(dst) > elements-from {
		return exitcode.Bugf("reading %q: elements %d to %d of %q with %d", t.path, from, from+len(dst), name, elements)
	}
	if len(dst) == 0 {
		return nil
	}
	start, known := t.starts[i]
	if !known {
		at, bytes, err := t.values.Of(i)
		if err == nil && bytes < int64(4*elements) {
			err = fmt.Errorf("it has shape %v and %d bytes", t.shapes[i], bytes)
		}
		if err != nil {
			return codec.Failed(t.path, t.sealed, fmt.Errorf("tensor %q: %w", name, err))
		}
		start, t.starts[i] = at, at
	}
	if _, err := t.sealed.ReadAt(arrow.Float32Traits.CastToBytes(dst), start+int64(4*from)); err != nil {
		return codec.Failed(t.path, t.sealed, fmt.Errorf("tensor %q: %w", name, err))
	}
	return nil
}

// BytesRead is how much of the file was read so far.
func (t *Tensors) BytesRead() int64 { return t.sealed.BytesRead() }

// Close ends the reading.
func (t *Tensors) Close() error { return t.sealed.Close() }
