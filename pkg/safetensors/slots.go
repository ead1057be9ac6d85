package safetensors

import (
	"fmt"
	"io"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Slots writes the tensors of a file in pieces, in any order: what has to be read and
// written piece by piece, with several tensors at a time, is never in memory whole. The
// bytes are those of [Write].
type Slots struct {
	w       io.WriterAt
	tensors []Info
	data    int64 // where the data part starts
	left    int64 // elements that have not been written
	raw     []byte
}

// NewSlots writes the header of a file.
func NewSlots(w io.WriterAt, tensors []Info, metadata map[string]string) (*Slots, error) {
	header, placed, err := header(tensors, metadata)
	if err != nil {
		return nil, err
	}
	s := &Slots{w: w, tensors: placed, data: int64(len(header))}
	for _, t := range placed {
		s.left += int64(t.Elements())
	}
	_, err = w.WriteAt(header, 0)
	return s, err
}

// Put writes the elements from.. of a tensor, each once.
func (s *Slots) Put(index, from int, values []float32) error {
	t := s.tensors[index]
	if from < 0 || len(values) > t.Elements()-from {
		return exitcode.Bugf("writing tensor %q: elements %d to %d of %d", t.Name, from, from+len(values), t.Elements())
	}
	var err error
	if s.raw, err = t.encode(s.raw, values, from); err != nil {
		return err
	}
	if _, err := s.w.WriteAt(s.raw, s.data+t.begin+int64(from*t.DType.Bytes())); err != nil {
		return fmt.Errorf("writing tensor %q: %w", t.Name, err)
	}
	s.left -= int64(len(values))
	return nil
}

// Close wants all elements to have been written.
func (s *Slots) Close() error {
	if s.left != 0 {
		return exitcode.Bugf("%d elements were not written, or written twice", s.left)
	}
	return nil
}
