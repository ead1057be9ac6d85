package gemm

import "github.com/lathe-rl/lathe/pkg/vec"

const (
	// roundedCapacity is the number of values of A, and of B, that are rounded at once:
	// 4 MiB each.
	roundedCapacity = 2 << 20

	// matrixDepth is the number of depths at once, of which both have room for a tile.
	matrixDepth = roundedCapacity / panelWidth

	// tileValues is what is multiplied at once of the rows of a tile: 48 KiB, which stay
	// near while panels stream past. With fewer, C would be loaded and stored more often.
	tileValues = 24 << 10

	// groupValues is the size of the panels that a task goes through with each tile of
	// rows: 1 MiB, for a level-2 cache.
	groupValues = 512 << 10
)

// matrix is a product on matrix units. Both operands are rounded and laid out for the
// units first, once for all tasks: A in tiles of 32 rows, by blocks of 32 depths, of each
// block row after row; B in panels, unless it is packed. C is gone through in parts
// [i0, i1) × [j0, j1), for the depths [k0, k1).
type matrix struct {
	product
	a, b                   []uint16 // kept from product to product
	i0, i1, j0, j1, k0, k1 int
	step                   func(x *matrix, task int, ws *workspace) // what tasks do at present
	units, unitTasks       int                                      // of rounding: tiles or panels, and tasks
}

func (x *matrix) do(task int, ws *workspace) { x.step(x, task, ws) }

// depth is the number of depths of a part, filled up to whole blocks.
func (x *matrix) depth() int { return padded(x.k1 - x.k0) }

func (x *matrix) rowTiles() int { return (x.i1 - x.i0 + amxRows - 1) / amxRows }

// multiplyMatrix runs p, whose depth is not 0, on at most threads goroutines.
func (t *team) multiplyMatrix(p product, threads int) {
	x := &t.matrix
	x.product = p
	depths := min(padded(p.k), matrixDepth)
	rows, columns := roundedCapacity/depths/amxRows*amxRows, p.n
	if p.packed == nil {
		columns = roundedCapacity / depths / panelWidth * panelWidth
	}
	for x.k0 = 0; x.k0 < p.k; x.k0 += depths {
		x.k1 = min(p.k, x.k0+depths)
		for x.j0 = 0; x.j0 < p.n; x.j0 += columns {
			x.j1 = min(p.n, x.j0+columns)
			if p.packed == nil {
				x.b = atLeast(x.b, panels(x.j1-x.j0)*panelWidth*x.depth())
				t.round(panels(x.j1-x.j0), threads, (*matrix).roundPanels)
			}
			for x.i0 = 0; x.i0 < p.m; x.i0 += rows {
				x.i1 = min(p.m, x.i0+rows)
				x.a = atLeast(x.a, x.rowTiles()*amxRows*x.depth())
				t.round(x.rowTiles(), threads, (*matrix).roundTiles)
				x.grid(threads)
				t.share(x.rowTasks*x.columnTasks, threads, (*matrix).tiles)
			}
		}
	}
}

func atLeast(x []uint16, n int) []uint16 {
	if len(x) < n {
		return aligned[uint16](n)
	}
	return x
}

// share does the tasks of a step on at most threads goroutines.
func (t *team) share(tasks, threads int, step func(x *matrix, task int, ws *workspace)) {
	t.matrix.step = step
	if tasks == 1 || threads <= 1 {
		ws := getWorkspace()
		for task := range tasks {
			step(&t.matrix, task, ws)
		}
		putWorkspace(ws)
		return
	}
	t.job = &t.matrix
	t.run(tasks, threads)
}

// round shares the rounding of so many tiles or panels.
func (t *team) round(units, threads int, step func(x *matrix, task int, ws *workspace)) {
	const perTask = 32 << 10 // values, some 10 µs
	x := &t.matrix
	x.units = units
	x.unitTasks = max(1, min(units, threads*tasksPerThread, units*panelWidth*x.depth()/perTask))
	t.share(x.unitTasks, threads, step)
}

// part is what a task rounds.
func (x *matrix) part(task int) (from, to int) {
	return task * x.units / x.unitTasks, (task + 1) * x.units / x.unitTasks
}

// roundPanels rounds a task's panels of B.
func (x *matrix) roundPanels(task int, ws *workspace) {
	from, to := x.part(task)
	j0, j1 := x.j0+from*panelWidth, min(x.j1, x.j0+to*panelWidth)
	x.packPairs(x.b[from*panelWidth*x.depth():], j0, j1, x.k0, x.k1, ws)
}

