package vec

import "math"

// Constants of exp. With n = round(y/ln 2) and r = y - n·ln 2, |r| <= ln(2)/2,
//
//	exp(y) = 2ⁿ·(1 + r + r²·q(r)),
//
// where q has degree 4 and is the minimax approximation of the relative error
// (Remez exchange in 40 digits): truncation 3.1e-9, 0.05 units of 2^-24. With
// the roundings of the evaluation the result is within 0.9 units in the last
// place.
const (
	expLog2E = float32(1.4426950408889634)
	// expMagic is 1.5·2²³: adding it rounds to an integer, which is left in the
	// low bits of the sum.
	expMagic = float32(12582912)
	// expLn2Hi has 15 significant bits, so that n·expLn2Hi is exact.
	expLn2Hi = float32(0.693145751953125)
	expLn2Lo = float32(1.4286068e-06)
	expQ0    = float32(0.49999994)
	expQ1    = float32(0.16666521)
	expQ2    = float32(0.04166839)
	expQ3    = float32(0.008368745)
	expQ4    = float32(0.001381454)
	// expMin and expMax bound the arguments whose result is a finite normal
	// number.
	expMin = float32(-87.33654)
	expMax = float32(88.72283)
)

// Exp returns e^y within 0.9 units in the last place. It is 0 below -87.33654,
// where the result would be subnormal, and +Inf above 88.72283.
func Exp(y float32) float32 {
	if y < expMin {
		return 0
	}
	if !(y <= expMax) {
		return y + float32(math.Inf(1)) // +Inf, or NaN for NaN
	}
	t := FMA(y, expLog2E, expMagic)
	n := t - expMagic
	r := FMA(n, -expLn2Hi, y)
	r = FMA(n, -expLn2Lo, r)
	p := FMA(expQ4, r, expQ3)
	p = FMA(p, r, expQ2)
	p = FMA(p, r, expQ1)
	p = FMA(p, r, expQ0)
	p = FMA(p, r, 1)
	p = FMA(p, r, 1)
	// The low bits of t hold n: this adds n to the exponent of p.
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(t)<<23)
}

// ExpShiftSum sets dst[i] = exp(FMA(x[i], scale, -shift)), where exp is that
// of Exp, and returns their sum in the order of Sum. With shift = scale·Max(x)
// it is the numerator and the denominator of a softmax. Elements -Inf give
// exactly 0 if scale is positive and shift finite.
func ExpShiftSum(dst, x []float32, scale, shift float32) (sum float32) {
	n := len(dst)
	if len(x) != n {
		panic(badLength)
	}
	if n == 0 {
		return 0
	}
	switch Active() {
	case AVX512:
		return expShiftSumAVX512(&dst[0], &x[0], n, scale, shift)
	case AVX2:
		return expShiftSumAVX2(&dst[0], &x[0], n, scale, shift)
	default:
		return expShiftSumGo(dst, x, scale, shift)
	}
}

func expShiftSumGo(dst, x []float32, scale, shift float32) float32 {
	var p [lanes]float32
	for i, v := range x {
		e := Exp(FMA(v, scale, -shift))
		dst[i] = e
		p[i%lanes] += e
	}
	return sumLanes(&p)
}
