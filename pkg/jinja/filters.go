package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// filter applies a filter to a value.
func (r *run) filter(e *filtered, v Value) Value {
	return r.apply(e.at, e.name, v, r.arguments(e.at, e.name, &e.arguments))
}

// apply runs a filter by its name.
func (r *run) apply(line at, name string, v Value, a args) Value {
	f, ok := filters[name]
	if !ok {
		r.fail(line, "there is no filter %q", clip(name))
	}
	a.callee = fmt.Sprintf("filter %q", name)
	return f(r, a, v)
}

var filters map[string]func(r *run, a args, v Value) Value

func init() {
	textual := func(f func(r *run, a args, s string) Value) func(r *run, a args, v Value) Value {
		return func(r *run, a args, v Value) Value { return f(r, a, r.str(a.line, v)) }
	}
	filters = map[string]func(r *run, a args, v Value) Value{
		"upper":      textual(mapped(upper)),
		"lower":      textual(mapped(lower)),
		"capitalize": textual(mapped(capitalize)),
		"title":      textual(titleFilter),
		"trim": textual(func(r *run, a args, s string) Value {
			return r.strip(a.line, s, r.bind(a, 0, "chars")[0], true, true)
		}),
		"string": textual(func(_ *run, _ args, s string) Value { return s }),
		"safe":   textual(func(_ *run, _ args, s string) Value { return s }), // without escaping all text is
		"replace": textual(func(r *run, a args, s string) Value {
			bound := r.bind(a, 2, "old", "new", "count")
			return r.replace(a.line, s, r.str(a.line, bound[0]), r.str(a.line, bound[1]), r.wantInteger(a.line, bound[2], -1))
		}),
		"center": textual(func(r *run, a args, s string) Value {
			width := r.bind(a, 0, "width")[0]
			a.positional, a.names, a.named = []Value{orElse(width, int64(80))}, nil, nil
			return r.pad(a, s, true, true)
		}),
		"indent": indent,
		"wordcount": textual(func(r *run, a args, s string) Value {
			return int64(len(strings.FieldsFunc(s, func(c rune) bool { return !isWord(c) })))
		}),
		"format": textual(func(r *run, a args, s string) Value {
			return r.percentFormat(a.line, s, &Sequence{tuple, a.positional})
		}),
		"tojson":  toJSON,
		"length":  length,
		"count":   length,
		"default": otherwise,
		"d":       otherwise,
		"list":    func(r *run, a args, v Value) Value { return r.listOf(a.line, r.iterate(a.line, v)) },
		"first":   first,
		"last":    last,
		"join":    join,
		"reverse": reverse,
		"items": func(r *run, a args, v Value) Value {
			d, ok := v.(*Dict)
			if !ok {
				if _, undefined := v.(*undefined); undefined {
					return &Sequence{kind: generator}
				}
				r.fail(a.line, "items wants a mapping, not %s", typeName(v))
			}
			return r.items(a.line, d, generator)
		},
		"dictsort":   dictSort,
		"sort":       sorted,
		"unique":     unique,
		"min":        func(r *run, a args, v Value) Value { return r.extreme(a, v, -1) },
		"max":        func(r *run, a args, v Value) Value { return r.extreme(a, v, 1) },
		"sum":        sum,
		"map":        mapFilter,
		"select":     func(r *run, a args, v Value) Value { return r.selected(a, v, false, true) },
		"reject":     func(r *run, a args, v Value) Value { return r.selected(a, v, false, false) },
		"selectattr": func(r *run, a args, v Value) Value { return r.selected(a, v, true, true) },
		"rejectattr": func(r *run, a args, v Value) Value { return r.selected(a, v, true, false) },
		"attr": func(r *run, a args, v Value) Value {
			name := r.text(a, 0, "name")
			if found, ok := r.ownAttribute(a.line, v, name); ok {
				return found
			}
			return &undefined{fmt.Sprintf("%s's attribute %q", typeName(v), name)}
		},
		"int":   toInteger,
		"float": toFloat,
		"abs": func(r *run, a args, v Value) Value {
			if f, ok := v.(float64); ok {
				return math.Abs(f)
			}
			if i := r.wantInteger(a.line, v, 0); i < 0 {
				return r.unary(a.line, "-", i)
			} else {
				return i
			}
		},
		"round": round,
	}
}

