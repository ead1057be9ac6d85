package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// maxNesting bounds how deep tags and brackets may stand in each other.
const maxNesting = 100

// maxTemplateBytes bounds a template's source.
const maxTemplateBytes = 1 << 20

// Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct {
	body       []statement
	generation bool
}

// HasGeneration reports whether the template marks what the assistant says by
// {% generation %} blocks.
func (t *Template) HasGeneration() bool { return t.generation }

// Parse reads a template. An error is an [*Error].
func Parse(source string) (*Template, error) {
	if len(source) > maxTemplateBytes {
		return nil, &Error{Message: fmt.Sprintf("the template has %d bytes; at most %d can be", len(source), maxTemplateBytes)}
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, template: &Template{}}
	if err := caught(func() { p.template.body, _ = p.statements() }); err != nil {
		return nil, err
	}
	return p.template, nil
}

type parser struct {
	tokens   []token
	at       int
	nesting  int
	loops    int // for loops around the place, for break and continue
	template *Template
}

func (p *parser) fail(format string, args ...any) {
	panic(&Error{Line: p.peek().line, Message: fmt.Sprintf(format, args...)})
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != endOfTemplate {
		p.at++
	}
	return t
}

func (t token) is(k kind, text string) bool { return t.kind == k && t.text == text }

func (t token) String() string {
	switch t.kind {
	case endOfTemplate:
		return "the end of the template"
	case textToken:
		return "text"
	case outputBegin:
		return "{{"
	case outputEnd:
		return "}}"
	case blockBegin:
		return "{%"
	case blockEnd:
		return "%}"
	case stringToken:
		return fmt.Sprintf("string %q", clip(t.text))
	}
	return fmt.Sprintf("%q", clip(t.text))
}

