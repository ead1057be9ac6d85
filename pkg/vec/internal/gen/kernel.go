package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

// lanes is the number of elements of one step of a loop on every target.
const lanes = 16

// target is an instruction set.
type target struct {
	suffix   string
	register string // letter of the vector registers
	parts    int    // vector registers of one step
	bytes    int    // size of a vector register
}

// kernel is a kernel being written. Its loop takes 16 elements a step, in one
// or two parts of a vector register each.
//
// A body names vector registers V0, V1, ...; V becomes Z or Y. V0 to V6 are
// free in each part. Scalars count down from V14, or V31 with AVX-512, and
// accumulators from V12. V15 masks the last step with AVX2, K1 with AVX-512.
// Pointers are in pointerRegisters in the order of the parameters, the number
// of elements left in CX.
type kernel struct {
	target
	signature
	w *asm.File

	pointers []string // parameter names
	halves   []string // those of them that point to bfloat16 values
	scalars  []string // names of float32 parameters, in S registers
	table    string   // name of the struct pointer parameter

	hoisted bool // the constants are in registers

	part   int
	masked bool // in the last step of less than 16 elements
}

var pointerRegisters = []string{"DI", "SI", "R8", "R9", "R10"}

// tableRegister points to the struct of scalars.
const tableRegister = "AX"

// op writes instructions, one a line. V stands for the vector register letter.
func (k *kernel) op(lines string, args ...any) {
	text := fmt.Sprintf(lines, args...)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, operands, _ := strings.Cut(line, " ")
		operands = registerNames.Replace(operands)
		operands = strings.ReplaceAll(operands, "#", k.register)
		k.w.Op("%s", strings.TrimSpace(name+" "+operands))
	}
}

// registerNames marks the vector registers in the operands of an instruction.
var registerNames = func() *strings.Replacer {
	var pairs []string
	for i := 31; i >= 0; i-- {
		pairs = append(pairs, fmt.Sprintf("V%d", i), fmt.Sprintf("#%d", i))
	}
	return strings.NewReplacer(pairs...)
}()

// wide tells whether the target is AVX-512.
func (k *kernel) wide() bool { return k.parts == 1 }

// pointer returns the register of the named pointer parameter.
func (k *kernel) pointer(name string) string {
	for i, p := range k.pointers {
		if p == name {
			return pointerRegisters[i]
		}
	}
	panic("no pointer " + name)
}

// load loads the present part of the named slice, masked in the last step.
func (k *kernel) load(name, register string) {
	offset := k.part * k.bytes
	switch {
	case !k.masked:
		k.op("VMOVUPS %d(%s), %s", offset, k.pointer(name), register)
	case k.wide():
		k.op("VMOVUPS.Z %d(%s), K1, %s", offset, k.pointer(name), register)
	default:
		k.op("VMASKMOVPS %d(%s), V15, %s", offset, k.pointer(name), register)
	}
}

// store stores to the present part of the named slice.
func (k *kernel) store(register, name string) {
	offset := k.part * k.bytes
	switch {
	case !k.masked:
		k.op("VMOVUPS %s, %d(%s)", register, offset, k.pointer(name))
	case k.wide():
		k.op("VMOVUPS %s, K1, %d(%s)", register, offset, k.pointer(name))
	default:
		k.op("VMASKMOVPS %s, V15, %d(%s)", register, offset, k.pointer(name))
	}
}

// loadHalf loads 16-bit elements of the named slice into 32-bit lanes.
func (k *kernel) loadHalf(name, register string) {
	k.op("VPMOVZXWD %d(%s), %s", k.part*k.bytes/2, k.pointer(name), register)
}

// storeHalf stores 32-bit lanes below 2¹⁶ as 16-bit elements.
func (k *kernel) storeHalf(register, name string) {
	offset := k.part * k.bytes / 2
	if k.wide() {
		k.op("VPMOVDW %s, %d(%s)", register, offset, k.pointer(name))
		return
	}
	k.op("VPACKUSDW %[1]s, %[1]s, %[1]s\nVPERMQ $8, %[1]s, %[1]s", register)
	k.op("VMOVDQU %s, %d(%s)", strings.Replace(register, "V", "X", 1), offset, k.pointer(name))
}

// advance moves all pointers on by one step.
func (k *kernel) advance() {
	for i, name := range k.pointers {
		bytes := 4 * lanes
		if slices.Contains(k.halves, name) {
			bytes = 2 * lanes
		}
		k.op("ADDQ $%d, %s", bytes, pointerRegisters[i])
	}
}

