package gemm

import "github.com/lathe-rl/lathe/pkg/vec"

// panelsPerTask is the number of panels that one task packs.
const panelsPerTask = 4

// A strip is what the transpose kernels take at once: 16 rows. A strip at the
// edge of a matrix is copied to scratch memory, in parts of 1024 depths.
const (
	stripWidth  = 16
	stripDepth  = 1024
	stripStride = stripDepth + rowPadding
)

// roundDepth is the number of depths of a panel that are packed in float32
// before they are rounded to bfloat16.
const roundDepth = 256

// packing lays the columns from first to end-1 of a matrix B out in panels of
// 32 columns.
type packing struct {
	dst        *Packed
	src        []float32 // the transpose of these columns of B, dense
	first, end int
	level      vec.Level
}

// tasks returns the number of tasks.
func (p *packing) tasks() int {
	return (panels(p.end) - p.first/panelWidth + panelsPerTask - 1) / panelsPerTask
}

// do packs one task's panels.
func (p *packing) do(task int, ws *workspace) {
	from := p.first/panelWidth + task*panelsPerTask
	for i := from; i < min(panels(p.end), from+panelsPerTask); i++ {
		p.panel(i, ws)
	}
}

// panel packs panel number i, which holds the columns from 32·i, or those of
// them that are packed.
func (p *packing) panel(i int, ws *workspace) {
	column, k := i*panelWidth, p.dst.k
	width := min(panelWidth, p.end-column)
	if column < p.first || width < panelWidth && p.end < p.dst.n {
		p.columns(max(p.first, column), column+width)
		return
	}
	if p.dst.half == nil {
		p.depths(p.dst.data[column*k:][:k*panelWidth], column, width, 0, k, ws)
		return
	}
	for from := 0; from < k; from += roundDepth {
		to := min(k, from+roundDepth)
		rows := ws.scratch()
		p.depths(rows, column, width, from, to, ws)
		dst := p.dst.half[column*p.dst.depth+from*panelWidth:]
		if p.dst.pairs {
			roundRows(p.level, dst, rows, to-from)
		} else {
			rows = rows[:(to-from)*panelWidth]
			vec.RoundBF16(dst[:len(rows)], rows)
		}
	}
}

// depths packs the depths [from, to) of a panel of width columns into dst
// (to-from, 32).
func (p *packing) depths(dst []float32, column, width, from, to int, ws *workspace) {
	transposePanel(p.level, dst, p.src[(column-p.first)*p.dst.k+from:], p.dst.k, width, to-from, ws.rows)
}

// columns packs the columns [from, to), a part of one panel, and leaves the
// other columns of the panel as they are.
func (p *packing) columns(from, to int) {
	for j := from; j < to; j++ {
		for i := range p.dst.k {
			x := p.src[(j-p.first)*p.dst.k+i:][:1]
			if at := p.dst.at(j, i); p.dst.half != nil {
				vec.RoundBF16(p.dst.half[at:at+1], x)
			} else {
				p.dst.data[at] = x[0]
			}
		}
	}
}

// transposePanel sets dst[k·32 + j] = src[j·stride + k] for j < width and
// k < depth, and 0 for the other j < 32. The kernels take 16 rows of src; fewer
// are first copied to scratch and filled up with zeros.
func transposePanel(level vec.Level, dst, src []float32, stride, width, depth int, scratch []float32) {
	quads := depth / 4
	if level == vec.Go {
		quads = 0
	}
	if quads > 0 {
		for j := 0; j < panelWidth; j += stripWidth {
			if j+stripWidth <= width {
				transposeStrip(level, dst[j:], src[j*stride:], stride, quads)
				continue
			}
			for k := 0; k < 4*quads; k += stripDepth {
				part := min(stripDepth, 4*quads-k)
				for row := range stripWidth {
					line := scratch[row*stripStride:][:part]
					if j+row < width {
						copy(line, src[(j+row)*stride+k:])
					} else {
						clear(line)
					}
				}
				transposeStrip(level, dst[k*panelWidth+j:], scratch, stripStride, part/4)
			}
		}
	}
	for k := 4 * quads; k < depth; k++ {
		line := dst[k*panelWidth:][:panelWidth]
		for j := range width {
			line[j] = src[j*stride+k]
		}
		clear(line[width:])
	}
}

// transposeStrip sets dst[k·32 + j] = src[j·stride + k] for j < 16 and
// k < 4·quads.
func transposeStrip(level vec.Level, dst, src []float32, stride, quads int) {
	if level == vec.AVX512 {
		transposeAVX512(&dst[0], &src[0], stride, quads)
	} else {
		transposeAVX2(&dst[0], &src[0], stride, quads)
	}
}

// copyPanel sets dst[k·slot + j] = src[k·stride + j] for k < depth and
// j < width, and 0 for width ≤ j < slot.
func copyPanel(level vec.Level, dst []float32, slot int, src []float32, stride, depth, width int) {
	switch {
	case level == vec.AVX512 && slot == 32:
		copyRows32AVX512(&dst[0], &src[0], stride, depth, width)
	case level == vec.AVX512 && slot == 16:
		copyRows16AVX512(&dst[0], &src[0], stride, depth, width)
	case level == vec.AVX2 && slot == 32:
		copyRows32AVX2(&dst[0], &src[0], stride, depth, width)
	case level != vec.Go && slot == 8:
		copyRows8AVX2(&dst[0], &src[0], stride, depth, width)
	default:
		for k := range depth {
			line := dst[k*slot:][:slot]
			copy(line[:width], src[k*stride:])
			clear(line[width:])
		}
	}
}
