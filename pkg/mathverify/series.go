package mathverify

import (
	"math/big"
	"slices"
)

const (
	infiniteTerms = 72  // of an infinite sum, from which its limit is taken
	limitBits     = 100 // in which two estimates of the limit must agree
	negligible    = 220 // bits between a sum and its last term, if no limit is needed
)

// series computes Σ and Π term by term, and infinite sums by their limit.
func (e *evaluator) series(n *node) (x precise, ok bool) {
	if infinite(n.args[2]) > 0 && n.name == "sum" {
		return e.infiniteSum(n)
	}
	terms, ok := e.budget.series(n, maxSeriesTerms)
	if !ok {
		return x, false
	}
	if n.name == "sum" {
		return e.sum(terms)
	}
	total := running{product: e.of(1)}
	for _, term := range terms {
		y, ok := e.value(term)
		if !ok {
			return x, false
		}
		if y.zero() && y.err == exactly {
			return y, true
		}
		if !total.times(y) {
			return x, false
		}
	}
	return e.result(total), true
}

// sumsWithoutEnd reports whether there is an infinite sum in an expression.
func (n *node) sumsWithoutEnd() bool {
	return n.kind == kindFunction && n.name == "sum" && infinite(n.args[2]) > 0 || slices.ContainsFunc(n.args, (*node).sumsWithoutEnd)
}

// equalLimits compares expressions with infinite sums, which have no float64, at
// points where symbols side by side have each pair of signs.
func (c *comparer) equalLimits(gold, got *node, symbols []string) bool {
	for number := range 4 {
		at := &point{number: number, values: map[string]complex128{}}
		for i, name := range symbols {
			if number>>(i%2)&1 == 1 {
				at.values[name] = -at.value(name)
			}
		}
		if v := c.decide(gold, got, at); v != equal {
			c.undecided = c.undecided || v == unknown
			return false
		}
	}
	return true
}

// infiniteSum is the limit of a sum of real terms that converges.
func (e *evaluator) infiniteSum(n *node) (x precise, ok bool) {
	finite := *n
	last := operation(kindSum, n.args[1], integer(infiniteTerms-1))
	finite.args = []*node{n.args[0], n.args[1], last, n.args[3]}
	nodes, ok := e.budget.series(&finite, infiniteTerms)
	if !ok {
		return x, false
	}
	// The terms are no values of the expression: that they are small says
	// nothing about the digits that a comparison needs.
	inner := &evaluator{budget: e.budget, mantissa: 1024, at: e.at}
	var terms, sums []*big.Float
	total := inner.zero()
	for _, node := range nodes {
		term, ok := inner.value(node)
		if !ok || !term.isReal() || inner.limits { // or a limit of limits
			return x, false
		}
		total = new(big.Float).Add(total, term.re)
		terms, sums = append(terms, term.re), append(sums, total)
	}
	limit, err, ok := limitOf(terms, sums)
	if !ok {
		return x, false
	}
	e.limits = true
	return e.known(e.to(limit), e.zero(), err), true
}

// limitOf is the limit of the sums of terms, and the exponent of its error: the
// last sum, if the last terms are negligible, else what Levin's u
// transformation makes of them.
func limitOf(terms, sums []*big.Float) (limit *big.Float, err int, ok bool) {
	count := len(terms)
	last, sum := terms[count-1], sums[count-1]
	for _, term := range terms[count/2:] {
		if term.Sign() == 0 {
			return sum, exactly, last.Sign() == 0 && terms[count-2].Sign() == 0
		}
	}
	if !converges(terms) {
		return nil, 0, false
	}
	if sum.Sign() != 0 && last.MantExp(nil) < sum.MantExp(nil)-negligible {
		return sum, last.MantExp(nil) + 8, true
	}
	a, ok1 := levin(terms[2:], sums[2:])
	b, ok2 := levin(terms[2:count-8], sums[2:count-8])
	if !ok1 || !ok2 || a.Sign() == 0 {
		return nil, 0, false
	}
	err = a.MantExp(nil) - negligible
	if difference := b.Sub(b, a); difference.Sign() != 0 {
		err = max(err, difference.MantExp(nil))
	}
	return a, err, err < a.MantExp(nil)-limitBits
}

// converges applies the tests of Raabe and, for terms of alternating sign, of
// Leibniz to the last terms.
func converges(terms []*big.Float) bool {
	const places = 16
	count := len(terms)
	for i := count - places; i < count; i++ {
		ratio, _ := new(big.Float).Quo(terms[i-1], terms[i]).Float64()
		alternating := terms[i].Sign() != terms[i-1].Sign()
		if alternating && -ratio <= 1 || !alternating && float64(i)*(ratio-1) <= 1.02 {
			return false
		}
	}
	return true
}

// levin is the u transformation of order len(terms)-1:
// Σ c_j·S_j/ω_j / Σ c_j/ω_j with ω_j = (j+1)·a_j and
// c_j = (-1)^j·binomial(k, j)·(j+1)^(k-1).
func levin(terms, sums []*big.Float) (*big.Float, bool) {
	m := mantissa(terms[0].Prec())
	order := int64(len(terms) - 1)
	top, bottom := m.zero(), m.zero()
	for j := range order + 1 {
		if terms[j].Sign() == 0 {
			return nil, false
		}
		weight := new(big.Int).Exp(big.NewInt(j+1), big.NewInt(order-1), nil)
		weight.Mul(weight, new(big.Int).Binomial(order, j))
		if j%2 == 1 {
			weight.Neg(weight)
		}
		c := m.zero().SetInt(weight)
		c.Quo(c, new(big.Float).Mul(terms[j], m.of(float64(j+1))))
		top.Add(top, new(big.Float).Mul(c, sums[j]))
		bottom.Add(bottom, c)
	}
	if bottom.Sign() == 0 {
		return nil, false
	}
	return top.Quo(top, bottom), true
}
