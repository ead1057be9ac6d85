package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

// Registers of the tile kernels that sum in pairs, beside those of tile.go:
//
//	R8   A at the present depth, which is even   R9   A one depth further
//	R13  bytes from pair to pair of A            BX   the present pair of B
//	CX   blocks of 32 depths left                DX   pairs of the block left
//
// Rows 0 to 6 of A are reached from R8 and from R9.

// pairBytes is the size of a pair of depths of a panel of B.
const pairBytes = 4 * panelWidth

// pairsPerBlock is the number of pairs that are summed from zero.
const pairsPerBlock = 16

// controlFlushed is MXCSR as it is, with denormals as zeros in operands and results.
const controlFlushed = 0x1f80 | 1<<6 | 1<<15

// pairAddress is the operand of row i of A, at an even depth or the odd one after it.
func pairAddress(i int, odd bool) string {
	if odd {
		return "(R9)" + rowAddress(i)[len("(R8)"):]
	}
	return rowAddress(i)
}

// pairPrologue loads what all bodies need, and has denormals count as zeros until
// pairEpilogue.
func pairPrologue(w *asm.File, name string) {
	w.Data("control", []string{fmt.Sprintf("$%#x", controlFlushed)})
	w.Function(name, "(t *tile)", 8)
	w.Op("MOVQ t+0(FP), AX")
	w.Op("STMXCSR tile_control(AX)")
	w.Op("LDMXCSR control<>(SB)")
	w.Op("MOVQ tile_aRow(AX), R10")
	w.Op("SHLQ $2, R10")
	w.Op("LEAQ (R10)(R10*2), R11")
	w.Op("LEAQ (R10)(R10*4), R12")
	w.Op("MOVQ tile_cRow(AX), SI")
	w.Op("SHLQ $2, SI")
	w.Op("MOVQ tile_rows(AX), CX")
}

func pairEpilogue(w *asm.File) {
	w.Op("LDMXCSR tile_control(AX)")
	w.Op("VZEROUPPER")
	w.Op("RET")
}

// startA points R8 and R9 to the first pair of A, and loads the step to the next.
func startA(w *asm.File) {
	w.Op("MOVQ tile_a(AX), R8")
	w.Op("MOVQ tile_aDepth(AX), R13")
	w.Op("LEAQ (R8)(R13*4), R9")
	w.Op("SHLQ $3, R13")
}

// eachPair writes the loops over the blocks of 32 depths and over their pairs, with
// what is done for a pair and at the end of a block. Each block begins with zeros in
// the accumulators.
func eachPair(w *asm.File, name, register string, accumulators []int, pair, end func()) {
	w.Op("MOVQ tile_depth(AX), CX")
	w.Op("SHRQ $5, CX")
	w.Label("%sblock", name)
	for _, i := range accumulators {
		w.Op("VXORPS %[1]s%[2]d, %[1]s%[2]d, %[1]s%[2]d", register, i)
	}
	w.Op("MOVQ $%d, DX", pairsPerBlock)
	w.Op("PCALIGN $32")
	w.Label("%spair", name)
	pair()
	w.Op("ADDQ R13, R8")
	w.Op("ADDQ R13, R9")
	w.Op("ADDQ $%d, BX", pairBytes)
	w.Op("DECQ DX")
	w.Op("JNZ  %spair", name)
	end()
	w.Op("DECQ CX")
	w.Op("JNZ  %sblock", name)
}

// pairRows512 is the number of rows of the largest AVX-512 tile: 28 accumulators, two
// chains of two vectors for each row, leave four registers for B.
const pairRows512 = 7

