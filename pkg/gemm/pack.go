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

// packing lays a matrix B of shape (k, n) out in panels of 32 columns.
type packing struct {
	dst        []float32 // shape (panels, k, panelWidth)
	src        []float32 // B, or its transpose of shape (n, k)
	stride     int       // leading dimension of src
	transposed bool
	n, k       int
	level      vec.Level
}

// do packs one task's panels.
func (p *packing) do(task int, ws *workspace) {
	last := min(panels(p.n), (task+1)*panelsPerTask)
	for panel := task * panelsPerTask; panel < last; panel++ {
		p.panel(panel, ws)
	}
}

// panel packs panel number i, which holds the columns from 32·i.
func (p *packing) panel(i int, ws *workspace) {
	column := i * panelWidth
	width := min(panelWidth, p.n-column)
	dst := p.dst[i*p.k*panelWidth:][:p.k*panelWidth]
	if p.transposed {
		transposePanel(p.level, dst, p.src[column*p.stride:], p.stride, width, p.k, ws.rows)
	} else {
		copyPanel(p.level, dst, panelWidth, p.src[column:], p.stride, p.k, width)
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
	case level == vec.AVX2 && slot == 8:
		copyRows8AVX2(&dst[0], &src[0], stride, depth, width)
	default:
		for k := range depth {
			line := dst[k*slot:][:slot]
			copy(line[:width], src[k*stride:])
			clear(line[width:])
		}
	}
}
