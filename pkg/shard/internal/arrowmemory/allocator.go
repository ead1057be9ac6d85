// Package arrowmemory bounds the memory that Arrow's decoders ask for.
package arrowmemory

import (
	"errors"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// ErrTooMuch is what an allocator panics with.
var ErrTooMuch = errors.New("it asks for more memory than its size allows")

// Allocator refuses to hand out more memory than a file can hold values for.
// A wrong length of a buffer would otherwise ask for terabytes, which ends the
// process. Lengths in the metadata do not pass through here: nothing but a
// digest stands before those.
type Allocator struct {
	memory.Allocator
	Left int // bytes that it will still hand out
}

// New is an allocator that hands out so many bytes.
func New(left int) *Allocator { return &Allocator{memory.NewGoAllocator(), left} }

func (a *Allocator) take(size int) {
	if a.Left -= size; a.Left < 0 {
		panic(ErrTooMuch)
	}
}

// Allocate is that of [memory.Allocator].
func (a *Allocator) Allocate(size int) []byte {
	a.take(size)
	return a.Allocator.Allocate(size)
}

// Reallocate is that of [memory.Allocator].
func (a *Allocator) Reallocate(size int, b []byte) []byte {
	a.take(size)
	return a.Allocator.Reallocate(size, b)
}
