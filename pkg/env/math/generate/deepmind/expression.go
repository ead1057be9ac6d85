package deepmind

import (
	"math"
	"strconv"
	"strings"
)

// The operations of an expression; 0 is a number, a name or a square root.
const (
	opAdd = '+'
	opSub = '-'
	opMul = '*'
	opDiv = '/'
	opPow = '^'
)

// expression is a tree as it is written, never simplified.
type expression struct {
	op          byte
	left, right *expression
	text        string // of a leaf
	rank        int    // of a leaf
	value       value  // of a leaf that is a number
}

// Ranks decide where brackets are: a part is bracketed when its rank is above
// that of the whole, or equal to it where the order of operations matters.
const (
	rankAtom = iota + 1
	rankPower
	rankProduct // negative numbers too
	rankSum
)

func (e *expression) ranked() int {
	switch e.op {
	case opAdd, opSub:
		return rankSum
	case opMul, opDiv:
		return rankProduct
	case opPow:
		return rankPower
	}
	return e.rank
}

func constant(v value) *expression {
	e := &expression{text: v.String(), rank: rankAtom, value: v}
	if v.top < 0 || !v.isWhole() && !v.decimal {
		e.rank = rankProduct
	}
	return e
}

func integer(n int64) *expression { return constant(whole(n)) }

func squareRoot(n int64) *expression {
	return &expression{text: "sqrt(" + strconv.FormatInt(n, 10) + ")", rank: rankPower}
}

func (e *expression) String() string {
	var b strings.Builder
	e.write(&b)
	return b.String()
}

func (e *expression) write(b *strings.Builder) {
	switch e.op {
	case opAdd: // a sum of sums is written as one
		for i, part := range []*expression{e.left, e.right} {
			if i > 0 {
				b.WriteString(" + ")
			}
			if part.op == opAdd {
				part.write(b)
			} else {
				part.within(b, rankSum, true)
			}
		}
	case opSub:
		e.left.within(b, rankSum, false)
		b.WriteString(" - ")
		e.right.within(b, rankSum, true)
	case opMul:
		e.left.within(b, rankProduct, false)
		b.WriteByte('*')
		e.right.within(b, rankProduct, false)
	case opDiv:
		e.left.within(b, rankProduct, true)
		b.WriteByte('/')
		e.right.within(b, rankProduct, true)
	case opPow:
		e.left.within(b, rankPower, true)
		b.WriteString("**")
		e.right.within(b, rankPower, true)
	default:
		b.WriteString(e.text)
	}
}

func (e *expression) within(b *strings.Builder, rank int, strict bool) {
	if own := e.ranked(); own < rank || own == rank && !strict {
		e.write(b)
		return
	}
	b.WriteByte('(')
	e.write(b)
	b.WriteByte(')')
}

// leaves lists the numbers of an expression.
func (e *expression) leaves() []*expression {
	if e.op == 0 {
		return []*expression{e}
	}
	return append(e.left.leaves(), e.right.leaves()...)
}

// operations are those that an expression may have.
type operations int

const (
	sums operations = 1 << iota
	products
)

// budget is what is left to spend on a part of an expression: operations and
// entropy.
type budget struct {
	count   int
	entropy float64
}

// peel takes one operation's part of the entropy.
func (b *budget) peel() float64 {
	entropy := b.entropy / float64(b.count)
	b.entropy -= entropy
	return entropy
}

// withValue makes an expression that has the given value.
func (d *drawer) withValue(v value, entropy float64, allowed operations) *expression {
	const fewest = 3
	most := fewest + int(entropy/2)
	count := int(d.between(fewest, int64(most)))
	entropy += math.Log10(trees(count)) - math.Log10(float64(most-fewest+1))
	return d.grow(v, budget{count, entropy}, allowed)
}

// trees is the number of binary trees with n inner nodes (Catalan).
func trees(n int) float64 {
	trees := 1.0
	for i := range n {
		trees = trees * float64(2*(2*i+1)) / float64(i+2)
	}
	return trees
}

