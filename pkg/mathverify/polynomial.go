package mathverify

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// polynomial maps monomials to coefficients that are not zero. A monomial is
// written as its atoms with their exponents in alphabetical order; the
// constant's is empty.
//
// Atoms are symbols and whatever else is no sum, product, quotient or whole
// power: π, √2, sin x, 2^x. Between atoms there are algebraic relations that
// the form does not know, so equal forms prove equality, and unequal ones
// disprove it only when every atom is a symbol.
type polynomial map[string]*big.Rat

// fraction is a quotient of polynomials.
type fraction struct {
	top, bottom polynomial
	opaque      bool // an atom is not a plain symbol
}

func constantPolynomial(v *big.Rat) polynomial {
	if v.Sign() == 0 {
		return polynomial{}
	}
	return polynomial{"": v}
}

func (b *budget) add(x, y polynomial) (polynomial, bool) {
	sum := maps.Clone(x)
	for m, c := range y {
		total := c
		if old, ok := sum[m]; ok {
			total = new(big.Rat).Add(old, c)
		}
		if total.Sign() == 0 {
			delete(sum, m)
			continue
		}
		sum[m] = total
	}
	return sum, len(sum) <= maxTerms && b.spend(1+len(y)/4)
}

func (b *budget) multiply(x, y polynomial) (polynomial, bool) {
	if len(x)*len(y) > 16*maxTerms || !b.spend(1+len(x)*len(y)/2) {
		return nil, false
	}
	product := polynomial{}
	for m1, c1 := range x {
		for m2, c2 := range y {
			m := multiplyMonomials(m1, m2)
			c := new(big.Rat).Mul(c1, c2)
			if old, ok := product[m]; ok {
				c.Add(c, old)
			}
			if c.Num().BitLen()+c.Denom().BitLen() > maxBits {
				return nil, false
			}
			if c.Sign() == 0 {
				delete(product, m)
				continue
			}
			product[m] = c
		}
	}
	return product, len(product) <= maxTerms
}

const (
	atomSeparator     = "\x00"
	exponentSeparator = "\x01"
)

func multiplyMonomials(a, b string) string {
	if a == "" {
		return b
	}
	if b == "" {
		return a
	}
	exponents := map[string]int{}
	for _, part := range append(strings.Split(a, atomSeparator), strings.Split(b, atomSeparator)...) {
		atom, exponent, _ := strings.Cut(part, exponentSeparator)
		e, _ := strconv.Atoi(exponent) // written below
		exponents[atom] += e
	}
	// i² = -1 is left to the numbers: i is an atom like π.
	var parts []string
	for _, atom := range slices.Sorted(maps.Keys(exponents)) {
		parts = append(parts, atom+exponentSeparator+strconv.Itoa(exponents[atom]))
	}
	return strings.Join(parts, atomSeparator)
}

// rational brings an expression into the form top/bottom. ok is false when it
// has no such form within the budget.
func (b *budget) rational(n *node) (f fraction, ok bool) {
	if !b.spend(2) {
		return f, false
	}
	unit := constantPolynomial(one)
	switch n.kind {
	case kindNumber:
		return fraction{top: constantPolynomial(n.value), bottom: unit}, true
	case kindSymbol:
		return fraction{top: polynomial{n.name + exponentSeparator + "1": one}, bottom: unit}, true
	case kindSum, kindProduct:
		total, combine := fraction{top: polynomial{}, bottom: unit}, b.addFractions
		if n.kind == kindProduct {
			total, combine = fraction{top: unit, bottom: unit}, b.multiplyFractions
		}
		for _, a := range n.args {
			f, ok := b.rational(a)
			if !ok {
				return f, false
			}
			if total, ok = combine(total, f); !ok {
				return f, false
			}
		}
		return total, true
	case kindQuotient:
		x, ok1 := b.rational(n.args[0])
		y, ok2 := b.rational(n.args[1])
		if !ok1 || !ok2 || len(y.top) == 0 {
			return f, false
		}
		return b.multiplyFractions(x, fraction{top: y.bottom, bottom: y.top, opaque: y.opaque})
	case kindPercent:
		x, ok := b.rational(n.args[0])
		if !ok {
			return f, false
		}
		return b.multiplyFractions(x, fraction{top: constantPolynomial(big.NewRat(1, 100)), bottom: unit})
	case kindPower:
		if e, ok := b.exact(n.args[1]); ok && e.IsInt() && e.Num().IsInt64() && e.Num().Int64() >= -32 && e.Num().Int64() <= 32 {
			return b.powerFraction(n.args[0], int(e.Num().Int64()))
		}
	}
	if v, ok := b.exact(n); ok {
		return fraction{top: constantPolynomial(v), bottom: unit}, true
	}
	if b.exhausted() {
		return f, false
	}
	return fraction{top: polynomial{n.key() + exponentSeparator + "1": one}, bottom: unit, opaque: true}, true
}

func (b *budget) addFractions(x, y fraction) (fraction, bool) {
	a, ok1 := b.multiply(x.top, y.bottom)
	c, ok2 := b.multiply(y.top, x.bottom)
	bottom, ok3 := b.multiply(x.bottom, y.bottom)
	if !ok1 || !ok2 || !ok3 {
		return fraction{}, false
	}
	top, ok := b.add(a, c)
	return fraction{top: top, bottom: bottom, opaque: x.opaque || y.opaque}, ok
}

func (b *budget) multiplyFractions(x, y fraction) (fraction, bool) {
	top, ok1 := b.multiply(x.top, y.top)
	bottom, ok2 := b.multiply(x.bottom, y.bottom)
	return fraction{top: top, bottom: bottom, opaque: x.opaque || y.opaque}, ok1 && ok2
}

func (b *budget) powerFraction(n *node, exponent int) (fraction, bool) {
	base, ok := b.rational(n)
	if !ok {
		return base, false
	}
	if exponent < 0 {
		if len(base.top) == 0 {
			return base, false
		}
		base.top, base.bottom = base.bottom, base.top
		exponent = -exponent
	}
	unit := constantPolynomial(one)
	total := fraction{top: unit, bottom: unit, opaque: base.opaque}
	for range exponent {
		if total, ok = b.multiplyFractions(total, base); !ok {
			return total, false
		}
	}
	return total, true
}

// verdict is what a method found about equality.
type verdict uint8

const (
	unknown verdict = iota
	equal
	unequal
)

// compareRational compares by the normal form of x - y.
func (b *budget) compareRational(x, y *node) verdict {
	f, ok1 := b.rational(x)
	g, ok2 := b.rational(y)
	if !ok1 || !ok2 {
		return unknown
	}
	left, ok1 := b.multiply(f.top, g.bottom)
	right, ok2 := b.multiply(g.top, f.bottom)
	if !ok1 || !ok2 {
		return unknown
	}
	if maps.EqualFunc(left, right, func(a, b *big.Rat) bool { return a.Cmp(b) == 0 }) {
		return equal
	}
	if f.opaque || g.opaque {
		return unknown
	}
	return unequal
}
