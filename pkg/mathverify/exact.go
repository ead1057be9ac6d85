package mathverify

import (
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strings"
)

// exact computes the value of a constant rational expression. ok is false
// when the value is irrational, has symbols, or is beyond the budget.
func (b *budget) exact(n *node) (value *big.Rat, ok bool) {
	if !b.spend(2) {
		return nil, false
	}
	switch n.kind {
	case kindNumber:
		return n.value, true
	case kindSum, kindProduct:
		total, combine := new(big.Rat), (*big.Rat).Add
		if n.kind == kindProduct {
			total, combine = big.NewRat(1, 1), (*big.Rat).Mul
		}
		for _, a := range n.args {
			v, ok := b.exact(a)
			if !ok {
				return nil, false
			}
			if total = combine(new(big.Rat), total, v); !b.small(total) {
				return nil, false
			}
		}
		return total, true
	case kindPercent:
		v, ok := b.exact(n.args[0])
		if !ok {
			return nil, false
		}
		return new(big.Rat).Quo(v, big.NewRat(100, 1)), true
	case kindQuotient:
		top, ok1 := b.exact(n.args[0])
		bottom, ok2 := b.exact(n.args[1])
		if !ok1 || !ok2 || bottom.Sign() == 0 {
			return nil, false
		}
		return new(big.Rat).Quo(top, bottom), true
	case kindPower:
		return b.exactPower(n)
	case kindFunction:
		return b.exactFunction(n)
	}
	return nil, false
}

// small bounds the digits of a value, and charges for long ones.
func (b *budget) small(v *big.Rat) bool {
	bits := v.Num().BitLen() + v.Denom().BitLen()
	return bits <= 2*maxBits && b.spend(bits/256)
}

// exactPower computes integer powers and exact roots.
func (b *budget) exactPower(n *node) (*big.Rat, bool) {
	base, ok1 := b.exact(n.args[0])
	exponent, ok2 := b.exact(n.args[1])
	if !ok1 || !ok2 || !exponent.Num().IsInt64() || !exponent.Denom().IsInt64() {
		return nil, false
	}
	p, q := exponent.Num().Int64(), exponent.Denom().Int64()
	if base.Sign() == 0 {
		if p <= 0 {
			return nil, false
		}
		return new(big.Rat), true
	}
	if q != 1 {
		if q > 64 || base.Sign() < 0 {
			return nil, false // a negative number's roots are complex
		}
		top, exactTop := integerRoot(base.Num(), int(q))
		bottom, exactBottom := integerRoot(base.Denom(), int(q))
		if !exactTop || !exactBottom || !b.spend(base.Num().BitLen()/8) {
			return nil, false
		}
		base = new(big.Rat).SetFrac(top, bottom)
	}
	size := int64(max(base.Num().BitLen(), base.Denom().BitLen()))
	if p < 0 {
		base = new(big.Rat).Inv(base)
		p = -p
	}
	if size > 1 && p > maxBits/size || p > maxBits {
		return nil, false
	}
	e := big.NewInt(p)
	result := new(big.Rat).SetFrac(new(big.Int).Exp(base.Num(), e, nil), new(big.Int).Exp(base.Denom(), e, nil))
	return result, b.small(result)
}

// integerRoot is the q-th root of v > 0 if it is whole.
func integerRoot(v *big.Int, q int) (*big.Int, bool) {
	if q == 2 {
		r := new(big.Int).Sqrt(v)
		return r, new(big.Int).Mul(r, r).Cmp(v) == 0
	}
	if v.BitLen() > maxBits {
		return nil, false
	}
	e := big.NewInt(int64(q))
	low, high := big.NewInt(0), new(big.Int).Lsh(big.NewInt(1), uint(v.BitLen()/q+1))
	for new(big.Int).Sub(high, low).Cmp(big.NewInt(1)) > 0 {
		middle := new(big.Int).Add(low, high)
		middle.Rsh(middle, 1)
		switch new(big.Int).Exp(middle, e, nil).Cmp(v) {
		case 0:
			return middle, true
		case -1:
			low = middle
		default:
			high = middle
		}
	}
	return nil, false
}

