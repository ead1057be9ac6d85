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
	return &workspace{rows: alignedFloats(rowsCapacity), panels: alignedFloats(panelsCapacity)}
}}

func getWorkspace() *workspace  { return workspaces.Get().(*workspace) }
func putWorkspace(w *workspace) { workspaces.Put(w) }

// alignedFloats returns n zeros that start on a cache line, so that no vector
// load of a panel touches two lines.
func alignedFloats(n int) []float32 {
	const perLine = cacheLine / 4
	x := make([]float32, n+perLine-1)
	misaligned := int(uintptr(unsafe.Pointer(unsafe.SliceData(x))) % cacheLine / 4)
	skip := (perLine - misaligned) % perLine
	return x[skip : skip+n : skip+n]
}

// alignedHalves is alignedFloats for n 16-bit values.
func alignedHalves(n int) []uint16 {
	const perLine = cacheLine / 2
	x := make([]uint16, n+perLine-1)
	misaligned := int(uintptr(unsafe.Pointer(unsafe.SliceData(x))) % cacheLine / 2)
	skip := (perLine - misaligned) % perLine
	return x[skip : skip+n : skip+n]
}
