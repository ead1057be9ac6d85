package mathverify

import (
	"math/big"
	"math/bits"
	"slices"
)

// residue is the value of an expression modulo the two primes. Rational
// functions of any size are compared by it: values that differ in a residue
// are different, and values that agree in both are equal, but for one case in
// 10³⁶ that nobody can look for without knowing the primes.
type residue [2]uint64

// primes are 4q + 1 for primes q, so that the powers of a number repeat late
// and -1 has a root.
var (
	primes    = residue{3693061474415735237, 3163482879415462733}
	inversion = [2]*big.Int{new(big.Int).SetUint64(primes[0] - 2), new(big.Int).SetUint64(primes[1] - 2)} // the exponent that inverts
	unitRoots = residue{1064149761487283011, 732709030828326811}                                          // i² = -1
)

const (
	maxFactorialTable = 100_000       // n! is computed for n up to it, and above only relative to others
	maxFactors        = 20_000        // of a falling product, as of a binomial
	maxSeriesTerms    = 20_000        // of Σ and Π whose terms are written out one by one
	maxSeriesDegree   = 24            // of a polynomial whose Σ is interpolated
	maxExponentBits   = 4 * maxBits   // of an exponent modulo a prime
	symbolSeed        = "\x00residue" // makes a symbol's residues other values than its points
)

func (r residue) each(f func(i int) uint64) residue { return residue{f(0), f(1)} }

func smallResidue(v uint64) residue { return residue{v, v} }

func (r residue) plus(s residue) residue {
	return r.each(func(i int) uint64 { return (r[i] + s[i]) % primes[i] })
}

func (r residue) minus(s residue) residue {
	return r.each(func(i int) uint64 { return (r[i] + primes[i] - s[i]) % primes[i] })
}

func (r residue) times(s residue) residue {
	return residue{multiplyModulo(r[0], s[0], primes[0]), multiplyModulo(r[1], s[1], primes[1])}
}

// over is the quotient; ok is false for a zero below.
func (r residue) over(s residue) (quotient residue, ok bool) {
	if s[0] == 0 || s[1] == 0 {
		return r, false
	}
	return r.each(func(i int) uint64 {
		inverse := powerModulo(s[i], inversion[i], primes[i])
		return multiplyModulo(r[i], inverse, primes[i])
	}), true
}

// power is r^e; ok is false for powers of zero that have no value.
func (r residue) power(e *big.Int) (residue, bool) {
	if r[0] == 0 || r[1] == 0 {
		return r, e.Sign() > 0
	}
	result := r.each(func(i int) uint64 { return powerModulo(r[i], new(big.Int).Abs(e), primes[i]) })
	if e.Sign() < 0 {
		return smallResidue(1).over(result)
	}
	return result, true
}

func multiplyModulo(a, b, m uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return bits.Rem64(high, low, m)
}

func powerModulo(base uint64, e *big.Int, m uint64) uint64 {
	result := 1 % m
	for i := e.BitLen() - 1; i >= 0; i-- {
		result = multiplyModulo(result, result, m)
		if e.Bit(i) == 1 {
			result = multiplyModulo(result, base, m)
		}
	}
	return result
}

func residueOf(v *big.Int) residue {
	return residue{}.each(func(i int) uint64 {
		return new(big.Int).Mod(v, new(big.Int).SetUint64(primes[i])).Uint64()
	})
}

func residueOfRational(v *big.Rat) (residue, bool) {
	if v.IsInt() {
		return residueOf(v.Num()), true
	}
	return residueOf(v.Num()).over(residueOf(v.Denom()))
}

// letterResidue is the residue of a letter: any value does, as long as it is that of
// no other letter.
func letterResidue(name string) residue {
	return residue{}.each(func(i int) uint64 { return hashBits(name+symbolSeed, i) % primes[i] })
}

// compareResidues compares rational functions with rational, or complex
// rational, coefficients. The numbers π and e are letters in it: they are
// roots of no polynomial.
func (b *budget) compareResidues(x, y *node) verdict {
	bounds := map[string]bool{}
	x.symbolicBounds(bounds)
	y.symbolicBounds(bounds)
	for name := range bounds {
		return b.compareAtWholes(x, y, name)
	}
	r, ok1 := b.residue(x)
	s, ok2 := b.residue(y)
	switch {
	case !ok1 || !ok2:
		return unknown
	case r == s:
		return equal
	}
	return unequal
}

// symbolicBounds adds the symbols in the bounds of Σ and Π to a set. They are
// whole numbers.
func (n *node) symbolicBounds(into map[string]bool) {
	if n.series() {
		n.args[1].symbols(into)
		n.args[2].symbols(into)
	}
	for _, a := range n.args {
		a.symbolicBounds(into)
	}
}