func (r *run) listOf(line at, items []Value) *Sequence {
	r.take(line, bytesPerItem*int64(len(items)))
	return NewList(slices.Clone(items)...)
}

// titleFilter is Jinja's title: a word begins after whitespace, hyphens and
// opening brackets.
func titleFilter(r *run, a args, s string) Value {
	var parts []string
	for s != "" {
		i := strings.IndexFunc(s, func(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) })
		if i < 0 {
			i = len(s)
		}
		end := i
		for end < len(s) {
			c, width := firstRune(s[end:])
			if !isSpace(c) && !strings.ContainsRune("-({[<", c) {
				break
			}
			end += width
		}
		_, width := firstRune(s[:i])
		parts = append(parts, upper(s[:width])+lower(s[width:i]), s[i:end])
		r.step(a.line, 1)
		s = s[end:]
	}
	return r.concat(a.line, parts, "")
}

// indentation is a text, or so many spaces.
func (r *run) indentation(line at, by Value) string {
	if text, ok := by.(string); ok {
		return text
	}
	n := r.wantInteger(line, by, 4)
	r.room(line, n)
	return strings.Repeat(" ", int(max(0, n)))
}

// indent is Jinja's: what str.splitlines takes for a line end becomes a line
// feed, and the first line is indented whatever is in it.
func indent(r *run, a args, v Value) Value {
	s := r.wantText(a.line, v)
	bound := r.bind(a, 0, "width", "first", "blank")
	by := r.indentation(a.line, orElse(bound[0], int64(4)))
	lines := cutLines(s+"\n", false)
	r.take(a.line, int64(len(s))+int64(len(lines))*(bytesPerItem+int64(len(by))))
	for i, line := range lines {
		if i == 0 && truth(orElse(bound[1], false)) || i > 0 && (line != "" || truth(orElse(bound[2], false))) {
			lines[i] = by + line
		}
	}
	return strings.Join(lines, "\n")
}

func toJSON(r *run, a args, v Value) Value {
	bound := r.bind(a, 0, "ensure_ascii", "indent", "separators", "sort_keys")
	j := &jsonStyle{
		ascii: truth(orElse(bound[0], false)), sortKeys: truth(orElse(bound[3], false)),
		comma: ", ", colon: ": ", budget: r, line: a.line,
	}
	if by := orElse(bound[1], nil); by != nil {
		text := r.indentation(a.line, by)
		j.indent, j.comma = &text, ","
	}
	if both := orElse(bound[2], nil); both != nil {
		separators := r.iterate(a.line, both)
		if len(separators) != 2 {
			r.fail(a.line, "tojson wants two separators")
		}
		j.comma, j.colon = r.wantText(a.line, separators[0]), r.wantText(a.line, separators[1])
	}
	j.write(v, 0)
	return r.made(a.line, j.out.String())
}

func length(r *run, a args, v Value) Value {
	switch x := v.(type) {
	case string:
		r.step(a.line, int64(len(x))/bytesPerStep)
		return int64(characters(x))
	case *Dict:
		return int64(x.Len())
	case *undefined:
		return int64(0)
	case *Sequence:
		if x.kind != generator {
			return int64(len(x.items))
		}
	case *loopState:
		return int64(len(x.items))
	}
	r.fail(a.line, "a %s has no length", typeName(v))
	return nil
}

func otherwise(r *run, a args, v Value) Value {
	bound := r.bind(a, 0, "default_value", "boolean")
	if _, isUndefined := v.(*undefined); isUndefined || truth(orElse(bound[1], false)) && !truth(v) {
		return orElse(bound[0], "")
	}
	return v
}

