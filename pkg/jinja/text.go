package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str is Python's str of a value.
func (r *run) str(line at, v Value) string {
	switch x := v.(type) {
	case string:
		return x
	case *undefined:
		return ""
	}
	return r.repr(line, v)
}

// repr is Python's repr of a value.
func (r *run) repr(line at, v Value) string {
	var b strings.Builder
	r.appendRepr(line, &b, v, 0)
	return r.made(line, b.String())
}

// deepestValue bounds how deep values may hold values where they are printed
// or compared.
const deepestValue = 200

func (r *run) appendRepr(line at, b *strings.Builder, v Value, depth int) {
	r.step(line, 1)
	r.room(line, int64(b.Len()))
	if depth > deepestValue {
		r.fail(line, "values nest deeper than %d", deepestValue)
	}
	switch x := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[x])
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case float64:
		b.WriteString(floatText(x))
	case string:
		r.step(line, int64(len(x))/bytesPerStep)
		appendQuoted(b, x)
	case *undefined:
		b.WriteString("Undefined")
	case *Dict:
		b.WriteByte('{')
		for i, key := range x.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			r.appendRepr(line, b, key, depth+1)
			b.WriteString(": ")
			r.appendRepr(line, b, x.values[i], depth+1)
		}
		b.WriteByte('}')
	case *Sequence:
		if x.kind != list && x.kind != tuple {
			r.fail(line, "printing a %s is not implemented: make it a list", typeName(v))
		}
		b.WriteByte("[("[x.kind])
		for i, item := range x.items {
			if i > 0 {
				b.WriteString(", ")
			}
			r.appendRepr(line, b, item, depth+1)
		}
		if x.kind == tuple && len(x.items) == 1 {
			b.WriteByte(',')
		}
		b.WriteByte("])"[x.kind])
	default:
		r.fail(line, "printing a %s is not implemented", typeName(v))
	}
}

// floatText is Python's repr of a float: the shortest digits that read back
// the same, with an exponent below 1e-4 and from 1e16.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'f', -1, 64)), "+")
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func appendQuoted(b *strings.Builder, s string) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for _, c := range s {
		switch {
		case c == rune(quote) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
	}
	b.WriteByte(quote)
}

// jsonStyle says how tojson writes (Python's json.dumps).
type jsonStyle struct {
	ascii        bool
	indent       *string // nil: on one line
	comma, colon string
	sortKeys     bool
	budget       *run
	line         at
	out          strings.Builder
}

func (j *jsonStyle) write(v Value, depth int) {
	j.budget.step(j.line, 1)
	j.budget.room(j.line, int64(j.out.Len()))
	if depth > deepestValue {
		j.budget.fail(j.line, "values nest deeper than %d", deepestValue)
	}
	switch x := v.(type) {
	case nil:
		j.out.WriteString("null")
	case bool:
		j.out.WriteString(strconv.FormatBool(x))
	case int64:
		j.out.WriteString(strconv.FormatInt(x, 10))
	case float64:
		j.out.WriteString(jsonFloat(x))
	case string:
		j.quote(x)
	case *Sequence:
		if x.kind != list && x.kind != tuple {
			j.budget.fail(j.line, "a %s has no JSON", typeName(v))
		}
		j.several(depth, "[", "]", len(x.items), func(i int) { j.write(x.items[i], depth+1) })
	case *Dict:
		order := make([]int, len(x.keys))
		for i := range order {
			order[i] = i
		}
		if j.sortKeys {
			slices.SortStableFunc(order, func(a, b int) int { return j.budget.order(j.line, x.keys[a], x.keys[b]) })
		}
		j.several(depth, "{", "}", len(order), func(i int) {
			j.key(x.keys[order[i]])
			j.out.WriteString(j.colon)
			j.write(x.values[order[i]], depth+1)
		})
	default:
		j.budget.fail(j.line, "a value of type %s has no JSON", typeName(v))
	}
}

// jsonFloat is floatText with the names that JSON libraries have for what is no number.
func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatText(f)
}

// key writes a key; JSON has strings only.
func (j *jsonStyle) key(key Value) {
	switch k := key.(type) {
	case string:
		j.quote(k)
	case nil:
		j.quote("null")
	case bool:
		j.quote(strconv.FormatBool(k))
	case int64:
		j.quote(strconv.FormatInt(k, 10))
	case float64:
		j.quote(jsonFloat(k))
	}
}

func (j *jsonStyle) several(depth int, opening, closing string, n int, one func(i int)) {
	j.out.WriteString(opening)
	for i := range n {
		if i > 0 {
			j.out.WriteString(j.comma)
		}
		j.newline(depth + 1)
		one(i)
	}
	if n > 0 {
		j.newline(depth)
	}
	j.out.WriteString(closing)
}

func (j *jsonStyle) newline(depth int) {
	if j.indent == nil {
		return
	}
	j.budget.room(j.line, int64(j.out.Len())+int64(depth)*int64(len(*j.indent)))
	j.out.WriteByte('\n')
	j.out.WriteString(strings.Repeat(*j.indent, depth))
}

var jsonEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`,
}

func (j *jsonStyle) quote(s string) {
	j.budget.step(j.line, int64(len(s))/bytesPerStep)
	j.out.WriteByte('"')
	for _, c := range s {
		switch escape := jsonEscapes[c]; {
		case escape != "":
			j.out.WriteString(escape)
		case c < ' ' || j.ascii && c > '~' && c < 0x10000:
			fmt.Fprintf(&j.out, `\u%04x`, c)
		case j.ascii && c > '~':
			c -= 0x10000
			fmt.Fprintf(&j.out, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			j.out.WriteRune(c)
		}
	}
	j.out.WriteByte('"')
}

// characters is the length of a text as Python counts it.
func characters(s string) int { return utf8.RuneCountInString(s) }
