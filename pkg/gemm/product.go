package gemm

import "github.com/lathe-rl/lathe/pkg/vec"

const (
	// depthBlock is the depth of one tile at most. A panel of B of this depth takes
	// 128 KiB, which stays in a level-2 cache from one tile to the next; a tile takes
	// it from there as fast as from the level-1 cache, and each further tile of fewer
	// depths would load and store C once more.
	depthBlock = 1024

	// rowBlock bounds the rows of A that are copied at once.
	rowBlock = 112

	// columnBlock bounds the columns of B that are packed at once.
	columnBlock = 512

	// copyColumns is the number of columns from which copying A pays.
	copyColumns = 4 * panelWidth

	// copyDepth is the number of rows of a row-major operand that are copied to
	// all their tiles or panels before the next: few enough for the cache lines
	// that two tiles share to stay, even if the rows are a power of two apart.
	copyDepth = 32

	// taskWork is the least work of a task of several, in multiply-adds; it
	// takes some 10 µs.
	taskWork = 1 << 20

	// tasksPerThread is more than one so that a thread that other programs
	// slow down takes fewer tasks.
	tasksPerThread = 3
)

// product is one matrix product C (+)= A·B with C of shape (m, n) and depth k.
type product struct {
	c           []float32
	ldc         int
	a           []float32 // shape (m, k), or (k, m) if aTransposed
	lda         int
	aTransposed bool
	b           []float32 // shape (k, n), or (n, k) if bTransposed
	ldb         int
	bTransposed bool
	packed      *Packed // B instead of b, or nil
	pairs       bool    // round A and B to bfloat16, and sum in pairs
	m, n, k     int
	accumulate  bool

	level vec.Level
	rows  int // rows of a tile at most

	// The tasks are a grid over C.
	rowTasks, columnTasks int
}

// divide chooses the tile and the grid of tasks. Splitting columns is better
// than splitting rows, since each column of B is then packed and read by one
// task only.
func (p *product) divide(threads int) {
	p.rows = tileRows(p.level)
	if p.pairs {
		p.rows = pairRows(p.level)
	}
	p.rowTasks, p.columnTasks = 1, 1
	if threads <= 1 {
		return
	}
	// One row takes as long as four: B has to be read.
	work := max(p.m, 4) * p.n * p.k
	want := min(threads*tasksPerThread, work/taskWork)
	if want <= 1 {
		return
	}
	p.columnTasks = min(want, (p.n+8*panelWidth-1)/(8*panelWidth))
	p.rowTasks = min((want+p.columnTasks-1)/p.columnTasks, (p.m+4*p.rows-1)/(4*p.rows))
	if p.rowTasks*p.columnTasks < threads {
		p.columnTasks = min((want+p.rowTasks-1)/p.rowTasks, panels(p.n))
	}
}

// do computes one task's block of C.
func (p *product) do(task int, ws *workspace) {
	row, column := task/p.columnTasks, task%p.columnTasks
	width := panels(p.n)
	p.compute(
		row*p.m/p.rowTasks, (row+1)*p.m/p.rowTasks,
		column*width/p.columnTasks*panelWidth, min(p.n, (column+1)*width/p.columnTasks*panelWidth),
		ws)
}