// compareAtWholes compares with some whole numbers in the place of a symbol.
func (b *budget) compareAtWholes(x, y *node, name string) verdict {
	for _, v := range []int64{3, 4, 5, 8, 13, 30} {
		at := integer(v)
		if found := b.compareResidues(substitute(x, name, at), substitute(y, name, at)); found != equal {
			return found
		}
	}
	return equal
}

// residue computes an expression modulo the primes. ok is false when it is no
// rational function, is undefined, or is beyond the budget.
func (b *budget) residue(n *node) (r residue, ok bool) {
	if !b.spend(1) {
		return r, false
	}
	switch n.kind {
	case kindNumber:
		return residueOfRational(n.value)
	case kindSymbol:
		return letterResidue(n.name), true
	case kindConstant:
		if n.name == "i" {
			return unitRoots, true
		}
		return letterResidue("\x00" + n.name), n.name == "pi" || n.name == "e"
	case kindSum, kindProduct:
		return b.combined(n.kind == kindSum, int64(len(n.args)), func(i int64) *node { return n.args[i] })
	case kindQuotient:
		top, ok1 := b.residue(n.args[0])
		bottom, ok2 := b.residue(n.args[1])
		if !ok1 || !ok2 || !b.spend(8) {
			return r, false
		}
		return top.over(bottom)
	case kindPercent:
		if r, ok = b.residue(n.args[0]); ok {
			return r.over(smallResidue(100))
		}
	case kindPower:
		e, ok := b.exact(n.args[1])
		if !ok || !e.IsInt() || e.Num().BitLen() > maxExponentBits {
			return r, false
		}
		base, ok := b.residue(n.args[0])
		if !ok || !b.spend(1+e.Num().BitLen()/8) {
			return r, false
		}
		return base.power(e.Num())
	case kindFunction:
		return b.residueOfFunction(n)
	}
	return r, false
}

// combined adds or multiplies expressions, of which item makes one by its number.
func (b *budget) combined(adds bool, count int64, item func(i int64) *node) (residue, bool) {
	total, combine := smallResidue(1), residue.times
	if adds {
		total, combine = residue{}, residue.plus
	}
	for i := range count {
		r, ok := b.residue(item(i))
		if !ok {
			return r, false
		}
		total = combine(total, r)
	}
	return total, true
}

func (b *budget) residueOfFunction(n *node) (r residue, ok bool) {
	switch n.name {
	case "sum", "prod":
		return b.residueOfSeries(n)
	case "factorial":
		if len(n.args) == 1 {
			if v, ok := b.exact(n.args[0]); ok && v.IsInt() && v.Sign() >= 0 {
				return b.factorial(v.Num())
			}
		}
		return r, false
	case "binomial":
		if len(n.args) == 2 {
			return b.residueOfBinomial(n)
		}
		return r, false
	}
	v, ok := b.exact(n)
	if !ok {
		return r, false
	}
	return residueOfRational(v)
}

// factorial is n! modulo the primes. One that is too large to be multiplied
// out is a letter, and those near it are multiples of that letter.
func (b *budget) factorial(n *big.Int) (r residue, ok bool) {
	if n.Cmp(big.NewInt(maxFactorialTable)) <= 0 {
		want := int(n.Int64())
		if len(b.factorials) == 0 {
			b.factorials = []residue{smallResidue(1)}
		}
		have := len(b.factorials)
		if want >= have && !b.spend((want-have)/8+1) {
			return r, false
		}
		for i := have; i <= want; i++ {
			b.factorials = append(b.factorials, b.factorials[i-1].times(smallResidue(uint64(i))))
		}
		return b.factorials[want], true
	}
	if b.anchor == nil {
		b.anchor = n
	}
	letter := letterResidue("\x00" + b.anchor.String() + "!")
	distance := new(big.Int).Sub(n, b.anchor)
	if !distance.IsInt64() || distance.Int64() > maxFactors || distance.Int64() < -maxFactors || n.BitLen() > maxBits {
		return r, false
	}
	steps := distance.Int64()
	if steps >= 0 {
		product, ok := b.falling(residueOf(n), steps)
		return letter.times(product), ok
	}
	product, ok := b.falling(residueOf(b.anchor), -steps)
	if !ok {
		return r, false
	}
	return letter.over(product)
}

// falling is x(x-1)…(x-count+1).
func (b *budget) falling(x residue, count int64) (residue, bool) {
	product := smallResidue(1)
	if !b.spend(int(count)/8 + 1) {
		return product, false
	}
	for range count {
		product = product.times(x)
		x = x.minus(smallResidue(1))
	}
	return product, true
}