// exactFunction computes functions with rational values.
func (b *budget) exactFunction(n *node) (*big.Rat, bool) {
	switch n.name {
	case "sum", "prod":
		return b.exactSeries(n)
	}
	if n.name == "mod" && len(n.args) == 2 {
		if v, ok := b.remainder(n.args[0], n.args[1]); ok {
			return v, true
		}
	}
	if strings.HasSuffix(n.name, "()") { // an unknown function
		return nil, false
	}
	args := make([]*big.Rat, len(n.args))
	for i, a := range n.args {
		v, ok := b.exact(a)
		if !ok {
			return nil, false
		}
		args[i] = v
	}
	switch n.name {
	case "abs":
		if len(args) == 1 {
			return new(big.Rat).Abs(args[0]), true
		}
	case "floor", "ceil":
		if len(args) == 1 {
			return floorOrCeiling(args[0], n.name == "ceil"), true
		}
	case "max", "min":
		return extreme(args, n.name == "max")
	case "factorial":
		if len(args) == 1 && wholeUpTo(args[0], maxFactorial) && b.spend(50) {
			return new(big.Rat).SetInt(new(big.Int).MulRange(1, args[0].Num().Int64())), true
		}
	case "binomial":
		return b.exactBinomial(args)
	case "gcd", "lcm", "mod":
		return exactDivision(n.name, args)
	case "log":
		return exactLogarithm(args)
	}
	return nil, false
}

// remainder is x modulo m > 0, of an x that may be too large to be computed.
func (b *budget) remainder(x, m *node) (*big.Rat, bool) {
	modulus, ok := b.exact(m)
	if !ok || !modulus.IsInt() || modulus.Sign() <= 0 || modulus.Num().BitLen() > 1024 {
		return nil, false
	}
	r, ok := b.modulo(x, modulus.Num())
	if !ok {
		return nil, false
	}
	return new(big.Rat).SetInt(r), true
}

// modulo computes sums, products and powers of whole numbers modulo m.
func (b *budget) modulo(n *node, m *big.Int) (*big.Int, bool) {
	switch n.kind {
	case kindSum, kindProduct:
		total, combine := big.NewInt(0), (*big.Int).Add
		if n.kind == kindProduct {
			total, combine = big.NewInt(1), (*big.Int).Mul
		}
		for _, a := range n.args {
			r, ok := b.modulo(a, m)
			if !ok || !b.spend(4) {
				return nil, false
			}
			total.Mod(combine(total, total, r), m)
		}
		return total, true
	case kindPower:
		e, ok := b.exact(n.args[1])
		if !ok || !e.IsInt() || e.Sign() < 0 || !b.spend(1+e.Num().BitLen()*m.BitLen()/256) {
			return nil, false
		}
		base, ok := b.modulo(n.args[0], m)
		if !ok || base.Sign() == 0 && e.Sign() == 0 {
			return nil, false
		}
		return new(big.Int).Exp(base, e.Num(), m), true
	}
	v, ok := b.exact(n)
	if !ok || !v.IsInt() {
		return nil, false
	}
	return new(big.Int).Mod(v.Num(), m), true
}

// exactBinomial computes n over k of up to maxBits bits.
func (b *budget) exactBinomial(args []*big.Rat) (*big.Rat, bool) {
	if len(args) != 2 || !wholeUpTo(args[0], math.MaxInt64) || !wholeUpTo(args[1], math.MaxInt64) {
		return nil, false
	}
	n, k := args[0].Num().Int64(), args[1].Num().Int64()
	if k > n {
		return new(big.Rat), true
	}
	if k = min(k, n-k); k > maxBits/int64(bits.Len64(uint64(n|1))) || !b.spend(50+2*int(k)) {
		return nil, false
	}
	return new(big.Rat).SetInt(new(big.Int).Binomial(n, k)), true
}

