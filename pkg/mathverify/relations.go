package mathverify

import (
	"maps"
	"math"
	"math/big"
	"math/cmplx"
	"slices"
	"strings"
)

func inf(sign int) float64 { return math.Inf(sign) }

// flipped are the operators as read from the right.
var flipped = map[string]string{"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

// equalRelations compares equations and inequalities with each other and with
// the sets that they describe.
func (c *comparer) equalRelations(gold, got *node) bool {
	if gold.kind == kindRelation && got.kind == kindRelation {
		return c.equalTwoRelations(gold, got)
	}
	// A condition on one unknown, and the set of its solutions.
	if gold.kind == kindRelation && (got.isSet() || got.kind == kindRelation) {
		return c.describes(gold, got)
	}
	if c.options.SetForRelation && gold.isSet() {
		return c.describes(got, gold)
	}
	return false
}

func (c *comparer) equalTwoRelations(gold, got *node) bool {
	if c.sameChain(gold, got) {
		return true
	}
	if len(gold.args) == 2 && len(got.args) == 2 {
		a, b := gold.operators[0], got.operators[0]
		switch {
		case a == "in" && b == "in":
			return c.equal(gold.args[0], got.args[0]) && c.equal(gold.args[1], got.args[1])
		case a == "=" && b == "=":
			return c.solved(gold, got) && (c.proportional(gold, got, false) || c.proportionalRatios(gold, got))
		case a == "!=" && b == "!=":
			return c.proportional(gold, got, false)
		case a == b:
			if c.proportional(gold, got, true) {
				return true
			}
		case flipped[a] == b:
			if c.proportional(gold, mirrored(got), true) {
				return true
			}
		}
		// x ∈ S against x = S of a list
		if (a == "in") != (b == "in") && (a == "=" || b == "=") {
			return c.equal(gold.args[0], got.args[0]) && c.equal(gold.args[1], got.args[1])
		}
	}
	a, x, ok1 := c.solutions(gold)
	b, y, ok2 := c.solutions(got)
	return ok1 && ok2 && x == y && c.sameRealSet(a, b)
}

// solved reports whether a prediction is as far solved as the reference:
// 2x = 10 is not yet the answer x = 5.
func (c *comparer) solved(gold, got *node) bool {
	isSolved := func(n *node) bool {
		constant := func(a *node) bool { return len(a.free()) == 0 }
		return n.args[0].kind == kindSymbol && constant(n.args[1]) || n.args[1].kind == kindSymbol && constant(n.args[0])
	}
	return !isSolved(gold) || isSolved(got)
}

// sameChain compares a < b < c side by side, in both directions.
func (c *comparer) sameChain(gold, got *node) bool {
	if slices.Equal(gold.operators, got.operators) && c.pairwise(gold.args, got.args) {
		return true
	}
	m := mirrored(got)
	return m != nil && slices.Equal(gold.operators, m.operators) && c.pairwise(gold.args, m.args)
}

// mirrored reads a relation from the right; nil when an operator cannot be.
func mirrored(n *node) *node {
	m := &node{kind: kindRelation, args: slices.Clone(n.args)}
	slices.Reverse(m.args)
	for _, o := range slices.Backward(n.operators) {
		f, ok := flipped[o]
		if !ok {
			return nil
		}
		m.operators = append(m.operators, f)
	}
	return m
}

// proportional reports whether the differences of the sides are in a constant
// ratio other than zero, and above zero for inequalities.
func (c *comparer) proportional(gold, got *node, positive bool) bool {
	if slices.ContainsFunc(slices.Concat(gold.args, got.args), func(n *node) bool { return n.isSet() || n.kind == kindText || n.kind == kindMatrix }) {
		return c.pairwise(gold.args, got.args) || c.pairwise(gold.args, []*node{got.args[1], got.args[0]})
	}
	f := operation(kindSum, gold.args[0], negate(gold.args[1]))
	g := operation(kindSum, got.args[0], negate(got.args[1]))
	if !sameSymbols(f, g) {
		return false
	}
	// A function is given by its values: a multiple of f(x) = x + 1 is not the
	// answer to what f(x) is.
	defines := slices.ContainsFunc(slices.Concat(gold.args, got.args), applies)
	ratio, settled, valid := complex128(0), [2]*node{}, 0
	for number := range points {
		at := &point{number: number, values: map[string]complex128{}}
		a, b := c.evaluate(f, at), c.evaluate(g, at)
		if cmplx.IsNaN(a) || cmplx.IsNaN(b) || cmplx.Abs(b) < 1e-9 && cmplx.Abs(a) < 1e-9 {
			continue
		}
		if cmplx.Abs(b) < 1e-12 || cmplx.Abs(a) < 1e-12 {
			return false
		}
		r := a / b
		if valid > 0 && cmplx.Abs(r-ratio) > 1e-8*cmplx.Abs(ratio) {
			return false
		}
		// Beside a large constant the unknowns hardly move the ratio: that
		// x = 1000000 is not x = 1000001 takes many digits.
		here := [2]*node{placed(f, at), placed(g, at)}
		if settled[0] == nil {
			settled = here
		} else if v := c.sameRatio(settled, here); v == unequal || v == unknown && cmplx.Abs(r-ratio) > 1e-12*cmplx.Abs(ratio) {
			return false
		}
		ratio = r
		valid++
	}
	if defines && cmplx.Abs(ratio*ratio-1) > 1e-8 {
		return false
	}
	return valid >= validPoints && !c.exhausted() && (!positive || imag(ratio) == 0 && real(ratio) > 0)
}

// proportionalRatios compares equations between quotients without regard to
// denominators: a:b = 2:3 is b:a = 3:2, and 3a = 2b.
func (c *comparer) proportionalRatios(gold, got *node) bool {
	sides := slices.Concat(gold.args, got.args)
	if !slices.ContainsFunc(sides, func(n *node) bool { return n.contains(kindQuotient) }) || slices.ContainsFunc(sides, applies) ||
		slices.ContainsFunc(sides, func(n *node) bool { return n.isSet() || n.contains(kindText) || n.contains(kindMatrix) }) {
		return false
	}
	f, ok1 := c.rational(operation(kindSum, gold.args[0], negate(gold.args[1])))
	g, ok2 := c.rational(operation(kindSum, got.args[0], negate(got.args[1])))
	if !ok1 || !ok2 || len(f.top) != len(g.top) {
		return false
	}
	var ratio *big.Rat
	for monomial, a := range f.top {
		b, ok := g.top[monomial]
		if !ok {
			return false
		}
		if r := new(big.Rat).Quo(a, b); ratio == nil {
			ratio = r
		} else if r.Cmp(ratio) != 0 {
			return false
		}
	}
	return ratio != nil
}

// placed puts a point's values in the place of the symbols.
func placed(n *node, at *point) *node {
	for name := range n.free() {
		n = substitute(n, name, number(new(big.Rat).SetFloat64(real(at.value(name)))))
	}
	return n
}

// sameRatio compares the ratios of two pairs of constants.
func (c *comparer) sameRatio(a, b [2]*node) verdict {
	x, y := product(a[0], b[1]), product(b[0], a[1])
	if v := c.compareResidues(x, y); v != unknown {
		return v
	}
	return c.decide(x, y, &point{})
}

// applies reports whether an expression applies an unknown function.
func applies(n *node) bool {
	return n.kind == kindFunction && strings.HasSuffix(n.name, "()") || slices.ContainsFunc(n.args, applies)
}

// sameSymbols reports whether two expressions have the same unknowns.
func sameSymbols(a, b *node) bool {
	return maps.Equal(a.free(), b.free())
}
