package main

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

// Go's assembler has no names for AMX's instructions: they are written as bytes, in
// VEX's form of three bytes (Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2, section 2.3). All registers are of the eight old ones, and all
// opcodes are in map 2.

// The numbers of registers in instructions.
const (
	cx, bx, si, di = 1, 3, 6, 7
)

// vex writes an instruction: prefix is 0 for none, 2 for F3, 3 for F2; source is the
// register that VEX names, 0 where it names none.
func vex(w *asm.File, text string, prefix, source, opcode int, rest ...int) {
	line := ""
	for _, b := range append([]int{0xc4, 0xe2, (^source&15)<<3 | prefix, opcode}, rest...) {
		line += fmt.Sprintf("BYTE $0x%02x; ", b)
	}
	w.Op("%s// %s", line, text)
}

// tileAccess loads or stores a tile whose rows begin at base+offset and are index bytes
// apart.
func tileAccess(w *asm.File, name string, prefix, tile, base, index, offset int) {
	operand := []int{tile<<3 | 4, index<<3 | base} // ModR/M with a SIB byte
	switch {
	case offset == 0:
	case offset < 128:
		operand[0] |= 1 << 6
		operand = append(operand, offset)
	default:
		operand[0] |= 2 << 6
		operand = append(operand, offset&255, offset>>8, 0, 0)
	}
	vex(w, fmt.Sprintf("%s tmm%d, [%d + r%d + r%d]", name, tile, offset, base, index), prefix, 0, 0x4b, operand...)
}

func tileLoad(w *asm.File, tile, base, index, offset int) {
	tileAccess(w, "tileloadd", 3, tile, base, index, offset)
}

func tileStore(w *asm.File, tile, base, index, offset int) {
	tileAccess(w, "tilestored", 2, tile, base, index, offset)
}

// tileProduct adds to a tile the product of tile a, of rows of 16 pairs, and tile b, of
// 16 rows of pairs.
func tileProduct(w *asm.File, to, a, b int) {
	vex(w, fmt.Sprintf("tdpbf16ps tmm%d, tmm%d, tmm%d", to, a, b), 2, b, 0x5c, 3<<6|to<<3|a)
}

// prefetchC asks for a line of C to write to, offset bytes after DX: PREFETCHW, which Go's
// assembler has no name for either.
func prefetchC(w *asm.File, offset int) {
	w.Op("BYTE $0x0f; BYTE $0x0d; BYTE $0x4a; BYTE $0x%02x; // prefetchw [rdx + %d]", offset, offset)
}