func wholeUpTo(v *big.Rat, bound int64) bool {
	return v.IsInt() && v.Sign() >= 0 && v.Cmp(big.NewRat(bound, 1)) <= 0
}

func floorOrCeiling(v *big.Rat, up bool) *big.Rat {
	q := new(big.Int).Div(v.Num(), v.Denom()) // Euclidean: the floor, as the denominator is positive
	if up && !v.IsInt() {
		q.Add(q, big.NewInt(1))
	}
	return new(big.Rat).SetInt(q)
}

func extreme(args []*big.Rat, largest bool) (*big.Rat, bool) {
	if len(args) == 0 {
		return nil, false
	}
	if largest {
		return slices.MaxFunc(args, (*big.Rat).Cmp), true
	}
	return slices.MinFunc(args, (*big.Rat).Cmp), true
}

func exactDivision(name string, args []*big.Rat) (*big.Rat, bool) {
	if len(args) != 2 || !args[0].IsInt() || !args[1].IsInt() || args[1].Sign() == 0 {
		return nil, false
	}
	a, c := args[0].Num(), args[1].Num()
	if name == "mod" {
		return new(big.Rat).SetInt(new(big.Int).Mod(a, c)), true
	}
	common := new(big.Int).GCD(nil, nil, new(big.Int).Abs(a), new(big.Int).Abs(c))
	if name == "gcd" {
		return new(big.Rat).SetInt(common), true
	}
	product := new(big.Int).Mul(a, c)
	return new(big.Rat).SetInt(product.Abs(product).Quo(product, common)), true
}

// exactLogarithm is log_b(b^k) for whole k up to 64 either way.
func exactLogarithm(args []*big.Rat) (*big.Rat, bool) {
	if len(args) != 2 || args[0].Sign() <= 0 || args[1].Sign() <= 0 || args[1].Cmp(one) == 0 {
		return nil, false
	}
	x, base := args[0], args[1]
	power, inverse := new(big.Rat).SetInt64(1), new(big.Rat).SetInt64(1)
	for k := range int64(65) {
		if power.Cmp(x) == 0 {
			return big.NewRat(k, 1), true
		}
		if inverse.Cmp(x) == 0 {
			return big.NewRat(-k, 1), true
		}
		if power.Num().BitLen()+power.Denom().BitLen() > maxBits {
			break
		}
		power = new(big.Rat).Mul(power, base)
		inverse = new(big.Rat).Quo(inverse, base)
	}
	return nil, false
}

// exactSeries computes Σ and Π between whole bounds.
func (b *budget) exactSeries(n *node) (*big.Rat, bool) {
	terms, ok := b.series(n, maxSumTerms)
	if !ok {
		return nil, false
	}
	return b.exact(operation(seriesKinds[n.name], terms...))
}

// seriesKinds are what Σ and Π are written out as.
var seriesKinds = map[string]kind{"sum": kindSum, "prod": kindProduct}

// series writes the terms of Σ and Π out, up to so many.
func (b *budget) series(n *node, most int64) ([]*node, bool) {
	from, ok1 := b.exact(n.args[1])
	to, ok2 := b.exact(n.args[2])
	if !ok1 || !ok2 || !from.IsInt() || !to.IsInt() || !from.Num().IsInt64() || !to.Num().IsInt64() {
		return nil, false
	}
	low, high := from.Num().Int64(), to.Num().Int64()
	if high < low || high-low >= most || !b.spend(n.args[3].count()*int(high-low+1)/4) {
		return nil, false
	}
	var terms []*node
	for i := low; i <= high; i++ {
		terms = append(terms, substitute(n.args[3], n.args[0].name, integer(i)))
	}
	return terms, true
}

// substitute puts a value in the place of a symbol.
func substitute(n *node, name string, value *node) *node {
	if n.kind == kindSymbol && n.name == name {
		return value
	}
	return n.mapped(func(a *node) *node { return substitute(a, name, value) })
}
