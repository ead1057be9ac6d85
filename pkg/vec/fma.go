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
func FMA(a, b, c float32) float32 {
	product := float64(a) * float64(b)
	addend := float64(c)
	sum := product + addend
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
	return float32(sum)
}
