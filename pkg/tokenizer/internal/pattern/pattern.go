// Package pattern matches the regular expressions of a tokenizer.json, which
// are written for Oniguruma in the syntax of Ruby.
//
// The expressions are parsed and compiled by regexp/syntax of the standard
// library. Matching is done here, because package regexp has no look-ahead and
// no atomic groups, and because the classes of characters must be those of the
// Unicode version that the peer has. It remembers which states have failed, so
// that the time is linear in the length of a text, whatever the expression is.
// What Oniguruma has and this package has not is an error that names it.
package pattern

import (
	"fmt"
	"regexp/syntax"
	"sync"
	"unicode/utf8"
)

// Set returns the ranges (first, last, first, last, …) of a set of characters
// by its name: a general category (L, Lu, …), a script, space or word. It
// returns nil for a set that it does not know.
type Set func(name string) []rune

// Pattern is a compiled expression. It is safe for concurrent use.
type Pattern struct {
	main  *program
	inner []inner
	word  []rune
	// starts are the bytes below utf8.RuneSelf that a match can begin with.
	starts [utf8.RuneSelf]bool
}

// inner is a part that is matched for itself: looked ahead for, or taken
// without going back into it.
type inner struct {
	program *program
	ahead   bool
	negated bool
}

// program is a compiled expression with what speeds up its matching.
type program struct {
	*syntax.Prog
	ascii    [][2]uint64 // by instruction: the characters below utf8.RuneSelf that match
	branches []int32     // by instruction: the number of an alternative, or -1
	count    int         // of alternatives
}

// firstInner is the character that stands for the first inner part while an
// expression is parsed. It is for private use, and no expression that holds it
// is taken.
const firstInner = '\U0010F000'

// maxInner bounds the inner parts of an expression.
const maxInner = 256

// Compile compiles an expression.
func Compile(expression string, set Set) (*Pattern, error) {
	if set("word") == nil {
		return nil, fmt.Errorf("there are no tables of characters")
	}
	p := &Pattern{word: set("word")}
	t := translator{rest: expression, set: set, pattern: p}
	text, err := t.alternatives(false)
	if err == nil && t.rest != "" {
		err = fmt.Errorf("an unmatched )")
	}
	if err == nil {
		p.main, err = compile(text)
	}
	if err != nil {
		return nil, err
	}
	p.findStarts()
	return p, nil
}

func compile(text string) (*program, error) {
	// Without OneLine ^ and $ match at every line, as they do in Ruby.
	parsed, err := syntax.Parse(text, syntax.Perl&^syntax.OneLine)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	p := &program{Prog: prog, ascii: make([][2]uint64, len(prog.Inst)), branches: make([]int32, len(prog.Inst))}
	for i := range prog.Inst {
		inst := &prog.Inst[i]
		p.branches[i] = -1
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			p.branches[i] = int32(p.count)
			p.count++
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			for r := rune(0); r < utf8.RuneSelf; r++ {
				if matches(inst, r) {
					p.ascii[i][r/64] |= 1 << (r % 64)
				}
			}
		}
	}
	return p, nil
}

func matches(inst *syntax.Inst, r rune) bool {
	switch inst.Op {
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	}
	return inst.MatchRune(r)
}

// innerAt returns the inner part that an instruction stands for.
func (p *Pattern) innerAt(inst *syntax.Inst) *inner {
	if inst.Op == syntax.InstRune1 && inst.Rune[0] >= firstInner && inst.Rune[0] < firstInner+maxInner {
		return &p.inner[inst.Rune[0]-firstInner]
	}
	return nil
}

// findStarts lists what a match can begin with: everything, if it can be empty
// or begins with an inner part that takes text.
func (p *Pattern) findStarts() {
	seen := make([]bool, len(p.main.Inst))
	all := false
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if seen[pc] || all {
			return
		}
		seen[pc] = true
		inst := &p.main.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(inst.Out)
			visit(inst.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			visit(inst.Out)
		case syntax.InstMatch:
			all = true
		case syntax.InstFail:
		default:
			switch part := p.innerAt(inst); {
			case part == nil:
				for b := range p.starts {
					p.starts[b] = p.starts[b] || p.main.ascii[pc][b/64]>>(b%64)&1 != 0
				}
			case part.ahead:
				visit(inst.Out)
			default:
				all = true
			}
		}
	}
	visit(uint32(p.main.Start))
	for b := range p.starts {
		p.starts[b] = p.starts[b] || all
	}
}

// Each calls yield with the bytes from and to of each match in a text, in
// order, as Oniguruma's find_iter of the peer does.
func (p *Pattern) Each(text string, yield func(from, to int)) {
	m := machines.Get().(*machine)
	defer machines.Put(m)
	m.reset(p, text)
	lastEnd := -1
	for at := 0; at <= len(text); {
		from, to := m.find(at)
		if from < 0 {
			return
		}
		if from == to && from == lastEnd {
			// An empty match behind another one is none.
			_, size := utf8.DecodeRuneInString(text[at:])
			at += max(1, size)
			continue
		}
		yield(from, to)
		at, lastEnd = to, to
	}
}

var machines = sync.Pool{New: func() any { return new(machine) }}
