package mathverify

import (
	"cmp"
	"math"
	"math/cmplx"
	"slices"
)

// equalSets compares lists, tuples, intervals and unions of them.
func (c *comparer) equalSets(gold, got *node) bool {
	if gold.kind == kindNamedSet && got.kind == kindNamedSet {
		return gold.name == got.name
	}
	if gold.kind == kindTuple && got.kind == kindTuple {
		return c.equalTuples(gold, got)
	}
	if gold.kind == kindList && got.kind == kindList {
		return c.equalLists(gold.args, got.args)
	}
	// A list against a tuple counts in the order written. A closed or half
	// open interval is no tuple.
	if list, tuple := gold, got; list.kind == kindList && tuple.kind == kindTuple || list.kind == kindTuple && tuple.kind == kindList {
		if list.kind == kindTuple {
			list, tuple = tuple, list
		}
		round := tuple.open == '(' && tuple.close == ')'
		pair := len(tuple.args) == 2
		return (round || !pair) && (!pair || c.real(tuple)) && len(c.distinct(list.args)) == len(list.args) && c.pairwise(gold.args, got.args)
	}
	if gold.kind == kindList && !got.isSet() {
		gold = c.only(gold)
	}
	if got.kind == kindList && !gold.isSet() {
		got = c.only(got)
	}
	if !gold.isSet() && !got.isSet() {
		return c.equal(gold, got)
	}
	a, ok1 := c.realSet(gold)
	b, ok2 := c.realSet(got)
	if ok1 && ok2 {
		return c.sameRealSet(a, b)
	}
	return gold.key() == got.key()
}

// equalTuples compares item by item; the brackets of two values count, as
// they may be those of an interval.
func (c *comparer) equalTuples(gold, got *node) bool {
	if !c.pairwise(gold.args, got.args) {
		return false
	}
	if !gold.interval() || !c.ascending(gold) {
		return true
	}
	return gold.open == got.open && gold.close == got.close
}

// real reports whether no item is known to have an imaginary part: (3i, -3i)
// is a pair, and neither an interval nor a list of values.
func (c *comparer) real(n *node) bool {
	return !slices.ContainsFunc(n.args, func(a *node) bool {
		if len(a.free()) > 0 || a.isSet() {
			return false
		}
		v := c.evaluate(a, &point{})
		return !cmplx.IsNaN(v) && math.Abs(imag(v)) > 1e-12*cmplx.Abs(v)
	})
}

// ascending reports whether a pair can be an interval: its left end is not
// known to be right of its right end.
func (c *comparer) ascending(n *node) bool {
	left, ok1 := c.endpoint(n.args[0])
	right, ok2 := c.endpoint(n.args[1])
	return !ok1 || !ok2 || left < right
}

// equalLists compares without regard to order: every item has a partner.
// Repeated items count once.
func (c *comparer) equalLists(gold, got []*node) bool {
	if len(gold) == 0 || len(got) == 0 {
		return len(gold) == len(got)
	}
	if len(gold) == len(got) && c.pairwise(gold, got) {
		return true
	}
	gold, got = c.distinct(gold), c.distinct(got)
	if len(gold) != len(got) {
		return false
	}
	for _, g := range gold {
		partner := slices.IndexFunc(got, func(p *node) bool { return c.equal(g, p) })
		if partner < 0 {
			return false
		}
		got = slices.Delete(slices.Clone(got), partner, partner+1)
	}
	return true
}

// only is the value that all items of a list have, if they have one.
func (c *comparer) only(list *node) *node {
	if items := c.distinct(list.args); len(items) == 1 {
		return items[0]
	}
	return list
}

func (c *comparer) distinct(items []*node) []*node {
	var kept []*node
	for _, item := range items {
		if !slices.ContainsFunc(kept, func(k *node) bool { return c.equal(k, item) }) {
			kept = append(kept, item)
		}
	}
	return kept
}

// segment is an interval of real numbers, or a point.
type segment struct {
	low, high             *node
	lowValue, highValue   float64
	lowClosed, highClosed bool
}

// empty reports whether no number is in a segment.
func (s segment) empty() bool {
	return s.lowValue > s.highValue || s.lowValue == s.highValue && !(s.lowClosed && s.highClosed)
}

// realSet is a union of segments in ascending order that do not touch.
type realSet []segment

var (
	positiveInfinity = &node{kind: kindConstant, name: "infinity"}
	negativeInfinity = operation(kindProduct, integer(-1), positiveInfinity)
)

// endpoint is the value of a bound.
func (c *comparer) endpoint(n *node) (float64, bool) {
	if sign := infinite(n); sign != 0 {
		return inf(sign), true
	}
	if len(n.free()) > 0 || n.isSet() {
		return 0, false
	}
	v := c.evaluate(n, &point{})
	if cmplx.IsNaN(v) || cmplx.IsInf(v) || imag(v) != 0 {
		return 0, false
	}
	return real(v), true
}