// loopWhole writes the loop over a number of elements that is a multiple of 16.
func (k *kernel) loopWhole(body func()) {
	k.op("PCALIGN $32")
	k.w.Label("loop")
	k.step(body)
	k.advance()
	k.op("SUBQ $%d, CX\nJNE  loop", lanes)
}

// scalar returns the register that holds the named scalar in every lane.
func (k *kernel) scalar(name string) string {
	for i, s := range k.scalars {
		if s == name {
			if k.wide() {
				return fmt.Sprintf("V%d", 31-i)
			}
			return fmt.Sprintf("V%d", 14-i)
		}
	}
	panic("no scalar " + name)
}

// accumulator returns the register of partial results number i of the present
// part, below the scalars.
func (k *kernel) accumulator(i int) string {
	return fmt.Sprintf("V%d", 12-k.part-k.parts*i)
}

// loop writes the loop over the elements: body for each part of each full step,
// and masked for the rest.
func (k *kernel) loop(body func()) {
	k.op("SUBQ $%d, CX\nJLT  tail\nPCALIGN $32", lanes)
	k.w.Label("loop")
	k.step(body)
	k.advance()
	k.op("SUBQ $%d, CX\nJGE  loop", lanes)
	k.w.Label("tail")
	k.op("ADDQ $%d, CX\nJEQ  done", lanes)
	if k.wide() {
		k.op("MOVL $-1, DX\nSHLL CX, DX\nNOTL DX\nKMOVW DX, K1")
	} else {
		k.op("LEAQ masks<>+%d(SB), DX\nSHLQ $2, CX\nSUBQ CX, DX", 4*lanes)
	}
	k.masked = true
	k.step(body)
	k.masked = false
	k.w.Label("done")
}

func (k *kernel) step(body func()) {
	for k.part = range k.parts {
		if k.masked && !k.wide() {
			k.op("VMOVUPS %d(DX), V15", k.part*k.bytes)
		}
		body()
	}
	k.part = 0
}

// parameters loads the arguments and returns the offset of the result and the
// size of all.
func (k *kernel) parameters() (code string, resultOffset, size int) {
	var b strings.Builder
	offset := 0
	for _, group := range groups(k.params) {
		for _, name := range group.names {
			switch group.typ {
			case "*float32", "*uint32", "*uint16":
				if group.typ == "*uint16" {
					k.halves = append(k.halves, name)
				}
				fmt.Fprintf(&b, "MOVQ %s+%d(FP), %s\n", name, offset, pointerRegisters[len(k.pointers)])
				k.pointers = append(k.pointers, name)
				offset += 8
			case "int":
				fmt.Fprintf(&b, "MOVQ %s+%d(FP), CX\n", name, offset)
				offset += 8
			case "float32":
				k.scalars = append(k.scalars, name)
				fmt.Fprintf(&b, "VBROADCASTSS %s+%d(FP), %s\n", name, offset, k.scalar(name))
				offset += 4
			default:
				k.table = name
				fmt.Fprintf(&b, "MOVQ %s+%d(FP), %s\n", name, offset, tableRegister)
				offset += 8
			}
		}
	}
	resultOffset = (offset + 7) &^ 7
	switch k.result {
	case "float32":
		return b.String(), resultOffset, resultOffset + 4
	case "float64":
		return b.String(), resultOffset, resultOffset + 8
	}
	return b.String(), 0, offset
}

type group struct {
	names []string
	typ   string
}

// groups splits a parameter list into groups of one type.
func groups(params string) []group {
	var all []group
	var names []string
	for field := range strings.SplitSeq(params, ", ") {
		name, typ, ok := strings.Cut(field, " ")
		names = append(names, name)
		if ok {
			all = append(all, group{names, typ})
			names = nil
		}
	}
	return all
}

// writeKernel writes one function.
func writeKernel(w *asm.File, t target, s signature) {
	k := &kernel{target: t, signature: s, w: w}
	code, resultOffset, size := k.parameters()
	w.Function(s.name+t.suffix, strings.TrimSpace(fmt.Sprintf("(%s) %s", s.params, s.result)), size)
	k.op("%s", strings.TrimSuffix(code, "\n"))
	s.body(k)
	switch s.result {
	case "float32":
		k.op("VMOVSS X0, ret+%d(FP)", resultOffset)
	case "float64":
		k.op("VMOVSD X0, ret+%d(FP)", resultOffset)
	}
	k.op("VZEROUPPER\nRET")
}
