package mathverify

import (
	"maps"
	"math/big"
	"slices"
	"strings"
)

// kind says what a node is.
type kind uint8

const (
	kindNumber     kind = iota // value
	kindConstant               // name: pi, e, i or infinity
	kindSymbol                 // name
	kindText                   // name: words, lower case, without blanks
	kindSum                    // args
	kindProduct                // args
	kindQuotient               // args[0] / args[1]
	kindPower                  // args[0] ^ args[1]
	kindFunction               // name, args
	kindPercent                // args[0] / 100
	kindPlusMinus              // args[0] ± args[1], or ± args[0]
	kindMinusPlus              // args[0] ∓ args[1]: the sign opposite to that of ±
	kindList                   // args: values side by side or in braces
	kindTuple                  // args between open and close brackets
	kindNamedSet               // name: R, Z, Q, N, C or empty
	kindUnion                  // args
	kindIntersect              // args
	kindDifference             // args[0] \ args[1]
	kindMatrix                 // args row by row, columns in each row
	kindRelation               // args, with operators[i] between args[i] and args[i+1]
	kindSolutions              // args: relations of the unknown x, all of which the set's numbers fulfil
)

// node is a parsed answer. Nodes are immutable once parsed.
type node struct {
	kind      kind
	value     *big.Rat
	decimal   bool // a number written with a decimal point
	name      string
	args      []*node
	open      byte // of a tuple: ( or [
	close     byte
	columns   int
	operators []string // of a relation: = != < > <= >= in
}

func number(v *big.Rat) *node { return &node{kind: kindNumber, value: v} }

func integer(v int64) *node { return number(big.NewRat(v, 1)) }

func operation(k kind, args ...*node) *node { return &node{kind: k, args: args} }

func function(name string, args ...*node) *node {
	return &node{kind: kindFunction, name: name, args: args}
}

func negate(n *node) *node {
	if n.kind == kindNumber {
		return &node{kind: kindNumber, value: new(big.Rat).Neg(n.value), decimal: n.decimal}
	}
	return operation(kindProduct, integer(-1), n)
}

// hasDecimal reports whether a number in the expression was written with a
// decimal point, which makes the comparison one of rounded numbers.
func (n *node) hasDecimal() bool {
	return n.decimal || slices.ContainsFunc(n.args, (*node).hasDecimal)
}

// isSet reports whether a node stands for a set of numbers or an ordered
// collection, rather than for one value.
func (n *node) isSet() bool {
	switch n.kind {
	case kindList, kindTuple, kindNamedSet, kindUnion, kindIntersect, kindDifference, kindSolutions:
		return true
	}
	return false
}

// contains reports whether a node of the kind is anywhere in the expression.
func (n *node) contains(k kind) bool {
	return n.kind == k || slices.ContainsFunc(n.args, func(a *node) bool { return a.contains(k) })
}

// symbols adds the names of the free symbols to a set.
func (n *node) symbols(into map[string]bool) {
	if n.kind == kindSymbol {
		into[n.name] = true
	}
	if n.series() { // its variable is bound
		body := n.args[3].free()
		delete(body, n.args[0].name)
		maps.Copy(into, body)
		n.args[1].symbols(into)
		n.args[2].symbols(into)
		return
	}
	for _, a := range n.args {
		a.symbols(into)
	}
}

// free is the set of the names of the free symbols.
func (n *node) free() map[string]bool {
	names := map[string]bool{}
	n.symbols(names)
	return names
}

// mapped is a copy of a node with other arguments; the node itself if it has none.
func (n *node) mapped(argument func(*node) *node) *node {
	if len(n.args) == 0 {
		return n
	}
	copied := *n
	copied.args = make([]*node, len(n.args))
	for i, a := range n.args {
		copied.args[i] = argument(a)
	}
	return &copied
}

// series reports whether a node is Σ or Π: its variable, bounds and body.
func (n *node) series() bool {
	return n.kind == kindFunction && len(n.args) == 4 && (n.name == "sum" || n.name == "prod")
}

// count is the number of nodes.
func (n *node) count() int {
	total := 1
	for _, a := range n.args {
		total += a.count()
	}
	return total
}

// key is a text that two nodes share exactly when they have the same
// structure, the order of sums and products aside.
func (n *node) key() string {
	var b strings.Builder
	n.writeKey(&b)
	return b.String()
}

func (n *node) writeKey(b *strings.Builder) {
	switch n.kind {
	case kindNumber:
		b.WriteString(n.value.RatString())
		return
	case kindConstant, kindSymbol, kindText, kindNamedSet:
		b.WriteByte('A' + byte(n.kind))
		b.WriteString(n.name)
		return
	}
	b.WriteByte('(')
	b.WriteByte('a' + byte(n.kind))
	b.WriteString(n.name)
	if n.open != 0 {
		b.WriteByte(n.open)
		b.WriteByte(n.close)
	}
	for _, o := range n.operators {
		b.WriteString(o)
	}
	keys := make([]string, len(n.args))
	for i, a := range n.args {
		keys[i] = a.key()
	}
	switch n.kind {
	case kindSum, kindProduct, kindUnion, kindIntersect:
		slices.Sort(keys)
	}
	for _, k := range keys {
		b.WriteByte(' ')
		b.WriteString(k)
	}
	b.WriteByte(')')
}

// describe names the form of an answer, for audits.
func (n *node) describe() string {
	switch n.kind {
	case kindNumber:
		switch {
		case n.decimal:
			return "decimal"
		case n.value.IsInt():
			return "integer"
		}
		return "rational"
	case kindText, kindSymbol:
		return "text"
	case kindPercent:
		return "percent"
	case kindList, kindPlusMinus, kindMinusPlus, kindNamedSet:
		return "set"
	case kindTuple:
		if n.interval() {
			return "interval"
		}
		return "tuple"
	case kindUnion, kindIntersect, kindDifference, kindSolutions:
		return "set"
	case kindMatrix:
		return "matrix"
	case kindRelation:
		if slices.Contains(n.operators, "=") {
			return "equation"
		}
		return "inequality"
	}
	if len(n.free()) > 0 {
		return "expression"
	}
	const steps = 200 // enough for what is written as a number
	if v, ok := (&budget{steps: steps}).exact(n); ok {
		if v.IsInt() {
			return "integer"
		}
		return "rational"
	}
	return "constant"
}

// interval reports whether a tuple may be read as an interval.
func (n *node) interval() bool {
	return n.kind == kindTuple && len(n.args) == 2 && !n.args[0].isSet() && !n.args[1].isSet()
}
