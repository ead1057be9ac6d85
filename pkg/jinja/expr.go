package jinja

import (
	"slices"
	"strings"
)

// maxTerms bounds a row of operators of one precedence, which is as deep a
// tree as brackets would make.
const maxTerms = 300

func (p *parser) expression() (e expression) {
	p.deeper(func() { e = p.condition() })
	return e
}

// condition reads THEN if TEST else OTHERWISE.
func (p *parser) condition() expression {
	e := p.or()
	for p.peek().is(nameToken, "if") {
		line := at(p.next().line)
		c := &conditional{at: line, then: e, test: p.or()}
		if p.skip(nameToken, "else") {
			p.deeper(func() { c.otherwise = p.condition() })
		}
		e = c
	}
	return e
}

// row reads operands joined by operators of one precedence, left to right.
func (p *parser) row(operand func() expression, kind kind, operators ...string) expression {
	left := operand()
	for terms := 1; ; terms++ {
		t := p.peek()
		if t.kind != kind || !slices.Contains(operators, t.text) {
			return left
		}
		if terms > maxTerms {
			p.fail("more than %d terms in a row", maxTerms)
		}
		p.next()
		left = &binary{at(t.line), t.text, left, operand()}
	}
}

func (p *parser) or() expression  { return p.row(p.and, nameToken, "or") }
func (p *parser) and() expression { return p.row(p.not, nameToken, "and") }

func (p *parser) not() (e expression) {
	if !p.peek().is(nameToken, "not") {
		return p.compare()
	}
	line := at(p.next().line)
	p.deeper(func() { e = &unary{line, "not", p.not()} })
	return e
}

func (p *parser) compare() expression {
	first := p.sum()
	c := &comparison{at: at(p.peek().line), first: first}
	for {
		t := p.peek()
		op := ""
		switch {
		case t.kind == operator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text),
			t.is(nameToken, "in"):
			op = t.text
		case t.is(nameToken, "not") && p.tokens[p.at+1].is(nameToken, "in"):
			op = "not in"
			p.next()
		}
		if op == "" {
			if len(c.operators) == 0 {
				return first
			}
			return c
		}
		p.next()
		c.operators = append(c.operators, op)
		c.operands = append(c.operands, p.sum())
	}
}

func (p *parser) sum() expression { return p.row(p.concatenation, operator, "+", "-") }

func (p *parser) concatenation() expression {
	c := &concatenation{at: at(p.peek().line), parts: []expression{p.product()}}
	for p.skip(operator, "~") {
		c.parts = append(c.parts, p.product())
	}
	if len(c.parts) == 1 {
		return c.parts[0]
	}
	return c
}

func (p *parser) product() expression { return p.row(p.power, operator, "*", "/", "//", "%") }

func (p *parser) power() expression {
	return p.row(func() expression { return p.unary(true) }, operator, "**")
}

func (p *parser) unary(filters bool) (e expression) {
	if t := p.peek(); t.is(operator, "-") || t.is(operator, "+") {
		p.next()
		p.deeper(func() { e = &unary{at(t.line), t.text, p.unary(false)} })
	} else {
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filters(e)
	}
	return e
}

