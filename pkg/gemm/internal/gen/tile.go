package main

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

// Registers of the tile kernels.
//
//	AX   the tile
//	R8   A at the present depth, row 0        R10  bytes from row to row of A
//	R9   A at the present depth, row 7        R11  three rows, R12 five rows
//	R13  bytes from depth to depth of A       CX   depths left
//	BX   B at the present depth               DX   bytes from depth to depth of B
//	DI   a row of C                           SI   bytes from row to row of C
//
// In the loop over depths of a large AVX-512 tile, AX is the address to fetch
// and SI its step.

// rowsPerBase is the number of rows of A that one base register reaches with
// the multiples 1, 2, 4 of one, three and five rows.
const rowsPerBase = 7

// rowAddress returns the operand of row i of A at the present depth.
func rowAddress(i int) string {
	offsets := [rowsPerBase]string{"", "(R10*1)", "(R10*2)", "(R11*1)", "(R10*4)", "(R12*1)", "(R11*2)"}
	base := "(R8)"
	if i >= rowsPerBase {
		base = "(R9)"
	}
	return base + offsets[i%rowsPerBase]
}

// An element is how a tile's matrix B is stored.
type element struct {
	suffix string // of the kernel's name
	field  string // of the tile that points to B
	log    int    // binary logarithm of the bytes
	half   bool   // bfloat16, which is the upper half of a float32
}

var (
	float32s  = element{field: "b", log: 2}
	bfloat16s = element{suffix: "BF16", field: "half", log: 1, half: true}
)

// bytes returns the size of n elements.
func (e element) bytes(n int) int { return n << e.log }

// load loads the vector of B at an address and widens it to float32.
func (e element) load(w *asm.File, address, vector string) {
	if !e.half {
		w.Op("VMOVUPS %s, %s", address, vector)
		return
	}
	w.Op("VPMOVZXWD %s, %s", address, vector)
	w.Op("VPSLLD $16, %[1]s, %[1]s", vector)
}

// loadStrides loads the strides, in bytes, and the first pointer of A.
func loadStrides(w *asm.File, e element) {
	w.Op("MOVQ tile_aRow(AX), R10")
	w.Op("SHLQ $2, R10")
	w.Op("LEAQ (R10)(R10*2), R11")
	w.Op("LEAQ (R10)(R10*4), R12")
	w.Op("MOVQ tile_aDepth(AX), R13")
	w.Op("SHLQ $2, R13")
	w.Op("MOVQ tile_bDepth(AX), DX")
	w.Op("SHLQ $%d, DX", e.log)
	w.Op("MOVQ tile_cRow(AX), SI")
	w.Op("SHLQ $2, SI")
}

// dispatch jumps to the label of the number of rows in register CX.
func dispatch(w *asm.File, rows int) {
	for r := rows; r > 1; r-- {
		w.Op("CMPQ CX, $%d", r)
		w.Op("JEQ  rows%d", r)
	}
}

// fetchRows is that of the package: tiles of fewer rows fetch one line of a depth at most.
const fetchRows = 8

// tileRows512 is the number of rows of the largest AVX-512 tile. Its 28
// accumulators leave four registers for B and the broadcast elements of A.
const tileRows512 = 14

// tileAVX512 writes tileAVX512 for one element of B, one body for each number
// of rows. Row i of C is in Z(2i) and Z(2i+1).
func tileAVX512(w *asm.File, e element) {
	w.Function("tileAVX512"+e.suffix, "(t *tile)", 8)
	w.Op("MOVQ t+0(FP), AX")
	loadStrides(w, e)
	w.Op("MOVQ tile_a(AX), R8")
	w.Op("MOVQ tile_%s(AX), BX", e.field)
	w.Op("MOVQ tile_c(AX), DI")
	w.Op("CMPQ tile_panels(AX), $1")
	w.Op("JNE  wide")
	w.Op("MOVQ tile_columns(AX), CX")
	w.Op("MOVQ $-1, R9")
	w.Op("SHLQ CX, R9")
	w.Op("NOTQ R9")
	w.Op("KMOVD R9, K1")
	w.Op("SHRQ $16, R9")
	w.Op("KMOVD R9, K2")
	w.Op("MOVQ tile_rows(AX), CX")
	dispatch(w, tileRows512)
	for r := 1; r <= tileRows512; r++ {
		w.Label("rows%d", r)
		body512(w, e, r)
		w.Op("VZEROUPPER")
		w.Op("RET")
	}
	w.Label("wide")
	w.Op("MOVQ tile_rows(AX), CX")
	w.Op("CMPQ CX, $3")
	w.Op("JEQ  wide3x2")
	w.Op("CMPQ CX, $2")
	w.Op("JEQ  wide2x2")
	w.Op("CMPQ tile_panels(AX), $2")
	w.Op("JEQ  wide1x2")
	for _, size := range [][2]int{{1, 4}, {1, 2}, {2, 2}, {3, 2}} {
		wide(w, e, "Z", 64, size[0], size[1])
	}
}