// residueOfBinomial computes n over k for a whole k, or a whole n - k, that is
// small, and else by factorials.
func (b *budget) residueOfBinomial(n *node) (r residue, ok bool) {
	k, ok1 := b.exact(n.args[1])
	top, ok2 := b.exact(n.args[0])
	if ok1 && ok2 && top.IsInt() && k.IsInt() && top.Sign() >= 0 {
		rest := new(big.Rat).Sub(top, k)
		if k.Sign() < 0 || rest.Sign() < 0 {
			return residue{}, true
		}
		if rest.Cmp(k) < 0 {
			k = rest
		}
	}
	if !ok1 || !k.IsInt() || k.Sign() < 0 {
		return r, false
	}
	const direct = 64 // factors, which cost less than factorials
	if wholeUpTo(k, direct) || wholeUpTo(k, maxFactors) && !(ok2 && wholeUpTo(top, maxFactorialTable)) {
		x, ok1 := b.residue(n.args[0])
		product, ok2 := b.falling(x, k.Num().Int64())
		below, ok3 := b.factorial(k.Num())
		if !ok1 || !ok2 || !ok3 {
			return r, false
		}
		return product.over(below)
	}
	if !ok2 || !top.IsInt() {
		return r, false
	}
	above, ok1 := b.factorial(top.Num())
	one, ok2 := b.factorial(k.Num())
	other, ok3 := b.factorial(new(big.Int).Sub(top.Num(), k.Num()))
	if !ok1 || !ok2 || !ok3 {
		return r, false
	}
	return above.over(one.times(other))
}

// residueOfSeries computes Σ and Π: of a polynomial between any bounds by
// interpolation, else term by term between whole numbers.
func (b *budget) residueOfSeries(n *node) (r residue, ok bool) {
	name, body := n.args[0].name, n.args[3]
	from, ok := b.exact(n.args[1])
	if !ok || !from.IsInt() || !from.Num().IsInt64() {
		return r, false
	}
	low := from.Num().Int64()
	to, whole := b.exact(n.args[2])
	count := int64(0)
	if whole {
		length := new(big.Rat).Sub(to, from)
		if !to.IsInt() {
			return r, false
		}
		if length.Sign() < 0 { // an empty sum or product
			return b.combined(n.name == "sum", 0, nil)
		}
		whole = wholeUpTo(length, maxSeriesTerms)
		count = length.Num().Int64() + 1
	}
	if degree, ok := degreeIn(body, name); ok && n.name == "sum" && degree <= maxSeriesDegree && !(whole && count <= int64(degree)+2) {
		return b.interpolated(n, low, degree)
	}
	if !whole {
		return r, false
	}
	return b.combined(n.name == "sum", count, func(i int64) *node { return substitute(body, name, integer(low+i)) })
}

// degreeIn is the degree of an expression that is a polynomial in a symbol.
func degreeIn(n *node, name string) (degree int, ok bool) {
	if free := n.free(); !free[name] {
		return 0, true
	}
	switch n.kind {
	case kindSymbol:
		return 1, true
	case kindSum, kindProduct:
		for _, a := range n.args {
			d, ok := degreeIn(a, name)
			if !ok {
				return 0, false
			}
			if n.kind == kindSum {
				degree = max(degree, d)
			} else {
				degree += d
			}
		}
		return degree, true
	case kindPower:
		d, ok := degreeIn(n.args[0], name)
		e := n.args[1]
		if !ok || !e.plainInteger() || !wholeUpTo(e.value, maxSeriesDegree) {
			return 0, false
		}
		return d * int(e.value.Num().Int64()), true
	case kindQuotient, kindPercent:
		if len(n.args) == 2 {
			if d, ok := degreeIn(n.args[1], name); !ok || d != 0 {
				return 0, false
			}
		}
		return degreeIn(n.args[0], name)
	}
	return 0, false
}

// interpolated is the sum of a polynomial from low to any upper bound: it is
// the polynomial of one degree more through the first sums.
func (b *budget) interpolated(n *node, low int64, degree int) (r residue, ok bool) {
	upper, ok := b.residue(n.args[2])
	if !ok {
		return r, false
	}
	count := degree + 2
	at := make([]residue, count) // the bounds low-1, low, …
	sums := make([]residue, count)
	for i := range count {
		at[i] = residueOf(big.NewInt(low - 1 + int64(i)))
		if i > 0 {
			term, ok := b.residue(substitute(n.args[3], n.args[0].name, integer(low-1+int64(i))))
			if !ok {
				return r, false
			}
			sums[i] = sums[i-1].plus(term)
		}
	}
	if i := slices.Index(at, upper); i >= 0 {
		return sums[i], true
	}
	for i := range count {
		top, bottom := sums[i], smallResidue(1)
		for j := range count {
			if j != i {
				top = top.times(upper.minus(at[j]))
				bottom = bottom.times(at[i].minus(at[j]))
			}
		}
		weighted, ok := top.over(bottom)
		if !ok || !b.spend(count) {
			return r, false
		}
		r = r.plus(weighted)
	}
	return r, true
}