// The tiles of tileAMX: C in 0 to 3, of rows 0 to 15 and 16 to 31 by columns 0 to 15 and
// 16 to 31; A in 4 and 5; B in 6 and 7. A second half that is not there is left out.
//
//	R14  C at the present panel             R12  bytes from row to row of C
//	R15  B at the present panel             R13  panels left
//	BX   A at the present block of depths   SI   bytes from row to row of A
//	CX   B at the present block             DI   bytes from pair to pair of B
//	R8   blocks left                        R9   bytes from block to block of A
//	DX   the row of the next panel's C that is fetched, up to R10
//
// While C is loaded and stored, BX and CX are its halves of rows, and SI is the number
// of bytes from row to row of C. R10 and R11 are columns and rows then.
func amx(w *asm.File) {
	w.Function("tileAMX", "(t *tile)", 8)
	w.Op("MOVQ t+0(FP), AX")
	w.Op("LEAQ tile_config(AX), BX")
	vex(w, "ldtilecfg [rbx]", 0, 0, 0x49, bx)
	w.Op("MOVQ tile_c(AX), R14")
	w.Op("MOVQ tile_cRow(AX), R12")
	w.Op("SHLQ $2, R12")
	w.Op("MOVQ tile_half(AX), R15")
	w.Op("MOVQ tile_panels(AX), R13")
	w.Op("MOVQ tile_aDepth(AX), R9")
	w.Op("MOVQ $%d, DI", pairBytes)
	w.Label("panel")
	w.Op("MOVQ tile_columns(AX), R10")
	w.Op("MOVQ tile_rows(AX), R11")
	part := 0
	// quarters does what is to be done for the quarters of C that are there.
	quarters := func(name string, do func(tile int)) {
		part++
		label := fmt.Sprintf("%s%d", name, part)
		do(0)
		w.Op("CMPQ R10, $16")
		w.Op("JLE  %srows", label)
		do(1)
		w.Op("CMPQ R11, $16")
		w.Op("JLE  %send", label)
		do(3)
		w.Label("%srows", label)
		w.Op("CMPQ R11, $16")
		w.Op("JLE  %send", label)
		do(2)
		w.Label("%send", label)
	}
	c := func(name string, access func(w *asm.File, tile, base, index, offset int)) {
		w.Op("MOVQ R12, SI")
		w.Op("MOVQ R14, BX")
		w.Op("MOVQ SI, CX")
		w.Op("SHLQ $4, CX")
		w.Op("ADDQ BX, CX")
		quarters(name, func(tile int) { access(w, tile, []int{bx, cx}[tile/2], si, 64*(tile%2)) })
	}
	w.Op("CMPQ tile_accumulate(AX), $0")
	w.Op("JEQ  zero")
	c("load", tileLoad)
	w.Op("JMP  start")
	w.Label("zero")
	quarters("zero", func(tile int) { vex(w, fmt.Sprintf("tilezero tmm%d", tile), 3, 0, 0x49, 3<<6|tile<<3) })
	w.Label("start")
	w.Op("MOVQ tile_rounded(AX), BX")
	w.Op("MOVQ R15, CX")
	w.Op("MOVQ $64, SI")
	w.Op("MOVQ tile_depth(AX), R8")
	w.Op("SHRQ $5, R8")
	w.Op("CMPQ R10, $16")
	w.Op("JLE  loop")
	w.Op("CMPQ R11, $16")
	w.Op("JLE  loop")
	wholeTile(w)
	w.Op("PCALIGN $32")
	w.Label("loop")
	tileLoad(w, 4, bx, si, 0)
	tileLoad(w, 6, cx, di, 0)
	tileProduct(w, 0, 4, 6)
	w.Op("CMPQ R10, $16")
	w.Op("JLE  rows")
	tileLoad(w, 7, cx, di, 64)
	tileProduct(w, 1, 4, 7)
	w.Op("JMP  next") // with one half of rows
	w.Label("rows")
	w.Op("CMPQ R11, $16")
	w.Op("JLE  next")
	tileLoad(w, 5, bx, si, 16*64)
	tileProduct(w, 2, 5, 6)
	w.Label("next")
	w.Op("ADDQ R9, BX")
	w.Op("ADDQ $%d, CX", pairsPerBlock*pairBytes)
	w.Op("DECQ R8")
	w.Op("JNZ  loop")
	w.Label("store")
	c("store", tileStore)
	w.Op("ADDQ $%d, R14", pairBytes)
	w.Op("MOVQ tile_panelStep(AX), CX")
	w.Op("LEAQ (R15)(CX*2), R15")
	w.Op("DECQ R13")
	w.Op("JNZ  panel")
	vex(w, "tilerelease", 0, 0, 0x49, 3<<6)
	w.Op("RET")
}

// fetchBlocks is how many blocks ahead B is fetched.
const fetchBlocks = 3

// wholeTile goes through the depths of a tile of more than 16 rows and columns, and on to
// store. It fetches the next panel's C, four rows with each block.
func wholeTile(w *asm.File) {
	w.Op("MOVQ R14, DX")
	w.Op("MOVQ R14, R10") // nothing is fetched after the last panel
	w.Op("CMPQ R13, $1")
	w.Op("JEQ  whole")
	w.Op("ADDQ $%d, DX", pairBytes)
	w.Op("MOVQ R12, R10")
	w.Op("SHLQ $5, R10")
	w.Op("ADDQ DX, R10")
	w.Op("PCALIGN $32")
	w.Label("whole")
	line := 0
	// Lines of B that are needed some blocks later.
	fetch := func(count int) {
		for range count {
			w.Op("PREFETCHT0 %d(CX)", fetchBlocks*pairsPerBlock*pairBytes+64*line)
			line++
		}
	}
	tileLoad(w, 4, bx, si, 0)
	fetch(4)
	tileLoad(w, 6, cx, di, 0)
	fetch(4)
	tileProduct(w, 0, 4, 6)
	fetch(4)
	tileLoad(w, 7, cx, di, 64)
	fetch(4)
	tileProduct(w, 1, 4, 7)
	fetch(4)
	tileLoad(w, 5, bx, si, 16*64)
	fetch(4)
	tileProduct(w, 2, 5, 6)
	fetch(4)
	tileProduct(w, 3, 5, 7)
	fetch(4)
	w.Op("ADDQ R9, BX")
	w.Op("ADDQ $%d, CX", pairsPerBlock*pairBytes)
	w.Op("CMPQ DX, R10")
	w.Op("JAE  fetched")
	for range 4 {
		prefetchC(w, 0)
		prefetchC(w, 64)
		w.Op("ADDQ R12, DX")
	}
	w.Label("fetched")
	w.Op("DECQ R8")
	w.Op("JNZ  whole")
	w.Op("MOVQ tile_columns(AX), R10")
	w.Op("JMP  store")
}
