package mathverify

import (
	"math"
	"math/big"
	"sync"
)

// mantissa is the number of bits of the numbers that settle close calls.
type mantissa uint

const (
	guardBits   = 64      // more bits inside of a function than of its value
	maxExponent = 1 << 29 // of two, of a value; big.Float ends a little above
)

// of is a number that float64 holds.
func (m mantissa) of(x float64) *big.Float { return new(big.Float).SetPrec(uint(m)).SetFloat64(x) }

// zero is 0 with the mantissa. Results of arithmetic take the mantissa of
// their operands.
func (m mantissa) zero() *big.Float { return new(big.Float).SetPrec(uint(m)) }

// to rounds a number to the mantissa.
func (m mantissa) to(x *big.Float) *big.Float { return m.zero().Set(x) }

// constants of each mantissa, computed once.
var (
	piOf  sync.Map // mantissa → *big.Float
	ln2Of sync.Map
)

func once(constants *sync.Map, m mantissa, compute func() *big.Float) *big.Float {
	if v, ok := constants.Load(m); ok {
		return v.(*big.Float)
	}
	v, _ := constants.LoadOrStore(m, compute())
	return v.(*big.Float)
}

// pi is 16·arctan(1/5) - 4·arctan(1/239), by Machin.
func (m mantissa) pi() *big.Float {
	return once(&piOf, m, func() *big.Float {
		w := m + guardBits
		pi := new(big.Float).Mul(w.of(16), w.inverseSeries(5, -1))
		return m.to(pi.Sub(pi, new(big.Float).Mul(w.of(4), w.inverseSeries(239, -1))))
	})
}

// ln2 is 2·artanh(1/3).
func (m mantissa) ln2() *big.Float {
	return once(&ln2Of, m, func() *big.Float {
		w := m + guardBits
		return m.to(new(big.Float).Mul(w.of(2), w.inverseSeries(3, 1)))
	})
}

// inverseSeries is Σ sign^k/((2k+1)·n^(2k+1)): artanh(1/n) or arctan(1/n).
func (m mantissa) inverseSeries(n, sign float64) *big.Float {
	sum, power := m.zero(), new(big.Float).Quo(m.of(1), m.of(n))
	for k := 0; power.MantExp(nil) > -int(m)-8; k++ {
		term := new(big.Float).Quo(power, m.of(float64(2*k+1)))
		if sign < 0 && k%2 == 1 {
			term.Neg(term)
		}
		sum.Add(sum, term)
		power.Quo(power, m.of(n*n))
	}
	return sum
}

// exp is e^x, unless its exponent is beyond all bounds.
func (m mantissa) exp(x *big.Float) (*big.Float, bool) {
	approximate, _ := x.Float64()
	if math.Abs(approximate) > maxExponent*math.Ln2 {
		return nil, false
	}
	// x = k·ln 2 + r, e^x = 2^k·(e^(r/2^s))^(2^s)
	w := m + guardBits
	halvings := 8 + int(m)/128
	k := math.Round(approximate / math.Ln2)
	r := new(big.Float).Sub(w.to(x), new(big.Float).Mul(w.of(k), w.ln2()))
	r.SetMantExp(r, -halvings)
	sum, term := w.of(1), w.of(1)
	for i := 1; term.Sign() != 0 && term.MantExp(nil) > -int(w)-16; i++ {
		term = new(big.Float).Quo(new(big.Float).Mul(term, r), w.of(float64(i)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return m.to(sum.SetMantExp(sum, int(k))), true
}

// log is ln x for x > 0, by Halley's iteration from the 53 bits of float64,
// which triples them.
func (m mantissa) log(x *big.Float) (*big.Float, bool) {
	w := m + guardBits
	part := w.zero()
	exponent := w.to(x).MantExp(part)
	start, _ := part.Float64()
	y := w.of(math.Log(start))
	for known := mantissa(48); known < w; known *= 3 {
		e, ok := w.exp(y)
		if !ok {
			return nil, false
		}
		step := new(big.Float).Quo(new(big.Float).Sub(part, e), new(big.Float).Add(part, e))
		y.Add(y, step.Mul(step, w.of(2)))
	}
	return m.to(y.Add(y, new(big.Float).Mul(w.of(float64(exponent)), w.ln2()))), true
}

// sinCos are sine and cosine of a real number below 10¹².
func (m mantissa) sinCos(x *big.Float) (sin, cos *big.Float, ok bool) {
	approximate, _ := x.Float64()
	if math.Abs(approximate) > 1e12 {
		return nil, nil, false
	}
	w := m + guardBits
	turns := math.Round(approximate / (2 * math.Pi))
	r := new(big.Float).Sub(w.to(x), new(big.Float).Mul(w.of(2*turns), w.pi()))
	sin, cos = w.zero(), w.zero()
	smallest := min(0, r.MantExp(nil)) - int(w) - 16 // beside a sine as small as the angle
	term := w.of(1)
	for i := 1; term.Sign() != 0 && term.MantExp(nil) > smallest; i++ {
		switch i % 4 { // term is r^(i-1)/(i-1)!
		case 1:
			cos.Add(cos, term)
		case 2:
			sin.Add(sin, term)
		case 3:
			cos.Sub(cos, term)
		case 0:
			sin.Sub(sin, term)
		}
		term = new(big.Float).Quo(new(big.Float).Mul(term, r), w.of(float64(i)))
	}
	return m.to(sin), m.to(cos), true
}

// angle is that of the point (re, im), by correction of the float64 angle:
// with δ = tan(θ-θ₀), θ = θ₀ + δ - δ³/3 + …
func (m mantissa) angle(re, im *big.Float) (*big.Float, bool) {
	if im.Sign() == 0 {
		if re.Sign() < 0 {
			return m.pi(), true
		}
		return m.zero(), true
	}
	scale := im.MantExp(nil)
	if re.Sign() != 0 {
		scale = max(scale, re.MantExp(nil))
	}
	x, _ := m.zero().SetMantExp(re, -scale).Float64()
	y, _ := m.zero().SetMantExp(im, -scale).Float64()
	if y == 0 { // below all float64, beside a re that is not
		y = math.Copysign(math.SmallestNonzeroFloat64, float64(im.Sign()))
	}
	angle := m.of(math.Atan2(y, x))
	for known := mantissa(48); known < m+guardBits; known *= 5 {
		sin, cos, ok := m.sinCos(angle)
		if !ok {
			return nil, false
		}
		along := new(big.Float).Add(new(big.Float).Mul(re, cos), new(big.Float).Mul(im, sin))
		across := new(big.Float).Sub(new(big.Float).Mul(im, cos), new(big.Float).Mul(re, sin))
		if along.Sign() == 0 {
			return nil, false
		}
		delta := new(big.Float).Quo(across, along)
		cube := new(big.Float).Mul(delta, new(big.Float).Mul(delta, delta))
		angle.Add(angle, delta.Sub(delta, cube.Quo(cube, m.of(3))))
	}
	return angle, true
}
