package mathverify

import (
	"math"
	"math/big"
	"math/bits"
	"math/cmplx"
	"slices"
	"strings"
)

// levels are the mantissas with which a comparison is tried. Logarithms,
// exponentials and angles are computed up to the level transcendental.
var levels = []mantissa{320, 1024, 4096, 8192, 16384}

const (
	transcendental = mantissa(4096)
	clearBits      = 128 // in which values agree that are taken to be equal
)

// evaluator computes expressions with a mantissa at a point, and keeps the
// range of the values that were added.
type evaluator struct {
	*budget
	mantissa
	at        *point
	added     bool
	high, low int  // exponents of the largest and the smallest value that was added
	limits    bool // there are infinite sums, which more digits make no better
	vague     bool // a value could be zero where none may be
}

// decide compares two values at a point with as many digits as it takes. They
// are different if they differ by more than the error. They are equal if they
// agree so far that no value that was added, nor the square of its share,
// could make the difference: sqrt(n+2) + sqrt(n) and 2sqrt(n+1) are as close
// as n^-2.
func (b *budget) decide(x, y *node, at *point) verdict {
	for _, m := range levels {
		e := &evaluator{budget: b, mantissa: m, at: at}
		p, ok1 := e.value(x)
		q, ok2 := e.value(y)
		switch {
		case !ok1 || !ok2:
			if e.vague {
				continue
			}
			return unknown
		case p.zero() && q.zero() && p.err == exactly && q.err == exactly:
			return equal
		}
		d := e.mantissa.add(p, q.neg())
		if !d.zero() {
			return unequal
		}
		if wanted := max(p.top(), q.top()) - 2*(e.high-e.low) - clearBits; d.err <= wanted {
			return equal
		}
		if e.limits {
			return unknown
		}
	}
	return unknown
}

// value computes an expression. ok is false outside of the domain, for
// functions that it does not have, and beyond the budget.
func (e *evaluator) value(n *node) (x precise, ok bool) {
	if !e.spend(e.cost(4)) {
		return x, false
	}
	switch n.kind {
	case kindNumber:
		return e.real(e.zero().SetRat(n.value)), true
	case kindConstant:
		switch n.name {
		case "pi":
			return e.real(e.pi()), true
		case "e":
			v, ok := e.exp(e.of(1))
			if !ok {
				return x, false
			}
			return e.real(v), true
		case "i":
			return precise{e.zero(), e.of(1), exactly}, true
		}
		return x, false
	case kindSymbol:
		return e.real(e.of(real(e.at.value(n.name)))), true
	case kindSum:
		return e.sum(n.args)
	case kindProduct, kindQuotient, kindPower, kindPercent:
		x, ok = e.operation(n)
		return x, ok && x.bounded()
	case kindFunction:
		x, ok = e.function(n)
		return x, ok && x.bounded()
	}
	return x, false
}

// cost is what work on numbers of the mantissa takes of the budget.
func (e *evaluator) cost(steps int) int {
	words := int(e.mantissa) / int(levels[0])
	return steps * (1 + words*words/16)
}

// sum adds. Its error is that of the terms and of all roundings together, as
// one bit for each of many terms would leave none.
func (e *evaluator) sum(terms []*node) (total precise, ok bool) {
	total = precise{e.zero(), e.zero(), exactly}
	err := exactly
	for _, term := range terms {
		x, ok := e.value(term)
		if !ok {
			return x, false
		}
		e.saw(x)
		total = precise{new(big.Float).Add(total.re, x.re), new(big.Float).Add(total.im, x.im), exactly}
		err = max(err, x.err)
		if !total.zero() {
			err = max(err, total.exponent()-int(e.mantissa)+1)
		}
	}
	return e.known(total.re, total.im, err+bits.Len(uint(2*len(terms)))), true
}

// running is a product of many real factors.
type running struct {
	product  *big.Float
	relative int // the largest share by which a factor is wrong
	factors  uint
}

// times multiplies; ok is false for factors that may be zero or are not real.
func (r *running) times(x precise) (ok bool) {
	if x.zero() || !x.isReal() || !x.bounded() {
		return false
	}
	if r.factors == 0 {
		r.relative = x.relative()
	}
	r.product = new(big.Float).Mul(r.product, x.re)
	r.relative = max(r.relative, x.relative())
	r.factors++
	return !r.product.IsInf()
}

// result is the product with the errors of all factors.
func (e *evaluator) result(r running) precise {
	share := 1 - int(e.mantissa)
	if r.factors > 0 {
		share = max(r.relative, share)
	}
	return e.known(r.product, e.zero(), r.product.MantExp(nil)+share+bits.Len(2*r.factors)+1)
}

// over divides, and notes a divisor that may be zero.
func (e *evaluator) over(x, y precise) (precise, bool) {
	quotient, ok := e.div(x, y)
	e.vague = e.vague || !ok && y.err != exactly
	return quotient, ok
}

// logarithm is complexLog, and notes an argument that may be zero.
func (e *evaluator) logarithm(x precise) (precise, bool) {
	e.vague = e.vague || x.zero() && x.err != exactly
	return e.complexLog(x)
}