// pairs512 writes tilePairsAVX512. The even chains of row i are in Z(2i) and Z(2i+1),
// the odd ones 14 registers further; the elements of A are broadcast from memory.
func pairs512(w *asm.File) {
	convertPairs(w, "Z", 16)
	roundBlocks512(w)
	pairPrologue(w, "tilePairsAVX512")
	w.Op("MOVQ CX, DX")
	w.Op("MOVQ tile_columns(AX), CX")
	w.Op("MOVQ $-1, R9")
	w.Op("SHLQ CX, R9")
	w.Op("NOTQ R9")
	w.Op("KMOVD R9, K1")
	w.Op("SHRQ $16, R9")
	w.Op("KMOVD R9, K2")
	w.Op("MOVL $0xaaaaaaaa, R9") // the upper words of pairs
	w.Op("KMOVD R9, K3")
	w.Op("MOVQ tile_half(AX), BX")
	w.Op("MOVQ DX, CX")
	dispatch(w, pairRows512)
	for r := 1; r <= pairRows512; r++ {
		pairBody512(w, r)
	}
}

func pairBody512(w *asm.File, rows int) {
	name := fmt.Sprintf("rows%d", rows)
	const odd = 2 * pairRows512
	var accumulators []int
	for i := range 2 * rows {
		accumulators = append(accumulators, i, odd+i)
	}
	w.Label("%s", name)
	w.Op("CMPQ tile_accumulate(AX), $0")
	w.Op("JNE  %sstart", name)
	w.Op("VPXORD Z28, Z28, Z28")
	w.Op("MOVQ tile_c(AX), DI")
	for range rows {
		w.Op("VMOVUPS Z28, K1, (DI)")
		w.Op("VMOVUPS Z28, K2, 64(DI)")
		w.Op("ADDQ SI, DI")
	}
	w.Label("%sstart", name)
	startA(w)
	eachPair(w, name, "Z", accumulators, func() {
		for v := range 2 {
			w.Op("PREFETCHT1 (const_fetchAhead+%d)(BX)", 64*v)
			w.Op("VMOVDQU32 %d(BX), Z%d", 64*v, 29+2*v)
			w.Op("VPSLLD $16, Z%d, Z%d", 29+2*v, 28+2*v)
			w.Op("VMOVDQU16.Z Z%[1]d, K3, Z%[1]d", 29+2*v)
		}
		for i := range rows {
			w.Op("VFMADD231PS.BCST %s, Z28, Z%d", pairAddress(i, false), 2*i)
			w.Op("VFMADD231PS.BCST %s, Z30, Z%d", pairAddress(i, false), 2*i+1)
			w.Op("VFMADD231PS.BCST %s, Z29, Z%d", pairAddress(i, true), odd+2*i)
			w.Op("VFMADD231PS.BCST %s, Z31, Z%d", pairAddress(i, true), odd+2*i+1)
		}
	}, func() {
		w.Op("MOVQ tile_c(AX), DI")
		for i := range rows {
			for v := range 2 {
				acc := 2*i + v
				w.Op("VADDPS Z%d, Z%d, Z%d", odd+acc, acc, acc)
				w.Op("VMOVUPS.Z %d(DI), K%d, Z28", 64*v, v+1)
				w.Op("VADDPS Z%[1]d, Z28, Z%[1]d", acc)
				w.Op("VMOVUPS Z%d, K%d, %d(DI)", acc, v+1, 64*v)
			}
			w.Op("ADDQ SI, DI")
		}
	})
	pairEpilogue(w)
}

// pairRows256 is the number of rows of the largest AVX2 tile, which takes 8 columns
// at a time: 12 accumulators leave two registers for B and two for A.
const pairRows256 = 6

// pairs256 writes tilePairsAVX2. The even chain of row i is in Y(2i), the odd one in
// Y(2i+1). R14 counts the columns left; the present ones are R15 bytes from the first,
// in C as in a pair of B. Their mask is kept in tile_mask.
func pairs256(w *asm.File) {
	w.MaskTable("masks", 8)
	convertPairs(w, "Y", 8)
	pairPrologue(w, "tilePairsAVX2")
	w.Op("MOVQ tile_columns(AX), R14")
	w.Op("XORQ R15, R15")
	dispatch(w, pairRows256)
	for r := 1; r <= pairRows256; r++ {
		pairBody256(w, r)
	}
}

