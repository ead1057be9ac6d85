package main

import "fmt"

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
func (e element) load(w *writer, address, vector string) {
	if !e.half {
		w.op("VMOVUPS %s, %s", address, vector)
		return
	}
	w.op("VPMOVZXWD %s, %s", address, vector)
	w.op("VPSLLD $16, %[1]s, %[1]s", vector)
}

// loadStrides loads the strides, in bytes, and the first pointer of A.
func loadStrides(w *writer, e element) {
	w.op("MOVQ tile_aRow(AX), R10")
	w.op("SHLQ $2, R10")
	w.op("LEAQ (R10)(R10*2), R11")
	w.op("LEAQ (R10)(R10*4), R12")
	w.op("MOVQ tile_aDepth(AX), R13")
	w.op("SHLQ $2, R13")
	w.op("MOVQ tile_bDepth(AX), DX")
	w.op("SHLQ $%d, DX", e.log)
	w.op("MOVQ tile_cRow(AX), SI")
	w.op("SHLQ $2, SI")
}

// dispatch jumps to the label of the number of rows in register CX.
func dispatch(w *writer, rows int) {
	for r := rows; r > 1; r-- {
		w.op("CMPQ CX, $%d", r)
		w.op("JEQ  rows%d", r)
	}
}

// tileRows512 is the number of rows of the largest AVX-512 tile. Its 28
// accumulators leave four registers for B and the broadcast elements of A.
const tileRows512 = 14

// tileAVX512 writes tileAVX512 for one element of B, one body for each number
// of rows. Row i of C is in Z(2i) and Z(2i+1).
func tileAVX512(w *writer, e element) {
	w.function("tileAVX512"+e.suffix, "t *tile", 8)
	w.op("MOVQ t+0(FP), AX")
	loadStrides(w, e)
	w.op("MOVQ tile_a(AX), R8")
	w.op("MOVQ tile_%s(AX), BX", e.field)
	w.op("MOVQ tile_c(AX), DI")
	w.op("CMPQ tile_panels(AX), $1")
	w.op("JNE  wide")
	w.op("MOVQ tile_columns(AX), CX")
	w.op("MOVQ $-1, R9")
	w.op("SHLQ CX, R9")
	w.op("NOTQ R9")
	w.op("KMOVD R9, K1")
	w.op("SHRQ $16, R9")
	w.op("KMOVD R9, K2")
	w.op("MOVQ tile_rows(AX), CX")
	dispatch(w, tileRows512)
	for r := 1; r <= tileRows512; r++ {
		w.label("rows%d", r)
		body512(w, e, r)
		w.op("VZEROUPPER")
		w.op("RET")
	}
	w.label("wide")
	w.op("MOVQ tile_rows(AX), CX")
	w.op("CMPQ CX, $3")
	w.op("JEQ  wide3x2")
	w.op("CMPQ CX, $2")
	w.op("JEQ  wide2x2")
	w.op("CMPQ tile_panels(AX), $2")
	w.op("JEQ  wide1x2")
	for _, size := range [][2]int{{1, 4}, {1, 2}, {2, 2}, {3, 2}} {
		wide(w, e, "Z", 64, size[0], size[1])
	}
}

// wide writes the body for a few rows and several whole panels, whose chains
// are enough to hide the latency of the multiply-adds. Panels are R9 bytes
// apart, three panels R12; vectors of bytes bytes are in registers Z or Y. A
// single row reads B from memory, or widens it right before use; more rows keep
// it in the registers below the last two.
func wide(w *writer, e element, register string, bytes, rows, panels int) {
	name := fmt.Sprintf("wide%dx%d", rows, panels)
	perPanel := 4 * panelWidth / bytes
	perRow := panels * perPanel
	last := 31
	if register == "Y" {
		last = 15
	}
	panelAddress := [4]string{"(BX)", "(BX)(R9*1)", "(BX)(R9*2)", "(BX)(R12*1)"}
	w.label("%s", name)
	w.op("MOVQ tile_depth(AX), CX")
	w.op("MOVQ tile_panelStep(AX), R9")
	w.op("SHLQ $%d, R9", e.log)
	w.op("LEAQ (R9)(R9*2), R12")
	w.op("CMPQ tile_accumulate(AX), $0")
	w.op("JEQ  %szero", name)
	for i := range rows {
		for v := range perRow {
			w.op("VMOVUPS %d(DI), %s%d", v*bytes, register, i*perRow+v)
		}
		w.op("ADDQ SI, DI")
	}
	w.op("JMP  %sloop", name)
	w.label("%szero", name)
	for i := range rows * perRow {
		w.op("VXORPS %[1]s%[2]d, %[1]s%[2]d, %[1]s%[2]d", register, i)
	}
	w.op("PCALIGN $32")
	w.label("%sloop", name)
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
		w.op("VBROADCASTSS %s, %s%d", rowAddress(i), register, broadcast)
		for v := range perRow {
			operand := vector(v)
			if rows == 1 && e.half {
				e.load(w, address(v), operand)
			} else if rows == 1 {
				operand = address(v)
			}
			w.op("VFMADD231PS %s, %[2]s%[3]d, %[2]s%[4]d", operand, register, broadcast, i*perRow+v)
		}
	}
	w.op("ADDQ R13, R8")
	w.op("ADDQ DX, BX")
	w.op("DECQ CX")
	w.op("JNZ  %sloop", name)
	w.op("MOVQ tile_c(AX), DI")
	for i := range rows {
		for v := range perRow {
			w.op("VMOVUPS %s%d, %d(DI)", register, i*perRow+v, v*bytes)
		}
		w.op("ADDQ SI, DI")
	}
	w.op("VZEROUPPER")
	w.op("RET")
}

