package jinja

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// eval evaluates an expression.
func (r *run) eval(e expression) Value {
	line := at(e.where())
	r.step(line, 1)
	r.deeper(line)
	defer func() { r.depth-- }()
	switch e := e.(type) {
	case *constant:
		return e.value
	case *name:
		return r.variable(e)
	case *sequenceLiteral:
		r.take(line, bytesPerItem*int64(len(e.items)))
		return &Sequence{e.kind, r.evalAll(e.items)}
	case *dictLiteral:
		d := NewDict()
		r.take(line, 2*bytesPerItem*int64(len(e.keys)))
		for i, key := range e.keys {
			if k := r.eval(key); !d.set(k, r.eval(e.values[i])) {
				r.fail(line, "a %s as a key of a dict is not implemented", typeName(k))
			}
		}
		return d
	case *attribute:
		return r.attribute(line, r.eval(e.of), e.name)
	case *item:
		return r.item(line, r.eval(e.of), r.eval(e.key))
	case *sliced:
		return r.slice(e)
	case *call:
		return r.call(e, nil)
	case *filtered:
		return r.filter(e, r.eval(e.of))
	case *tested:
		return r.test(e)
	case *conditional:
		switch {
		case truth(r.eval(e.test)):
			return r.eval(e.then)
		case e.otherwise == nil:
			return &undefined{"the inline if expression without an else"}
		}
		return r.eval(e.otherwise)
	case *unary:
		return r.unary(line, e.operator, r.eval(e.of))
	case *binary:
		return r.binary(line, e)
	case *concatenation:
		parts := make([]string, len(e.parts))
		for i, part := range e.parts {
			parts[i] = r.str(line, r.eval(part))
		}
		return r.concat(line, parts, "")
	case *comparison:
		return r.comparison(line, e)
	}
	panic(fmt.Sprintf("jinja: no evaluation of %T", e))
}

func (r *run) evalAll(all []expression) []Value {
	values := make([]Value, len(all))
	for i, e := range all {
		values[i] = r.eval(e)
	}
	return values
}

// concat joins texts, the budget asked first.
func (r *run) concat(line at, parts []string, between string) string {
	n := int64(len(between)) * int64(max(0, len(parts)-1))
	for _, part := range parts {
		n += int64(len(part))
	}
	r.take(line, n)
	return strings.Join(parts, between)
}

func (r *run) variable(e *name) Value {
	if v, ok := r.scope.lookup(e.name); ok {
		return v
	}
	if f, ok := globals[e.name]; ok {
		return &function{e.name, f}
	}
	switch {
	case e.name == "strftime_now" && !r.options.Now.IsZero():
		return &function{e.name, strftimeNow}
	case slices.Contains([]string{"cycler", "joiner", "lipsum"}, e.name):
		r.fail(e.at, "%s is not implemented", e.name)
	}
	return &undefined{fmt.Sprintf("%q", e.name)}
}

// known fails for an undefined value where Jinja's Undefined would.
func (r *run) known(line at, v Value) {
	if u, ok := v.(*undefined); ok {
		r.fail(line, "%s is undefined", clip(u.what))
	}
}

// attribute is v.name: a method, an attribute or, for a dict, a key.
func (r *run) attribute(line at, v Value, name string) Value {
	r.known(line, v)
	if found, ok := r.ownAttribute(line, v, name); ok {
		return found
	}
	if d, ok := v.(*Dict); ok {
		if value, ok := d.Get(name); ok {
			return value
		}
	}
	return &undefined{fmt.Sprintf("%s's attribute %q", typeName(v), name)}
}

// ownAttribute finds what Python's getattr would.
func (r *run) ownAttribute(line at, v Value, name string) (Value, bool) {
	switch x := v.(type) {
	case *namespace:
		return x.attributes.Get(name)
	case *loopState:
		return r.loopAttribute(line, x, name)
	case string, *Dict, *Sequence:
		return r.method(line, v, name)
	}
	return nil, false
}

