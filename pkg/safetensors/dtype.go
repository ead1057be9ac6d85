package safetensors

import (
	"cmp"
	"encoding/binary"
	"math"
	"unsafe"
)

// DType is the type of a tensor's elements, as written in the header.
type DType string

// The types that are read as float32 and written from it.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

// elementBytes is the size of one element of every type of the format.
var elementBytes = map[DType]int64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1,
	"I16": 2, "U16": 2, F16: 2, BF16: 2,
	"I32": 4, "U32": 4, F32: 4,
	"I64": 8, "U64": 8, "F64": 8,
}

// Bytes is the size of one element; 0 for a type that the format has not.
func (d DType) Bytes() int { return int(elementBytes[d]) }

// Float reports whether the type is one of F32, F16 and BF16.
func (d DType) Float() bool { return conversions[d].widen != nil }

// conversion turns elements of a type into float32, exactly, and back: rounding to
// nearest, ties to even, with NaN kept NaN and what is out of range made infinite.
type conversion struct {
	widen  func(dst []float32, raw []byte)
	narrow func(raw []byte, src []float32)
	limit  float32 // the least magnitude that rounds to infinity
}

var conversions = map[DType]conversion{
	F32:  {widenF32, narrowF32, float32(math.Inf(1))},
	F16:  {widenF16, narrowF16, 65520},         // halfway between 65504, the largest, and 2^16
	BF16: {widenBF16, narrowBF16, 0x1.ffp+127}, // halfway between 255·2^120 and 2^128
}

// inMemory are the bytes of values. Processors that Lathe is built for have them in the
// order of the file.
func inMemory(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

func widenF32(dst []float32, raw []byte) { copy(inMemory(dst), raw) }

func widenBF16(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
	}
}

func widenF16(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = halfToFloat(binary.LittleEndian.Uint16(raw[2*i:]))
	}
}

func narrowF32(raw []byte, src []float32) { copy(raw, inMemory(src)) }

func narrowBF16(raw []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(raw[2*i:], floatToBrain(x))
	}
}

func narrowF16(raw []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(raw[2*i:], floatToHalf(x))
	}
}

// floatToBrain rounds to bfloat16, the upper half of a float32.
func floatToBrain(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40 // quiet, so that a payload in the lower half leaves a NaN
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// halfToFloat widens an IEEE 754 binary16 value.
func halfToFloat(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exponent := uint32(h>>10) & 0x1f
	mantissa := uint32(h) & 0x3ff
	switch exponent {
	case 0: // zero or subnormal: mantissa times 2^-24
		value := float32(mantissa) * 0x1p-24
		return math.Float32frombits(math.Float32bits(value) | sign)
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | mantissa<<13)
}

// floatToHalf rounds to IEEE 754 binary16.
func floatToHalf(x float32) uint16 {
	const (
		infinity = 0xff << 23
		tooLarge = (127 + 16) << 23 // 2^16
		normal   = (127 - 14) << 23 // 2^-14, the least normal value
	)
	bits := math.Float32bits(x)
	sign, magnitude := uint16(bits>>16)&0x8000, bits&0x7fff_ffff
	switch {
	case magnitude > infinity:
		return sign | 0x7e00 | uint16(magnitude>>13)&0x3ff
	case magnitude >= tooLarge:
		return sign | 0x7c00
	case magnitude >= normal:
		rounded := magnitude + 0xfff + magnitude>>13&1
		return sign | uint16((rounded-(127-15)<<23)>>13)
	}
	// Neighbours of 1/2 are 2^-24 apart, as subnormal halves are: the sum
	// rounds as wanted.
	sum := math.Float32frombits(magnitude) + 0.5
	return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
}

// Round rounds values to the type: to nearest, ties to even. What is out of
// range becomes infinite.
func (d DType) Round(values []float32) {
	if cmp.Or(d, F32) == F32 {
		return
	}
	c := conversions[d]
	var raw [4096]byte
	for len(values) > 0 {
		n := min(len(values), len(raw)/d.Bytes())
		c.narrow(raw[:n*d.Bytes()], values[:n])
		c.widen(values[:n], raw[:n*d.Bytes()])
		values = values[n:]
	}
}
