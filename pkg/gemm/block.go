package gemm

import "github.com/lathe-rl/lathe/pkg/vec"

// block is a part of C that one goroutine computes, with the blocking it uses.
//
// The loops are those of Goto and van de Geijn (2008): a block of B is packed
// into panels, a block of A is copied to stay in the level-2 cache, each panel
// of B passes by it in pieces that stay in the level-1 cache, and tiles of C
// are computed in registers.
type block struct {
	*product
	ws *workspace

	i0, i1 int // rows
	j0, j1 int // columns; j0 is a multiple of panelWidth, j1 too or it is n

	copyA   bool // copy blocks of A to the workspace
	directB bool // read whole panels of B where they are

	rowParts int // number of parts that the rows are divided into
	slot     int // width of a copied tile of transposed A
	depth    int // depth of a block of A and B
	columns  int // columns of a block of B
}

// compute computes the rows [i0, i1) and columns [j0, j1) of C.
func (p *product) compute(i0, i1, j0, j1 int, ws *workspace) {
	if i0 == i1 || j0 == j1 {
		return
	}
	if p.k == 0 {
		if !p.accumulate {
			for i := i0; i < i1; i++ {
				clear(p.c[i*p.ldc+j0 : i*p.ldc+j1])
			}
		}
		return
	}
	b := block{product: p, ws: ws, i0: i0, i1: i1, j0: j0, j1: j1}
	b.plan()
	for j := b.j0; j < b.j1; j += b.columns {
		for k := 0; k < b.k; k += b.depth {
			b.pass(j, min(b.j1, j+b.columns), k, min(b.k, k+b.depth))
		}
	}
}

// plan chooses the sizes of the blocks.
func (b *block) plan() {
	height := b.i1 - b.i0
	b.copyA = b.pairs || b.j1-b.j0 >= copyColumns && height > 1
	b.directB = !b.pairs && b.packed == nil && !b.bTransposed && height <= b.rows
	b.rowParts = 1
	b.depth = b.k
	if b.copyA {
		b.rowParts = (height + rowBlock - 1) / rowBlock
		height = (height + b.rowParts - 1) / b.rowParts
		if b.aTransposed {
			b.slot = (b.rows + 7) &^ 7
			b.depth = rowsCapacity / ((height + b.rows - 1) / b.rows * b.slot)
		} else {
			b.depth = rowsCapacity/height - rowPadding
		}
	}
	if b.packed == nil {
		b.depth = min(b.depth, panelsCapacity/panelWidth)
	}
	if b.pairs { // the last block of pairs is stored whole
		b.depth -= b.depth % PairBlock
	}
	if b.depth >= b.k {
		b.depth = b.k
	} else if b.depth > depthBlock {
		b.depth -= b.depth % depthBlock
	}
	b.columns = b.j1 - b.j0
	if b.packed == nil && !b.directB {
		b.columns = min(columnBlock, panelsCapacity/b.stored(b.depth)/panelWidth*panelWidth)
	}
}

// stored is how many depths of A and B are stored for a block of some.
func (b *block) stored(depth int) int {
	if b.pairs {
		return padded(depth)
	}
	return depth
}

// copied is how many values of the workspace's rows a copy of so many rows and depths of
// A takes.
func (b *block) copied(rows, depth int) int {
	if b.aTransposed {
		return (rows + b.rows - 1) / b.rows * b.stored(depth) * b.slot
	}
	return rows * (b.stored(depth) + rowPadding)
}

// pass adds the depths [k0, k1) to the columns [j0, j1) of the block.
func (b *block) pass(j0, j1, k0, k1 int) {
	b.packB(j0, j1, k0, k1)
	height := b.i1 - b.i0
	for part := range b.rowParts {
		i0 := b.i0 + part*height/b.rowParts
		i1 := b.i0 + (part+1)*height/b.rowParts
		b.packA(i0, i1, k0, k1)
		for j := j0; j < j1; {
			count := 1
			if !b.pairs {
				count = widePanels(b.level, i1-i0, (j1-j)/panelWidth)
			}
			b.panel(i0, i1, j, min(j1, j+count*panelWidth), count, j-j0, k0, k1)
			j += count * panelWidth
		}
	}
}

// packB packs the block of B, or its last columns only if those before are read
// where they are.
func (b *block) packB(j0, j1, k0, k1 int) {
	if b.packed != nil {
		return
	}
	if b.pairs {
		b.packPairs(b.ws.halves(), j0, j1, k0, k1, b.ws)
		return
	}
	depth := k1 - k0
	if b.directB {
		j0 = j1 - (j1-j0)%panelWidth
	}
	if b.bTransposed {
		for j := j0; j < j1; j += panelWidth {
			width := min(j1-j, panelWidth)
			transposePanel(b.level, b.ws.panels[(j-j0)*depth:], b.b[j*b.ldb+k0:], b.ldb, width, depth, b.ws.rows)
		}
		return
	}
	for k := k0; k < k1; k += copyDepth {
		part := min(copyDepth, k1-k)
		for j := j0; j < j1; j += panelWidth {
			dst := b.ws.panels[(j-j0)*depth+(k-k0)*panelWidth:]
			copyPanel(b.level, dst, panelWidth, b.b[k*b.ldb+j:], b.ldb, part, min(j1-j, panelWidth))
		}
	}
}

