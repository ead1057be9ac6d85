package vec

import "math"

// FMA returns a·b + c rounded once to float32, as the fused multiply-add
// instructions do.
//
// The product of two float32 values has at most 48 significant bits, so it is
// exact in float64. The float64 sum with c is rounded; TwoSum gives the exact
// rounding error e. Converting that sum to float32 would round twice, so the
// sum is first brought to round-to-odd: when it is inexact and its last bit is
// even, it moves by one unit towards the exact value. An odd last bit stands
// for "inexact", and since float64 has more than 24+2 bits the conversion then
// rounds exactly as if from the unrounded sum.
//
// Few sums need this: see roundsOnce.
func FMA(a, b, c float32) float32 { return float32(fused(a, b, c)) }

// roundsOnce tells whether converting a rounded sum to float32 certainly gives what
// converting the unrounded one would. Ties alone can go the wrong way: their last 29 bits
// are a one and zeros. Below the least normal float32, where ties have other bits, it is
// not certain.
func roundsOnce(sum float64) bool {
	const lost, exponentOfLeast = 29, 1023 - 126
	bits := math.Float64bits(sum)
	return bits&(1<<lost-1) != 1<<(lost-1) && bits>>52&0x7ff >= exponentOfLeast
}

// fused is a·b + c in float64, rounded to odd where one more rounding to float32 needs it.
func fused(a, b, c float32) float64 {
	product := float64(a) * float64(b)
	addend := float64(c)
	sum := product + addend
	if roundsOnce(sum) {
		return sum
	}
	virtual := sum - product
	e := (product - (sum - virtual)) + (addend - virtual)
	// e is NaN if the sum is infinite or NaN: both comparisons fail then.
	if e > 0 || e < 0 {
		bits := math.Float64bits(sum)
		if bits&1 == 0 {
			if (e > 0) == (sum > 0) {
				bits++
			} else {
				bits--
			}
			sum = math.Float64frombits(bits)
		}
	}
	return sum
}

// FMAFlushed is FMA without subnormal numbers: operands and results that are
// subnormal count as zeros of their sign, as matrix units of CPUs have it, and vector
// units whose control register asks for it.
func FMAFlushed(a, b, c float32) float32 {
	return flush(fused(flushed(a), flushed(b), flushed(c)))
}

// AddFlushed is a + b, likewise.
func AddFlushed(a, b float32) float32 {
	return flush(float64(flushed(a)) + float64(flushed(b)))
}

// leastNormal is the smallest normal float32.
const leastNormal = 0x1p-126

// flush rounds to float32. What would round to less than the least normal number, if
// exponents went on below it, becomes zero: half a unit of the last place below that
// number is a tie, which rounds up to it.
func flush(x float64) float32 {
	if math.Abs(x) < leastNormal-0x1p-151 {
		return float32(math.Copysign(0, x))
	}
	return float32(x)
}

// flushed is x, or zero of its sign if it is subnormal.
func flushed(x float32) float32 {
	if bits := math.Float32bits(x); bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & 0x80000000)
	}
	return x
}
