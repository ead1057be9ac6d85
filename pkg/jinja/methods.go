package jinja

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// method binds a method to a value. Methods that change the value are refused,
// as in Jinja's immutable sandbox: they are undefined.
func (r *run) method(line at, v Value, name string) (Value, bool) {
	bound := func(call func(r *run, a args) Value) (Value, bool) {
		return &function{name, call}, true
	}
	switch x := v.(type) {
	case string:
		if m, ok := stringMethods[name]; ok {
			return bound(func(r *run, a args) Value {
				r.step(a.line, int64(len(x))/bytesPerStep)
				return m(r, a, x)
			})
		}
		if slices.Contains(otherStringMethods, name) {
			r.fail(line, "the method %s of str is not implemented", name)
		}
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			return bound(func(r *run, a args) Value { return m(r, a, x) })
		}
		if slices.Contains([]string{"clear", "pop", "popitem", "setdefault", "update"}, name) {
			return &undefined{fmt.Sprintf("the method %s of dict, which would change it,", name)}, true
		}
	case *Sequence:
		switch {
		case name == "index" && x.indexable():
			return bound(func(r *run, a args) Value {
				for i, item := range x.items {
					if r.equal(a.line, item, r.bind(a, 1, "value")[0]) {
						return int64(i)
					}
				}
				r.fail(a.line, "the value is not in the list")
				return nil
			})
		case name == "count" && x.indexable():
			return bound(func(r *run, a args) Value {
				n := int64(0)
				for _, item := range x.items {
					if r.equal(a.line, item, r.bind(a, 1, "value")[0]) {
						n++
					}
				}
				return n
			})
		case name == "copy" && x.kind == list:
			return bound(func(*run, args) Value { return x })
		}
	}
	return nil, false
}

var dictMethods = map[string]func(r *run, a args, d *Dict) Value{
	"items": func(r *run, a args, d *Dict) Value { return r.items(a.line, d, view) },
	"keys": func(r *run, a args, d *Dict) Value {
		return &Sequence{view, d.keys}
	},
	"values": func(r *run, a args, d *Dict) Value {
		return &Sequence{view, d.values}
	},
	"get": func(r *run, a args, d *Dict) Value {
		bound := r.bind(a, 1, "key", "default")
		if v, ok := d.get(bound[0]); ok {
			return v
		}
		return orElse(bound[1], nil)
	},
	"copy": func(_ *run, _ args, d *Dict) Value { return d },
}

// items lists the pairs of a dict.
func (r *run) items(line at, d *Dict, kind sequenceKind) *Sequence {
	r.take(line, 3*bytesPerItem*int64(d.Len()))
	pairs := &Sequence{kind: kind}
	for i, key := range d.keys {
		pairs.items = append(pairs.items, &Sequence{tuple, []Value{key, d.values[i]}})
	}
	return pairs
}

// otherStringMethods are the methods of Python's str that are not here.
var otherStringMethods = []string{
	"casefold", "encode", "expandtabs", "format_map", "isidentifier", "istitle", "maketrans", "swapcase", "translate",
}

var stringMethods map[string]func(r *run, a args, s string) Value

