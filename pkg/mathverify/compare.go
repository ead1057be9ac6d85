package mathverify

import (
	"fmt"
	"maps"
	"math/big"
	"math/cmplx"
	"slices"
	"strings"
)

// comparer compares parsed answers within a budget.
type comparer struct {
	*budget
	options Options
	trace   *trace // nil unless steps are asked for
}

// equal reports whether a prediction is the reference answer.
func (c *comparer) equal(gold, got *node) bool {
	if !c.spend(1) {
		return false
	}
	gold, got = expandSigns(gold), expandSigns(got)
	gold, got = c.withoutNames(gold, got)
	if gold.name == "pmod" && got.name == "pmod" && !c.equal(gold.args[1], got.args[1]) {
		return false
	}
	gold, got = remainder(gold), remainder(got)
	if gold.kind == kindRelation || got.kind == kindRelation {
		return c.compared("relations", gold, got, c.equalRelations(gold, got))
	}
	switch {
	case gold.isSet() || got.isSet():
		return c.compared("collections", gold, got, c.equalSets(gold, got))
	case holdsMatrix(gold) || holdsMatrix(got):
		return c.compared("matrices, cell by cell", gold, got, c.equalMatrices(gold, got))
	case gold.kind == kindText || got.kind == kindText:
		return c.compared("words", gold, got, letters(gold) != "" && letters(gold) == letters(got))
	}
	return c.equalValues(gold, got)
}

// remainder is the value of 2^{100} \pmod 7. Of two such answers the moduli are
// compared too.
func remainder(n *node) *node {
	if n.name != "pmod" {
		return n
	}
	return function("mod", n.args...)
}

// withoutNames drops the name that a value was given: in x = 5 against 5, the
// left side, as in the response's 2 + 3 = 5; in a = b = c, what stands between.
func (c *comparer) withoutNames(gold, got *node) (*node, *node) {
	gold, got = shortened(gold), shortened(got)
	if got.kind == kindRelation && gold.kind != kindRelation && (named(got) || computed(got)) {
		got = expandSigns(got.args[len(got.args)-1])
	}
	if gold.kind == kindRelation && got.kind != kindRelation && named(gold) {
		gold = expandSigns(gold.args[len(gold.args)-1])
	}
	return gold, got
}

// shortened makes a = c of a = b = c.
func shortened(n *node) *node {
	if n.kind != kindRelation || len(n.args) < 3 || slices.ContainsFunc(n.operators, func(o string) bool { return o != "=" }) {
		return n
	}
	return &node{kind: kindRelation, args: []*node{n.args[0], n.args[len(n.args)-1]}, operators: []string{"="}}
}

// named reports whether a relation only gives a name to its right side.
func named(n *node) bool {
	if len(n.args) != 2 || n.operators[0] != "=" && n.operators[0] != "in" {
		return false
	}
	return name(n.args[0]) && !words(n.args[1])
}

// words reports whether an expression is words, which a name does not stand
// before.
func words(n *node) bool {
	return n.kind == kindText || n.kind == kindList && slices.ContainsFunc(n.args, words)
}

func name(n *node) bool {
	switch n.kind {
	case kindSymbol, kindText, kindConstant:
		return true
	case kindTuple, kindList, kindQuotient: // of a quotient: AB/CD, and the ratio A:B
		return !slices.ContainsFunc(n.args, func(a *node) bool { return !name(a) })
	case kindProduct: // ABC, or the P(x) of a polynomial's name
		return !slices.ContainsFunc(n.args, func(a *node) bool { return a.kind != kindSymbol && a.kind != kindConstant })
	case kindFunction: // f(2), |AB|, tan A
		return strings.HasSuffix(n.name, "()") || !slices.ContainsFunc(n.args, func(a *node) bool { return !name(a) })
	}
	return false
}

// computed reports whether a relation only says what a computation comes to:
// 2 + 3 = 5.
func computed(n *node) bool {
	return len(n.args) == 2 && n.operators[0] == "=" && constantValue(n.args[0]) && constantValue(n.args[1])
}

// constantValue reports whether an expression has no unknowns and is no set.
func constantValue(n *node) bool {
	return len(n.free()) == 0 && !n.isSet() && !words(n)
}

// letters is the text of words, or of letters side by side that were read as
// factors.
func letters(n *node) string {
	switch n.kind {
	case kindText, kindSymbol, kindConstant:
		return n.name
	case kindProduct:
		all := ""
		for _, a := range n.args {
			part := letters(a)
			if part == "" {
				return ""
			}
			all += part
		}
		return all
	}
	return ""
}