// wide writes the body for a few rows and several whole panels, whose chains
// are enough to hide the latency of the multiply-adds. Panels are R9 bytes
// apart, three panels R12; vectors of bytes bytes are in registers Z or Y. A
// single row reads B from memory, or widens it right before use; more rows keep
// it in the registers below the last two.
func wide(w *asm.File, e element, register string, bytes, rows, panels int) {
	name := fmt.Sprintf("wide%dx%d", rows, panels)
	perPanel := 4 * panelWidth / bytes
	perRow := panels * perPanel
	last := 31
	if register == "Y" {
		last = 15
	}
	panelAddress := [4]string{"(BX)", "(BX)(R9*1)", "(BX)(R9*2)", "(BX)(R12*1)"}
	w.Label("%s", name)
	w.Op("MOVQ tile_depth(AX), CX")
	w.Op("MOVQ tile_panelStep(AX), R9")
	w.Op("SHLQ $%d, R9", e.log)
	w.Op("LEAQ (R9)(R9*2), R12")
	w.Op("CMPQ tile_accumulate(AX), $0")
	w.Op("JEQ  %szero", name)
	for i := range rows {
		for v := range perRow {
			w.Op("VMOVUPS %d(DI), %s%d", v*bytes, register, i*perRow+v)
		}
		w.Op("ADDQ SI, DI")
	}
	w.Op("JMP  %sloop", name)
	w.Label("%szero", name)
	for i := range rows * perRow {
		w.Op("VXORPS %[1]s%[2]d, %[1]s%[2]d, %[1]s%[2]d", register, i)
	}
	w.Op("PCALIGN $32")
	w.Label("%sloop", name)
	address := func(v int) string {
		return fmt.Sprintf("%d%s", e.bytes(v%perPanel*bytes/4), panelAddress[v/perPanel])
	}
	// The registers that B can use.
	spare := last - 1 - rows*perRow
	vector := func(v int) string { return fmt.Sprintf("%s%d", register, last-2-v%spare) }
	if rows > 1 {
		for v := range perRow {
			e.load(w, address(v), vector(v))
		}
	}
	for i := range rows {
		broadcast := last - i%2
		w.Op("VBROADCASTSS %s, %s%d", rowAddress(i), register, broadcast)
		for v := range perRow {
			operand := vector(v)
			if rows == 1 && e.half {
				e.load(w, address(v), operand)
			} else if rows == 1 {
				operand = address(v)
			}
			w.Op("VFMADD231PS %s, %[2]s%[3]d, %[2]s%[4]d", operand, register, broadcast, i*perRow+v)
		}
	}
	w.Op("ADDQ R13, R8")
	w.Op("ADDQ DX, BX")
	w.Op("DECQ CX")
	w.Op("JNZ  %sloop", name)
	w.Op("MOVQ tile_c(AX), DI")
	for i := range rows {
		for v := range perRow {
			w.Op("VMOVUPS %s%d, %d(DI)", register, i*perRow+v, v*bytes)
		}
		w.Op("ADDQ SI, DI")
	}
	w.Op("VZEROUPPER")
	w.Op("RET")
}

