package mathverify

import "strings"

// factor reads a primary with powers and what else stands behind it.
func (p *parser) factor() *node {
	p.enter()
	defer p.leave()
	base := p.primary()
	for p.failed == nil {
		before := p.at
		p.blanks()
		switch {
		case p.literal("^"), p.literal("**"):
			if p.degrees() {
				continue
			}
			base = power(base, p.argument(true))
		case p.at < len(p.text) && p.text[p.at] == '!' && !p.unequal(base, before):
			p.at++
			base = function("factorial", base)
		case p.literal(`\%`), p.literal("%"):
			base = operation(kindPercent, base)
		case p.literal("°"), p.word(`\degree`), p.word(`\circ`), p.literal("'"), p.literal("′"):
			// marks that change no value
		case base.kind == kindNumber && p.literal("_"):
			p.argument(false) // the base of a numeral, which is not compared
		default:
			p.at = before
			return base
		}
	}
	return base
}

// unequal reports whether the ! here is that of !=. Right behind a number it is
// a factorial: 5!=120.
func (p *parser) unequal(base *node, end int) bool {
	return strings.HasPrefix(p.text[p.at:], "!=") && (p.at > end || base.kind != kindNumber)
}

// degrees takes the mark of degrees or a prime after a caret.
func (p *parser) degrees() bool {
	rest := strings.TrimLeft(p.text[p.at:], " ")
	for _, mark := range []string{`\circ`, `{\circ}`, `{ \circ }`, `\degree`, `{\degree}`, `\prime`, `{\prime}`} {
		if strings.HasPrefix(rest, mark) {
			p.at = len(p.text) - len(rest) + len(mark)
			return true
		}
	}
	return false
}

// power makes base^exponent; sin²x and the like keep their shape elsewhere.
func power(base, exponent *node) *node { return operation(kindPower, base, exponent) }

// argument reads a LaTeX argument: a group in braces, or one item. Digits make
// one number after ^ and _ (numeral), and single digits after \frac.
func (p *parser) argument(numeral bool) *node {
	if !p.enter() {
		return nothing
	}
	defer p.leave()
	p.blanks()
	switch {
	case p.at >= len(p.text):
		return p.fail(errParse)
	case p.text[p.at] == '{':
		return p.group()
	case digitAt(p.text, p.at) && !numeral:
		p.at++
		return integer(int64(p.text[p.at-1] - '0'))
	case p.literal("-"), p.literal("−"):
		return negate(p.argument(numeral))
	case p.literal("+"):
		return p.argument(numeral)
	}
	return p.primary()
}

// group reads {…}, whose opening brace stands here.
func (p *parser) group() *node {
	p.at++
	n := p.list("}")
	if !p.literal("}") {
		p.fail(errParse)
	}
	return n
}
