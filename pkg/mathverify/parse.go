package mathverify

import (
	"math/big"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// parser reads one answer, in LaTeX or plain notation, by recursive descent.
// It works on the text itself, not on tokens, because LaTeX arguments without
// braces are single characters: \frac12 is a half, x^10 all the same x to the
// tenth, as people mean it.
type parser struct {
	text   string
	at     int
	depth  int
	nodes  int
	budget *budget
	bars   int  // open vertical bars, so that | may close one
	brace  bool // inside \{ \}, where | and : mean "such that"
	tuple  bool // inside brackets, where commas separate and do not group digits
	euler  bool // the e of 2e-5 is a number, as in 2e, and begins no exponent
	failed error
}

// parse reads a whole answer. An error means that it has no form that can be
// compared other than as text.
func parse(text string, b *budget) (*node, error) {
	return (&parser{text: normalize(text), budget: b}).whole()
}

// exponent is the end of a number in scientific notation.
var exponent = lazyregexp.New(`^[eE]([-+−]?)([0-9]+)`)

// signedExponent may be read as a sum with the number e as well.
func signedExponent(text string) bool {
	for at := 1; at < len(text)-1; at++ {
		if text[at] == 'e' && (digitAt(text, at-1) || text[at-1] == '.') && exponentLength(text, at) > 1 && !digitAt(text, at+1) {
			return true
		}
	}
	return false
}

// withoutExponents reads 2e-5 as 2·e - 5; nil for a text that has nothing like
// that.
func withoutExponents(text string, b *budget) *node {
	if !signedExponent(text) {
		return nil
	}
	n, _ := (&parser{text: normalize(text), budget: b, euler: true}).whole()
	return n
}

// whole reads all of the text.
func (p *parser) whole() (*node, error) {
	if len(p.text) > maxAnswerBytes {
		return nil, errBudget
	}
	n := p.list("")
	if p.failed != nil {
		return nil, p.failed
	}
	return n, nil
}

// fail ends parsing: the node that it returns is none.
func (p *parser) fail(err error) *node {
	if p.failed == nil {
		p.failed = err
	}
	return nothing
}

// enter bounds depth, nodes and steps; every recursive method calls it. Loops
// end when it fails; methods that read before they loop must return.
func (p *parser) enter() bool {
	p.depth++
	p.nodes++
	if p.depth > maxDepth || p.nodes > maxNodes || !p.budget.spend(1) {
		p.fail(errBudget)
	}
	return p.failed == nil
}

func (p *parser) leave() { p.depth-- }

var nothing = operation(kindList)

// relations maps what is written to an operator; longer texts stand first.
var relations = []struct{ written, operator string }{
	{`\leqslant`, "<="},
	{`\geqslant`, ">="},
	{`\leq`, "<="},
	{`\geq`, ">="},
	{`\neq`, "!="},
	{`\approx`, "~"},
	{`\equiv`, "="},
	{`\coloneqq`, "="},
	{`\cong`, "="},
	{`\sim`, "="},
	{`\le`, "<="},
	{`\ge`, ">="},
	{`\ne`, "!="},
	{`\lt`, "<"},
	{`\gt`, ">"},
	{`\in`, "in"},
	{"<=", "<="},
	{">=", ">="},
	{"!=", "!="},
	{"==", "="},
	{":=", "="},
	{"≤", "<="},
	{"≥", ">="},
	{"≠", "!="},
	{"∈", "in"},
	{"≈", "~"},
	{"=", "="},
	{"<", "<"},
	{">", ">"},
}

func (p *parser) relationOperator() string {
	rest := p.text[p.at:]
	for _, r := range relations {
		if strings.HasPrefix(rest, r.written) && (r.written[0] != '\\' || !letterAt(rest, len(r.written))) {
			p.at += len(r.written)
			return r.operator
		}
	}
	return ""
}

// relation reads an expression, or a chain of them with =, <, ∈ between.
func (p *parser) relation() *node {
	p.enter()
	defer p.leave()
	first := p.setExpression()
	var chain *node
	for p.failed == nil {
		p.blanks()
		operator := p.relationOperator()
		if operator == "" {
			break
		}
		if operator == "~" {
			last := first
			if chain != nil {
				last = chain.args[len(chain.args)-1]
			}
			// Of a value and what it is about equal to the value is the
			// answer; a name has no other.
			if !name(last) || last.kind == kindConstant {
				p.relation()
				break
			}
			operator = "="
		}
		if chain == nil {
			chain = operation(kindRelation, first)
		}
		chain.operators = append(chain.operators, operator)
		chain.args = append(chain.args, p.setExpression())
	}
	last := &first
	if chain != nil {
		last = &chain.args[len(chain.args)-1]
	}
	if p.word(`\pmod`) {
		*last = function("pmod", *last, p.signedFactor())
	}
	if chain != nil {
		return chain
	}
	return first
}

// setExpression reads unions, intersections and differences of sums.
func (p *parser) setExpression() *node {
	p.enter()
	defer p.leave()
	left := p.sum()
	for p.failed == nil {
		p.blanks()
		switch {
		case p.word(`\cup`), p.literal("∪"):
			left = operation(kindUnion, left, p.sum())
		case p.word(`\cap`), p.literal("∩"):
			left = operation(kindIntersect, left, p.sum())
		case p.word(`\setminus`), p.word(`\backslash`), p.literal(`\\`):
			left = operation(kindDifference, left, p.sum())
		default:
			return left
		}
	}
	return left
}

// sum reads terms with signs between.
func (p *parser) sum() *node {
	p.enter()
	defer p.leave()
	var terms []*node
	for p.failed == nil {
		p.blanks()
		switch {
		case p.word(`\pm`), p.literal("±"), p.literal("+/-"):
			terms = p.plusMinus(kindPlusMinus, terms)
		case p.word(`\mp`), p.literal("∓"):
			terms = p.plusMinus(kindMinusPlus, terms)
		case p.literal("+"):
			if p.atEndOfTerm() || strings.HasPrefix(p.text[p.at:], "-") {
				continue // a sign that nothing follows, or the sign of x + -3
			}
			terms = append(terms, p.term())
		case p.literal("-"), p.literal("−"), p.literal("–"):
			if p.atEndOfTerm() {
				continue
			}
			if t := p.negatedTerm(len(terms) == 0); len(terms) == 1 && terms[0].isSet() && t.kind == kindProduct && t.args[1].kind == kindList {
				terms[0] = operation(kindDifference, terms[0], t.args[1]) // ℝ - {0}
			} else {
				terms = append(terms, t)
			}
		case len(terms) == 0:
			terms = append(terms, p.term())
		default:
			return joinSum(terms)
		}
	}
	return nothing
}

func (p *parser) atEndOfTerm() bool {
	p.blanks()
	return p.at >= len(p.text)
}

func joinSum(terms []*node) *node {
	if len(terms) == 1 {
		return terms[0]
	}
	return operation(kindSum, terms...)
}

// plusMinus makes one term of those before ± and the one after.
func (p *parser) plusMinus(k kind, before []*node) []*node {
	after := p.term()
	if len(before) == 0 {
		return []*node{operation(k, after)}
	}
	return []*node{operation(k, joinSum(before), after)}
}

// negatedTerm reads what follows a minus sign, more signs included. The sign
// that leads a sum is that of the number: -7 mod 3 is 2.
func (p *parser) negatedTerm(leads bool) *node {
	negative := true
	for p.failed == nil {
		p.blanks()
		if p.literal("-") || p.literal("−") {
			negative = !negative
		} else if !p.literal("+") {
			break
		}
	}
	t := p.term()
	switch {
	case !negative:
		return t
	case leads && t.kind == kindFunction && t.name == "mod":
		return function("mod", negate(t.args[0]), t.args[1])
	}
	return negate(t)
}

// term reads factors, with or without a sign of multiplication between.
func (p *parser) term() *node {
	p.enter()
	defer p.leave()
	left := p.factor()
	for p.failed == nil {
		p.blanks()
		switch {
		case p.word(`\cdot`), p.word(`\times`), p.word(`\ast`), p.literal("*"), p.literal("×"), p.literal("·"), p.literal("⋅"):
			if right := p.signedFactor(); !right.unit() || left.kind == kindText { // kg·m² behind a value
				left = product(left, right)
			}
		case p.word(`\div`), p.literal("÷"):
			left = operation(kindQuotient, left, p.signedFactor())
		case p.colon():
			left = operation(kindQuotient, left, p.factors())
		case p.literal("/"):
			// 1/2x is one over 2x; what is per a unit is the value.
			if right := p.denominator(); !right.unit() || left.kind == kindText {
				left = operation(kindQuotient, left, right)
			}
		case p.word(`\bmod`), p.word(`\mod`):
			left = function("mod", left, p.signedFactor())
		case p.startsFactor():
			right := p.factor()
			if p.blanks(); right.unit() && left.kind != kindText && digitAt(p.text, p.at) {
				return p.fail(errParse) // 2 h 30 min is no product
			}
			left = juxtapose(left, right)
		default:
			return left
		}
	}
	return left
}

// colon takes a colon that stands for a ratio.
func (p *parser) colon() bool {
	return !p.brace && !strings.HasPrefix(p.text[p.at:], ":=") && (p.literal(":") || p.word(`\colon`))
}

func product(a, b *node) *node {
	if a.kind == kindProduct {
		return operation(kindProduct, append(slices.Clip(a.args), b)...)
	}
	return operation(kindProduct, a, b)
}

// juxtapose joins neighbours: 1\frac12 is a mixed number, words after a value
// are its unit, all else is a product.
func juxtapose(a, b *node) *node {
	if b.unit() && a.kind != kindText {
		return a
	}
	whole := a.kind == kindNumber && a.value.IsInt() && !a.decimal
	if whole && b.kind == kindQuotient && b.args[0].plainInteger() && b.args[1].plainInteger() && b.args[1].value.Sign() != 0 {
		part := new(big.Rat).Quo(b.args[0].value, b.args[1].value)
		if a.value.Sign() < 0 {
			part.Neg(part)
		}
		return number(part.Add(part, a.value))
	}
	return product(a, b)
}

// unit reports whether a node is words, a power of words as cm², or a quotient
// of both as m/s².
func (n *node) unit() bool {
	switch n.kind {
	case kindText:
		return true
	case kindPower:
		return n.args[0].kind == kindText && n.args[1].kind == kindNumber
	case kindQuotient:
		return n.args[0].unit() && n.args[1].unit()
	}
	return false
}

func (n *node) plainInteger() bool {
	return n.kind == kindNumber && n.value.IsInt() && n.value.Sign() >= 0 && !n.decimal
}

// signedFactor reads a factor that a sign may stand before.
func (p *parser) signedFactor() *node {
	p.blanks()
	if p.literal("-") || p.literal("−") {
		return negate(p.factor())
	}
	p.literal("+")
	return p.factor()
}

// factors reads what stands side by side, as the BC of AB:BC.
func (p *parser) factors() *node {
	left := p.signedFactor()
	for p.blanks(); p.failed == nil && p.startsFactor(); p.blanks() {
		left = juxtapose(left, p.factor())
	}
	return left
}

// denominator reads the factors that follow a slash without a sign between.
func (p *parser) denominator() *node {
	left := p.signedFactor()
	for p.failed == nil {
		p.blanks()
		if left.kind == kindNumber && p.startsLetter() {
			left = product(left, p.factor())
			continue
		}
		return left
	}
	return left
}

func (p *parser) startsLetter() bool { return letterAt(p.text, p.at) && p.separatorBytes() == 0 }

// startsFactor reports whether a factor begins here.
func (p *parser) startsFactor() bool {
	if p.at >= len(p.text) || p.separatorBytes() > 0 || p.peekEllipsis() {
		return false
	}
	c := p.text[p.at]
	switch {
	case c >= '0' && c <= '9', c == '(', c == '{', c == '.' && digitAt(p.text, p.at+1):
		return true
	case c == '|':
		return p.bars == 0 && !p.brace
	case c == '\\':
		return p.commandStartsFactor()
	}
	return letterAt(p.text, p.at)
}

func (p *parser) commandStartsFactor() bool {
	name, _ := command(p.text[p.at:])
	switch name {
	case "cup", "cap", "setminus", "backslash", "pm", "mp", "cdot", "times", "ast", "div", "bmod", "mod", "colon", "}", "\\", "rfloor", "rceil", "rvert", "rVert", "rangle", "end", "mid", "circ", "pmod", "quad":
		return false
	case "{":
		return false
	case "vert": // the sign that opens a value closes it
		return p.bars == 0
	}
	for _, r := range relations {
		if r.written[0] == '\\' && r.written[1:] == name {
			return false
		}
	}
	return name != ""
}
