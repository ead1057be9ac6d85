package gguf

import "fmt"

// Type is the type of a tensor's elements, as numbered in the file (enum ggml_type).
type Type uint32

// The types that are read.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q2_K Type = 10
	Q3_K Type = 11
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	BF16 Type = 30
)

// kind is how the elements of a type are stored: in blocks, whose bytes decode
// turns into float32. dst holds the elements of one block.
type kind struct {
	name     string
	elements int
	bytes    int
	decode   func(dst []float32, block []byte)
}

const superBlock = 256 // elements of a block of a K type

var kinds = map[Type]kind{
	F32:  {"F32", 1, 4, decodeF32},
	F16:  {"F16", 1, 2, decodeF16},
	BF16: {"BF16", 1, 2, decodeBF16},
	Q4_0: {"Q4_0", 32, 18, decodeQ4_0},
	Q4_1: {"Q4_1", 32, 20, decodeQ4_1},
	Q5_0: {"Q5_0", 32, 22, decodeQ5_0},
	Q5_1: {"Q5_1", 32, 24, decodeQ5_1},
	Q8_0: {"Q8_0", 32, 34, decodeQ8_0},
	Q2_K: {"Q2_K", superBlock, 84, decodeQ2K},
	Q3_K: {"Q3_K", superBlock, 110, decodeQ3K},
	Q4_K: {"Q4_K", superBlock, 144, decodeQ4K},
	Q5_K: {"Q5_K", superBlock, 176, decodeQ5K},
	Q6_K: {"Q6_K", superBlock, 210, decodeQ6K},
}

// others are the names of types that are not read.
var others = map[Type]string{
	4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
	22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
	40: "NVFP4",
}

// String is the name of a type, as ggml has it.
func (t Type) String() string {
	if k, known := kinds[t]; known {
		return k.name
	}
	if name := others[t]; name != "" {
		return name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block returns the elements and the bytes of a block of the type; 0 for a type that is
// not read.
func (t Type) Block() (elements, bytes int) { return kinds[t].elements, kinds[t].bytes }