func pairBody256(w *asm.File, rows int) {
	name := fmt.Sprintf("rows%d", rows)
	var accumulators []int
	for i := range 2 * rows {
		accumulators = append(accumulators, i)
	}
	w.Label("%s", name)
	w.Op("LEAQ masks<>+32(SB), R8") // the mask of the columns that are left, of 8
	w.Op("MOVQ $8, CX")
	w.Op("CMPQ R14, CX")
	w.Op("CMOVQLT R14, CX")
	w.Op("SHLQ $2, CX")
	w.Op("SUBQ CX, R8")
	w.Op("VMOVUPS (R8), Y15")
	w.Op("VMOVUPS Y15, tile_mask(AX)")
	w.Op("CMPQ tile_accumulate(AX), $0")
	w.Op("JNE  %sstart", name)
	w.Op("VXORPS Y14, Y14, Y14")
	w.Op("MOVQ tile_c(AX), DI")
	w.Op("ADDQ R15, DI")
	for range rows {
		w.Op("VMASKMOVPS Y14, Y15, (DI)")
		w.Op("ADDQ SI, DI")
	}
	w.Label("%sstart", name)
	startA(w)
	w.Op("MOVQ tile_half(AX), BX")
	w.Op("ADDQ R15, BX")
	eachPair(w, name, "Y", accumulators, func() {
		w.Op("PREFETCHT1 const_fetchAhead(BX)")
		w.Op("VMOVUPS (BX), Y13")
		w.Op("VPSLLD $16, Y13, Y12")
		w.Op("VANDPS upper<>(SB), Y13, Y13")
		for i := range rows {
			w.Op("VBROADCASTSS %s, Y14", pairAddress(i, false))
			w.Op("VFMADD231PS Y12, Y14, Y%d", 2*i)
			w.Op("VBROADCASTSS %s, Y15", pairAddress(i, true))
			w.Op("VFMADD231PS Y13, Y15, Y%d", 2*i+1)
		}
	}, func() {
		w.Op("MOVQ tile_c(AX), DI")
		w.Op("ADDQ R15, DI")
		w.Op("VMOVUPS tile_mask(AX), Y15")
		for i := range rows {
			w.Op("VADDPS Y%d, Y%d, Y%d", 2*i+1, 2*i, 2*i)
			w.Op("VMASKMOVPS (DI), Y15, Y14")
			w.Op("VADDPS Y%[1]d, Y14, Y%[1]d", 2*i)
			w.Op("VMASKMOVPS Y%d, Y15, (DI)", 2*i)
			w.Op("ADDQ SI, DI")
		}
	})
	w.Op("ADDQ $32, R15")
	w.Op("SUBQ $8, R14")
	w.Op("JG   %s", name)
	pairEpilogue(w)
}

