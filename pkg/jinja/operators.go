package jinja

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

func (r *run) unary(line at, operator string, v Value) Value {
	if operator == "not" {
		return !truth(v)
	}
	r.known(line, v)
	if i, ok := whole(v); ok {
		if operator == "-" {
			return r.fit(line, -i, i != math.MinInt64)
		}
		return i
	}
	f, ok := number(v)
	if !ok {
		r.fail(line, "%s wants a number, not %s", operator, typeName(v))
	}
	if operator == "-" {
		f = -f
	}
	return f
}

// fit is an integer that Python would have, as long as 64 bits hold it.
func (r *run) fit(line at, i int64, fits bool) Value {
	if !fits {
		r.fail(line, "an integer beyond 64 bits is not implemented")
	}
	return i
}

func (r *run) binary(line at, e *binary) Value {
	left := r.eval(e.left)
	switch e.operator {
	case "and":
		if !truth(left) {
			return left
		}
		return r.eval(e.right)
	case "or":
		if truth(left) {
			return left
		}
		return r.eval(e.right)
	}
	return r.arithmetic(line, e.operator, left, r.eval(e.right))
}

func (r *run) arithmetic(line at, operator string, left, right Value) Value {
	if text, ok := left.(string); ok && operator == "%" {
		return r.percentFormat(line, text, right)
	}
	r.known(line, left)
	r.known(line, right)
	a, okA := whole(left)
	b, okB := whole(right)
	switch {
	case okA && okB:
		return r.integers(line, operator, a, b)
	case operator == "+":
		if sum, ok := r.joined(line, left, right); ok {
			return sum
		}
	case operator == "*" && okB:
		if product, ok := r.repeated(line, left, b); ok {
			return product
		}
	case operator == "*" && okA:
		if product, ok := r.repeated(line, right, a); ok {
			return product
		}
	}
	x, okX := number(left)
	y, okY := number(right)
	if !okX || !okY {
		r.fail(line, "%s is not defined between %s and %s", operator, typeName(left), typeName(right))
	}
	return r.floats(line, operator, x, y)
}

// joined adds texts, lists or tuples.
func (r *run) joined(line at, left, right Value) (Value, bool) {
	switch a := left.(type) {
	case string:
		if b, ok := right.(string); ok {
			return r.concat(line, []string{a, b}, ""), true
		}
	case *Sequence:
		if b, ok := right.(*Sequence); ok && a.kind == b.kind && (a.kind == list || a.kind == tuple) {
			r.take(line, bytesPerItem*int64(len(a.items)+len(b.items)))
			return &Sequence{a.kind, append(append([]Value{}, a.items...), b.items...)}, true
		}
	}
	return nil, false
}

// repeated repeats a text, list or tuple.
func (r *run) repeated(line at, v Value, times int64) (Value, bool) {
	times = max(0, times)
	width := int64(0)
	s, isSequence := v.(*Sequence)
	text, isText := v.(string)
	switch {
	case isText:
		width = int64(len(text))
	case isSequence && (s.kind == list || s.kind == tuple):
		width = bytesPerItem * int64(len(s.items))
	default:
		return nil, false
	}
	if width == 0 || times == 0 {
		times, width = 0, 0
	} else if times > math.MaxInt64/width {
		times = math.MaxInt64 / width // more than any budget
	}
	r.take(line, width*times)
	if isText {
		return strings.Repeat(text, int(times)), true
	}
	product := &Sequence{kind: s.kind}
	for range times {
		product.items = append(product.items, s.items...)
	}
	return product, true
}

func (r *run) integers(line at, operator string, a, b int64) Value {
	if b == 0 && (operator == "/" || operator == "//" || operator == "%") {
		r.fail(line, "division by zero")
	}
	switch operator {
	case "+":
		return r.fit(line, a+b, (a+b > a) == (b > 0))
	case "-":
		return r.fit(line, a-b, (a-b < a) == (b > 0))
	case "*":
		high, low := bits.Mul64(magnitude(a), magnitude(b))
		return r.fit(line, a*b, high == 0 && low < 1<<63)
	case "/":
		return float64(a) / float64(b)
	case "//":
		if b == -1 {
			return r.fit(line, -a, a != math.MinInt64)
		}
		quotient := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			quotient--
		}
		return quotient
	case "%":
		if b == -1 {
			return int64(0)
		}
		rest := a % b
		if rest != 0 && (rest < 0) != (b < 0) {
			rest += b
		}
		return rest
	}
	if b < 0 {
		return r.floats(line, operator, float64(a), float64(b))
	}
	power := int64(1)
	if magnitude(a) < 2 {
		b = min(b, 2-b%2) // 0, 1 and -1 repeat themselves
	}
	for range b { // at most 64 rounds before it does not fit
		power = r.integers(line, "*", power, a).(int64)
	}
	return power
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