func first(r *run, a args, v Value) Value {
	if s, ok := v.(string); ok && s != "" {
		_, width := firstRune(s)
		return s[:width]
	}
	if items := r.iterate(a.line, v); len(items) > 0 {
		return items[0]
	}
	return &undefined{"the first item of nothing"}
}

func last(r *run, a args, v Value) Value {
	if s, ok := v.(*Sequence); ok && s.kind == generator {
		r.fail(a.line, "a generator has no last item: make it a list")
	}
	if items := r.iterate(a.line, v); len(items) > 0 {
		return items[len(items)-1]
	}
	return &undefined{"the last item of nothing"}
}

func join(r *run, a args, v Value) Value {
	bound := r.bind(a, 0, "d", "attribute")
	var parts []string
	for _, item := range r.iterate(a.line, v) {
		if bound[1] != absent && bound[1] != nil {
			item = r.path(a.line, item, bound[1], absent)
		}
		parts = append(parts, r.str(a.line, item))
	}
	return r.concat(a.line, parts, r.str(a.line, orElse(bound[0], "")))
}

func reverse(r *run, a args, v Value) Value {
	items := slices.Clone(r.iterate(a.line, v))
	r.take(a.line, bytesPerItem*int64(len(items)))
	slices.Reverse(items)
	if _, ok := v.(string); !ok {
		return &Sequence{generator, items}
	}
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = item.(string)
	}
	return r.concat(a.line, parts, "")
}

// path follows an attribute such as "function.name" or "0"; a part that is not
// there is otherwise, unless that is absent.
func (r *run) path(line at, v, attribute, otherwise Value) Value {
	name, ok := attribute.(string)
	if !ok {
		return r.item(line, v, attribute)
	}
	for part := range strings.SplitSeq(name, ".") {
		r.step(line, 1)
		if i, err := strconv.ParseInt(part, 10, 64); err == nil && i >= 0 {
			v = r.item(line, v, i)
		} else {
			v = r.item(line, v, part)
		}
		if _, missing := v.(*undefined); missing && otherwise != absent {
			v = otherwise
		}
	}
	return v
}

// sortKey is what a value is ordered by: itself or its attributes, texts
// without their case unless told.
func (r *run) sortKey(line at, v, attribute Value, caseSensitive bool) Value {
	if attribute != nil {
		v = r.path(line, v, attribute, absent)
	}
	if s, ok := v.(string); ok && !caseSensitive {
		r.room(line, 4*int64(len(s)))
		return r.made(line, lower(s))
	}
	return v
}

func sorted(r *run, a args, v Value) Value {
	bound := r.bind(a, 0, "reverse", "case_sensitive", "attribute")
	if s, ok := bound[2].(string); ok && strings.Contains(s, ",") {
		r.fail(a.line, "sorting by several attributes is not implemented")
	}
	items := r.iterate(a.line, v)
	return r.arranged(a.line, items, items, orElse(bound[2], nil), truth(orElse(bound[1], false)), truth(orElse(bound[0], false)))
}

// arranged is a list of the items in the order of what by has for each of them.
func (r *run) arranged(line at, items, by []Value, attribute Value, caseSensitive, backwards bool) Value {
	keys, order := make([]Value, len(by)), make([]int, len(by))
	for i, v := range by {
		keys[i], order[i] = r.sortKey(line, v, attribute, caseSensitive), i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if backwards {
			return r.order(line, keys[j], keys[i])
		}
		return r.order(line, keys[i], keys[j])
	})
	r.take(line, bytesPerItem*int64(len(items)))
	l := NewList()
	for _, i := range order {
		l.items = append(l.items, items[i])
	}
	return l
}

