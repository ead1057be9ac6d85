package gemm

import (
	"math"
	"unsafe"

	"github.com/lathe-rl/lathe/pkg/vec"
)

// PairBlock is the number of depths whose products are summed from zero, in pairs.
const PairBlock = 32

// padded is a depth filled up to whole blocks. What is filled up is zeros in A and B.
func padded(depth int) int { return (depth + PairBlock - 1) / PairBlock * PairBlock }

// pairRows returns the largest number of rows of a tile that is summed in pairs.
func pairRows(level vec.Level) int {
	switch level {
	case vec.AVX512:
		return 7
	case vec.AVX2:
		return 6
	default:
		return 4
	}
}

// tilePairsGo computes a tile of whole blocks of depths.
func tilePairsGo(t *tile) {
	for i := range t.rows {
		row := t.c[i*t.cRow : i*t.cRow+t.columns]
		if t.accumulate == 0 {
			clear(row)
		}
		for block := 0; block < t.depth; block += PairBlock {
			var a [PairBlock]float32
			for k := range a {
				a[k] = t.a[i*t.aRow+(block+k)*t.aDepth]
			}
			for j := range row {
				row[j] = addPairs(row[j], &a, t.half[block*panelWidth+2*j:])
			}
		}
	}
}

// addPairs adds to c the products of a block of A with a column of pairs of B.
func addPairs(c float32, a *[PairBlock]float32, b []uint16) float32 {
	var even, odd float32
	for k := 0; k < PairBlock; k += 2 {
		even = vec.FMAFlushed(a[k], widened(b[k*panelWidth]), even)
		odd = vec.FMAFlushed(a[k+1], widened(b[k*panelWidth+1]), odd)
	}
	return vec.AddFlushed(c, vec.AddFlushed(even, odd))
}

func widened(half uint16) float32 { return math.Float32frombits(uint32(half) << 16) }

// roundPairs rounds rows of 32 to bfloat16, two of them side by side: dst[64p + 2j] is
// src[64p + j] and dst[64p + 2j + 1] is src[64p + 32 + j] for p < pairs and j < 32.
func roundPairs(level vec.Level, dst []uint16, src []float32, pairs int) {
	switch level {
	case vec.AVX512:
		roundPairsAVX512(&dst[0], &src[0], pairs)
	case vec.AVX2:
		roundPairsAVX2(&dst[0], &src[0], pairs)
	default:
		var rows [2 * panelWidth]uint16
		for p := range pairs {
			vec.RoundBF16(rows[:], src[p*len(rows):][:len(rows)])
			for j := range panelWidth {
				dst[p*len(rows)+2*j], dst[p*len(rows)+2*j+1] = rows[j], rows[panelWidth+j]
			}
		}
	}
}

// widenPairs is the way back from roundPairs.
func widenPairs(level vec.Level, dst []float32, src []uint16, pairs int) {
	switch level {
	case vec.AVX512:
		widenPairsAVX512(&dst[0], &src[0], pairs)
	case vec.AVX2:
		widenPairsAVX2(&dst[0], &src[0], pairs)
	default:
		const size = 2 * panelWidth
		for p := range pairs {
			for j := range panelWidth {
				dst[p*size+j], dst[p*size+panelWidth+j] = widened(src[p*size+2*j]), widened(src[p*size+2*j+1])
			}
		}
	}
}

// halves are the panels of a block of B in bfloat16. They take the first half of the
// memory at most; scratch has room in the other.
func (ws *workspace) halves() []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(&ws.panels[0])), panelsCapacity)
}

// scratch is room for roundDepth rows of a panel beside halves.
func (ws *workspace) scratch() []float32 {
	return ws.panels[panelsCapacity/2:][:roundDepth*panelWidth]
}

// strip is room for a strip of transposePanel beside both.
func (ws *workspace) strip() []float32 {
	return ws.panels[panelsCapacity/2+roundDepth*panelWidth:][:stripWidth*stripStride]
}

// roundRows makes pairs of count rows in rows, which has room for whole blocks.
func roundRows(level vec.Level, dst []uint16, rows []float32, count int) {
	whole := padded(count)
	clear(rows[count*panelWidth : whole*panelWidth])
	roundPairs(level, dst, rows, whole/2)
}

// packPairs rounds columns [j0, j1) of B for the depths [k0, k1) to panels of pairs.
func (p *product) packPairs(dst []uint16, j0, j1, k0, k1 int, ws *workspace) {
	rows, depth := ws.scratch(), padded(k1-k0)
	step := copyDepth
	if p.bTransposed {
		step = roundDepth
	}
	for k := k0; k < k1; k += step {
		part := min(step, k1-k)
		for j := j0; j < j1; j += panelWidth {
			width := min(panelWidth, j1-j)
			if p.bTransposed {
				transposePanel(p.level, rows, p.b[j*p.ldb+k:], p.ldb, width, part, ws.rows)
			} else {
				copyPanel(p.level, rows, panelWidth, p.b[k*p.ldb+j:], p.ldb, part, width)
			}
			roundRows(p.level, dst[(j-j0)*depth+(k-k0)*panelWidth:], rows, part)
		}
	}
}