// convertPairs writes the kernels that round two rows of 32 to a pair of a panel, and
// that widen a pair to two rows.
func convertPairs(w *asm.File, register string, lanes int) {
	level := map[string]string{"Y": "AVX2", "Z": "AVX512"}[register]
	for _, c := range []struct {
		name string
		bits uint32
	}{{"lowest", 1}, {"belowHalf", 0x7fff}, {"quiet", 0x00400000}, {"upper", 0xffff0000}} {
		word := fmt.Sprintf("$%#x", uint64(c.bits)<<32|uint64(c.bits))
		w.Data(c.name, slices.Repeat([]string{word}, lanes/2))
	}
	bytes := 4 * lanes
	w.Function("roundPairs"+level, "(dst *uint16, src *float32, pairs int)", 24)
	loopPairs(w, func() {
		for at := 0; at < pairBytes; at += bytes {
			roundVector(w, register, fmt.Sprintf("%d(SI)", at), 0)
			roundVector(w, register, fmt.Sprintf("%d(SI)", pairBytes+at), 1)
			w.Op("VPSRLD $16, %[1]s0, %[1]s0", register)
			w.Op("VANDPS upper<>(SB), %[1]s1, %[1]s1", register)
			w.Op("VORPS %[1]s1, %[1]s0, %[1]s0", register)
			w.Op("VMOVUPS %s0, %d(DI)", register, at)
		}
		w.Op("ADDQ $%d, SI", 2*pairBytes)
		w.Op("ADDQ $%d, DI", pairBytes)
	})
	w.Function("widenPairs"+level, "(dst *float32, src *uint16, pairs int)", 24)
	loopPairs(w, func() {
		for at := 0; at < pairBytes; at += bytes {
			w.Op("VMOVUPS %d(SI), %s0", at, register)
			w.Op("VPSLLD $16, %[1]s0, %[1]s1", register)
			w.Op("VANDPS upper<>(SB), %[1]s0, %[1]s0", register)
			w.Op("VMOVUPS %s1, %d(DI)", register, at)
			w.Op("VMOVUPS %s0, %d(DI)", register, pairBytes+at)
		}
		w.Op("ADDQ $%d, SI", pairBytes)
		w.Op("ADDQ $%d, DI", 2*pairBytes)
	})
}

// roundBlocks512 writes the kernel that rounds blocks of 32 values, and lays them step
// bytes apart.
func roundBlocks512(w *asm.File) {
	w.Function("roundBlocksAVX512", "(dst *uint16, src *float32, step, blocks int)", 32)
	w.Op("MOVQ dst+0(FP), DI")
	w.Op("MOVQ src+8(FP), SI")
	w.Op("MOVQ step+16(FP), DX")
	w.Op("MOVQ blocks+24(FP), CX")
	w.Op("PCALIGN $32")
	w.Label("loop")
	for half := range 2 {
		roundVector(w, "Z", fmt.Sprintf("%d(SI)", 64*half), half)
		w.Op("VPSRLD $16, Z%[1]d, Z%[1]d", half)
		w.Op("VPMOVDW Z%d, %d(DI)", half, 32*half)
	}
	w.Op("ADDQ $%d, SI", pairBytes)
	w.Op("ADDQ DX, DI")
	w.Op("DECQ CX")
	w.Op("JNZ  loop")
	w.Op("VZEROUPPER")
	w.Op("RET")
}

// loopPairs writes the body of a function of a destination in DI, a source in SI and
// a number of pairs.
func loopPairs(w *asm.File, body func()) {
	w.Op("MOVQ dst+0(FP), DI")
	w.Op("MOVQ src+8(FP), SI")
	w.Op("MOVQ pairs+16(FP), CX")
	w.Op("PCALIGN $32")
	w.Label("loop")
	body()
	w.Op("DECQ CX")
	w.Op("JNZ  loop")
	w.Op("VZEROUPPER")
	w.Op("RET")
}

// roundVector loads float32 values to register number to, and rounds them to bfloat16
// in their upper halves, as vec.RoundBF16 does; registers from 2 on are scratch.
func roundVector(w *asm.File, register, address string, to int) {
	op := func(format string, args ...any) {
		w.Op("%s", strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf(format, args...), "V_", register), "V#", fmt.Sprint(register, to)))
	}
	op("VMOVUPS %s, V_2", address)
	op("VPSRLD $16, V_2, V_3")
	op("VANDPS lowest<>(SB), V_3, V_3")
	op("VPADDD belowHalf<>(SB), V_3, V_3")
	op("VPADDD V_3, V_2, V#")
	op("VORPS quiet<>(SB), V_2, V_3")
	if register == "Z" {
		op("VCMPPS $3, V_2, V_2, K1")
		op("VMOVDQA32 V_3, K1, V#")
		return
	}
	op("VCMPPS $3, V_2, V_2, V_2")
	op("VBLENDVPS V_2, V_3, V#, V#")
}
