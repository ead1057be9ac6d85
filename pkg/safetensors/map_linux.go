package safetensors

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// mapped is a file in memory.
type mapped struct{ bytes []byte }

// open maps a file, which it then closes. What a file system cannot map is
// read.
func open(f *os.File, size int64) (content, error) {
	if size == 0 || int64(int(size)) != size {
		return readerContent{f}, nil
	}
	bytes, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return readerContent{f}, nil
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("closing a mapped file: %w", err)
	}
	return mapped{bytes}, nil
}

// with turns the fault that the pages of a file give once it was cut short
// into an error.
func (m mapped) with(from int64, n int, _ *[]byte, use func(raw []byte)) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		caught := recover()
		if caught == nil {
			return
		}
		fault, ok := caught.(interface{ Addr() uintptr })
		if !ok {
			panic(caught)
		}
		err = exitcode.Dataf("its bytes can no longer be read: the file was cut short, or its disk failed (fault at %#x)", fault.Addr())
	}()
	use(m.bytes[from : from+int64(n) : from+int64(n)])
	return nil
}

// soon has the system read ahead: a fault alone fetches few pages at a time.
func (m mapped) soon(from, n int64) {
	_ = syscall.Madvise(m.bytes[pageOf(from, int64(os.Getpagesize())):from+n], syscall.MADV_WILLNEED) // a hint
}

// pageOf is where the page begins that holds a byte.
func pageOf(at, page int64) int64 { return at - at%page }

func (m mapped) Close() error { return syscall.Munmap(m.bytes) }
