package gemm

import "github.com/lathe-rl/lathe/pkg/vec"

// panelsPerTask is the number of panels that one task packs.
const panelsPerTask = 4

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
func (p *packing) do(task int, _ *workspace) {
	last := min(panels(p.n), (task+1)*panelsPerTask)
	for panel := task * panelsPerTask; panel < last; panel++ {
		p.panel(panel)
	}
}

// panel packs panel number i, which holds the columns from 32·i.
func (p *packing) panel(i int) {
	column := i * panelWidth
	width := min(panelWidth, p.n-column)
	dst := p.dst[i*p.k*panelWidth:][:p.k*panelWidth]
	if p.transposed {
		transposePanel(p.level, dst, p.src[column*p.stride:], p.stride, width, p.k)
	} else {
		copyPanel(p.level, dst, panelWidth, p.src[column:], p.stride, p.k, width)
	}
}

// transposePanel sets dst[k·32 + j] = src[j·stride + k] for j < width and
// k < depth, and 0 for the other j < 32.
func transposePanel(level vec.Level, dst, src []float32, stride, width, depth int) {
	for k := range depth {
		line := dst[k*panelWidth:][:panelWidth]
		for j := range width {
			line[j] = src[j*stride+k]
		}
		clear(line[width:])
	}
}

// copyPanel sets dst[k·dstStride + j] = src[k·stride + j] for k < depth and
// j < width, and 0 for the other j < dstStride. dstStride is 16 or 32.
func copyPanel(level vec.Level, dst []float32, dstStride int, src []float32, stride, depth, width int) {
	for k := range depth {
		line := dst[k*dstStride:][:dstStride]
		copy(line[:width], src[k*stride:])
		clear(line[width:])
	}
}