func body512(w *writer, e element, rows int) {
	name := fmt.Sprintf("rows%d", rows)
	w.op("MOVQ tile_depth(AX), CX")
	if rows > rowsPerBase {
		w.op("LEAQ (R8)(R11*2), R9")
		w.op("ADDQ R10, R9")
	}
	w.op("CMPQ tile_accumulate(AX), $0")
	w.op("JEQ  %szero", name)
	for i := range rows {
		w.op("VMOVUPS.Z (DI), K1, Z%d", 2*i)
		w.op("VMOVUPS.Z 64(DI), K2, Z%d", 2*i+1)
		w.op("ADDQ SI, DI")
	}
	w.op("JMP  %sloop", name)
	w.label("%szero", name)
	for i := range 2 * rows {
		w.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	w.op("MOVQ tile_fetchStep(AX), SI")
	w.op("MOVQ tile_fetch(AX), AX")
	w.op("PCALIGN $32")
	w.label("%sloop", name)
	e.load(w, "(BX)", "Z28")
	e.load(w, fmt.Sprintf("%d(BX)", e.bytes(16)), "Z29")
	w.op("PREFETCHT1 (AX)")
	w.op("ADDQ SI, AX")
	for i := range rows {
		broadcast := 30 + i%2
		w.op("VBROADCASTSS %s, Z%d", rowAddress(i), broadcast)
		w.op("VFMADD231PS Z28, Z%d, Z%d", broadcast, 2*i)
		w.op("VFMADD231PS Z29, Z%d, Z%d", broadcast, 2*i+1)
	}
	w.op("ADDQ R13, R8")
	if rows > rowsPerBase {
		w.op("ADDQ R13, R9")
	}
	w.op("ADDQ DX, BX")
	w.op("DECQ CX")
	w.op("JNZ  %sloop", name)
	w.op("MOVQ t+0(FP), AX")
	w.op("MOVQ tile_cRow(AX), SI")
	w.op("SHLQ $2, SI")
	w.op("MOVQ tile_c(AX), DI")
	w.op("CMPQ tile_columns(AX), $32")
	w.op("JNE  %smasked", name)
	for i := range rows {
		w.op("VMOVUPS Z%d, (DI)", 2*i)
		w.op("VMOVUPS Z%d, 64(DI)", 2*i+1)
		w.op("ADDQ SI, DI")
	}
	w.op("VZEROUPPER")
	w.op("RET")
	w.label("%smasked", name)
	for i := range rows {
		w.op("VMOVUPS Z%d, K1, (DI)", 2*i)
		w.op("VMOVUPS Z%d, K2, 64(DI)", 2*i+1)
		w.op("ADDQ SI, DI")
	}
}

// tileRows256 is the number of rows of the largest AVX2 tile. Its 12
// accumulators leave four registers for B and the broadcast elements of A.
const tileRows256 = 6

// tileAVX2 writes tileAVX2 for one element of B. It takes a tile in two halves
// of 16 columns; row i of a half is in Y(2i) and Y(2i+1). R9 counts the columns
// left. Two rows take a whole panel at once: a half has too few chains.
func tileAVX2(w *writer, e element) {
	maskTable(w, "masks", panelWidth/2)
	w.function("tileAVX2"+e.suffix, "t *tile", 8)
	w.op("MOVQ t+0(FP), AX")
	loadStrides(w, e)
	w.op("MOVQ tile_%s(AX), BX", e.field)
	w.op("MOVQ tile_c(AX), DI")
	w.op("MOVQ tile_a(AX), R8")
	w.op("CMPQ tile_panels(AX), $1")
	w.op("JNE  wide1x2")
	w.op("MOVQ tile_columns(AX), R9")
	w.op("MOVQ tile_rows(AX), CX")
	w.op("CMPQ CX, $2")
	w.op("JNE  halves")
	w.op("CMPQ R9, $%d", panelWidth)
	w.op("JEQ  wide2x1")
	w.label("halves")
	dispatch(w, tileRows256)
	for r := 1; r <= tileRows256; r++ {
		w.label("rows%d", r)
		body256(w, e, r)
		w.op("VZEROUPPER")
		w.op("RET")
	}
	wide(w, e, "Y", 32, 1, 2)
	wide(w, e, "Y", 32, 2, 1)
}

// ahead256 is how far ahead a tile brings B to the level-1 cache, in bytes. Its
// two halves read every other cache line, of which the hardware fetches too few.
const ahead256 = 512

func body256(w *writer, e element, rows int) {
	name := fmt.Sprintf("rows%d", rows)
	w.label("%shalf", name)
	w.op("CMPQ tile_accumulate(AX), $0")
	w.op("JEQ  %szero", name)
	eachRow256(w, rows, name+"load", func(i int, masked bool) {
		if masked {
			w.op("VMASKMOVPS (DI), Y14, Y%d", 2*i)
			w.op("VMASKMOVPS 32(DI), Y15, Y%d", 2*i+1)
		} else {
			w.op("VMOVUPS (DI), Y%d", 2*i)
			w.op("VMOVUPS 32(DI), Y%d", 2*i+1)
		}
	})
	w.op("JMP  %sstart", name)
	w.label("%szero", name)
	for i := range 2 * rows {
		w.op("VXORPS Y%d, Y%d, Y%d", i, i, i)
	}
	w.label("%sstart", name)
	w.op("MOVQ tile_a(AX), R8")
	w.op("MOVQ tile_depth(AX), CX")
	w.op("PCALIGN $32")
	w.label("%sloop", name)
	e.load(w, "(BX)", "Y12")
	e.load(w, fmt.Sprintf("%d(BX)", e.bytes(8)), "Y13")
	w.op("PREFETCHT0 %d(BX)", ahead256)
	if !e.half {
		w.op("PREFETCHT0 %d(BX)", ahead256+64)
	}
	for i := range rows {
		broadcast := 14 + i%2
		w.op("VBROADCASTSS %s, Y%d", rowAddress(i), broadcast)
		w.op("VFMADD231PS Y12, Y%d, Y%d", broadcast, 2*i)
		w.op("VFMADD231PS Y13, Y%d, Y%d", broadcast, 2*i+1)
	}
	w.op("ADDQ R13, R8")
	w.op("ADDQ DX, BX")
	w.op("DECQ CX")
	w.op("JNZ  %sloop", name)
	eachRow256(w, rows, name+"store", func(i int, masked bool) {
		if masked {
			w.op("VMASKMOVPS Y%d, Y14, (DI)", 2*i)
			w.op("VMASKMOVPS Y%d, Y15, 32(DI)", 2*i+1)
		} else {
			w.op("VMOVUPS Y%d, (DI)", 2*i)
			w.op("VMOVUPS Y%d, 32(DI)", 2*i+1)
		}
	})
	w.op("SUBQ $16, R9")
	w.op("JLE  %send", name)
	w.op("ADDQ $64, DI")
	w.op("MOVQ tile_%s(AX), BX", e.field)
	w.op("ADDQ $%d, BX", e.bytes(16))
	w.op("JMP  %shalf", name)
	w.label("%send", name)
}

// eachRow256 writes the access to each row of C at DI, without masks and, for
// less than 16 columns, with the masks Y14 and Y15. It leaves DI unchanged and
// uses R8 and CX.
func eachRow256(w *writer, rows int, name string, access func(i int, masked bool)) {
	w.op("MOVQ DI, CX")
	w.op("CMPQ R9, $16")
	w.op("JLT  %smasked", name)
	for i := range rows {
		access(i, false)
		w.op("ADDQ SI, DI")
	}
	w.op("JMP  %sdone", name)
	w.label("%smasked", name)
	w.op("LEAQ masks<>+64(SB), R8")
	w.op("SHLQ $2, R9")
	w.op("SUBQ R9, R8")
	w.op("SHRQ $2, R9")
	w.op("VMOVUPS (R8), Y14")
	w.op("VMOVUPS 32(R8), Y15")
	for i := range rows {
		access(i, true)
		w.op("ADDQ SI, DI")
	}
	w.label("%sdone", name)
	w.op("MOVQ CX, DI")
}