func init() {
	stringMethods = map[string]func(r *run, a args, s string) Value{
		"upper":        mapped(upper),
		"lower":        mapped(lower),
		"capitalize":   mapped(capitalize),
		"title":        mapped(title),
		"strip":        stripMethod(true, true),
		"lstrip":       stripMethod(true, false),
		"rstrip":       stripMethod(false, true),
		"split":        func(r *run, a args, s string) Value { return r.split(a, s, false) },
		"rsplit":       func(r *run, a args, s string) Value { return r.split(a, s, true) },
		"splitlines":   splitLines,
		"partition":    partition,
		"rpartition":   partition,
		"startswith":   affixTest(strings.HasPrefix),
		"endswith":     affixTest(strings.HasSuffix),
		"removeprefix": func(r *run, a args, s string) Value { return strings.TrimPrefix(s, r.text(a, 0, "prefix")) },
		"removesuffix": func(r *run, a args, s string) Value { return strings.TrimSuffix(s, r.text(a, 0, "suffix")) },
		"replace": func(r *run, a args, s string) Value {
			bound := r.bind(a, 2, "old", "new", "count")
			return r.replace(a.line, s, r.wantText(a.line, bound[0]), r.wantText(a.line, bound[1]), r.wantInteger(a.line, bound[2], -1))
		},
		"find":    finder(strings.Index, false),
		"rfind":   finder(strings.LastIndex, false),
		"index":   finder(strings.Index, true),
		"rindex":  finder(strings.LastIndex, true),
		"count":   func(r *run, a args, s string) Value { return int64(strings.Count(s, r.text(a, 0, "sub"))) },
		"join":    func(r *run, a args, s string) Value { return r.joinTexts(a, s) },
		"center":  func(r *run, a args, s string) Value { return r.pad(a, s, true, true) },
		"ljust":   func(r *run, a args, s string) Value { return r.pad(a, s, false, true) },
		"rjust":   func(r *run, a args, s string) Value { return r.pad(a, s, true, false) },
		"zfill":   zeroFill,
		"format":  braceFormat,
		"isspace": every(isSpace),
		"isdigit": every(unicode.IsDigit), "isdecimal": every(unicode.IsDigit), "isnumeric": every(unicode.IsNumber),
		"isalpha": every(unicode.IsLetter),
		"isalnum": every(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isascii": func(_ *run, _ args, s string) Value { return len(s) == characters(s) },
		"isprintable": func(_ *run, _ args, s string) Value {
			return strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
		},
		"isupper": cased(unicode.IsUpper, unicode.IsLower), "islower": cased(unicode.IsLower, unicode.IsUpper),
	}
}

// wantText is a text, or a failure.
func (r *run) wantText(line at, v Value) string {
	s, ok := v.(string)
	if !ok {
		r.known(line, v)
		r.fail(line, "expected a text, found %s", typeName(v))
	}
	return s
}

// wantInteger is an integer, otherwise when it is absent or None, or a failure.
func (r *run) wantInteger(line at, v Value, otherwise int64) int64 {
	if v == absent || v == nil {
		return otherwise
	}
	i, ok := whole(v)
	if !ok {
		r.known(line, v)
		r.fail(line, "expected an integer, found %s", typeName(v))
	}
	return i
}

// text is argument number i, which has to be a text.
func (r *run) text(a args, i int, parameter string) string {
	return r.wantText(a.line, r.bind(a, i+1, parameter)[i])
}

func mapped(f func(string) string) func(r *run, a args, s string) Value {
	return func(r *run, a args, s string) Value {
		r.room(a.line, 4*int64(len(s)))
		return r.made(a.line, f(s))
	}
}

// strip takes characters away from the ends: whitespace when chars is absent
// or None.
func (r *run) strip(line at, s string, chars Value, left, right bool) string {
	in := isSpace
	if chars != absent && chars != nil {
		set := r.wantText(line, chars)
		r.step(line, int64(len(set))/bytesPerStep)
		in = func(c rune) bool { r.step(line, 1); return strings.ContainsRune(set, c) }
	}
	if left {
		s = strings.TrimLeftFunc(s, in)
	}
	if right {
		s = strings.TrimRightFunc(s, in)
	}
	return s
}

func stripMethod(left, right bool) func(r *run, a args, s string) Value {
	return func(r *run, a args, s string) Value {
		return r.strip(a.line, s, r.bind(a, 0, "chars")[0], left, right)
	}
}

// split is str.split and, from the right, str.rsplit.
func (r *run) split(a args, s string, fromRight bool) Value {
	bound := r.bind(a, 0, "sep", "maxsplit")
	most := r.wantInteger(a.line, bound[1], -1)
	var parts []string
	if bound[0] == absent || bound[0] == nil {
		parts = splitSpace(s, most, fromRight)
	} else {
		separator := r.wantText(a.line, bound[0])
		if separator == "" {
			r.fail(a.line, "the separator of split is empty")
		}
		r.room(a.line, bytesPerItem*int64(strings.Count(s, separator)))
		parts = splitBy(s, separator, most, fromRight)
	}
	return r.texts(a.line, parts)
}

func splitBy(s, separator string, most int64, fromRight bool) (parts []string) {
	if !fromRight {
		if most < 0 || most >= int64(len(s)) {
			return strings.Split(s, separator)
		}
		return strings.SplitN(s, separator, int(most)+1)
	}
	for ; most != 0; most-- {
		i := strings.LastIndex(s, separator)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(separator):])
		s = s[:i]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return parts
}

