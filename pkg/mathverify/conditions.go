package mathverify

import (
	"math/big"
	"slices"
	"strings"
)

// describes reports whether a relation's solutions are the set.
func (c *comparer) describes(relation, set *node) bool {
	want, _, ok1 := c.solutions(relation)
	got, ok2 := c.realSet(set)
	return ok1 && ok2 && c.sameRealSet(want, got)
}

// solutions is the set of an unknown's values that bounds with constants
// leave, and the unknown's key: x < 3, 1 ≤ x < 2, x ≠ 3, x ∈ S, |x| ≤ 2,
// 2x + 1 > 0, 0 < f(x) < 1.
func (c *comparer) solutions(n *node) (realSet, string, bool) {
	if n.kind != kindRelation {
		return nil, "", false
	}
	if len(n.args) == 2 && (n.operators[0] == "in" || n.operators[0] == "=") && unknownValue(n.args[0]) {
		right := n.args[1]
		if !right.isSet() {
			right = operation(kindList, right)
		}
		s, ok := c.realSet(right)
		return s, n.args[0].key(), ok
	}
	if slices.Contains(n.operators, "=") || slices.Contains(n.operators, "in") {
		return nil, "", false
	}
	set, unknownName := c.allReals(), ""
	for i, operator := range n.operators {
		right := n.args[i+1]
		side, ok := c.bounded(n.args[i])
		if !ok {
			side, ok = c.bounded(right)
			right, operator = n.args[i], flipped[operator]
		}
		if !ok || unknownName != "" && side.unknown != unknownName {
			return nil, "", false
		}
		unknownName = side.unknown
		bound, ok := c.bound(side, operator, right)
		if !ok {
			return nil, "", false
		}
		set = c.intersect(set, bound)
	}
	return set, unknownName, unknownName != ""
}

// side is an expression slope·u + offset of an unknown u, or |u|.
type side struct {
	unknown       string // its key
	slope, offset *big.Rat
	absolute      bool
}

// unknownValue reports whether a node is one unknown real number: a symbol or
// the value of an unknown function.
func unknownValue(n *node) bool {
	return n.kind == kindSymbol || n.kind == kindFunction && strings.HasSuffix(n.name, "()")
}

// bounded reads a side of a condition that has one unknown.
func (c *comparer) bounded(n *node) (side, bool) {
	switch {
	case unknownValue(n):
		return side{n.key(), one, new(big.Rat), false}, true
	case n.kind == kindFunction && n.name == "abs" && unknownValue(n.args[0]):
		return side{n.args[0].key(), one, new(big.Rat), true}, true
	}
	free := n.free()
	if len(free) != 1 || n.isSet() {
		return side{}, false
	}
	f, ok := c.rational(n)
	bottom := f.bottom[""]
	if !ok || f.opaque || len(f.bottom) != 1 || bottom == nil {
		return side{}, false
	}
	for name := range free {
		slope, offset := f.top[name+exponentSeparator+"1"], f.top[""]
		if offset == nil {
			offset = new(big.Rat)
		}
		if slope == nil || len(f.top) > 2 || len(f.top) == 2 && offset.Sign() == 0 {
			return side{}, false // another power of the unknown
		}
		symbol := &node{kind: kindSymbol, name: name}
		return side{symbol.key(), new(big.Rat).Quo(slope, bottom), new(big.Rat).Quo(offset, bottom), false}, true
	}
	return side{}, false
}

// bound is the set of the unknown's values for which a side compares with a
// constant.
func (c *comparer) bound(s side, operator string, right *node) (realSet, bool) {
	if s.offset.Sign() != 0 {
		right = operation(kindSum, right, number(new(big.Rat).Neg(s.offset)))
	}
	if s.slope.Cmp(one) != 0 {
		right = operation(kindQuotient, right, number(s.slope))
	}
	if s.slope.Sign() < 0 {
		operator = flipped[operator]
	}
	v, ok := c.endpoint(right)
	if !ok {
		return nil, false
	}
	bound := c.allReals()
	switch operator {
	case "<", "<=":
		bound[0].high, bound[0].highValue, bound[0].highClosed = right, v, operator == "<=" && v != inf(1)
	case ">", ">=":
		bound[0].low, bound[0].lowValue, bound[0].lowClosed = right, v, operator == ">=" && v != inf(-1)
	case "!=":
		bound = c.complement(realSet{{right, right, v, v, true, true}})
	}
	if s.absolute {
		bound = c.ofAbsolute(bound)
	}
	return bound, true
}

// ofAbsolute is the set of the numbers whose absolute value is in a set.
func (c *comparer) ofAbsolute(set realSet) realSet {
	both := c.intersect(set, realSet{{low: integer(0), lowClosed: true, high: positiveInfinity, highValue: inf(1)}})
	for _, s := range slices.Clone(both) {
		both = append(both, segment{negate(s.high), negate(s.low), -s.highValue, -s.lowValue, s.highClosed, s.lowClosed})
	}
	return c.merge(both)
}

// suchThat takes the sign in {x : x > 1} and {x | x > 1}.
func (p *parser) suchThat() bool {
	return p.literal(":") || p.literal("|") || p.word(`\mid`) || p.word(`\vert`) || p.word(`\colon`)
}

// solutionSet reads the condition in {x : x > 1} or {x ∈ ℝ : x > 1}, whose
// unknown is given one name. Other sets are compared as text.
func (p *parser) solutionSet(head *node) *node {
	unknown, conditions := head, []*node{p.relation()}
	if head.kind == kindRelation && head.operators[0] == "in" && len(head.args) == 2 {
		unknown = head.args[0]
		conditions = append(conditions, head)
	}
	n := &node{kind: kindSolutions, args: conditions}
	names := n.free()
	if unknown.kind != kindSymbol || conditions[0].kind != kindRelation || len(names) != 1 || !names[unknown.name] {
		return p.fail(errParse)
	}
	return rename(n, map[string]string{unknown.name: "x"})
}
