package vec

import "math"

// The functions of this file compute in float64 with operations that are rounded
// one by one, the same on every processor, and round to float32 once.

// Constants of expWide. With n = round(y/ln 2) and r = y - n·ln 2, exp(y) is 2ⁿ
// times the Taylor polynomial of degree 11 at r, |r| <= ln(2)/2, whose truncation
// is 7e-15.
const (
	wideLn2Hi = 6.93147180369123816490e-01 // 32 significant bits, so that n·wideLn2Hi is exact
	wideLn2Lo = 1.90821492927058770002e-10
	wideMax   = 44 // beyond it tanh is 1 in float64 and more
)

// expWide is e^y for 0 <= y <= 2·wideMax.
func expWide(y float64) float64 {
	n := math.Floor(float64(y*math.Log2E) + 0.5)
	r := float64(y-float64(n*wideLn2Hi)) - float64(n*wideLn2Lo)
	p := 1.0 / 39916800
	for _, c := range [...]float64{1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1} {
		p = float64(p*r) + c
	}
	return p * math.Float64frombits(uint64(1023+int64(n))<<52)
}

// tanh is the hyperbolic tangent: (e^2a - 1)/(e^2a + 1) with the sign of x and
// a = |x|, and x - x³/3 where that loses less.
func tanh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 1e-3:
		return x - float64(float64(float64(x*x)*x)/3)
	case a >= wideMax:
		return math.Copysign(1, x)
	case a != a:
		return x
	}
	return math.Copysign(1-2/(expWide(2*a)+1), x)
}

// SoftCap sets dst[i] = cap·tanh(x[i]·scale/cap). dst may be x.
func SoftCap(dst, x []float32, scale, cap float32) {
	if len(dst) != len(x) {
		panic(badLength)
	}
	inner, outer := float64(scale)/float64(cap), float64(cap)
	for i, v := range x {
		dst[i] = float32(outer * tanh(float64(v)*inner))
	}
}

// SoftCapGrad is the backward pass of SoftCap, given its results y:
//
//	dx[i] = dy[i]·(1 - (y[i]/cap)²)·scale
//
// dx may be dy.
func SoftCapGrad(dx, dy, y []float32, scale, cap float32) {
	if len(dx) != len(dy) || len(dx) != len(y) {
		panic(badLength)
	}
	for i, v := range y {
		t := float64(v) / float64(cap)
		slope := 1 - float64(t*t)
		dx[i] = float32(float64(dy[i]) * slope * float64(scale))
	}
}

// Constants of the tanh approximation of GELU (Hendrycks and Gimpel, Gaussian
// Error Linear Units, 2016, section 2).
const (
	geluScale = 0.79788456080286535588 // sqrt(2/π)
	geluCubic = 0.044715
)

// gelu is g/2·(1 + t) with t = tanh(u) and u = sqrt(2/π)(g + 0.044715g³), and its
// derivative (1 + t)/2 + g/2·(1 - t²)·du/dg.
func gelu(g float64) (value, slope float64) {
	square := float64(g * g)
	t := tanh(geluScale * float64(g+float64(geluCubic*float64(square*g))))
	inner := geluScale * float64(1+float64(3*geluCubic*square))
	half := float64(0.5 * float64(1+t))
	return g * half, half + float64(float64(0.5*g)*float64(float64(1-float64(t*t))*inner))
}

// GeGLU sets dst[i] = gelu(gate[i])·up[i], with the tanh approximation of GELU.
func GeGLU(dst, gate, up []float32) {
	if len(dst) != len(gate) || len(dst) != len(up) {
		panic(badLength)
	}
	for i, g := range gate {
		value, _ := gelu(float64(g))
		dst[i] = float32(value) * up[i]
	}
}

// GeGLUGrad is the backward pass of GeGLU. It sets
//
//	dUp[i]   = dOut[i]·gelu(gate[i])
//	dGate[i] = dOut[i]·up[i]·gelu'(gate[i]).
//
// dGate and dUp may be the same slices as gate and up.
func GeGLUGrad(dGate, dUp, dOut, gate, up []float32) {
	if len(dGate) != len(gate) || len(dUp) != len(gate) || len(dOut) != len(gate) || len(up) != len(gate) {
		panic(badLength)
	}
	for i, g := range gate {
		u, d := up[i], dOut[i]
		value, slope := gelu(float64(g))
		dGate[i] = float32(d*u) * float32(slope)
		dUp[i] = d * float32(value)
	}
}