// packA copies a block of A: rows as they are with padding between, or, if A is
// transposed, tile by tile with the rows of a tile side by side.
func (b *block) packA(i0, i1, k0, k1 int) {
	if !b.copyA {
		return
	}
	copied := b.ws.rows[:b.copied(i1-i0, k1-k0)]
	if b.stored(k1-k0) > k1-k0 { // what fills up the last block
		clear(copied)
	}
	if b.aTransposed {
		b.copyTiles(i0, i1, k0, k1)
	} else {
		stride := b.stored(k1-k0) + rowPadding
		for i := i0; i < i1; i++ {
			copy(copied[(i-i0)*stride:], b.a[i*b.lda+k0:][:k1-k0])
		}
	}
	if b.pairs { // where it is
		vec.RoundToBF16(copied)
	}
}

// copyTiles copies a block of A that is transposed.
func (b *block) copyTiles(i0, i1, k0, k1 int) {
	depth, tiles := b.stored(k1-k0), (i1-i0+b.rows-1)/b.rows
	for k := k0; k < k1; k += copyDepth {
		part := min(copyDepth, k1-k)
		for n := range tiles {
			first, last := i0+n*(i1-i0)/tiles, i0+(n+1)*(i1-i0)/tiles
			dst := b.ws.rows[(n*depth+k-k0)*b.slot:]
			copyPanel(b.level, dst, b.slot, b.a[k*b.lda+first:], b.lda, part, last-first)
		}
	}
}

// panel computes the rows [i0, i1) and columns [j0, j1) for the depths
// [k0, k1), where the columns are those of count panels. offset is the distance
// of j0 from the first packed column.
func (b *block) panel(i0, i1, j0, j1, count, offset, k0, k1 int) {
	t := &b.ws.tile
	*t = tile{cRow: b.ldc, columns: j1 - j0, bDepth: panelWidth, panels: count, pairs: b.pairs}
	var panel []float32
	var half []uint16
	switch {
	case b.packed != nil && b.packed.half != nil:
		half = b.packed.half[j0*b.packed.depth+k0*panelWidth:]
		t.panelStep = b.packed.depth * panelWidth
	case b.packed != nil:
		panel = b.packed.data[j0*b.k+k0*panelWidth:]
		t.panelStep = b.k * panelWidth
	case b.pairs:
		half = b.ws.halves()[offset*b.stored(k1-k0):]
	case b.directB && j1-j0 >= panelWidth:
		panel = b.b[k0*b.ldb+j0:]
		t.bDepth = b.ldb
		t.panelStep = panelWidth
	case b.directB:
		panel = b.ws.panels
	default:
		panel = b.ws.panels[offset*(k1-k0):]
		t.panelStep = (k1 - k0) * panelWidth
	}
	tiles := (i1 - i0 + b.rows - 1) / b.rows
	if tiles >= nearTiles {
		t.near = 1
	}
	step := k1 - k0
	if tiles > 1 {
		step = depthBlock
	}
	for k := k0; k < k1; k += step {
		if half != nil {
			t.half = half[(k-k0)*t.bDepth:]
		} else {
			t.b = panel[(k-k0)*t.bDepth:]
		}
		t.depth = b.stored(min(step, k1-k))
		if b.accumulate || k > 0 {
			t.accumulate = 1
		}
		// What is used after this piece of the panel: its next piece, or the
		// first piece of the next panel.
		following := t.depth * panelWidth
		if k+t.depth == k1 {
			following += t.panelStep - (k1-k0)*panelWidth
		}
		for n := range tiles {
			first, last := n*(i1-i0)/tiles, (n+1)*(i1-i0)/tiles
			t.rows = last - first
			t.c = b.c[(i0+first)*b.ldc+j0:]
			b.setA(t, n, i0, first, k0, k, k1)
			if !b.pairs {
				t.setFetch(following, n, tiles)
			}
			runTile(b.level, t)
		}
	}
}

// setA points t to tile n of the rows from i0, whose first row is i0+first, at
// depth k of a block of depths [k0, k1).
func (b *block) setA(t *tile, n, i0, first, k0, k, k1 int) {
	switch {
	case b.copyA && b.aTransposed:
		t.a, t.aRow, t.aDepth = b.ws.rows[(n*b.stored(k1-k0)+k-k0)*b.slot:], 1, b.slot
	case b.copyA:
		stride := b.stored(k1-k0) + rowPadding
		t.a, t.aRow, t.aDepth = b.ws.rows[first*stride+k-k0:], stride, 1
	case b.aTransposed:
		t.a, t.aRow, t.aDepth = b.a[k*b.lda+i0+first:], 1, b.lda
	default:
		t.a, t.aRow, t.aDepth = b.a[(i0+first)*b.lda+k:], b.lda, 1
	}
}