// grow makes an expression of budget.count operations with the value v.
func (d *drawer) grow(v value, b budget, allowed operations) *expression {
	if d.failed {
		return integer(0)
	}
	if b.count == 0 {
		return constant(v)
	}
	var choices []byte
	if allowed&sums != 0 && (b.count >= 2 || v.isWhole()) {
		choices = append(choices, opAdd, opSub)
	}
	if allowed&products != 0 {
		if b.count >= 2 || v.isWhole() && b.entropy <= splitEntropy(v.top) {
			choices = append(choices, opMul)
		}
		choices = append(choices, opDiv)
	}
	op := choices[d.intN(len(choices))]
	var left, right value
	switch op {
	case opAdd, opSub:
		left, right = d.summands(v, op, &b, allowed)
	case opMul:
		left, right = d.productOf(v, &b)
	default:
		left, right = d.quotientOf(v, &b)
	}
	if d.failed {
		return integer(0)
	}
	budgets, ok := d.divide(b, left, right)
	if !ok {
		d.failed = true
		return integer(0)
	}
	return &expression{op: op, left: d.grow(left, budgets[0], allowed), right: d.grow(right, budgets[1], allowed)}
}

// divide spreads the rest of a budget over two parts: one operation at least
// for each that is no whole number.
func (d *drawer) divide(b budget, left, right value) ([2]budget, bool) {
	spare := b.count - 1
	for _, v := range []value{left, right} {
		if !v.isWhole() {
			spare--
		}
	}
	if spare < 0 {
		return [2]budget{}, false
	}
	counts := d.counts(2, spare)
	for i, v := range []value{left, right} {
		if !v.isWhole() {
			counts[i]++
		}
	}
	shares := d.shares(counts...)
	return [2]budget{{counts[0], shares[0] * b.entropy}, {counts[1], shares[1] * b.entropy}}, true
}

func (d *drawer) summands(v value, op byte, b *budget, allowed operations) (left, right value) {
	entropy := b.peel()
	var x value
	if allowed&products != 0 && b.count >= 3 {
		x = d.wholeOrRatio(entropy)
	} else {
		x = whole(d.signed(entropy, least{}))
	}
	switch {
	case op == opAdd && d.coin():
		return x, d.sub(v, x)
	case op == opAdd:
		return d.sub(v, x), x
	case d.coin():
		return x, d.sub(x, v)
	}
	return d.add(v, x), x
}

func (d *drawer) productOf(v value, b *budget) (left, right value) {
	switch {
	case b.count >= 3:
		left, right = d.quotientOf(v, b)
		right = d.fraction(right.bottom, right.top)
	case b.count == 1:
		b.peel()
		p, q := d.splitFactors(v.top)
		left, right = whole(p), whole(q)
	default:
		p, q := d.splitFactors(v.top)
		factor := d.signed(b.peel()-splitEntropy(v.top), least{abs: 1, coprime: p})
		left, right = d.fraction(p, d.times(factor, v.bottom)), whole(d.times(q, factor))
	}
	if d.coin() {
		return right, left
	}
	return left, right
}

func (d *drawer) quotientOf(v value, b *budget) (left, right value) {
	entropy := b.peel()
	switch {
	case b.count == 1:
		factor := d.signed(entropy, least{abs: 1})
		return whole(d.times(v.top, factor)), whole(d.times(v.bottom, factor))
	case b.count == 2 && (v.top == 0 || d.coin()):
		factor := d.signed(entropy, least{abs: 1, coprime: v.bottom})
		return d.fraction(d.times(factor, v.top), v.bottom), whole(factor)
	case b.count == 2:
		factor := d.signed(entropy, least{abs: 1, coprime: v.top})
		return whole(factor), d.fraction(d.times(factor, v.bottom), v.top)
	}
	topRight, topLeft := d.splitFactors(v.top)
	bottomLeft, bottomRight := d.splitFactors(v.bottom)
	entropy -= splitEntropy(v.top) + splitEntropy(v.bottom)
	share := d.uniform(0, 1) * entropy
	over := d.signed(share, least{abs: 1, coprime: d.times(bottomLeft, topRight)})
	under := d.unsigned(entropy-share, least{abs: 1, coprime: d.times(topLeft, bottomRight)})
	return d.fraction(d.times(over, topLeft), d.times(under, bottomLeft)), d.fraction(d.times(over, bottomRight), d.times(under, topRight))
}

// splitEntropy is that of writing n as a product of two.
func splitEntropy(n int64) float64 {
	entropy := 0.0
	for _, f := range factors(n) {
		entropy += math.Log10(float64(f.times + 1))
	}
	return entropy
}

// splitFactors writes n as a product of two; the sign goes to the first, and
// 0 is 1·0.
func (d *drawer) splitFactors(n int64) (int64, int64) {
	if n == 0 {
		return 1, 0
	}
	first := int64(1)
	for _, f := range factors(n) {
		for range d.intN(f.times + 1) {
			first *= f.prime
		}
	}
	second := abs(n) / first
	if n < 0 {
		first = -first
	}
	return first, second
}