func (e *evaluator) plus(x, y precise) precise {
	e.saw(x)
	e.saw(y)
	return e.mantissa.add(x, y)
}

// saw notes a value that is added.
func (e *evaluator) saw(x precise) {
	if x.zero() {
		return
	}
	at := x.exponent()
	if !e.added {
		e.high, e.low, e.added = at, at, true
	}
	e.high, e.low = max(e.high, at), min(e.low, at)
}

func (e *evaluator) operation(n *node) (x precise, ok bool) {
	for i, a := range n.args {
		y, ok := e.value(a)
		if !ok {
			return x, false
		}
		switch {
		case i == 0:
			x = y
		case n.kind == kindProduct:
			x = e.mul(x, y)
		case n.kind == kindQuotient:
			if x, ok = e.over(x, y); !ok {
				return x, false
			}
		default:
			if x, ok = e.power(x, y); !ok {
				return x, false
			}
		}
	}
	if n.kind == kindPercent {
		return e.over(x, e.real(e.of(100)))
	}
	return x, true
}

// costly spends what the series of a function of x takes, if the mantissa allows
// it. The function may differ from its argument by powers of it: sin x is as
// close to x as x³.
func (e *evaluator) costly(x precise) bool {
	e.saw(e.real(e.of(1)))
	e.saw(x)
	return e.mantissa <= transcendental && e.spend(e.cost(200))
}

func (e *evaluator) power(x, y precise) (precise, bool) {
	if y.isReal() {
		half, accuracy := y.re.Float64()
		if half == 0.5 && accuracy == big.Exact && x.isReal() && x.re.Sign() >= 0 {
			return e.squareRoot(x.re, x.err), e.spend(e.cost(8))
		}
		if n, accuracy := y.re.Int64(); accuracy == big.Exact && (n != 0 || y.err == exactly) {
			if !e.spend(e.cost(2 * bits.Len64(uint64(max(n, -n))))) {
				return x, false
			}
			e.vague = e.vague || x.zero() && x.err != exactly
			return e.integerPower(x, n)
		}
	}
	if x.zero() && x.err == exactly {
		return x, y.isReal() && y.re.Sign() > 0
	}
	if !e.costly(y) {
		return x, false
	}
	l, ok := e.logarithm(x)
	if !ok {
		return x, false
	}
	return e.complexExp(e.mul(l, y))
}

func (e *evaluator) function(n *node) (x precise, ok bool) {
	switch n.name {
	case "sum", "prod":
		return e.series(n)
	case "factorial", "binomial", "floor", "ceil", "max", "min", "gcd", "lcm", "mod":
		if v, ok := e.exact(n); ok {
			return e.real(e.zero().SetRat(v)), true
		}
	}
	if n.name == "factorial" || n.name == "binomial" {
		return e.product(n)
	}
	var args []precise
	for _, a := range n.args {
		y, ok := e.value(a)
		if !ok {
			return x, false
		}
		args = append(args, y)
	}
	if len(args) == 0 || strings.HasSuffix(n.name, "()") {
		return x, false
	}
	x = args[0]
	if n.name == "abs" {
		if x.isReal() {
			return precise{new(big.Float).Abs(x.re), x.im, x.err}, true
		}
		size := new(big.Float).Sqrt(x.square())
		return e.known(size, e.zero(), x.err+2), e.spend(e.cost(8))
	}
	if !slices.ContainsFunc(args, func(a precise) bool { return !a.isReal() }) {
		switch n.name {
		case "floor", "ceil":
			return e.whole(x, n.name == "ceil")
		case "max", "min":
			return e.extreme(args, n.name == "max"), true
		}
	}
	seen := x
	if n.name == "ln" || n.name == "log" {
		seen = precise{e.zero(), e.zero(), exactly} // what is near 1 was added to it
	}
	if !e.costly(seen) {
		return x, false
	}
	switch n.name {
	case "ln":
		return e.logarithm(x)
	case "log":
		top, ok1 := e.logarithm(x)
		bottom, ok2 := e.logarithm(args[1])
		if !ok1 || !ok2 {
			return x, false
		}
		return e.over(top, bottom)
	case "sinh", "cosh", "tanh", "coth":
		return e.hyperbolic(n.name, x)
	}
	if !x.isReal() {
		return x, false
	}
	if strings.HasPrefix(n.name, "arc") {
		return e.arc(n.name, x)
	}
	return e.trigonometric(n.name, x)
}

// whole is the floor or ceiling of a value that is known to lie between two
// whole numbers.
func (e *evaluator) whole(x precise, up bool) (precise, bool) {
	const far = -8 // an error that may be a whole number's share
	if x.err > far || !x.zero() && x.exponent() > maxBits {
		e.vague = true
		return x, false
	}
	floor, _ := x.re.Int(nil) // towards zero
	if x.re.Sign() < 0 {
		floor.Sub(floor, big.NewInt(1))
	}
	for i := range int64(3) {
		neighbour := new(big.Float).SetInt(new(big.Int).Add(floor, big.NewInt(i-1)))
		distance := neighbour.Sub(neighbour, x.re)
		if distance.Sign() == 0 || distance.MantExp(nil) <= x.err+1 {
			e.vague = true
			return x, false
		}
	}
	if up {
		floor.Add(floor, big.NewInt(1))
	}
	return e.real(e.zero().SetInt(floor)), true
}

