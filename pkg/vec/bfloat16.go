package vec

import "math"

// A bfloat16 is the upper half of a float32: 8 bits of exponent, 7 of mantissa.

// WidenBF16 sets dst[i] to the bfloat16 src[i].
func WidenBF16(dst []float32, src []uint16) {
	n := len(dst)
	if len(src) != n {
		panic(badLength)
	}
	whole := wholeSteps(n)
	switch {
	case whole == 0:
	case Active() == AVX512:
		widenAVX512(&dst[0], &src[0], whole)
	default:
		widenAVX2(&dst[0], &src[0], whole)
	}
	widenGo(dst[whole:], src[whole:])
}

// RoundBF16 sets dst[i] to the bfloat16 next to src[i], to the one with an even
// mantissa of two that are equally near. Values from 2¹²⁸·(1 - 2⁻⁹) on become
// infinite; a NaN stays one.
func RoundBF16(dst []uint16, src []float32) {
	n := len(dst)
	if len(src) != n {
		panic(badLength)
	}
	whole := wholeSteps(n)
	switch {
	case whole == 0:
	case Active() == AVX512:
		roundAVX512(&dst[0], &src[0], whole)
	default:
		roundAVX2(&dst[0], &src[0], whole)
	}
	roundGo(dst[whole:], src[whole:])
}

// RoundToBF16 sets each element of x to the bfloat16 next to it, as RoundBF16 does.
func RoundToBF16(x []float32) {
	var half [1024]uint16
	for len(x) > 0 {
		n := min(len(x), len(half))
		RoundBF16(half[:n], x[:n])
		WidenBF16(x[:n], half[:n])
		x = x[n:]
	}
}

// RoundBF16Randomly sets dst[i] to one of the two bfloat16 values around src[i]:
// with random[i] uniform in 0..2¹⁶-1, to the one that is further from zero with
// a probability that is the distance of src[i] from the other, in units of
// their distance. So the mean of the results is src[i]. A bfloat16 stays what
// it is; a NaN stays one.
func RoundBF16Randomly(dst []uint16, src []float32, random []uint16) {
	n := len(dst)
	if len(src) != n || len(random) != n {
		panic(badLength)
	}
	whole := wholeSteps(n)
	switch {
	case whole == 0:
	case Active() == AVX512:
		roundRandomlyAVX512(&dst[0], &src[0], &random[0], whole)
	default:
		roundRandomlyAVX2(&dst[0], &src[0], &random[0], whole)
	}
	roundRandomlyGo(dst[whole:], src[whole:], random[whole:])
}

// wholeSteps is how many of n elements, or blocks, a kernel takes that has no masked last
// step.
func wholeSteps(n int) int {
	if Active() == Go {
		return 0
	}
	return n - n%lanes
}

func widenGo(dst []float32, src []uint16) {
	for i, x := range src {
		dst[i] = math.Float32frombits(uint32(x) << 16)
	}
}

func roundGo(dst []uint16, src []float32) {
	for i, x := range src {
		bits := math.Float32bits(x)
		dst[i] = upper(x, bits+0x7fff+bits>>16&1)
	}
}

func roundRandomlyGo(dst []uint16, src []float32, random []uint16) {
	for i, x := range src {
		dst[i] = upper(x, math.Float32bits(x)+uint32(random[i]))
	}
}

// upper is the upper half of the rounded bits of x, or x made quiet if it is
// NaN.
func upper(x float32, rounded uint32) uint16 {
	if x != x {
		return uint16((math.Float32bits(x) | 1<<22) >> 16)
	}
	return uint16(rounded >> 16)
}
