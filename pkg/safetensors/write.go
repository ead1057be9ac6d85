package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/lathe-rl/lathe/pkg/exit"
)

// Tensor is a float32 tensor to be written, in row-major order.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// Write writes tensors as F32, header and data in the order given, with the
// metadata sorted by key. The same arguments give the same bytes. A tensor
// whose data does not fill its shape, or a name that repeats, is our bug.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	header, err := header(tensors, metadata)
	if err != nil {
		return err
	}
	var prefix [8]byte
	binary.LittleEndian.PutUint64(prefix[:], uint64(len(header)))
	if _, err := w.Write(prefix[:]); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	raw := make([]byte, 1<<18)
	for _, t := range tensors {
		for done := 0; done < len(t.Data); {
			n := min(len(raw)/4, len(t.Data)-done)
			for i, v := range t.Data[done : done+n] {
				binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
			}
			if _, err := w.Write(raw[:4*n]); err != nil {
				return fmt.Errorf("writing tensor %q: %w", t.Name, err)
			}
			done += n
		}
	}
	return nil
}

// header is the JSON header, padded with spaces so that the data starts at a
// multiple of eight bytes, as the reference implementation does.
func header(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	separator := byte('{')
	if len(metadata) > 0 {
		b.WriteString(`{"__metadata__":`)
		keys := make([]string, 0, len(metadata))
		for key := range metadata {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		inner := byte('{')
		for _, key := range keys {
			b.WriteByte(inner)
			writeJSON(&b, key)
			b.WriteByte(':')
			writeJSON(&b, metadata[key])
			inner = ','
		}
		b.WriteByte('}')
		separator = ','
	}
	seen := map[string]bool{"__metadata__": true}
	var at int64
	for _, t := range tensors {
		info := Info{Shape: t.Shape}
		if seen[t.Name] || info.Elements() != len(t.Data) {
			return nil, exit.Bugf("writing tensor %q: name taken, or %d elements for shape %v", t.Name, len(t.Data), t.Shape)
		}
		seen[t.Name] = true
		end := at + 4*int64(len(t.Data))
		b.WriteByte(separator)
		writeJSON(&b, t.Name)
		b.WriteString(`:{"dtype":"F32","shape":[`)
		for i, d := range t.Shape {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%d", d)
		}
		fmt.Fprintf(&b, `],"data_offsets":[%d,%d]}`, at, end)
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
	return b.Bytes(), nil
}

func writeJSON(b *bytes.Buffer, s string) {
	quoted, _ := json.Marshal(s) // a string always marshals
	b.Write(quoted)
}
