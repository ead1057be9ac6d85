package mathverify

import (
	"math"
	"math/big"
	"math/cmplx"
	"sync"
)

// precision is the mantissa of the numbers that settle close calls, and
// agreeing the bits in which two of them must agree to be one number.
const (
	precision = 320
	agreeing  = 200
)

// precise is a complex number of many digits.
type precise struct{ re, im *big.Float }

func float(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

func blank() *big.Float { return new(big.Float).SetPrec(precision) }

func preciseReal(x *big.Float) precise { return precise{x, blank()} }

func (x precise) add(y precise) precise {
	return precise{blank().Add(x.re, y.re), blank().Add(x.im, y.im)}
}

func (x precise) sub(y precise) precise {
	return precise{blank().Sub(x.re, y.re), blank().Sub(x.im, y.im)}
}

func (x precise) mul(y precise) precise {
	re := blank().Sub(blank().Mul(x.re, y.re), blank().Mul(x.im, y.im))
	return precise{re, blank().Add(blank().Mul(x.re, y.im), blank().Mul(x.im, y.re))}
}

// square is |x|².
func (x precise) square() *big.Float {
	return blank().Add(blank().Mul(x.re, x.re), blank().Mul(x.im, x.im))
}

func (x precise) div(y precise) (precise, bool) {
	d := y.square()
	if d.Sign() == 0 {
		return x, false
	}
	n := x.mul(precise{y.re, blank().Neg(y.im)})
	return precise{n.re.Quo(n.re, d), n.im.Quo(n.im, d)}, true
}

func (x precise) zero() bool { return x.re.Sign() == 0 && x.im.Sign() == 0 }

// constants of the precision, computed once.
var (
	piOnce  = sync.OnceValue(func() *big.Float { return machin() })
	ln2Once = sync.OnceValue(func() *big.Float {
		// ln 2 = 2·artanh(1/3) = 2·Σ 1/((2k+1)·3^(2k+1))
		sum, power := blank(), blank().Quo(float(1), float(3))
		for k := int64(0); power.MantExp(nil) > -precision-8; k++ {
			sum.Add(sum, blank().Quo(power, float(float64(2*k+1))))
			power.Quo(power, float(9))
		}
		return sum.Mul(sum, float(2))
	})
)

// machin is π = 16·arctan(1/5) - 4·arctan(1/239).
func machin() *big.Float {
	inverse := func(n float64) *big.Float {
		sum, power := blank(), blank().Quo(float(1), float(n))
		for k := int64(0); power.MantExp(nil) > -precision-8; k++ {
			term := blank().Quo(power, float(float64(2*k+1)))
			if k%2 == 1 {
				term.Neg(term)
			}
			sum.Add(sum, term)
			power.Quo(power, float(n*n))
		}
		return sum
	}
	return blank().Sub(blank().Mul(float(16), inverse(5)), blank().Mul(float(4), inverse(239)))
}

// expReal is e^x for |x| below 10⁵.
func expReal(x *big.Float) (*big.Float, bool) {
	approximate, _ := x.Float64()
	if math.Abs(approximate) > 1e5 {
		return nil, false
	}
	// x = k·ln 2 + r, e^x = 2^k·(e^(r/256))^256
	k := math.Round(approximate / math.Ln2)
	r := blank().Sub(x, blank().Mul(float(k), ln2Once()))
	r.SetMantExp(r, -8)
	sum, term := float(1), float(1)
	for i := 1; term.Sign() != 0 && term.MantExp(nil) > -precision-16; i++ {
		term = blank().Quo(blank().Mul(term, r), float(float64(i)))
		sum.Add(sum, term)
	}
	for range 8 {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, int(k)), true
}

// logReal is ln x for x > 0, by Halley's iteration from 53 bits.
func logReal(x *big.Float) (*big.Float, bool) {
	mantissa := blank()
	exponent := x.MantExp(mantissa)
	start, _ := mantissa.Float64()
	y := float(math.Log(start))
	for range 3 {
		e, ok := expReal(y)
		if !ok {
			return nil, false
		}
		step := blank().Quo(blank().Sub(mantissa, e), blank().Add(mantissa, e))
		y.Add(y, step.Mul(step, float(2)))
	}
	return y.Add(y, blank().Mul(float(float64(exponent)), ln2Once())), true
}

// sinCos are sine and cosine of a real number below 10⁶.
func sinCos(x *big.Float) (sin, cos *big.Float, ok bool) {
	approximate, _ := x.Float64()
	if math.Abs(approximate) > 1e6 {
		return nil, nil, false
	}
	turns := math.Round(approximate / (2 * math.Pi))
	r := blank().Sub(x, blank().Mul(float(2*turns), piOnce()))
	sin, cos = blank(), blank()
	term := float(1)
	for i := 1; term.Sign() != 0 && term.MantExp(nil) > -precision-16; i++ {
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
		term = blank().Quo(blank().Mul(term, r), float(float64(i)))
	}
	return sin, cos, true
}

// argument is the angle of x, by correction of the float64 angle: with
// δ = tan(θ-θ₀), θ = θ₀ + δ - δ³/3 + …
func (x precise) argument() (*big.Float, bool) {
	if x.im.Sign() == 0 {
		if x.re.Sign() < 0 {
			return blank().Set(piOnce()), true
		}
		return blank(), true
	}
	scale := max(x.re.MantExp(nil), x.im.MantExp(nil))
	re, _ := blank().SetMantExp(x.re, -scale).Float64()
	im, _ := blank().SetMantExp(x.im, -scale).Float64()
	angle := float(math.Atan2(im, re))
	for range 2 {
		sin, cos, ok := sinCos(angle)
		if !ok {
			return nil, false
		}
		turned := x.mul(precise{cos, blank().Neg(sin)})
		if turned.re.Sign() == 0 {
			return nil, false
		}
		delta := blank().Quo(turned.im, turned.re)
		cube := blank().Mul(delta, blank().Mul(delta, delta))
		angle.Add(angle, delta.Sub(delta, cube.Quo(cube, float(3))))
	}
	return angle, true
}

func (x precise) exp() (precise, bool) {
	size, ok := expReal(x.re)
	if !ok {
		return x, false
	}
	sin, cos, ok := sinCos(x.im)
	if !ok {
		return x, false
	}
	return precise{blank().Mul(size, cos), blank().Mul(size, sin)}, true
}

func (x precise) log() (precise, bool) {
	if x.zero() {
		return x, false
	}
	size, ok1 := logReal(x.square())
	angle, ok2 := x.argument()
	if !ok1 || !ok2 {
		return x, false
	}
	return precise{size.Quo(size, float(2)), angle}, true
}

func (x precise) power(y precise) (precise, bool) {
	if x.zero() {
		return x, y.im.Sign() == 0 && y.re.Sign() > 0
	}
	if x.im.Sign() == 0 && x.re.Sign() > 0 && y.im.Sign() == 0 {
		if half, _ := y.re.Float64(); half == 0.5 {
			return preciseReal(blank().Sqrt(x.re)), true
		}
	}
	if n, accuracy := y.re.Int64(); accuracy == big.Exact && y.im.Sign() == 0 && n >= -64 && n <= 64 {
		return x.integerPower(n)
	}
	l, ok := x.log()
	if !ok {
		return x, false
	}
	return l.mul(y).exp()
}

func (x precise) integerPower(n int64) (precise, bool) {
	result := preciseReal(float(1))
	for range max(n, -n) {
		result = result.mul(x)
	}
	if n < 0 {
		return preciseReal(float(1)).div(result)
	}
	return result, true
}

// evaluatePrecise is evaluate with many digits. ok is false outside of the
// domain, for functions that it does not have, and beyond the budget.
func (b *budget) evaluatePrecise(n *node, at *point) (x precise, ok bool) {
	if !b.spend(4) {
		return x, false
	}
	switch n.kind {
	case kindNumber:
		return preciseReal(blank().SetRat(n.value)), true
	case kindConstant:
		switch n.name {
		case "pi":
			return preciseReal(piOnce()), true
		case "e":
			v, ok := expReal(float(1))
			return preciseReal(v), ok
		case "i":
			return precise{blank(), float(1)}, true
		}
		return x, false
	case kindSymbol:
		return preciseReal(float(real(at.value(n.name)))), true
	case kindSum, kindProduct, kindQuotient, kindPower, kindPercent:
		return b.preciseOperation(n, at)
	case kindFunction:
		return b.preciseFunction(n, at)
	}
	return x, false
}

func (b *budget) preciseOperation(n *node, at *point) (x precise, ok bool) {
	for i, a := range n.args {
		y, ok := b.evaluatePrecise(a, at)
		if !ok {
			return x, false
		}
		switch {
		case i == 0:
			x = y
		case n.kind == kindSum:
			x = x.add(y)
		case n.kind == kindProduct:
			x = x.mul(y)
		case n.kind == kindQuotient:
			if x, ok = x.div(y); !ok {
				return x, false
			}
		default:
			if !b.spend(200) {
				return x, false
			}
			if x, ok = x.power(y); !ok {
				return x, false
			}
		}
	}
	if n.kind == kindPercent {
		return x.div(preciseReal(float(100)))
	}
	return x, true
}

func (b *budget) preciseFunction(n *node, at *point) (x precise, ok bool) {
	var args []precise
	for _, a := range n.args {
		y, ok := b.evaluatePrecise(a, at)
		if !ok {
			return x, false
		}
		args = append(args, y)
	}
	if !b.spend(200) || len(args) == 0 {
		return x, false
	}
	x = args[0]
	switch n.name {
	case "ln":
		return x.log()
	case "log":
		top, ok1 := x.log()
		bottom, ok2 := args[len(args)-1].log()
		if len(args) != 2 || !ok1 || !ok2 {
			return x, false
		}
		return top.div(bottom)
	case "abs":
		return preciseReal(blank().Sqrt(x.square())), true
	case "sin", "cos", "tan", "cot", "sec", "csc":
		if x.im.Sign() != 0 {
			return x, false
		}
		return trigonometric(n.name, x.re)
	}
	return x, false
}

func trigonometric(name string, x *big.Float) (precise, bool) {
	s, c, ok := sinCos(x)
	if !ok {
		return precise{}, false
	}
	sin, cos, unit := preciseReal(s), preciseReal(c), preciseReal(float(1))
	switch name {
	case "sin":
		return sin, true
	case "cos":
		return cos, true
	case "tan":
		return sin.div(cos)
	case "cot":
		return cos.div(sin)
	case "sec":
		return unit.div(cos)
	}
	return unit.div(sin)
}

// same reports whether two values agree in the leading bits.
func (x precise) same(y precise) bool {
	difference := x.sub(y).square()
	if difference.Sign() == 0 {
		return true
	}
	size := x.square()
	if other := y.square(); other.Cmp(size) > 0 {
		size = other
	}
	// Relative to the larger value, but no finer than to 1: sums that cancel
	// to zero leave rounding errors of their terms.
	reference := max(0, size.MantExp(nil))
	return difference.MantExp(nil) < reference-2*agreeing
}

// close settles a close call at one point: by many digits where they can be
// had, else as float64 has it.
func (b *budget) close(x, y *node, at *point, a, c complex128) bool {
	if !near(a, c) {
		return false
	}
	p, ok1 := b.evaluatePrecise(x, at)
	q, ok2 := b.evaluatePrecise(y, at)
	if ok1 && ok2 {
		return p.same(q)
	}
	return !b.exhausted() && cmplx.Abs(a-c) <= 1e-11*math.Max(1, cmplx.Abs(a))
}