// item is v[key].
func (r *run) item(line at, v, key Value) Value {
	r.known(line, v)
	missing := func() Value {
		return &undefined{fmt.Sprintf("%s's element %s", typeName(v), clip(r.str(line, key)))}
	}
	index, isIndex := whole(key)
	switch x := v.(type) {
	case *Dict:
		if value, ok := x.get(key); ok {
			return value
		}
	case *Sequence:
		if isIndex && x.indexable() {
			if i, there := place(index, len(x.items)); there {
				return x.items[i]
			}
			return missing()
		}
	case string:
		if isIndex {
			r.step(line, int64(len(x))/bytesPerStep)
			if i, there := place(index, characters(x)); there {
				return substring(x, i, i+1)
			}
			return missing()
		}
	}
	if text, ok := key.(string); ok {
		if found, ok := r.ownAttribute(line, v, text); ok {
			return found
		}
	}
	return missing()
}

// place is where an index leads in a sequence of n, from the end if it is negative.
func place(index int64, n int) (at int, there bool) {
	if index < 0 {
		index += int64(n)
	}
	return int(index), index >= 0 && index < int64(n)
}

// substring cuts characters from before to out of a text.
func substring(s string, from, to int) string {
	if len(s) == characters(s) {
		return s[from:to]
	}
	start, end, i := len(s), len(s), 0
	for place := range s {
		if i == from {
			start = place
		}
		if i == to {
			end = place
			break
		}
		i++
	}
	return s[start:end]
}

// slice is v[start:stop:step].
func (r *run) slice(e *sliced) Value {
	v := r.eval(e.of)
	r.known(e.at, v)
	var n int64
	text, isText := v.(string)
	s, isSequence := v.(*Sequence)
	switch {
	case isText:
		n = int64(characters(text))
	case isSequence && s.indexable():
		n = int64(len(s.items))
	default:
		r.fail(e.at, "a %s cannot be sliced", typeName(v))
	}
	step := r.bound(e.step, 1)
	if step == 0 {
		r.fail(e.at, "a slice cannot step by 0")
	}
	low, high := int64(0), n // where start and stop may lie
	start, stop := low, high
	if step < 0 {
		low, high = -1, n-1
		start, stop = high, low
	}
	if e.start != nil {
		start = clamp(r.bound(e.start, start), n, low, high)
	}
	if e.stop != nil {
		stop = clamp(r.bound(e.stop, stop), n, low, high)
	}
	step = max(-n-1, min(n+1, step)) // as far as a larger one
	if step == 1 && isText {
		if stop <= start {
			return ""
		}
		return r.made(e.at, substring(text, int(start), int(stop)))
	}
	var places []int
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		places = append(places, int(i))
	}
	r.take(e.at, bytesPerItem*int64(len(places)))
	if isText {
		characters := []rune(text)
		var b strings.Builder
		for _, i := range places {
			b.WriteRune(characters[i])
		}
		return r.made(e.at, b.String())
	}
	part := &Sequence{kind: s.kind}
	for _, i := range places {
		part.items = append(part.items, s.items[i])
	}
	return part
}

// bound is a bound or the step of a slice; None means that it is left out.
func (r *run) bound(e expression, otherwise int64) int64 {
	if e == nil {
		return otherwise
	}
	v := r.eval(e)
	if v == nil {
		return otherwise
	}
	i, ok := whole(v)
	if !ok {
		r.fail(at(e.where()), "a slice wants integers, not %s", typeName(v))
	}
	return i
}

// clamp turns a bound into a place: negative ones count from the end.
func clamp(i, n, low, high int64) int64 {
	if i < 0 {
		i += n
	}
	return min(max(i, low), high)
}