func dictSort(r *run, a args, v Value) Value {
	bound := r.bind(a, 0, "case_sensitive", "by", "reverse")
	d, ok := v.(*Dict)
	if !ok {
		r.fail(a.line, "dictsort wants a mapping, not %s", typeName(v))
	}
	by := d.keys
	switch orElse(bound[1], "key") {
	case "key":
	case "value":
		by = d.values
	default:
		r.fail(a.line, `dictsort goes by "key" or "value"`)
	}
	return r.arranged(a.line, r.items(a.line, d, list).items, by, nil, truth(orElse(bound[0], false)), truth(orElse(bound[2], false)))
}

func unique(r *run, a args, v Value) Value {
	bound := r.bind(a, 0, "case_sensitive", "attribute")
	seen := map[Value]bool{}
	kept := &Sequence{kind: generator}
	for _, item := range r.iterate(a.line, v) {
		key, ok := hashable(r.sortKey(a.line, item, orElse(bound[1], nil), truth(orElse(bound[0], false))))
		if !ok {
			r.fail(a.line, "unique of values of type %s is not implemented", typeName(item))
		}
		if !seen[key] {
			seen[key] = true
			kept.items = append(kept.items, item)
		}
	}
	r.take(a.line, bytesPerItem*int64(len(kept.items)))
	return kept
}

// extreme is the first of the smallest (want -1) or largest (want 1) items.
func (r *run) extreme(a args, v Value, want int) Value {
	bound := r.bind(a, 0, "case_sensitive", "attribute")
	var best, bestKey Value = &undefined{"the extreme of nothing"}, nil
	for i, item := range r.iterate(a.line, v) {
		key := r.sortKey(a.line, item, orElse(bound[1], nil), truth(orElse(bound[0], false)))
		if i == 0 || r.order(a.line, key, bestKey) == want {
			best, bestKey = item, key
		}
	}
	return best
}

func sum(r *run, a args, v Value) Value {
	bound := r.bind(a, 0, "attribute", "start")
	total := orElse(bound[1], int64(0))
	for _, item := range r.iterate(a.line, v) {
		if bound[0] != absent && bound[0] != nil {
			item = r.path(a.line, item, bound[0], absent)
		}
		total = r.arithmetic(a.line, "+", total, item)
	}
	return total
}

// rest is the arguments without the first positional one.
func (a args) rest() args {
	a.positional = a.positional[1:]
	return a
}

func mapFilter(r *run, a args, v Value) Value {
	out := &Sequence{kind: generator}
	attribute, byAttribute := a.lookup("attribute")
	fallback, hasFallback := a.lookup("default")
	if !hasFallback || fallback == nil {
		fallback = absent
	}
	if !byAttribute && len(a.positional) == 0 {
		r.fail(a.line, "map wants a filter or an attribute")
	}
	items := r.iterate(a.line, v)
	r.take(a.line, bytesPerItem*int64(len(items)))
	for _, item := range items {
		if byAttribute {
			item = r.path(a.line, item, attribute, fallback)
		} else {
			r.step(a.line, 1)
			item = r.apply(a.line, r.wantText(a.line, a.positional[0]), item, a.rest())
		}
		out.items = append(out.items, item)
	}
	return out
}

// selected keeps the items (or those whose attribute) a test finds as wanted;
// without a test, what is true.
func (r *run) selected(a args, v Value, byAttribute, wanted bool) Value {
	var attribute Value
	if byAttribute {
		if len(a.positional) == 0 {
			r.fail(a.line, "%s wants an attribute", a.callee)
		}
		attribute = a.positional[0]
		a = a.rest()
	}
	kept := &Sequence{kind: generator}
	for _, item := range r.iterate(a.line, v) {
		r.step(a.line, 1)
		subject := item
		if byAttribute {
			subject = r.path(a.line, item, attribute, absent)
		}
		found := truth(subject)
		if len(a.positional) > 0 {
			found = r.named(a.line, r.wantText(a.line, a.positional[0]), subject, a.rest())
		}
		if found == wanted {
			kept.items = append(kept.items, item)
		}
	}
	r.take(a.line, bytesPerItem*int64(len(kept.items)))
	return kept
}
