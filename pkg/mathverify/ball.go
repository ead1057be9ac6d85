package mathverify

import (
	"math"
	"math/big"
	"math/bits"
)

// precise is a complex number of many digits with a bound on its error: the
// value is no farther away than 2^err. What is below the error is zero in re
// and im.
type precise struct {
	re, im *big.Float
	err    int
}

// exactly is the error of a value that has none.
const exactly = math.MinInt32

// real makes a value of a number that is rounded to the mantissa.
func (m mantissa) real(x *big.Float) precise {
	if x.Sign() == 0 {
		return precise{x, m.zero(), exactly}
	}
	return precise{x, m.zero(), x.MantExp(nil) - int(m) + 1}
}

// known makes a value of parts with an error, which is at least that of
// rounding.
func (m mantissa) known(re, im *big.Float, err int) precise {
	x := precise{re, im, err}
	if !x.zero() {
		x.err = max(err, x.exponent()-int(m)+1)
	}
	for _, part := range []**big.Float{&x.re, &x.im} {
		if (*part).Sign() != 0 && (*part).MantExp(nil) <= x.err {
			*part = m.zero()
		}
	}
	return x
}

func (x precise) zero() bool { return x.re.Sign() == 0 && x.im.Sign() == 0 }

// isReal reports whether the imaginary part is not known to be other than zero.
func (x precise) isReal() bool { return x.im.Sign() == 0 }

// exponent is that of the power of two above the parts, for x that is not zero.
func (x precise) exponent() int {
	switch {
	case x.re.Sign() == 0:
		return x.im.MantExp(nil)
	case x.im.Sign() == 0:
		return x.re.MantExp(nil)
	}
	return max(x.re.MantExp(nil), x.im.MantExp(nil))
}

// top is an exponent above the value and its error.
func (x precise) top() int {
	if x.zero() {
		return x.err
	}
	return x.exponent() + 1
}

// relative is the error of a value that is not zero, as a share of it.
func (x precise) relative() int { return max(x.err, exactly/2) - x.exponent() + 1 }

// bounded reports whether operations can use the value.
func (x precise) bounded() bool {
	return x.zero() || !x.re.IsInf() && !x.im.IsInf() && x.exponent() < maxExponent && x.exponent() > -maxExponent
}

func (m mantissa) add(x, y precise) precise {
	return m.known(new(big.Float).Add(x.re, y.re), new(big.Float).Add(x.im, y.im), max(x.err, y.err)+1)
}

func (x precise) neg() precise {
	return precise{new(big.Float).Neg(x.re), new(big.Float).Neg(x.im), x.err}
}

func (m mantissa) mul(x, y precise) precise {
	err := max(x.err+y.top(), y.err+x.top(), exactly) + 2
	if x.isReal() && y.isReal() {
		return m.known(new(big.Float).Mul(x.re, y.re), m.zero(), err)
	}
	re := new(big.Float).Sub(new(big.Float).Mul(x.re, y.re), new(big.Float).Mul(x.im, y.im))
	return m.known(re, new(big.Float).Add(new(big.Float).Mul(x.re, y.im), new(big.Float).Mul(x.im, y.re)), err)
}

// square is |x|² of the parts.
func (x precise) square() *big.Float {
	return new(big.Float).Add(new(big.Float).Mul(x.re, x.re), new(big.Float).Mul(x.im, x.im))
}

// div is the quotient; ok is false for a divisor that may be zero.
func (m mantissa) div(x, y precise) (quotient precise, ok bool) {
	if y.zero() {
		return x, false
	}
	err := max(x.err, x.top()+y.relative()) - y.exponent() + 3
	if x.isReal() && y.isReal() {
		return m.known(new(big.Float).Quo(x.re, y.re), m.zero(), err), true
	}
	d := y.square()
	re := new(big.Float).Add(new(big.Float).Mul(x.re, y.re), new(big.Float).Mul(x.im, y.im))
	im := new(big.Float).Sub(new(big.Float).Mul(x.im, y.re), new(big.Float).Mul(x.re, y.im))
	return m.known(re.Quo(re, d), im.Quo(im, d), err), true
}

// integerPower is x^n by squaring; ok is false for results that no number can
// hold, and negative powers of what may be zero.
func (m mantissa) integerPower(x precise, n int64) (precise, bool) {
	if !x.zero() && float64(max(x.exponent(), -x.exponent())+1)*math.Abs(float64(n)) > maxExponent {
		return x, false
	}
	if x.zero() {
		if n <= 0 {
			return x, false
		}
		return precise{x.re, x.im, max(x.err, exactly/2)}, x.err <= 0 || n == 1
	}
	re, im := m.of(1), m.zero()
	base := x
	for e := max(n, -n); e > 0; e >>= 1 {
		if e&1 == 1 {
			p := m.mul(precise{re, im, exactly}, precise{base.re, base.im, exactly})
			re, im = p.re, p.im
		}
		if e > 1 {
			p := m.mul(precise{base.re, base.im, exactly}, precise{base.re, base.im, exactly})
			base = p
		}
	}
	result := precise{re, im, exactly}
	if result.zero() || !result.bounded() {
		return x, false
	}
	relative := max(x.relative(), 1-int(m)) + 2*bits.Len64(uint64(max(n, -n))) + 2
	result = m.known(re, im, result.exponent()+relative)
	if n < 0 {
		return m.div(m.real(m.of(1)), result)
	}
	return result, true
}

// squareRoot is that of a value that is not below zero.
func (m mantissa) squareRoot(x *big.Float, err int) precise {
	if x.Sign() == 0 {
		return precise{x, m.zero(), max(err, exactly)/2 + 1}
	}
	root := new(big.Float).Sqrt(x)
	return m.known(root, m.zero(), root.MantExp(nil)+max(err, exactly/2)-x.MantExp(nil)+2)
}

func (m mantissa) complexExp(x precise) (precise, bool) {
	size, ok := m.exp(x.re)
	if !ok || x.err > 0 {
		return x, false
	}
	err := size.MantExp(nil) + max(x.err, -int(m)) + 3
	if x.isReal() {
		return m.known(size, m.zero(), err), true
	}
	sin, cos, ok := m.sinCos(x.im)
	if !ok {
		return x, false
	}
	return m.known(new(big.Float).Mul(size, cos), new(big.Float).Mul(size, sin), err), true
}

// complexLog is the principal logarithm of a value that is known not to be zero.
func (m mantissa) complexLog(x precise) (precise, bool) {
	if x.zero() {
		return x, false
	}
	err := max(x.relative(), -int(m)) + 3
	if x.isReal() && x.re.Sign() > 0 {
		v, ok := m.log(x.re)
		if !ok {
			return x, false
		}
		return m.known(v, m.zero(), err), true
	}
	size, ok1 := m.log(x.square())
	angle, ok2 := m.angle(x.re, x.im)
	if !ok1 || !ok2 {
		return x, false
	}
	return m.known(size.Quo(size, m.of(2)), angle, err), true
}