func body512(w *asm.File, e element, rows int) {
	name := fmt.Sprintf("rows%d", rows)
	w.Op("MOVQ tile_depth(AX), CX")
	if rows > rowsPerBase {
		w.Op("LEAQ (R8)(R11*2), R9")
		w.Op("ADDQ R10, R9")
	}
	w.Op("CMPQ tile_accumulate(AX), $0")
	w.Op("JEQ  %szero", name)
	for i := range rows {
		w.Op("VMOVUPS.Z (DI), K1, Z%d", 2*i)
		w.Op("VMOVUPS.Z 64(DI), K2, Z%d", 2*i+1)
		w.Op("ADDQ SI, DI")
	}
	w.Op("JMP  %sstart", name)
	w.Label("%szero", name)
	for i := range 2 * rows {
		w.Op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	w.Label("%sstart", name)
	w.Op("MOVQ tile_fetchStep(AX), SI")
	w.Op("MOVQ tile_fetch(AX), AX")
	w.Op("PCALIGN $32")
	w.Label("%sloop", name)
	e.load(w, "(BX)", "Z28")
	e.load(w, fmt.Sprintf("%d(BX)", e.bytes(16)), "Z29")
	w.Op("PREFETCHT1 (AX)")
	if !e.half && rows >= fetchRows { // see setFetch
		w.Op("PREFETCHT1 64(AX)")
	}
	w.Op("ADDQ SI, AX")
	for i := range rows {
		broadcast := 30 + i%2
		w.Op("VBROADCASTSS %s, Z%d", rowAddress(i), broadcast)
		w.Op("VFMADD231PS Z28, Z%d, Z%d", broadcast, 2*i)
		w.Op("VFMADD231PS Z29, Z%d, Z%d", broadcast, 2*i+1)
	}
	w.Op("ADDQ R13, R8")
	if rows > rowsPerBase {
		w.Op("ADDQ R13, R9")
	}
	w.Op("ADDQ DX, BX")
	w.Op("DECQ CX")
	w.Op("JNZ  %sloop", name)
	w.Op("MOVQ t+0(FP), AX")
	w.Op("MOVQ tile_cRow(AX), SI")
	w.Op("SHLQ $2, SI")
	w.Op("MOVQ tile_c(AX), DI")
	w.Op("CMPQ tile_columns(AX), $32")
	w.Op("JNE  %smasked", name)
	for i := range rows {
		w.Op("VMOVUPS Z%d, (DI)", 2*i)
		w.Op("VMOVUPS Z%d, 64(DI)", 2*i+1)
		w.Op("ADDQ SI, DI")
	}
	w.Op("VZEROUPPER")
	w.Op("RET")
	w.Label("%smasked", name)
	for i := range rows {
		w.Op("VMOVUPS Z%d, K1, (DI)", 2*i)
		w.Op("VMOVUPS Z%d, K2, 64(DI)", 2*i+1)
		w.Op("ADDQ SI, DI")
	}
}

// tileRows256 is the number of rows of the largest AVX2 tile. Its 12
// accumulators leave four registers for B and the broadcast elements of A.
const tileRows256 = 6

// tileAVX2 writes tileAVX2 for one element of B. It takes a tile in two halves
// of 16 columns; row i of a half is in Y(2i) and Y(2i+1). R9 counts the columns
// left. Two rows take a whole panel at once: a half has too few chains.
func tileAVX2(w *asm.File, e element) {
	w.MaskTable("masks", panelWidth/2)
	w.Function("tileAVX2"+e.suffix, "(t *tile)", 8)
	w.Op("MOVQ t+0(FP), AX")
	loadStrides(w, e)
	w.Op("MOVQ tile_%s(AX), BX", e.field)
	w.Op("MOVQ tile_c(AX), DI")
	w.Op("MOVQ tile_a(AX), R8")
	w.Op("CMPQ tile_panels(AX), $1")
	w.Op("JNE  wide1x2")
	w.Op("MOVQ tile_columns(AX), R9")
	w.Op("MOVQ tile_rows(AX), CX")
	w.Op("CMPQ CX, $2")
	w.Op("JNE  halves")
	w.Op("CMPQ R9, $%d", panelWidth)
	w.Op("JEQ  wide2x1")
	w.Label("halves")
	dispatch(w, tileRows256)
	for r := 1; r <= tileRows256; r++ {
		w.Label("rows%d", r)
		body256(w, e, r)
		w.Op("VZEROUPPER")
		w.Op("RET")
	}
	wide(w, e, "Y", 32, 1, 2)
	wide(w, e, "Y", 32, 2, 1)
}

// prefetch256 is how far ahead a tile prefetches a B that is not near to the level-1
// cache, in bytes. Its two halves read every other cache line, of which the hardware
// fetches too few.
const prefetch256 = 4096

func body256(w *asm.File, e element, rows int) {
	name := fmt.Sprintf("rows%d", rows)
	w.Label("%shalf", name)
	w.Op("CMPQ tile_accumulate(AX), $0")
	w.Op("JEQ  %szero", name)
	eachRow256(w, rows, name+"load", func(i int, masked bool) {
		if masked {
			w.Op("VMASKMOVPS (DI), Y14, Y%d", 2*i)
			w.Op("VMASKMOVPS 32(DI), Y15, Y%d", 2*i+1)
		} else {
			w.Op("VMOVUPS (DI), Y%d", 2*i)
			w.Op("VMOVUPS 32(DI), Y%d", 2*i+1)
		}
	})
	w.Op("JMP  %sstart", name)
	w.Label("%szero", name)
	for i := range 2 * rows {
		w.Op("VXORPS Y%d, Y%d, Y%d", i, i, i)
	}
	w.Label("%sstart", name)
	w.Op("MOVQ tile_a(AX), R8")
	w.Op("MOVQ tile_depth(AX), CX")
	w.Op("CMPQ tile_near(AX), $0")
	w.Op("JNE  %snear", name)
	loop256(w, e, rows, name+"loop", false)
	w.Op("JMP  %sstore", name)
	loop256(w, e, rows, name+"near", true)
	w.Label("%sstore", name)
	eachRow256(w, rows, name+"put", func(i int, masked bool) {
		if masked {
			w.Op("VMASKMOVPS Y%d, Y14, (DI)", 2*i)
			w.Op("VMASKMOVPS Y%d, Y15, 32(DI)", 2*i+1)
		} else {
			w.Op("VMOVUPS Y%d, (DI)", 2*i)
			w.Op("VMOVUPS Y%d, 32(DI)", 2*i+1)
		}
	})
	w.Op("SUBQ $16, R9")
	w.Op("JLE  %send", name)
	w.Op("ADDQ $64, DI")
	w.Op("MOVQ tile_%s(AX), BX", e.field)
	w.Op("ADDQ $%d, BX", e.bytes(16))
	w.Op("JMP  %shalf", name)
	w.Label("%send", name)
}

// loop256 writes the loop over depths for half a tile.
func loop256(w *asm.File, e element, rows int, name string, near bool) {
	w.Op("PCALIGN $32")
	w.Label("%s", name)
	e.load(w, "(BX)", "Y12")
	e.load(w, fmt.Sprintf("%d(BX)", e.bytes(8)), "Y13")
	if !near {
		w.Op("PREFETCHT0 %d(BX)", prefetch256)
		if !e.half {
			w.Op("PREFETCHT0 %d(BX)", prefetch256+64)
		}
	}
	for i := range rows {
		broadcast := 14 + i%2
		w.Op("VBROADCASTSS %s, Y%d", rowAddress(i), broadcast)
		w.Op("VFMADD231PS Y12, Y%d, Y%d", broadcast, 2*i)
		w.Op("VFMADD231PS Y13, Y%d, Y%d", broadcast, 2*i+1)
	}
	w.Op("ADDQ R13, R8")
	w.Op("ADDQ DX, BX")
	w.Op("DECQ CX")
	w.Op("JNZ  %s", name)
}

// eachRow256 writes the access to each row of C at DI, without masks and, for
// less than 16 columns, with the masks Y14 and Y15. It leaves DI unchanged and
// uses R8 and CX.
func eachRow256(w *asm.File, rows int, name string, access func(i int, masked bool)) {
	w.Op("MOVQ DI, CX")
	w.Op("CMPQ R9, $16")
	w.Op("JLT  %smasked", name)
	for i := range rows {
		access(i, false)
		w.Op("ADDQ SI, DI")
	}
	w.Op("JMP  %sdone", name)
	w.Label("%smasked", name)
	w.Op("LEAQ masks<>+64(SB), R8")
	w.Op("SHLQ $2, R9")
	w.Op("SUBQ R9, R8")
	w.Op("SHRQ $2, R9")
	w.Op("VMOVUPS (R8), Y14")
	w.Op("VMOVUPS 32(R8), Y15")
	for i := range rows {
		access(i, true)
		w.Op("ADDQ SI, DI")
	}
	w.Label("%sdone", name)
	w.Op("MOVQ CX, DI")
}