func (c *comparer) allReals() realSet {
	return realSet{{low: negativeInfinity, high: positiveInfinity, lowValue: inf(-1), highValue: inf(1)}}
}

// realSet makes segments of a set of real numbers; ok is false for others.
func (c *comparer) realSet(n *node) (realSet, bool) {
	if !c.spend(2) {
		return nil, false
	}
	switch n.kind {
	case kindNamedSet:
		switch n.name {
		case "R":
			return c.allReals(), true
		case "empty":
			return nil, true
		case "R+":
			return realSet{{low: integer(0), high: positiveInfinity, highValue: inf(1)}}, true
		}
	case kindList:
		var all realSet
		for _, a := range n.args {
			if a.isSet() { // (1, 2), (3, 4) lists two intervals
				return nil, false
			}
			v, ok := c.endpoint(a)
			if !ok || v == inf(1) || v == inf(-1) {
				return nil, false
			}
			all = append(all, segment{a, a, v, v, true, true})
		}
		return c.merge(all), true
	case kindTuple:
		if !n.interval() {
			return nil, false
		}
		low, ok1 := c.endpoint(n.args[0])
		high, ok2 := c.endpoint(n.args[1])
		if !ok1 || !ok2 || low > high {
			return nil, false
		}
		return realSet{{n.args[0], n.args[1], low, high, n.open == '[' && low != inf(-1), n.close == ']' && high != inf(1)}}, true
	case kindSolutions:
		all := c.allReals()
		for _, condition := range n.args {
			s, _, ok := c.solutions(condition)
			if !ok {
				return nil, false
			}
			all = c.intersect(all, s)
		}
		return all, true
	case kindUnion, kindIntersect, kindDifference:
		a, ok1 := c.realSet(n.args[0])
		b, ok2 := c.realSet(n.args[1])
		if !ok1 || !ok2 || len(a)+len(b) > maxListItems {
			return nil, false
		}
		switch n.kind {
		case kindUnion:
			return c.merge(slices.Concat(a, b)), true
		case kindIntersect:
			return c.intersect(a, b), true
		}
		return c.intersect(a, c.complement(b)), true
	}
	return nil, false
}

// merge sorts segments and joins those that touch or overlap.
func (c *comparer) merge(all realSet) realSet {
	all = slices.DeleteFunc(slices.Clone(all), func(s segment) bool {
		return s.lowValue == s.highValue && !(s.lowClosed && s.highClosed)
	})
	slices.SortStableFunc(all, func(a, b segment) int {
		switch {
		case a.lowValue != b.lowValue:
			return cmp.Compare(a.lowValue, b.lowValue)
		case a.lowClosed == b.lowClosed:
			return 0
		case a.lowClosed:
			return -1
		}
		return 1
	})
	var merged realSet
	for _, s := range all {
		if len(merged) == 0 {
			merged = append(merged, s)
			continue
		}
		last := &merged[len(merged)-1]
		touching := s.lowValue < last.highValue || s.lowValue == last.highValue && (s.lowClosed || last.highClosed)
		if !touching {
			merged = append(merged, s)
			continue
		}
		if s.highValue > last.highValue || s.highValue == last.highValue && s.highClosed {
			last.high, last.highValue, last.highClosed = s.high, s.highValue, s.highClosed
		}
	}
	return merged
}

func (c *comparer) intersect(a, b realSet) realSet {
	var all realSet
	for _, x := range a {
		for _, y := range b {
			s := x
			if y.lowValue > s.lowValue || y.lowValue == s.lowValue && !y.lowClosed {
				s.low, s.lowValue, s.lowClosed = y.low, y.lowValue, y.lowClosed
			}
			if y.highValue < s.highValue || y.highValue == s.highValue && !y.highClosed {
				s.high, s.highValue, s.highClosed = y.high, y.highValue, y.highClosed
			}
			if !s.empty() {
				all = append(all, s)
			}
		}
	}
	return c.merge(all)
}

func (c *comparer) complement(a realSet) realSet {
	rest := c.allReals()[0]
	var all realSet
	for _, s := range a {
		left := rest
		left.high, left.highValue, left.highClosed = s.low, s.lowValue, !s.lowClosed && s.lowValue != inf(-1)
		if !left.empty() {
			all = append(all, left)
		}
		rest.low, rest.lowValue, rest.lowClosed = s.high, s.highValue, !s.highClosed && s.highValue != inf(1)
	}
	if rest.lowValue < rest.highValue || rest.lowValue == rest.highValue && rest.lowClosed {
		all = append(all, rest)
	}
	return all
}

// sameRealSet compares segment by segment, ends as values.
func (c *comparer) sameRealSet(a, b realSet) bool {
	return slices.EqualFunc(a, b, func(x, y segment) bool {
		return x.lowClosed == y.lowClosed && x.highClosed == y.highClosed && c.equalValues(x.low, y.low) && c.equalValues(x.high, y.high)
	})
}