// roundTiles rounds a task's tiles of A.
func (x *matrix) roundTiles(task int, ws *workspace) {
	from, to := x.part(task)
	if !x.aTransposed {
		for n := from; n < to; n++ {
			i, rows, tile := x.tile(n)
			x.roundA(tile, i, rows)
		}
		return
	}
	scratch, strip := ws.scratch()[:amxRows*PairBlock], ws.strip()
	for k := x.k0; k < x.k1; k += PairBlock { // rows of A, as they lie in memory
		for n := from; n < to; n++ {
			i, rows, tile := x.tile(n)
			transposePanel(x.level, scratch, x.product.a[k*x.lda+i:], x.lda, min(PairBlock, x.k1-k), rows, strip)
			vec.RoundBF16(tile[(k-x.k0)*rows:][:rows*PairBlock], scratch[:rows*PairBlock])
		}
	}
}

// tile is tile n of A: its first row, how many it has, and where it is rounded.
func (x *matrix) tile(n int) (first, rows int, rounded []uint16) {
	first = x.i0 + n*amxRows
	return first, min(amxRows, x.i1-first), x.a[n*amxRows*x.depth():]
}

// roundA rounds rows of A from row i on.
func (x *matrix) roundA(tile []uint16, i, rows int) {
	whole := (x.k1 - x.k0) / PairBlock
	for row := range rows {
		dst, src := tile[row*PairBlock:], x.product.a[(i+row)*x.lda+x.k0:]
		if x.level == vec.AVX512 && whole > 0 {
			roundBlocksAVX512(&dst[0], &src[0], 2*PairBlock*rows, whole)
		}
		for block := range (x.k1 - x.k0 + PairBlock - 1) / PairBlock {
			if x.level == vec.AVX512 && block < whole {
				continue
			}
			to, from := dst[block*rows*PairBlock:][:PairBlock], src[block*PairBlock:]
			part := min(PairBlock, x.k1-x.k0-block*PairBlock)
			vec.RoundBF16(to[:part], from[:part])
			clear(to[part:])
		}
	}
}

// grid chooses the grid of tasks over a part: panels of one task stay in a cache, and
// each thread has some tasks.
func (x *matrix) grid(threads int) {
	count := panels(x.j1 - x.j0)
	x.columnTasks = (count*panelWidth*x.depth() + groupValues - 1) / groupValues
	x.columnTasks, x.rowTasks = min(x.columnTasks, count), 1
	want := min(threads*tasksPerThread, max(x.i1-x.i0, 4)*(x.j1-x.j0)*(x.k1-x.k0)/taskWork)
	if threads <= 1 || want <= x.columnTasks {
		return
	}
	x.rowTasks = min((want+x.columnTasks-1)/x.columnTasks, x.rowTiles())
	x.columnTasks = min(max(x.columnTasks, (want+x.rowTasks-1)/x.rowTasks), count)
}

// tiles computes a task's tiles of C: for each tile of rows, all panels with as many
// depths at a time as stay in a cache.
func (x *matrix) tiles(task int, ws *workspace) {
	row, column := task/x.columnTasks, task%x.columnTasks
	count := panels(x.j1 - x.j0)
	from, to := column*count/x.columnTasks, (column+1)*count/x.columnTasks
	depth, packedDepth, half := x.depth(), x.depth(), x.b
	if x.packed != nil {
		packedDepth = x.packed.depth
		half = x.packed.half[x.j0*packedDepth+x.k0*panelWidth:]
	}
	whole := min(to, (x.j1-x.j0)/panelWidth) - from // panels
	t := &ws.tile
	for n := row * x.rowTiles() / x.rowTasks; n < (row+1)*x.rowTiles()/x.rowTasks; n++ {
		i, rows, rounded := x.tile(n)
		pieces := (depth*rows + tileValues - 1) / tileValues
		step := padded((depth + pieces - 1) / pieces)
		*t = tile{rows: rows, aDepth: 2 * PairBlock * rows, cRow: x.ldc, pairs: true, panelStep: packedDepth * panelWidth}
		for k := 0; k < depth; k += step {
			t.depth = min(step, depth-k)
			t.rounded = rounded[k*rows:]
			if x.accumulate || x.k0+k > 0 {
				t.accumulate = 1
			}
			at := func(panel int) {
				t.half, t.c = half[panel*t.panelStep+k*panelWidth:], x.c[i*x.ldc+x.j0+panel*panelWidth:]
				matrixTile(t)
			}
			if whole > 0 {
				t.panels, t.columns = whole, panelWidth
				at(from)
			}
			if rest := to - from - whole; rest > 0 {
				t.panels, t.columns = 1, (x.j1-x.j0)%panelWidth
				at(to - 1)
			}
		}
	}
}
