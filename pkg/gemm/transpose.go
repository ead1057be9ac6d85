package gemm

import "github.com/lathe-rl/lathe/pkg/vec"

// A square is 32 depths of a panel: a (32, 32) block that is dense in memory.
const squareSize = panelWidth * panelWidth

// Columns copies columns first to first+count-1 of B to dst of shape
// (count, k), widened to float32: rows of a weight in the [out, in] layout. At
// most threads goroutines work on it.
func (p *Packed) Columns(dst []float32, first, count, threads int) {
	if first < 0 || count < 0 || first+count > p.n {
		panic(badColumn)
	}
	if len(dst) < count*p.k {
		panic(shortW)
	}
	if count == 0 || p.k == 0 {
		return
	}
	t := getTeam()
	t.unpacking = unpacking{dst: dst, src: p, first: first, end: first + count, level: vec.Active()}
	t.job = &t.unpacking
	t.run((panels(first+count)-first/panelWidth+panelsPerTask-1)/panelsPerTask, threads)
	putTeam(t)
}

// unpacking copies columns of a packed matrix out.
type unpacking struct {
	dst        []float32
	src        *Packed
	first, end int
	level      vec.Level
}

func (u *unpacking) do(task int, ws *workspace) {
	from := u.first/panelWidth + task*panelsPerTask
	for i := from; i < min(panels(u.end), from+panelsPerTask); i++ {
		u.panel(i, ws)
	}
}

// panel copies the wanted columns of panel number i, square by square.
func (u *unpacking) panel(i int, ws *workspace) {
	k := u.src.k
	column := i * panelWidth
	from, to := max(u.first, column), min(u.end, column+panelWidth)
	square := ws.panels[:squareSize]
	for depth := 0; depth < k; depth += panelWidth {
		count := min(panelWidth, k-depth)
		rows := u.src.square(column, depth, count, u.level, ws)
		// The depths are the columns now, and the columns the depths.
		transposePanel(u.level, square, rows, panelWidth, count, panelWidth, ws.rows)
		for j := from; j < to; j++ {
			copy(u.dst[(j-u.first)*k+depth:][:count], square[(j-column)*panelWidth:])
		}
	}
}

// square returns count depths of the panel of a column from an even depth on, in
// float32: where they are, or widened in the workspace's panels, behind the first
// square.
func (p *Packed) square(column, depth, count int, level vec.Level, ws *workspace) []float32 {
	offset := column*p.depth + depth*panelWidth
	if p.half == nil {
		return p.data[offset:][:count*panelWidth]
	}
	rows := ws.panels[squareSize:][:squareSize]
	if p.pairs {
		widenPairs(level, rows, p.half[offset:], (count+1)/2)
		return rows
	}
	rows = rows[:count*panelWidth]
	vec.WidenBF16(rows, p.half[offset:][:len(rows)])
	return rows
}

// Transpose packs the transpose of columns first to first+count-1 of B, a
// matrix of shape (count, k), in the same format. With B packed by PackNT it is
// what PackNT makes of the transpose of the same rows of the weight, by which the
// gradient of a layer's output is taken to that of its input. first must be a
// multiple of 32. At most threads goroutines work on it.
func (p *Packed) Transpose(dst *Packed, first, count, threads int) {
	if first < 0 || count < 0 || first+count > p.n || first%panelWidth != 0 {
		panic(badColumn)
	}
	switch {
	case p.pairs:
		dst.Format = BFloat16Pairs
	case p.half != nil:
		dst.Format = BFloat16
	default:
		dst.Format = Float32
	}
	dst.resize(p.k, count)
	if count == 0 || p.k == 0 {
		return
	}
	t := getTeam()
	t.transposing = transposing{dst: dst, src: p, first: first, level: vec.Active()}
	t.job = &t.transposing
	t.run((panels(p.k)+panelsPerTask-1)/panelsPerTask, threads)
	putTeam(t)
}

// transposing packs the transpose of a packed matrix.
type transposing struct {
	dst, src *Packed
	first    int
	level    vec.Level
}

// do packs one task's panels. Several are packed side by side, so that what is
// read of each panel of the source lies together.
func (t *transposing) do(task int, ws *workspace) {
	depth := t.dst.k
	last := min(panels(t.dst.n), (task+1)*panelsPerTask)
	for d := 0; d < depth; d += panelWidth {
		count := min(panelWidth, depth-d)
		for i := task * panelsPerTask; i < last; i++ {
			t.square(i, d, count, ws)
		}
	}
}

// square packs count depths from d of panel i: a square of the source's panel
// that holds its column first+d.
func (t *transposing) square(i, d, count int, ws *workspace) {
	column := i * panelWidth
	width := min(panelWidth, t.dst.n-column)
	rows := t.src.square(t.first+d, column, width, t.level, ws)
	offset := column*t.dst.depth + d*panelWidth
	if t.dst.half == nil {
		transposePanel(t.level, t.dst.data[offset:], rows, panelWidth, width, count, ws.rows)
		return
	}
	square := ws.panels[:squareSize]
	transposePanel(t.level, square, rows, panelWidth, width, count, ws.rows)
	if t.dst.pairs {
		roundRows(t.level, t.dst.half[offset:], square, count)
		return
	}
	square = square[:count*panelWidth]
	vec.RoundBF16(t.dst.half[offset:][:len(square)], square)
}
