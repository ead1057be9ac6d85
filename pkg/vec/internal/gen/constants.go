package main

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

// constants are those of exp and its users. The numbers repeat those of exp.go,
// whose tests compare the kernels bit for bit.
var constants = []constant{
	{"one", "0x3f800000"},
	{"sign", "0x80000000"},
	{"infinity", "0x7f800000"},
	{"log2E", "0x3fb8aa3b"},
	{"magic", "0x4b400000"},
	{"ln2Hi", "0x3f317200"},
	{"ln2Lo", "0x35bfbe8e"},
	{"q0", "0x3efffffe"},
	{"q1", "0x3e2aaa49"},
	{"q2", "0x3d2aac79"},
	{"q3", "0x3c091d10"},
	{"q4", "0x3ab511e8"},
	{"expMin", "0xc2aeac4f"},
	{"expMax", "0x42b17217"},
}

// integers are constants that are never hoisted.
var integers = []constant{
	{"lowest", "0x00000001"},
	{"belowHalf", "0x00007fff"},
	{"quiet", "0x00400000"},
	{"lowerHalf", "0x0000ffff"},
}

// A constant is a 32-bit value that kernels read from memory.
type constant struct{ name, bits string }

// writeConstants writes a vector of each constant, and the table of masks: 16
// set and 16 clear lanes, so that the mask of the first n lanes starts n lanes
// before the middle.
func writeConstants(w *asm.File) {
	for _, c := range slices.Concat(constants, integers) {
		w.Data(c.name, slices.Repeat([]string{"$" + c.bits + c.bits[2:]}, lanes/2))
	}
	w.MaskTable("masks", lanes)
}

// hoist loads all constants into registers before a loop, if the target has
// enough of them: V13 and up.
func (k *kernel) hoist() {
	if !k.wide() {
		return
	}
	for i, c := range constants {
		k.op("VBROADCASTSS %s<>(SB), V%d", c.name, firstConstant+i)
	}
	k.hoisted = true
}

const firstConstant = 13

// constant returns the operand of a constant: a register if it was hoisted.
func (k *kernel) constant(name string) string {
	for i, c := range constants {
		if c.name == name && k.hoisted {
			return fmt.Sprintf("V%d", firstConstant+i)
		}
	}
	return name + "<>(SB)"
}
