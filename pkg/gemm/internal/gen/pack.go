package main

import (
	"fmt"
	"strings"
)

// packing writes the kernels that lay out panels.
func packing(w *writer) {
	transpose(w, "transposeAVX512", transpose512)
	transpose(w, "transposeAVX2", transpose256)
	copyRows512(w)
	maskTable(w, "lanes", panelWidth)
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
func transpose(w *writer, name string, group func(*writer)) {
	w.function(name, "dst, src *float32, stride, quads int", 32)
	w.op("MOVQ dst+0(FP), DI")
	w.op("MOVQ src+8(FP), R8")
	w.op("MOVQ stride+16(FP), R10")
	w.op("SHLQ $2, R10")
	w.op("LEAQ (R10)(R10*2), R11")
	w.op("LEAQ (R8)(R10*4), R9")
	w.op("LEAQ (R9)(R10*4), R12")
	w.op("LEAQ (R12)(R10*4), R13")
	w.op("MOVQ quads+24(FP), CX")
	if name == "transposeAVX512" {
		for lane := 1; lane < 4; lane++ {
			w.op("MOVL $0x%x, AX", 0xf<<(4*lane))
			w.op("KMOVD AX, K%d", lane)
		}
	}
	w.op("PCALIGN $32")
	w.label("loop")
	group(w)
	w.op("ADDQ $16, R8")
	w.op("ADDQ $16, R9")
	w.op("ADDQ $16, R12")
	w.op("ADDQ $16, R13")
	w.op("ADDQ $512, DI")
	w.op("DECQ CX")
	w.op("JNZ  loop")
	w.op("VZEROUPPER")
	w.op("RET")
}

// quadRows are the addresses of four consecutive rows relative to the first.
var quadRows = [4]string{"", "(R10*1)", "(R10*2)", "(R11*1)"}

// transpose512 gathers rows p, p+4, p+8 and p+12 in the 128-bit lanes of Zp,
// transposes 4 by 4 within the lanes and so gets the rows in order.
func transpose512(w *writer) {
	for p, row := range quadRows {
		w.op("VMOVUPS (R8)%s, X%d", row, p)
		w.op("VBROADCASTF32X4 (R9)%s, K1, Z%d", row, p)
		w.op("VBROADCASTF32X4 (R12)%s, K2, Z%d", row, p)
		w.op("VBROADCASTF32X4 (R13)%s, K3, Z%d", row, p)
	}
	transposeLanes(w, "Z")
	for p := range 4 {
		w.op("VMOVUPS Z%d, %d(DI)", p, 128*p)
	}
}

// transpose256 does the same with 8 rows at a time.
func transpose256(w *writer) {
	for half, bases := range [2][2]string{{"R8", "R9"}, {"R12", "R13"}} {
		for p, row := range quadRows {
			w.op("VMOVUPS (%s)%s, X%d", bases[0], row, p)
			w.op("VINSERTF128 $1, (%s)%s, Y%d, Y%d", bases[1], row, p, p)
		}
		transposeLanes(w, "Y")
		for p := range 4 {
			w.op("VMOVUPS Y%d, %d(DI)", p, 128*p+32*half)
		}
	}
}

// transposeLanes transposes the 4 by 4 block in each 128-bit lane of registers
// 0 to 3, using 4 to 7.
func transposeLanes(w *writer, register string) {
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
		w.op("%s", strings.ReplaceAll(line, "R", register))
	}
}

// copyPrologue writes the head of a function that copies rows of at most slot
// values to rows of slot values in DI.
func copyPrologue(w *writer, name string) {
	w.function(name, "dst, src *float32, stride, depth, width int", 40)
	w.op("MOVQ dst+0(FP), DI")
	w.op("MOVQ src+8(FP), SI")
	w.op("MOVQ stride+16(FP), R8")
	w.op("SHLQ $2, R8")
	w.op("MOVQ depth+24(FP), CX")
	w.op("MOVQ width+32(FP), BX")
}

// copyEpilogue closes the loop over rows of slot values.
func copyEpilogue(w *writer, slot int) {
	w.op("ADDQ R8, SI")
	w.op("ADDQ $%d, DI", 4*slot)
	w.op("DECQ CX")
	w.op("JNZ  loop")
	w.op("VZEROUPPER")
	w.op("RET")
}

func copyRows512(w *writer) {
	for _, slot := range []int{16, 32} {
		copyPrologue(w, fmt.Sprintf("copyRows%dAVX512", slot))
		w.op("MOVQ $-1, AX")
		w.op("XCHGQ BX, CX")
		w.op("SHLQ CX, AX")
		w.op("NOTQ AX")
		w.op("XCHGQ BX, CX")
		w.op("KMOVD AX, K1")
		w.op("SHRQ $16, AX")
		w.op("KMOVD AX, K2")
		w.op("PCALIGN $32")
		w.label("loop")
		for v := range slot / 16 {
			w.op("VMOVUPS.Z %d(SI), K%d, Z%d", 64*v, v+1, v)
		}
		for v := range slot / 16 {
			w.op("VMOVUPS Z%d, %d(DI)", v, 64*v)
		}
		copyEpilogue(w, slot)
	}
}

func copyRows256(w *writer) {
	for _, slot := range []int{8, 32} {
		copyPrologue(w, fmt.Sprintf("copyRows%dAVX2", slot))
		w.op("LEAQ lanes<>+128(SB), R9")
		w.op("SHLQ $2, BX")
		w.op("SUBQ BX, R9")
		for v := range slot / 8 {
			w.op("VMOVUPS %d(R9), Y%d", 32*v, 4+v)
		}
		w.op("PCALIGN $32")
		w.label("loop")
		for v := range slot / 8 {
			w.op("VMASKMOVPS %d(SI), Y%d, Y%d", 32*v, 4+v, v)
		}
		for v := range slot / 8 {
			w.op("VMOVUPS Y%d, %d(DI)", v, 32*v)
		}
		copyEpilogue(w, slot)
	}
}
