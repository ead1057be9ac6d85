package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Tensor is a float32 tensor to be written, in row-major order.
type Tensor struct {
	Name  string
	Shape []int
	DType DType // what the file holds; empty is F32
	Data  []float32
}

// Write writes tensors, header and data in the order given, with the metadata
// sorted by key. The same arguments give the same bytes. A tensor whose data
// does not fill its shape, or a name that repeats, is our bug; a finite number
// that its type holds only as infinity is a data error.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	infos := make([]Info, len(tensors))
	for i, t := range tensors {
		infos[i] = Info{Name: t.Name, Shape: t.Shape, DType: t.DType}
		if infos[i].Elements() != len(t.Data) {
			return exitcode.Bugf("writing tensor %q: %d elements for shape %v", t.Name, len(t.Data), t.Shape)
		}
	}
	return WriteFrom(w, infos, metadata, func(dst []float32, index, from int) error {
		copy(dst, tensors[index].Data[from:])
		return nil
	})
}

// WriteFrom is Write with the tensors read piece by piece, in order, so that
// they need not be in memory together: read fills dst with the elements from..
// of tensor index.
func WriteFrom(w io.Writer, tensors []Info, metadata map[string]string, read func(dst []float32, index, from int) error) error {
	header, _, err := header(tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	values := make([]float32, 1<<16)
	var raw []byte
	for i, t := range tensors {
		for done := 0; done < t.Elements(); {
			part := values[:min(len(values), t.Elements()-done)]
			if err := read(part, i, done); err != nil {
				return fmt.Errorf("writing tensor %q: %w", t.Name, err)
			}
			if raw, err = t.encode(raw, part, done); err != nil {
				return err
			}
			if _, err := w.Write(raw); err != nil {
				return fmt.Errorf("writing tensor %q: %w", t.Name, err)
			}
			done += len(part)
		}
	}
	return nil
}

// encode gives the bytes of elements from.. of a tensor, in raw if it has room.
func (i Info) encode(raw []byte, values []float32, from int) ([]byte, error) {
	d := cmp.Or(i.DType, F32)
	if limit := conversions[d].limit; d != F32 {
		for j, x := range values {
			if (x >= limit || x <= -limit) && !math.IsInf(float64(x), 0) {
				return nil, exitcode.Dataf("writing tensor %q: element %d is %g, which %s cannot hold", i.Name, from+j, x, d)
			}
		}
	}
	if n := d.Bytes() * len(values); cap(raw) < n {
		raw = make([]byte, n)
	} else {
		raw = raw[:n]
	}
	conversions[d].narrow(raw, values)
	return raw, nil
}

// header is the length of the JSON header and the header, padded with spaces so that the
// data starts at a multiple of eight bytes, as the reference implementation does. placed
// are the tensors with their places in the data.
func header(tensors []Info, metadata map[string]string) (raw []byte, placed []Info, err error) {
	const prefixBytes = 8
	var b bytes.Buffer
	b.Write(make([]byte, prefixBytes))
	separator := byte('{')
	if len(metadata) > 0 {
		b.WriteString(`{"__metadata__":`)
		writeJSON(&b, metadata)
		separator = ','
	}
	seen := map[string]bool{"__metadata__": true}
	var at int64
	for _, t := range tensors {
		d := cmp.Or(t.DType, F32)
		if seen[t.Name] || !d.Float() {
			return nil, nil, exitcode.Bugf("writing tensor %q as %q: the name is taken, or the type is not written", t.Name, d)
		}
		seen[t.Name] = true
		end := at + int64(d.Bytes())*int64(t.Elements())
		b.WriteByte(separator)
		writeJSON(&b, t.Name)
		fmt.Fprintf(&b, `:{"dtype":"%s","shape":`, d)
		writeJSON(&b, append([]int{}, t.Shape...)) // [] for a scalar, not null
		fmt.Fprintf(&b, `,"data_offsets":[%d,%d]}`, at, end)
		t.DType, t.begin, t.end = d, at, end
		placed = append(placed, t)
		at = end
		separator = ','
	}
	if separator == '{' {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-prefixBytes))
	return b.Bytes(), placed, nil
}

func writeJSON(b *bytes.Buffer, value any) {
	encoded, _ := json.Marshal(value) // strings and numbers always marshal, a map by its sorted keys
	b.Write(encoded)
}