// expandSigns writes ± out as a list of two values.
func expandSigns(n *node) *node {
	if !n.contains(kindPlusMinus) && !n.contains(kindMinusPlus) {
		return n
	}
	switch n.kind {
	case kindList:
		var items []*node
		for _, a := range n.args {
			if e := expandSigns(a); e.kind == kindList {
				items = append(items, e.args...)
			} else {
				items = append(items, e)
			}
		}
		if len(items) > maxListItems {
			return n
		}
		return operation(kindList, items...)
	case kindRelation:
		if len(n.args) == 2 {
			if e := expandSigns(n.args[1]); e.kind == kindList {
				return &node{kind: kindRelation, args: []*node{n.args[0], e}, operators: n.operators}
			}
		}
		return n
	case kindTuple, kindUnion, kindIntersect, kindDifference, kindMatrix, kindNamedSet:
		return n
	}
	return operation(kindList, withSign(n, 1), withSign(n, -1))
}

// withSign replaces ± by the sign and ∓ by the opposite.
func withSign(n *node, sign int) *node {
	copied := n.mapped(func(a *node) *node { return withSign(a, sign) })
	if n.kind != kindPlusMinus && n.kind != kindMinusPlus {
		return copied
	}
	last := copied.args[len(copied.args)-1]
	if (n.kind == kindPlusMinus) != (sign > 0) {
		last = negate(last)
	}
	if len(copied.args) == 1 {
		return last
	}
	return operation(kindSum, copied.args[0], last)
}

// pairwise compares two lists item by item.
func (c *comparer) pairwise(gold, got []*node) bool {
	if len(gold) != len(got) {
		return false
	}
	for i := range gold {
		if !c.equal(gold[i], got[i]) {
			return false
		}
	}
	return true
}

// equalValues compares two expressions that stand for one value each.
func (c *comparer) equalValues(gold, got *node) bool {
	if c.options.Tolerance > 0 {
		if same, ok := c.within(gold, got); ok {
			return c.compared(fmt.Sprintf("within a share of %g", c.options.Tolerance), gold, got, same)
		}
	}
	if gold.hasDecimal() || got.hasDecimal() {
		return c.compared(fmt.Sprintf("to %d decimal places", c.options.DecimalPlaces), gold, got, c.equalRounded(gold, got))
	}
	if gold.key() == got.key() {
		return c.compared("the same form", gold, got, true)
	}
	a, ok1 := c.exact(gold)
	b, ok2 := c.exact(got)
	if ok1 && ok2 {
		return c.compared("exact rationals", gold, got, a.Cmp(b) == 0)
	}
	if infinite(gold) != 0 || infinite(got) != 0 {
		return c.compared("infinities", gold, got, infinite(gold) == infinite(got))
	}
	if v := c.compareResidues(gold, got); v != unknown {
		return c.compared("residues modulo two primes", gold, got, v == equal)
	}
	if v := c.compareRational(gold, got); v != unknown {
		return c.compared("normal forms of rational functions", gold, got, v == equal)
	}
	return c.compared("values at seeded points", gold, got, c.equalNumerically(gold, got))
}

// within compares two real numbers by their difference. ok is false for
// others.
func (c *comparer) within(gold, got *node) (same, ok bool) {
	a, ok1 := c.realValue(gold)
	b, ok2 := c.realValue(got)
	if !ok1 || !ok2 {
		return false, false
	}
	return closeBy(a, b, new(big.Rat).SetFloat64(c.options.Tolerance)), true
}

// inNamesOf is what the response's answer is compared as.
func (c *comparer) inNamesOf(gold, got *node) *node {
	if !c.options.RenameSymbols {
		return got
	}
	return renamed(gold, got)
}

// renamed gives the response's symbols the names of the reference's, both in
// alphabetical order, if there are as many.
func renamed(gold, got *node) *node {
	want, have := gold.free(), got.free()
	if len(want) != len(have) {
		return got
	}
	to, from := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have))
	names := map[string]string{}
	for i := range to {
		names[from[i]] = to[i]
	}
	return rename(got, names)
}

func rename(n *node, names map[string]string) *node {
	if n.kind == kindSymbol {
		if to, ok := names[n.name]; ok {
			return &node{kind: kindSymbol, name: to}
		}
		return n // the variable of a sum
	}
	return n.mapped(func(a *node) *node { return rename(a, names) })
}

// infinite is the sign of an infinite value, 0 for others.
func infinite(n *node) int {
	switch {
	case n.kind == kindConstant && n.name == "infinity":
		return 1
	case n.kind == kindProduct && len(n.args) == 2 && infinite(n.args[1]) != 0 && n.args[0].kind == kindNumber:
		return n.args[0].value.Sign() * infinite(n.args[1])
	}
	return 0
}