// call calls a function; caller is that of a call block.
func (r *run) call(e *call, caller *function) Value {
	callee := r.eval(e.of)
	r.known(e.at, callee)
	f, ok := callee.(*function)
	if !ok {
		r.fail(e.at, "a %s cannot be called", typeName(callee))
	}
	a := r.arguments(e.at, f.name, &e.arguments)
	if caller != nil {
		a.names, a.named = append(slices.Clone(a.names), "caller"), append(a.named, caller)
	}
	return f.call(r, a)
}

func (r *run) arguments(line at, callee string, from *arguments) args {
	return args{line: line, callee: callee, positional: r.evalAll(from.positional), names: from.names, named: r.evalAll(from.named)}
}

func (a *args) lookup(name string) (Value, bool) {
	for i, known := range a.names {
		if known == name {
			return a.named[i], true
		}
	}
	return nil, false
}

// bind sorts the arguments by the names of parameters; what is left out is
// absent. The first required ones must be there.
func (r *run) bind(a args, required int, parameters ...string) []Value {
	if len(a.positional) > len(parameters) {
		r.fail(a.line, "%s takes at most %d arguments, not %d", a.callee, len(parameters), len(a.positional))
	}
	bound := make([]Value, len(parameters))
	for i := range bound {
		bound[i] = absent
	}
	copy(bound, a.positional)
	for i, name := range a.names {
		place := slices.Index(parameters, name)
		if place < 0 {
			r.fail(a.line, "%s has no parameter %q", a.callee, clip(name))
		}
		if bound[place] != absent {
			r.fail(a.line, "%s gets %q twice", a.callee, name)
		}
		bound[place] = a.named[i]
	}
	for i := range required {
		if bound[i] == absent {
			r.fail(a.line, "%s wants an argument %q", a.callee, parameters[i])
		}
	}
	return bound
}

// absent marks a parameter that no argument is for.
var absent = &undefined{"an argument that is not given"}

// orElse is v, or otherwise when it is absent.
func orElse(v, otherwise Value) Value {
	if v == absent {
		return otherwise
	}
	return v
}

// iterate lists what a for loop over a value would see.
func (r *run) iterate(line at, v Value) []Value {
	switch x := v.(type) {
	case *Sequence:
		items := x.items
		if x.kind == generator {
			x.items = nil
		}
		r.step(line, int64(len(items)))
		return items
	case *Dict:
		r.step(line, int64(len(x.keys)))
		return x.keys
	case string:
		n := characters(x)
		r.take(line, bytesPerItem*int64(n))
		r.step(line, int64(n))
		items := make([]Value, 0, n)
		for len(x) > 0 {
			_, width := utf8.DecodeRuneInString(x)
			items = append(items, x[:width])
			x = x[width:]
		}
		return items
	case *undefined:
		return nil
	case *namespace, *loopState, *function, nil, bool, int64, float64:
	}
	r.fail(line, "a %s cannot be iterated over", typeName(v))
	return nil
}

func (r *run) loopAttribute(line at, l *loopState, name string) (Value, bool) {
	n := len(l.items)
	at := func(i int, what string) Value {
		if i < 0 || i >= n {
			return &undefined{what}
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return int64(l.index + 1), true
	case "index0":
		return int64(l.index), true
	case "revindex":
		return int64(n - l.index), true
	case "revindex0":
		return int64(n - l.index - 1), true
	case "first":
		return l.index == 0, true
	case "last":
		return l.index == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		return at(l.index-1, "the item before the first"), true
	case "nextitem":
		return at(l.index+1, "the item after the last"), true
	case "cycle":
		return &function{"loop.cycle", func(r *run, a args) Value {
			if len(a.positional) == 0 {
				r.fail(a.line, "loop.cycle wants arguments")
			}
			return a.positional[l.index%len(a.positional)]
		}}, true
	case "changed":
		return &function{"loop.changed", func(r *run, a args) Value {
			now := &Sequence{tuple, a.positional}
			changed := l.seen == nil || !r.equal(a.line, l.seen, now)
			l.seen = now
			return changed
		}}, true
	}
	return nil, false
}