var namedConstants = map[string]Value{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

func (p *parser) primary() expression {
	t := p.next()
	line := at(t.line)
	switch t.kind {
	case nameToken:
		if value, ok := namedConstants[t.text]; ok {
			return &constant{line, value}
		}
		return &name{line, t.text}
	case stringToken:
		var b strings.Builder
		b.WriteString(t.text)
		for p.peek().kind == stringToken {
			b.WriteString(p.next().text)
		}
		return &constant{line, b.String()}
	case integerToken:
		return &constant{line, t.integer}
	case floatToken:
		return &constant{line, t.float}
	case operator:
		switch t.text {
		case "(":
			e := p.tuple(true, true)
			p.expect(operator, ")")
			return e
		case "[":
			return &sequenceLiteral{line, list, p.items("]")}
		case "{":
			return p.dict(line)
		}
	}
	p.at--
	p.fail("expected an expression, found %s", t)
	return nil
}

// tuple reads one expression, or several with commas between. Conditions are
// left to the caller where they would swallow the filter of a for loop; only
// in brackets may there be none.
func (p *parser) tuple(conditions, brackets bool) expression {
	line := at(p.peek().line)
	one := p.or
	if conditions {
		one = p.condition
	}
	var items []expression
	comma := false
	for !p.tupleEnds() {
		p.deeper(func() { items = append(items, one()) })
		if comma = p.skip(operator, ","); !comma {
			break
		}
	}
	switch {
	case len(items) == 1 && !comma:
		return items[0]
	case len(items) == 0 && !brackets:
		p.fail("expected an expression, found %s", p.peek())
	}
	return &sequenceLiteral{line, tuple, items}
}

func (p *parser) tupleEnds() bool {
	t := p.peek()
	return t.kind == blockEnd || t.kind == outputEnd || t.is(operator, ")")
}

// list reads what one reads, several times with commas between, up to a closing bracket.
func (p *parser) list(closing string, one func()) {
	for n := 0; !p.skip(operator, closing); n++ {
		if n > 0 {
			p.expect(operator, ",")
			if p.skip(operator, closing) {
				return
			}
		}
		one()
	}
}

// items reads expressions up to a closing bracket.
func (p *parser) items(closing string) (items []expression) {
	p.list(closing, func() { items = append(items, p.expression()) })
	return items
}

func (p *parser) dict(line at) expression {
	d := &dictLiteral{at: line}
	p.list("}", func() {
		d.keys = append(d.keys, p.expression())
		p.expect(operator, ":")
		d.values = append(d.values, p.expression())
	})
	return d
}

// postfix reads attributes, items, slices and calls.
func (p *parser) postfix(e expression) expression {
	for terms := 1; ; terms++ {
		if terms > maxTerms {
			p.fail("more than %d attributes in a row", maxTerms)
		}
		t := p.peek()
		switch {
		case t.is(operator, "."):
			p.next()
			switch part := p.next(); part.kind {
			case nameToken:
				e = &attribute{at(t.line), e, part.text}
			case integerToken:
				e = &item{at(t.line), e, &constant{at(t.line), part.integer}}
			default:
				p.fail("expected a name after the dot, found %s", part)
			}
		case t.is(operator, "["):
			p.next()
			e = p.subscript(e, at(t.line))
		case t.is(operator, "("):
			p.next()
			e = &call{at(t.line), e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) subscript(of expression, line at) expression {
	var parts [3]expression
	colons := 0
	for !p.skip(operator, "]") {
		switch {
		case p.skip(operator, ":"):
			if colons++; colons > 2 {
				p.fail("a slice has at most two colons")
			}
		case parts[colons] == nil:
			parts[colons] = p.expression()
		default:
			p.fail("expected ] or :, found %s", p.peek())
		}
	}
	switch {
	case colons > 0:
		return &sliced{line, of, parts[0], parts[1], parts[2]}
	case parts[0] == nil:
		p.fail("an index is missing")
	}
	return &item{line, of, parts[0]}
}

// arguments reads the arguments of a call, its bracket already open.
func (p *parser) arguments() (a arguments) {
	p.list(")", func() {
		switch t := p.peek(); {
		case t.is(operator, "*") || t.is(operator, "**"):
			p.fail("%s arguments are not implemented", t.text)
		case t.kind == nameToken && p.tokens[p.at+1].is(operator, "="):
			p.at += 2
			if slices.Contains(a.names, t.text) {
				p.fail("argument %q appears twice", t.text)
			}
			a.names = append(a.names, t.text)
			a.named = append(a.named, p.expression())
		case len(a.names) > 0:
			p.fail("a positional argument follows a named one")
		default:
			a.positional = append(a.positional, p.expression())
		}
	})
	return a
}

func (p *parser) dottedName() string {
	word := p.name()
	for p.skip(operator, ".") {
		word += "." + p.name()
	}
	return word
}

// filters reads filters, tests and calls of their results.
func (p *parser) filters(e expression) expression {
	for terms := 1; ; terms++ {
		if terms > maxTerms {
			p.fail("more than %d filters in a row", maxTerms)
		}
		t := p.peek()
		switch {
		case t.is(operator, "|"):
			p.next()
			e, _ = p.filterChain(e)
		case t.is(nameToken, "is"):
			p.next()
			e = p.test(e, at(t.line))
		case t.is(operator, "("):
			p.next()
			e = &call{at(t.line), e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) test(of expression, line at) expression {
	negated := p.skip(nameToken, "not")
	t := &tested{at: line, of: of, name: p.dottedName()}
	switch next := p.peek(); {
	case p.skip(operator, "("):
		t.arguments = p.arguments()
	case next.is(nameToken, "else"), next.is(nameToken, "or"), next.is(nameToken, "and"), next.is(nameToken, "if"):
	case next.is(nameToken, "is"):
		p.fail("tests cannot be chained")
	case next.kind == stringToken, next.kind == integerToken, next.kind == floatToken, next.kind == nameToken,
		next.is(operator, "["), next.is(operator, "{"):
		if next.is(nameToken, "in") || next.is(nameToken, "not") {
			break
		}
		t.positional = []expression{p.postfix(p.primary())}
	}
	if negated {
		return &unary{line, "not", t}
	}
	return t
}