func (p *parser) skip(k kind, text string) bool {
	if p.peek().is(k, text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(k kind, text string) {
	if !p.skip(k, text) {
		p.fail("expected %s, found %s", token{kind: k, text: text}, p.peek())
	}
}

func (p *parser) name() string {
	if p.peek().kind != nameToken {
		p.fail("expected a name, found %s", p.peek())
	}
	return p.next().text
}

// deeper counts a level of nesting for as long as inside runs.
func (p *parser) deeper(inside func()) {
	if p.nesting++; p.nesting > maxNesting {
		p.fail("tags and brackets nest deeper than %d", maxNesting)
	}
	inside()
	p.nesting--
}

// statements reads up to a block tag named in ends, whose name it returns with
// the tag read up to its name; without ends up to the end of the template.
func (p *parser) statements(ends ...string) (body []statement, end string) {
	p.deeper(func() {
		for end == "" {
			t := p.next()
			line := at(t.line)
			switch t.kind {
			case textToken:
				body = append(body, &textStatement{line, t.text})
			case outputBegin:
				value := p.tuple(true, false)
				p.expect(outputEnd, "")
				body = append(body, &outputStatement{line, value})
			case blockBegin:
				word := p.name()
				if slices.Contains(ends, word) {
					end = word
					return
				}
				body = append(body, p.block(line, word))
			default:
				if len(ends) > 0 {
					p.fail("%s is missing", strings.Join(ends, " or "))
				}
				return
			}
		}
	})
	return body, end
}

// body reads the statements of a block and its end tag.
func (p *parser) body(end string) []statement {
	p.expect(blockEnd, "")
	body, _ := p.statements(end)
	p.expect(blockEnd, "")
	return body
}

func (p *parser) block(line at, word string) statement {
	switch word {
	case "if":
		return p.ifBlock(line)
	case "for":
		return p.forBlock(line)
	case "set":
		return p.setBlock(line)
	case "with":
		return p.withBlock(line)
	case "macro":
		definition := &macroDefinition{name: p.name()}
		p.signature(definition)
		definition.body = p.loopless("endmacro")
		return &macroStatement{line, definition}
	case "call":
		return p.callBlock(line)
	case "filter":
		s := &captureStatement{at: line}
		s.filter, s.inner = p.filterChain(nil)
		s.body = p.loopless("endfilter")
		return s
	case "generation":
		p.template.generation = true
		return &generationStatement{line, p.loopless("endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside of a for loop", word)
		}
		p.expect(blockEnd, "")
		return &loopControl{line, word}
	case "include", "import", "from", "extends", "block":
		p.fail("%q is refused: a chat template stands alone", word)
	}
	p.fail("unknown tag %q", clip(word))
	return nil
}

// loopless reads a body out of which no break or continue can reach a loop
// around it.
func (p *parser) loopless(end string) []statement {
	loops := p.loops
	p.loops = 0
	body := p.body(end)
	p.loops = loops
	return body
}

func (p *parser) ifBlock(line at) statement {
	s := &ifStatement{at: line}
	for {
		s.tests = append(s.tests, p.tuple(false, false))
		p.expect(blockEnd, "")
		body, end := p.statements("elif", "else", "endif")
		s.bodies = append(s.bodies, body)
		if end == "elif" {
			continue
		}
		if end == "else" {
			s.otherwise = p.body("endif")
		} else {
			p.expect(blockEnd, "")
		}
		return s
	}
}

func (p *parser) forBlock(line at) statement {
	s := &forStatement{at: line, target: p.target(false)}
	p.expect(nameToken, "in")
	s.over = p.tuple(false, false)
	if p.skip(nameToken, "if") {
		s.filter = p.expression()
	}
	if p.peek().is(nameToken, "recursive") {
		p.fail("recursive loops are not implemented")
	}
	p.expect(blockEnd, "")
	p.loops++
	body, end := p.statements("else", "endfor")
	p.loops--
	s.body = body
	if end == "else" {
		s.otherwise = p.body("endfor")
	} else {
		p.expect(blockEnd, "")
	}
	return s
}

func (p *parser) setBlock(line at) statement {
	to := p.target(true)
	if p.skip(operator, "=") {
		s := &setStatement{line, to, p.tuple(true, false)}
		p.expect(blockEnd, "")
		return s
	}
	s := &captureStatement{at: line, target: to}
	if p.skip(operator, "|") {
		s.filter, s.inner = p.filterChain(nil)
	}
	s.body = p.loopless("endset")
	return s
}

// filterChain reads filter names and arguments, the first bar already read.
func (p *parser) filterChain(of expression) (last, first *filtered) {
	for first == nil || p.skip(operator, "|") {
		f := &filtered{at: at(p.peek().line), of: of, name: p.dottedName()}
		if p.skip(operator, "(") {
			f.arguments = p.arguments()
		}
		if first == nil {
			first = f
		}
		last, of = f, f
	}
	return last, first
}

func (p *parser) withBlock(line at) statement {
	s := &withStatement{at: line}
	for p.peek().kind != blockEnd {
		if len(s.targets) > 0 {
			p.expect(operator, ",")
		}
		s.targets = append(s.targets, p.target(false))
		p.expect(operator, "=")
		s.values = append(s.values, p.expression())
	}
	s.body = p.body("endwith")
	return s
}

func (p *parser) callBlock(line at) statement {
	caller := &macroDefinition{name: "caller"}
	if p.peek().is(operator, "(") {
		p.signature(caller)
	}
	called, ok := p.expression().(*call)
	if !ok {
		p.fail("a call block wants a call")
	}
	caller.body = p.loopless("endcall")
	return &callStatement{line, called, caller}
}

func (p *parser) signature(definition *macroDefinition) {
	p.expect(operator, "(")
	for !p.skip(operator, ")") {
		if len(definition.parameters) > 0 {
			p.expect(operator, ",")
		}
		parameter := p.name()
		if slices.Contains(definition.parameters, parameter) {
			p.fail("parameter %q appears twice", parameter)
		}
		definition.parameters = append(definition.parameters, parameter)
		var otherwise expression
		if p.skip(operator, "=") {
			otherwise = p.expression()
		} else if n := len(definition.defaults); n > 0 && definition.defaults[n-1] != nil {
			p.fail("parameter %q without a default follows one with a default", parameter)
		}
		definition.defaults = append(definition.defaults, otherwise)
	}
}

// reserved are the names that cannot be assigned to.
var reserved = []string{"true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else", "loop"}

// target reads what a value is assigned to; attributes is whether an attribute
// of a namespace may be.
func (p *parser) target(attributes bool) *target {
	first := p.oneTarget(attributes)
	if !p.peek().is(operator, ",") {
		return first
	}
	all := []*target{first}
	for p.skip(operator, ",") {
		if p.peek().kind != nameToken && !p.peek().is(operator, "(") || p.peek().is(nameToken, "in") {
			break
		}
		all = append(all, p.oneTarget(attributes))
	}
	return &target{several: all}
}

func (p *parser) oneTarget(attributes bool) (one *target) {
	if p.skip(operator, "(") {
		p.deeper(func() { one = p.target(attributes) })
		p.expect(operator, ")")
		return one
	}
	one = &target{name: p.name()}
	if attributes && p.skip(operator, ".") {
		one.attribute = p.name()
	} else if slices.Contains(reserved, one.name) {
		p.fail("%q cannot be assigned to", one.name)
	}
	return one
}
