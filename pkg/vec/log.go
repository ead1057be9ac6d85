package vec

import "math"

// Constants of the logarithm in float64: ln 2 in two parts and the coefficients
// of FreeBSD's e_log.c (Sun Microsystems, 1993), which has error below 1 unit
// in the last place of float64.
const (
	logLn2Hi = 6.93147180369123816490e-01
	logLn2Lo = 1.90821492927058770002e-10
	logL1    = 6.666666666666735130e-01
	logL2    = 3.999999999940941908e-01
	logL3    = 2.857142874366239149e-01
	logL4    = 2.222219843214978396e-01
	logL5    = 1.818357216161805012e-01
	logL6    = 1.531383769920937332e-01
	logL7    = 1.479819860511658591e-01
)

// Log returns the natural logarithm of x, correctly rounded in all but a few
// cases in a million. Log(0) is -Inf, and Log of a negative number is NaN.
//
// The standard library's logarithm has assembly on some architectures and may
// be fused on others, so it does not give the same bits everywhere; each
// operation here is rounded on its own.
func Log(x float32) float32 {
	v := float64(x)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 1):
		return x
	case v < 0:
		return float32(math.NaN())
	case v == 0:
		return float32(math.Inf(-1))
	}
	fraction, exponent := math.Frexp(v)
	if fraction < math.Sqrt2/2 {
		fraction *= 2
		exponent--
	}
	f := fraction - 1
	k := float64(exponent)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	odd := float64(s2 * (logL1 + float64(s4*(logL3+float64(s4*(logL5+float64(s4*logL7)))))))
	even := float64(s4 * (logL2 + float64(s4*(logL4+float64(s4*logL6)))))
	half := float64(0.5 * float64(f*f))
	tail := float64(s*(half+odd+even)) + float64(k*logLn2Lo)
	return float32(float64(k*logLn2Hi) - ((half - tail) - f))
}