func (r *run) floats(line at, operator string, a, b float64) Value {
	if b == 0 && (operator == "/" || operator == "//" || operator == "%") {
		r.fail(line, "division by zero")
	}
	switch operator {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	case "//":
		return math.Floor((a - floatRest(a, b)) / b)
	case "%":
		return floatRest(a, b)
	}
	return math.Pow(a, b)
}

// floatRest is Python's modulo: it has the sign of the divisor.
func floatRest(a, b float64) float64 {
	rest := math.Mod(a, b)
	if rest != 0 && (rest < 0) != (b < 0) {
		rest += b
	}
	return rest
}

func (r *run) comparison(line at, e *comparison) Value {
	left := r.eval(e.first)
	for i, operator := range e.operators {
		right := r.eval(e.operands[i])
		if !r.compare(line, operator, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (r *run) compare(line at, operator string, left, right Value) bool {
	switch operator {
	case "==":
		return r.equal(line, left, right)
	case "!=":
		return !r.equal(line, left, right)
	case "in":
		return r.contains(line, right, left)
	case "not in":
		return !r.contains(line, right, left)
	}
	if isNumber(left) && isNumber(right) {
		if _, ordered := numberOrder(left, right); !ordered {
			return false
		}
	}
	order := r.order(line, left, right)
	switch operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

func isNumber(v Value) bool {
	_, ok := number(v)
	return ok
}

// numberOrder compares two numbers exactly, an integer with a float too. What
// is no number, or not a number, has no order.
func numberOrder(left, right Value) (order int, ordered bool) {
	if !isNumber(left) || !isNumber(right) {
		return 0, false
	}
	exact := func(v Value) *big.Float {
		if i, ok := whole(v); ok {
			return new(big.Float).SetInt64(i)
		}
		f, _ := number(v)
		if math.IsNaN(f) {
			return nil
		}
		return big.NewFloat(f)
	}
	if a, ok := whole(left); ok {
		if b, ok := whole(right); ok {
			return cmp.Compare(a, b), true
		}
	}
	a, b := exact(left), exact(right)
	if a == nil || b == nil {
		return 0, false
	}
	return a.Cmp(b), true
}

// equal is Python's ==.
func (r *run) equal(line at, left, right Value) bool { return r.equalAt(line, left, right, 0) }

func (r *run) equalAt(line at, left, right Value, depth int) bool {
	r.step(line, 1)
	if depth > deepestValue {
		r.fail(line, "values nest deeper than %d", deepestValue)
	}
	if isNumber(left) || isNumber(right) {
		order, ordered := numberOrder(left, right)
		return ordered && order == 0
	}
	switch a := left.(type) {
	case nil:
		return right == nil
	case string:
		b, ok := right.(string)
		r.step(line, int64(min(len(a), len(b)))/bytesPerStep)
		return ok && a == b
	case *undefined:
		_, ok := right.(*undefined)
		return ok
	case *Sequence:
		b, ok := right.(*Sequence)
		if !ok || a.kind != b.kind || len(a.items) != len(b.items) {
			return false
		}
		for i, item := range a.items {
			if !r.equalAt(line, item, b.items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := right.(*Dict)
		if !ok || a.Len() != b.Len() {
			return false
		}
		for i, key := range a.keys {
			value, ok := b.get(key)
			if !ok || !r.equalAt(line, a.values[i], value, depth+1) {
				return false
			}
		}
		return true
	}
	return left == right
}

// order is negative, zero or positive as left is before, at or after right.
func (r *run) order(line at, left, right Value) int {
	r.step(line, 1)
	if order, ordered := numberOrder(left, right); ordered {
		return order
	}
	if a, ok := left.(string); ok {
		if b, ok := right.(string); ok {
			r.step(line, int64(min(len(a), len(b)))/bytesPerStep)
			return strings.Compare(a, b)
		}
	}
	a, okA := left.(*Sequence)
	b, okB := right.(*Sequence)
	if !okA || !okB || a.kind != b.kind || a.kind != list && a.kind != tuple {
		r.known(line, left)
		r.known(line, right)
		r.fail(line, "%s and %s have no order", typeName(left), typeName(right))
	}
	for i := range min(len(a.items), len(b.items)) {
		if !r.equal(line, a.items[i], b.items[i]) {
			r.deeper(line)
			order := r.order(line, a.items[i], b.items[i])
			r.depth--
			return order
		}
	}
	return cmp.Compare(len(a.items), len(b.items))
}

// contains is Python's in.
func (r *run) contains(line at, in, v Value) bool {
	switch x := in.(type) {
	case string:
		part, ok := v.(string)
		if !ok {
			r.known(line, v)
			r.fail(line, "in a text there can be text, not %s", typeName(v))
		}
		r.step(line, int64(len(x))/bytesPerStep)
		return strings.Contains(x, part)
	case *Dict:
		_, ok := x.get(v)
		return ok
	}
	for _, item := range r.iterate(line, in) {
		if r.equal(line, item, v) {
			return true
		}
	}
	return false
}
