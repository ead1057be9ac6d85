package deepmind

import (
	"math/big"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// node is an expression as it was read. A leaf has no operation, and is a
// number or, without one, a name.
type node struct {
	op          byte // 0, opAdd, opSub, opMul, opDiv, opPow, or opNeg with a left part alone
	left, right *node
	number      *big.Rat
	name        string
}

const opNeg = 'n'

// parser reads expressions by recursive descent.
type parser struct{ text string }

func parse(text string) (*node, bool) {
	p := &parser{strings.ReplaceAll(text, " ", "")}
	n := p.sum()
	return n, n != nil && p.text == ""
}

func (p *parser) accept(prefix string) bool {
	rest, ok := strings.CutPrefix(p.text, prefix)
	if ok {
		p.text = rest
	}
	return ok
}

func (p *parser) sum() *node {
	n := p.product()
	for n != nil {
		switch {
		case p.accept("+"):
			n = binary(opAdd, n, p.product())
		case p.accept("-"):
			n = binary(opSub, n, p.product())
		default:
			return n
		}
	}
	return nil
}

func (p *parser) product() *node {
	n := p.signed()
	for n != nil {
		switch {
		case p.accept("*"):
			n = binary(opMul, n, p.signed())
		case p.accept("/"):
			n = binary(opDiv, n, p.signed())
		default:
			return n
		}
	}
	return nil
}

// signed binds a minus less than a power. A negative number is one leaf.
func (p *parser) signed() *node {
	if !p.accept("-") {
		return p.power()
	}
	n := p.signed()
	switch {
	case n == nil:
		return nil
	case n.number != nil:
		return &node{number: new(big.Rat).Neg(n.number)}
	}
	return &node{op: opNeg, left: n}
}

func (p *parser) power() *node {
	n := p.atom()
	if n != nil && p.accept("**") {
		return binary(opPow, n, p.atom())
	}
	return n
}

var unsignedNumber = lazyregexp.New(`^[0-9]+(\.[0-9]+)?`)

func (p *parser) atom() *node {
	if digits := unsignedNumber().FindString(p.text); digits != "" {
		p.text = p.text[len(digits):]
		value, _ := new(big.Rat).SetString(digits)
		return &node{number: value}
	}
	if p.accept("(") {
		if n := p.sum(); n != nil && p.accept(")") {
			return n
		}
		return nil
	}
	if p.text == "" || p.text[0] < 'a' || p.text[0] > 'z' || len(p.text) > 1 && (p.text[1] == '(' || p.text[1] >= 'a') {
		return nil
	}
	n := &node{name: p.text[:1]}
	p.text = p.text[1:]
	return n
}

func binary(op byte, left, right *node) *node {
	if right == nil {
		return nil
	}
	return &node{op: op, left: left, right: right}
}

// power is a power of an unknown; the zero power is the number 1.
type power struct {
	name   string
	degree int
}

// polynomial is a sum of multiples of powers, without those that are zero.
type polynomial map[power]*big.Rat

func (a polynomial) add(b polynomial, factor *big.Rat) polynomial {
	sum := polynomial{}
	for p, c := range a {
		sum[p] = c
	}
	for p, c := range b {
		term := new(big.Rat).Mul(c, factor)
		if sum[p] != nil {
			term.Add(term, sum[p])
		}
		if sum[p] = term; term.Sign() == 0 {
			delete(sum, p)
		}
	}
	return sum
}

// times is false for a product of two unknowns.
func (a polynomial) times(b polynomial) (polynomial, bool) {
	product := polynomial{}
	for p, c := range a {
		for q, d := range b {
			if p.name != "" && q.name != "" && p.name != q.name {
				return nil, false
			}
			product = product.add(polynomial{power{max(p.name, q.name), p.degree + q.degree}: d}, c)
		}
	}
	return product, true
}

// constant is false for a polynomial that is none.
func (a polynomial) constant() (*big.Rat, bool) {
	value, ok := a[power{}]
	switch {
	case len(a) == 0:
		return new(big.Rat), true
	case len(a) == 1 && ok:
		return value, true
	}
	return nil, false
}

func (a polynomial) at(p power) *big.Rat {
	if c := a[p]; c != nil {
		return c
	}
	return new(big.Rat)
}

// Bounds on what is worked out, far above what the dataset asks: exponents and
// degrees, and the bits of a number.
const (
	most     = 9
	mostBits = 1024
)

// large says that a polynomial is beyond them.
func (a polynomial) large() bool {
	for p, c := range a {
		if p.degree > most || c.Num().BitLen()+c.Denom().BitLen() > mostBits {
			return true
		}
	}
	return false
}

// evaluate works an expression out. Names that are not known are unknowns.
func (w *worker) evaluate(n *node) (polynomial, bool) {
	switch {
	case n.op == 0 && n.number == nil:
		if value, ok := w.known[n.name]; ok {
			return polynomial{}.add(polynomial{power{}: value}, big.NewRat(1, 1)), true
		}
		return polynomial{power{n.name, 1}: big.NewRat(1, 1)}, true
	case n.op == 0:
		return polynomial{}.add(polynomial{power{}: n.number}, big.NewRat(1, 1)), true
	}
	left, ok := w.evaluate(n.left)
	if !ok {
		return nil, false
	}
	if n.op == opNeg {
		return polynomial{}.add(left, big.NewRat(-1, 1)), true
	}
	right, ok := w.evaluate(n.right)
	if !ok {
		return nil, false
	}
	switch n.op {
	case opAdd:
		return left.add(right, big.NewRat(1, 1)), true
	case opSub:
		return left.add(right, big.NewRat(-1, 1)), true
	case opMul:
		product, ok := left.times(right)
		return product, ok && !product.large()
	}
	value, ok := right.constant()
	switch {
	case !ok, n.op == opDiv && value.Sign() == 0:
		return nil, false
	case n.op == opDiv:
		return polynomial{}.add(left, new(big.Rat).Inv(value)), true
	case !value.IsInt() || value.Sign() < 0 || value.Cmp(big.NewRat(most, 1)) > 0:
		return nil, false
	}
	result := polynomial{power{}: big.NewRat(1, 1)}
	for range value.Num().Int64() {
		if result, ok = result.times(left); !ok || result.large() {
			return nil, false
		}
	}
	return result, true
}

// value is that of an expression without unknowns.
func (w *worker) value(n *node) (*big.Rat, bool) {
	p, ok := w.evaluate(n)
	if !ok {
		return nil, false
	}
	return p.constant()
}

// reduced writes the steps to the value of an expression, which they end with.
func (w *worker) reduced(n *node, decimal bool) (steps string, value *big.Rat, ok bool) {
	if value, ok = w.value(n); !ok {
		return "", nil, false
	}
	if terms, ok := w.terms(n, false); ok {
		var b strings.Builder
		total := new(big.Rat)
		for i, term := range terms {
			total.Add(total, term)
			if i == 0 {
				b.WriteString(plain(term, decimal))
				continue
			}
			b.WriteByte(' ')
			if term.Sign() >= 0 {
				b.WriteByte('+')
			}
			b.WriteString(plain(term, decimal) + "=" + plain(total, decimal))
		}
		return b.String(), value, true
	}
	var results []string
	w.operations(n, func(result *big.Rat) { results = append(results, plain(result, decimal)) })
	return strings.Join(results, " "), value, true
}

// terms lists the numbers of a sum with their signs, and is false for any
// other expression.
func (w *worker) terms(n *node, negative bool) ([]*big.Rat, bool) {
	switch n.op {
	case 0:
		value, ok := w.value(n)
		if ok && negative {
			value = new(big.Rat).Neg(value)
		}
		return []*big.Rat{value}, ok
	case opNeg:
		return w.terms(n.left, !negative)
	case opAdd, opSub:
		left, ok := w.terms(n.left, negative)
		if !ok {
			return nil, false
		}
		right, ok := w.terms(n.right, negative != (n.op == opSub))
		return append(left, right...), ok
	}
	return nil, false
}

// operations calls yield with the value of each operation, in order.
func (w *worker) operations(n *node, yield func(*big.Rat)) {
	if n.op == 0 {
		return
	}
	w.operations(n.left, yield)
	if n.right != nil {
		w.operations(n.right, yield)
	}
	if value, ok := w.value(n); ok {
		yield(value)
	}
}

var asksForValue = lazyregexp.New(`^(?:What is the value of |What is |Evaluate |Calculate )?([-0-9()+*/ ]*[0-9)])[.?]?$`)

// calculated works out an expression of two or more operations.
func (w *worker) calculated(text string) (body, answer string, ok bool) {
	m := asksForValue().FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	n, ok := parse(m[1])
	if !ok || n.op == 0 || n.left.op == 0 && (n.right == nil || n.right.op == 0) {
		return "", "", false
	}
	body, value, ok := w.reduced(n, false)
	if !ok {
		return "", "", false
	}
	return body, value.RatString(), true
}