// equalNumerically evaluates both sides at points of all symbols.
func (c *comparer) equalNumerically(gold, got *node) bool {
	free, here := gold.free(), got.free()
	constant := len(free) == 0 && len(here) == 0
	if constant {
		if v := c.decide(gold, got, &point{}); v != unknown {
			return v == equal
		}
	} else if gold.sumsWithoutEnd() || got.sumsWithoutEnd() {
		maps.Copy(free, here)
		return c.equalLimits(gold, got, slices.Sorted(maps.Keys(free)))
	}
	valid := 0
	for number := range points {
		at := &point{number: number, values: map[string]complex128{}}
		a, b := c.evaluate(gold, at), c.evaluate(got, at)
		if cmplx.IsNaN(a) || cmplx.IsNaN(b) || cmplx.IsInf(a) || cmplx.IsInf(b) {
			if constant {
				c.undecided = true
				return false
			}
			continue // one side is defined in fewer places, as x/x against 1
		}
		if !c.close(gold, got, at, a, b) {
			return false
		}
		if valid++; constant {
			return true
		}
	}
	return valid >= validPoints && !c.exhausted()
}

// equalRounded compares values of which one was written as a decimal, to the
// number of places of the options.
func (c *comparer) equalRounded(gold, got *node) bool {
	if c.options.DecimalsOfNumbers && !(c.number(gold) && c.number(got)) {
		return gold.key() == got.key()
	}
	a, ok1 := c.realValue(gold)
	b, ok2 := c.realValue(got)
	if ok1 && ok2 {
		return c.sameRounded(a, b)
	}
	free := gold.free()
	got.symbols(free)
	if ok1 != ok2 && len(free) == 0 {
		return false
	}
	if v := c.compareResidues(gold, got); v != unknown {
		return v == equal
	}
	if v := c.compareRational(gold, got); v != unknown {
		return v == equal
	}
	return c.equalNumerically(gold, got)
}

// sameRounded compares two numbers to the number of places of the options.
// Numbers that are no more than the last place have hardly a digit there: they
// are compared to as many digits of their own.
func (c *comparer) sameRounded(a, b *big.Rat) bool {
	scale := new(big.Rat).SetInt(pow10(c.options.DecimalPlaces))
	x, y := roundedRat(a, scale), roundedRat(b, scale)
	if x.Cmp(y) != 0 || x.CmpAbs(big.NewInt(1)) > 0 {
		return x.Cmp(y) == 0
	}
	return closeBy(a, b, scale.Inv(scale))
}

// closeBy reports whether numbers differ by no more than a share of the first.
func closeBy(a, b, share *big.Rat) bool {
	bound := new(big.Rat).Abs(a)
	difference := new(big.Rat).Sub(a, b)
	return difference.Abs(difference).Cmp(bound.Mul(bound, share)) <= 0
}

// roundedRat is a number in units of 1/scale, half away from zero.
func roundedRat(v, scale *big.Rat) *big.Int {
	v = new(big.Rat).Mul(v, scale)
	half := big.NewRat(1, 2)
	if v.Sign() < 0 {
		half.Neg(half)
	}
	v.Add(v, half)
	return new(big.Int).Quo(v.Num(), v.Denom())
}

// number reports whether an expression is a rational number.
func (c *comparer) number(n *node) bool {
	_, ok := c.exact(n)
	return ok
}

// realValue is the value of a constant real expression: exact if it is rational,
// and else to 64 bits of it or more. ok is false for others, and for numbers
// that are too long to be written out.
func (c *comparer) realValue(n *node) (*big.Rat, bool) {
	if v, ok := c.exact(n); ok {
		return v, true
	}
	if len(n.free()) > 0 || n.isSet() {
		return nil, false
	}
	for _, m := range levels {
		e := &evaluator{budget: c.budget, mantissa: m, at: &point{}}
		v, ok := e.value(n)
		switch {
		case !ok && m == levels[0]:
			return c.floatValue(n)
		case !ok || v.im.Sign() != 0:
			return nil, false
		case v.zero() && v.err > -clearBits || !v.zero() && v.relative() > -clearBits/2:
			continue // the terms of a sum cancelled each other
		case !v.zero() && max(v.exponent(), -v.exponent()) > maxBits:
			return nil, false
		}
		exact, _ := v.re.Rat(nil)
		return exact, exact != nil
	}
	return nil, false
}

// floatValue is the real value of an expression that has no more digits than a
// float64's.
func (c *comparer) floatValue(n *node) (*big.Rat, bool) {
	f := c.evaluate(n, &point{})
	if cmplx.IsNaN(f) || cmplx.IsInf(f) || imag(f) != 0 {
		return nil, false
	}
	return new(big.Rat).SetFloat64(real(f)), true
}