func (e *evaluator) extreme(args []precise, largest bool) precise {
	order := func(a, b precise) int { return a.re.Cmp(b.re) }
	if largest {
		return slices.MaxFunc(args, order)
	}
	return slices.MinFunc(args, order)
}

// product computes factorials and binomials of whole numbers, and binomials
// over small ones.
func (e *evaluator) product(n *node) (x precise, ok bool) {
	count, top := n.args[0], n.args[0]
	if n.name == "binomial" && len(n.args) == 2 {
		count = n.args[1]
	}
	k, ok := e.exact(count)
	if !ok || !k.IsInt() || k.Sign() < 0 {
		return x, false
	}
	if v, ok := e.exact(top); ok && n.name == "binomial" && v.IsInt() && v.Sign() >= 0 {
		rest := new(big.Rat).Sub(v, k)
		if rest.Sign() < 0 {
			return e.real(e.zero()), true
		}
		if rest.Cmp(k) < 0 {
			k = rest
		}
	}
	if !wholeUpTo(k, maxFactors) || !e.spend(int(k.Num().Int64())*e.cost(1)+1) {
		return x, false
	}
	r, below := running{product: e.of(1)}, running{product: e.of(1)}
	factor := e.real(e.of(1))
	if n.name == "binomial" {
		if factor, ok = e.value(top); !ok {
			return x, false
		}
	}
	for i := range k.Num().Int64() {
		if ok := below.times(e.real(e.of(float64(i + 1)))); !ok {
			return x, false
		}
		if n.name == "binomial" {
			from := e.known(new(big.Float).Sub(factor.re, e.of(float64(i))), factor.im, factor.err)
			if ok := r.times(from); !ok {
				return x, false
			}
		}
	}
	if n.name == "factorial" {
		return e.result(below), true
	}
	return e.div(e.result(r), e.result(below))
}

func (e *evaluator) trigonometric(name string, x precise) (precise, bool) {
	s, c, ok := e.sinCos(x.re)
	if !ok {
		return x, false
	}
	err := max(x.err, x.top()-int(e.mantissa)) + 2
	return e.ofPair(name, e.known(s, e.zero(), err), e.known(c, e.zero(), err))
}

// ofPair is a function of an angle by its sine and cosine, or by the hyperbolic
// ones.
func (e *evaluator) ofPair(name string, sin, cos precise) (precise, bool) {
	switch strings.TrimSuffix(name, "h") {
	case "sin":
		return sin, true
	case "cos":
		return cos, true
	case "tan":
		return e.over(sin, cos)
	case "cot":
		return e.over(cos, sin)
	case "sec":
		return e.over(e.real(e.of(1)), cos)
	case "csc":
		return e.over(e.real(e.of(1)), sin)
	}
	return sin, false
}

// arc is an inverse function of an angle's: the angle of a point.
func (e *evaluator) arc(name string, x precise) (precise, bool) {
	ok := true
	unit := e.real(e.of(1))
	if name == "arccot" || name == "arcsec" || name == "arccsc" {
		if x, ok = e.over(unit, x); !ok {
			return x, false
		}
	}
	re, im := unit, x
	if name != "arctan" && name != "arccot" {
		side := e.plus(unit, e.mul(x, x).neg())
		if side.re.Sign() < 0 {
			return x, false
		}
		re = e.squareRoot(side.re, side.err)
		if name == "arccos" || name == "arcsec" {
			re, im = x, re
		}
	}
	angle, ok := e.angle(re.re, im.re)
	if !ok {
		return x, false
	}
	// An error across the point's direction turns it, by its share of the
	// point's distance.
	distance := precise{re.re, im.re, exactly}.exponent()
	err := max(max(re.err, exactly/4)+im.top(), max(im.err, exactly/4)+re.top()) - 2*distance + 3
	return e.known(angle, e.zero(), err), true
}

func (e *evaluator) hyperbolic(name string, x precise) (precise, bool) {
	up, ok1 := e.complexExp(x)
	down, ok2 := e.complexExp(x.neg())
	if !ok1 || !ok2 {
		return x, false
	}
	half := e.real(e.of(0.5))
	return e.ofPair(name, e.mul(e.plus(up, down.neg()), half), e.mul(e.plus(up, down), half))
}

// close settles a close call at one point: by many digits where they can be
// had, else as float64 has it.
func (b *budget) close(x, y *node, at *point, a, c complex128) bool {
	if !near(a, c) {
		return false
	}
	if v := b.decide(x, y, at); v != unknown {
		return v == equal
	}
	size := math.Max(cmplx.Abs(a), cmplx.Abs(c))
	return !b.exhausted() && cmplx.Abs(a-c) <= 1e-11*size
}
