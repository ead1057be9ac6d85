package gemm

import (
	"unsafe"

	"github.com/lathe-rl/lathe/pkg/vec"
)

// tile is one block of C that a micro-kernel computes: rows ≤ tileRows and
// columns ≤ panelWidth, or several panels. Strides count elements. The assembly
// reads the fields by name.
type tile struct {
	a      []float32 // A(i, k) is a[i·aRow + k·aDepth]
	aRow   int
	aDepth int
	b      []float32 // B(k, j) is b[k·bDepth + j]; 32 columns can be read
	half   []uint16  // the same in bfloat16, instead of b
	pairs  bool      // half holds pairs of depths, and they are summed in pairs; see tilePairsGo
	bDepth int
	c      []float32 // C(i, j) is c[i·cRow + j]
	cRow   int

	rows, columns, depth int

	// panels is 1, or more for a tile of that many whole panels of B, which
	// are panelStep elements apart; see widePanels and matrix.
	panels    int
	panelStep int

	// fetch is the part of B that the tile brings to the level-2 cache for a
	// later tile, fetchStep bytes for each depth. It changes speed only.
	fetch     unsafe.Pointer
	fetchStep int

	// near is 1 where B is in a cache: a vector kernel of AVX2 does not prefetch it then.
	near int

	// control and mask are for vector kernels that sum in pairs: the control register
	// of vector units as they found it, and which columns are there.
	control uint64    //lint:ignore U1000 the assembly uses it
	mask    [8]uint32 //lint:ignore U1000 the assembly uses it

	// rounded is A for AMX instead of a: A(i, k) is rounded[i·32 + k] for the first 32
	// depths, and aDepth bytes further begin the next. config is what the tile
	// registers hold, in the form of LDTILECFG.
	rounded []uint16
	config  [64]byte

	// accumulate is 1 to start the chains from C and 0 to start them from zero.
	accumulate int
}

// tileRows returns the largest number of rows of a tile: what the registers
// hold next to 32 columns (16 for AVX2, which takes a panel in two halves).
func tileRows(level vec.Level) int {
	switch level {
	case vec.AVX512:
		return 14
	case vec.AVX2:
		return 6
	default:
		return 4
	}
}

const (
	// fetchAhead is how far ahead of itself a single tile, and one of pairs, fetches B,
	// in bytes. The hardware alone keeps up with one row, but not with half of what eight
	// rows take.
	fetchAhead = 16 << 10

	// nearTiles is the number of tiles from which those after the first, which find B in
	// a cache, are most of the work.
	nearTiles = 4

	// fetchRows is the number of rows from which a single tile of float32 fetches:
	// fewer wait for loads as it is.
	fetchRows = 8
)

// setFetch makes a single tile fetch what lies ahead of it in B, and tile n of several
// its share of the panel that starts following elements after its own.
func (t *tile) setFetch(following, n, tiles int) {
	following += n * t.depth * panelWidth / tiles
	if t.half != nil {
		t.fetch, t.fetchStep = fetchFrom(t.half, following, tiles)
		return
	}
	t.fetch, t.fetchStep = fetchFrom(t.b, following, tiles)
	if t.bDepth != panelWidth || tiles == 1 && t.rows < fetchRows {
		t.fetchStep = 0
	}
}

// fetchFrom returns where in b one of tiles begins to fetch, and by how many bytes it
// goes on with each depth: 0 where nothing of b is left to fetch.
func fetchFrom[T float32 | uint16](b []T, following, tiles int) (from unsafe.Pointer, step int) {
	size := int(unsafe.Sizeof(b[0]))
	if tiles == 1 {
		following = fetchAhead / size
	}
	if following >= len(b) {
		return unsafe.Pointer(&b[0]), 0
	}
	return unsafe.Pointer(&b[following]), size * panelWidth / tiles
}

// widePanels returns how many panels a tile of rows rows takes at once, where
// whole is the number of whole panels left. Few rows need more than one panel
// to have eight independent chains in flight.
func widePanels(level vec.Level, rows, whole int) int {
	switch {
	case level == vec.AVX512 && rows == 1 && whole >= 4:
		return 4
	case level == vec.AVX512 && rows <= 3 && whole >= 2:
		return 2
	case level == vec.AVX2 && rows == 1 && whole >= 2:
		return 2
	default:
		return 1
	}
}

// runTile computes one tile. depth and rows must not be zero.
func runTile(level vec.Level, t *tile) {
	switch {
	case level == vec.AVX512 && t.pairs:
		tilePairsAVX512(t)
	case level == vec.AVX2 && t.pairs:
		tilePairsAVX2(t)
	case t.pairs:
		tilePairsGo(t)
	case level == vec.AVX512 && t.half != nil:
		tileAVX512BF16(t)
	case level == vec.AVX512:
		tileAVX512(t)
	case level == vec.AVX2 && t.half != nil:
		tileAVX2BF16(t)
	case level == vec.AVX2:
		tileAVX2(t)
	case t.half != nil:
		tileGoBF16(t)
	default:
		tileGo(t)
	}
}

func tileGo(t *tile) {
	for i := range t.rows {
		row := t.c[i*t.cRow : i*t.cRow+t.columns]
		if t.accumulate == 0 {
			clear(row)
		}
		for k := range t.depth {
			x := t.a[i*t.aRow+k*t.aDepth]
			vec.AXPY(row, x, t.b[k*t.bDepth:k*t.bDepth+len(row)])
		}
	}
}

func tileGoBF16(t *tile) {
	var wide [panelWidth]float32
	for i := range t.rows {
		row := t.c[i*t.cRow : i*t.cRow+t.columns]
		if t.accumulate == 0 {
			clear(row)
		}
		for k := range t.depth {
			x := t.a[i*t.aRow+k*t.aDepth]
			line := wide[:len(row)]
			vec.WidenBF16(line, t.half[k*t.bDepth:k*t.bDepth+len(row)])
			vec.AXPY(row, x, line)
		}
	}
}
