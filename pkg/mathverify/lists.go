package mathverify

import (
	"slices"
	"strings"
)

// list reads values side by side up to the closing text, which is left.
func (p *parser) list(closing string) *node {
	p.enter()
	defer p.leave()
	var items []*node
	var cuts []int // how many items stand before each semicolon
	separators := 0
	for p.failed == nil {
		p.blanks()
		for p.peekSeparator() {
			if p.text[p.at] == ';' {
				cuts = append(cuts, len(items))
			}
			p.separator()
			separators++
		}
		if p.end(closing) {
			break
		}
		if p.ellipsis() {
			continue
		}
		items = append(items, p.relation())
		if len(items) > maxListItems {
			p.fail(errBudget)
		}
		p.blanks()
		if p.brace && len(items) == 1 && separators == 0 && p.failed == nil && p.suchThat() {
			items[0] = p.solutionSet(items[0])
			p.blanks()
		}
		if !p.end(closing) && !p.peekSeparator() && !p.peekEllipsis() {
			p.fail(errParse)
		}
	}
	if closing == "" && len(cuts) > 0 && len(cuts) < separators {
		items = grouped(items, cuts)
	}
	if len(items) == 1 {
		return items[0]
	}
	return operation(kindList, items...)
}

// grouped makes tuples of what stands between the cuts: x=1, y=2; x=2, y=1.
func grouped(items []*node, cuts []int) []*node {
	var groups []*node
	from := 0
	for _, to := range append(cuts, len(items)) {
		switch to - from {
		case 0:
		case 1:
			groups = append(groups, items[from])
		default:
			groups = append(groups, &node{kind: kindTuple, args: items[from:to:to], open: '(', close: ')'})
		}
		from = to
	}
	return groups
}

func (p *parser) end(closing string) bool {
	if p.failed != nil || p.at >= len(p.text) {
		return true
	}
	return closing != "" && strings.HasPrefix(p.text[p.at:], closing)
}

func (p *parser) separator() bool {
	n := p.separatorBytes()
	p.at += n
	p.blanks()
	return n > 0
}

func (p *parser) peekSeparator() bool { return p.separatorBytes() > 0 }

func (p *parser) separatorBytes() int {
	rest := p.text[p.at:]
	if rest == "" {
		return 0
	}
	if rest[0] == ',' || rest[0] == ';' {
		return 1
	}
	for _, word := range []string{`\text{and}`, `\text{or}`, `\lor`, `\land`, `\vee`, `\wedge`, "and", "or"} {
		if strings.HasPrefix(rest, word) && (word[len(word)-1] == '}' || !letterAt(rest, len(word))) {
			return len(word)
		}
	}
	return 0
}

var ellipses = []string{`\ldots`, `\dots`, `\cdots`, "...", "…"}

func (p *parser) peekEllipsis() bool {
	return slices.ContainsFunc(ellipses, func(e string) bool { return strings.HasPrefix(p.text[p.at:], e) })
}

func (p *parser) ellipsis() bool {
	if !slices.ContainsFunc(ellipses, p.literal) {
		return false
	}
	p.blanks()
	return true
}
