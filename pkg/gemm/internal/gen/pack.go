package main

import (
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

// packing writes the kernels that lay out panels.
func packing(w *asm.File) {
	transpose(w, "transposeAVX512", transpose512)
	transpose(w, "transposeAVX2", transpose256)
	copyRows512(w)
	w.MaskTable("lanes", panelWidth)
	copyRows256(w)
}

// panelWidth is the number of columns of a panel.
const panelWidth = 32

// transpose writes one function that transposes 16 rows of a matrix into 16
// columns of a panel, four depths at a time.
//
//	R8, R9, R12, R13   rows 0, 4, 8 and 12      R10  bytes from row to row
//	DI                 the panel                R11  three rows
//	CX                 groups of four depths left
func transpose(w *asm.File, name string, group func(*asm.File)) {
	w.Function(name, "(dst, src *float32, stride, quads int)", 32)
	w.Op("MOVQ dst+0(FP), DI")
	w.Op("MOVQ src+8(FP), R8")
	w.Op("MOVQ stride+16(FP), R10")
	w.Op("SHLQ $2, R10")
	w.Op("LEAQ (R10)(R10*2), R11")
	w.Op("LEAQ (R8)(R10*4), R9")
	w.Op("LEAQ (R9)(R10*4), R12")
	w.Op("LEAQ (R12)(R10*4), R13")
	w.Op("MOVQ quads+24(FP), CX")
	if name == "transposeAVX512" {
		for lane := 1; lane < 4; lane++ {
			w.Op("MOVL $0x%x, AX", 0xf<<(4*lane))
			w.Op("KMOVD AX, K%d", lane)
		}
	}
	w.Op("PCALIGN $32")
	w.Label("loop")
	group(w)
	w.Op("ADDQ $16, R8")
	w.Op("ADDQ $16, R9")
	w.Op("ADDQ $16, R12")
	w.Op("ADDQ $16, R13")
	w.Op("ADDQ $512, DI")
	w.Op("DECQ CX")
	w.Op("JNZ  loop")
	w.Op("VZEROUPPER")
	w.Op("RET")
}

// quadRows are the addresses of four consecutive rows relative to the first.
var quadRows = [4]string{"", "(R10*1)", "(R10*2)", "(R11*1)"}

// transpose512 gathers rows p, p+4, p+8 and p+12 in the 128-bit lanes of Zp,
// transposes 4 by 4 within the lanes and so gets the rows in order.
func transpose512(w *asm.File) {
	for p, row := range quadRows {
		w.Op("VMOVUPS (R8)%s, X%d", row, p)
		w.Op("VBROADCASTF32X4 (R9)%s, K1, Z%d", row, p)
		w.Op("VBROADCASTF32X4 (R12)%s, K2, Z%d", row, p)
		w.Op("VBROADCASTF32X4 (R13)%s, K3, Z%d", row, p)
	}
	transposeLanes(w, "Z")
	for p := range 4 {
		w.Op("VMOVUPS Z%d, %d(DI)", p, 128*p)
	}
}

// transpose256 does the same with 8 rows at a time.
func transpose256(w *asm.File) {
	for half, bases := range [2][2]string{{"R8", "R9"}, {"R12", "R13"}} {
		for p, row := range quadRows {
			w.Op("VMOVUPS (%s)%s, X%d", bases[0], row, p)
			w.Op("VINSERTF128 $1, (%s)%s, Y%d, Y%d", bases[1], row, p, p)
		}
		transposeLanes(w, "Y")
		for p := range 4 {
			w.Op("VMOVUPS Y%d, %d(DI)", p, 128*p+32*half)
		}
	}
}

// transposeLanes transposes the 4 by 4 block in each 128-bit lane of registers
// 0 to 3, using 4 to 7.
func transposeLanes(w *asm.File, register string) {
	for _, line := range []string{
		"VUNPCKLPS R1, R0, R4",
		"VUNPCKHPS R1, R0, R5",
		"VUNPCKLPS R3, R2, R6",
		"VUNPCKHPS R3, R2, R7",
		"VUNPCKLPD R6, R4, R0",
		"VUNPCKHPD R6, R4, R1",
		"VUNPCKLPD R7, R5, R2",
		"VUNPCKHPD R7, R5, R3",
	} {
		w.Op("%s", strings.ReplaceAll(line, "R", register))
	}
}

// copyPrologue writes the head of a function that copies rows of at most slot
// values to rows of slot values in DI.
func copyPrologue(w *asm.File, name string) {
	w.Function(name, "(dst, src *float32, stride, depth, width int)", 40)
	w.Op("MOVQ dst+0(FP), DI")
	w.Op("MOVQ src+8(FP), SI")
	w.Op("MOVQ stride+16(FP), R8")
	w.Op("SHLQ $2, R8")
	w.Op("MOVQ depth+24(FP), CX")
	w.Op("MOVQ width+32(FP), BX")
}

// copyEpilogue closes the loop over rows of slot values.
func copyEpilogue(w *asm.File, slot int) {
	w.Op("ADDQ R8, SI")
	w.Op("ADDQ $%d, DI", 4*slot)
	w.Op("DECQ CX")
	w.Op("JNZ  loop")
	w.Op("VZEROUPPER")
	w.Op("RET")
}

func copyRows512(w *asm.File) {
	for _, slot := range []int{16, 32} {
		copyPrologue(w, fmt.Sprintf("copyRows%dAVX512", slot))
		w.Op("MOVQ $-1, AX")
		w.Op("XCHGQ BX, CX")
		w.Op("SHLQ CX, AX")
		w.Op("NOTQ AX")
		w.Op("XCHGQ BX, CX")
		w.Op("KMOVD AX, K1")
		w.Op("SHRQ $16, AX")
		w.Op("KMOVD AX, K2")
		w.Op("PCALIGN $32")
		w.Label("loop")
		for v := range slot / 16 {
			w.Op("VMOVUPS.Z %d(SI), K%d, Z%d", 64*v, v+1, v)
		}
		for v := range slot / 16 {
			w.Op("VMOVUPS Z%d, %d(DI)", v, 64*v)
		}
		copyEpilogue(w, slot)
	}
}

// copyAhead is the binary logarithm of the number of rows, those that are copied
// before the next panel, by which what is copied is prefetched: rows lie too far
// from each other for the hardware to.
const copyAhead = 5

func copyRows256(w *asm.File) {
	for _, slot := range []int{8, 32} {
		copyPrologue(w, fmt.Sprintf("copyRows%dAVX2", slot))
		w.Op("LEAQ lanes<>+128(SB), R9")
		w.Op("SHLQ $2, BX")
		w.Op("SUBQ BX, R9")
		for v := range slot / 8 {
			w.Op("VMOVUPS %d(R9), Y%d", 32*v, 4+v)
		}
		w.Op("MOVQ R8, R10")
		w.Op("SHLQ $%d, R10", copyAhead)
		w.Op("PCALIGN $32")
		w.Label("loop")
		for line := 0; line < 4*slot; line += 64 {
			w.Op("PREFETCHT0 %d(SI)(R10*1)", line)
		}
		for v := range slot / 8 {
			w.Op("VMASKMOVPS %d(SI), Y%d, Y%d", 32*v, 4+v, v)
		}
		for v := range slot / 8 {
			w.Op("VMOVUPS Y%d, %d(DI)", v, 32*v)
		}
		copyEpilogue(w, slot)
	}
}