func splitSpace(s string, most int64, fromRight bool) (parts []string) {
	trim, find := strings.TrimLeftFunc, strings.IndexFunc
	if fromRight {
		trim, find = strings.TrimRightFunc, strings.LastIndexFunc
	}
	for s = trim(s, isSpace); s != ""; s = trim(s, isSpace) {
		i := find(s, isSpace)
		switch {
		case i < 0 || int64(len(parts)) == most:
			parts, s = append(parts, s), ""
		case fromRight:
			_, width := firstRune(s[i:])
			parts, s = append(parts, s[i+width:]), s[:i]
		default:
			parts, s = append(parts, s[:i]), s[i:]
		}
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

func firstRune(s string) (c rune, width int) {
	for i, next := range s {
		if i > 0 {
			return c, i
		}
		c = next
	}
	return c, len(s)
}

// texts makes a list of texts.
func (r *run) texts(line at, parts []string) *Sequence {
	r.take(line, bytesPerItem*int64(len(parts)))
	r.step(line, int64(len(parts)))
	l := NewList()
	for _, part := range parts {
		l.items = append(l.items, part)
	}
	return l
}

func splitLines(r *run, a args, s string) Value {
	return r.texts(a.line, cutLines(s, truth(orElse(r.bind(a, 0, "keepends")[0], false))))
}

// cutLines is Python's str.splitlines.
func cutLines(s string, keepEnds bool) (lines []string) {
	for s != "" {
		end := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if end < 0 {
			return append(lines, s)
		}
		_, width := firstRune(s[end:])
		if strings.HasPrefix(s[end:], "\r\n") {
			width = 2
		}
		line := s[:end]
		if keepEnds {
			line = s[:end+width]
		}
		lines = append(lines, line)
		s = s[end+width:]
	}
	return lines
}

func partition(r *run, a args, s string) Value {
	separator := r.text(a, 0, "sep")
	if separator == "" {
		r.fail(a.line, "the separator of partition is empty")
	}
	i := strings.Index(s, separator)
	if a.callee == "rpartition" {
		i = strings.LastIndex(s, separator)
	}
	switch {
	case i >= 0:
		return &Sequence{tuple, []Value{s[:i], separator, s[i+len(separator):]}}
	case a.callee == "rpartition":
		return &Sequence{tuple, []Value{"", "", s}}
	}
	return &Sequence{tuple, []Value{s, "", ""}}
}

// affixTest is startswith or endswith, of one text or any of a tuple.
func affixTest(has func(s, affix string) bool) func(r *run, a args, s string) Value {
	return func(r *run, a args, s string) Value {
		affix := r.bind(a, 1, "affix")[0]
		if several, ok := affix.(*Sequence); ok && several.kind == tuple {
			for _, one := range several.items {
				if has(s, r.wantText(a.line, one)) {
					return true
				}
			}
			return false
		}
		return has(s, r.wantText(a.line, affix))
	}
}

// replace replaces the first most occurrences; all when most is negative.
func (r *run) replace(line at, s, from, to string, most int64) string {
	n := int64(strings.Count(s, from))
	if most >= 0 {
		n = min(n, most)
	}
	if growth := int64(len(to) - len(from)); growth > 0 {
		r.take(line, int64(len(s))+n*growth)
	} else {
		r.take(line, int64(len(s)))
	}
	return strings.Replace(s, from, to, int(n))
}

func finder(find func(s, part string) int, must bool) func(r *run, a args, s string) Value {
	return func(r *run, a args, s string) Value {
		i := find(s, r.text(a, 0, "sub"))
		if i >= 0 {
			return int64(characters(s[:i]))
		}
		if must {
			r.fail(a.line, "%s: the text is not there", a.callee)
		}
		return int64(-1)
	}
}

func (r *run) joinTexts(a args, between string) string {
	var parts []string
	for _, item := range r.iterate(a.line, r.bind(a, 1, "iterable")[0]) {
		parts = append(parts, r.wantText(a.line, item))
	}
	return r.concat(a.line, parts, between)
}

// pad fills a text up with a character on the left, the right or both sides.
func (r *run) pad(a args, s string, left, right bool) string {
	bound := r.bind(a, 1, "width", "fillchar")
	fill := r.wantText(a.line, orElse(bound[1], " "))
	if characters(fill) != 1 {
		r.fail(a.line, "%s wants one character to fill with", a.callee)
	}
	width := r.wantInteger(a.line, bound[0], 0)
	missing := width - int64(characters(s))
	if missing <= 0 {
		return s
	}
	r.room(a.line, missing) // before it is multiplied
	r.take(a.line, int64(len(s))+missing*int64(len(fill)))
	before := missing
	if left && right {
		before = missing/2 + missing&width&1 // as Python's str.center rounds
	} else if right {
		before = 0
	}
	return strings.Repeat(fill, int(before)) + s + strings.Repeat(fill, int(missing-before))
}

func zeroFill(r *run, a args, s string) Value {
	sign := ""
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		sign, s = s[:1], s[1:]
	}
	width := r.wantInteger(a.line, r.bind(a, 1, "width")[0], 0)
	a = args{line: a.line, callee: a.callee, positional: []Value{max(0, width-int64(len(sign))), "0"}}
	return sign + r.pad(a, s, true, false)
}

func every(is func(rune) bool) func(*run, args, string) Value {
	return func(_ *run, _ args, s string) Value {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
	}
}

// cased is isupper or islower: letters with a case are all of the one wanted.
func cased(want, other func(rune) bool) func(*run, args, string) Value {
	return func(_ *run, _ args, s string) Value {
		return strings.IndexFunc(s, want) >= 0 && strings.IndexFunc(s, other) < 0
	}
}
