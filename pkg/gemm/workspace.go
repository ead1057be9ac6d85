package gemm

import (
	"sync"
	"unsafe"
)

const (
	cacheLine = 64 // bytes

	// Sizes of a workspace in float32 values. The copy of A (256 KiB) is meant
	// to stay in a level-2 cache of 1 MiB while the panels of B stream past it.
	rowsCapacity   = 64 << 10
	panelsCapacity = 256 << 10

	// rowPadding separates the copied rows of A, so that rows of a power-of-two
	// length do not compete for the same cache sets.
	rowPadding = cacheLine / 4
)

// workspace holds the blocks of A and B that one goroutine works on.
type workspace struct {
	rows   []float32 // copied block of A, rowsCapacity values
	panels []float32 // packed block of B, panelsCapacity values
	tile   tile      // that is computed; here, so that none is allocated
}

// workspaces are those that no goroutine works with. A pool has a list for each
// processor: a lock that all share would be asked for a million times a second where
// many decode at once.
var workspaces = sync.Pool{New: func() any {
	return &workspace{rows: aligned[float32](rowsCapacity), panels: aligned[float32](panelsCapacity)}
}}

func getWorkspace() *workspace  { return workspaces.Get().(*workspace) }
func putWorkspace(w *workspace) { workspaces.Put(w) }

// aligned returns n zeros that start on a cache line, so that no vector load of a panel
// touches two lines.
func aligned[T float32 | uint16](n int) []T {
	size := int(unsafe.Sizeof(T(0)))
	perLine := cacheLine / size
	x := make([]T, n+perLine-1)
	misaligned := int(uintptr(unsafe.Pointer(unsafe.SliceData(x)))%cacheLine) / size
	skip := (perLine - misaligned) % perLine
	return x[skip : skip+n : skip+n]
}
