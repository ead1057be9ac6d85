package jinja

import (
	"strconv"
	"strings"
)

// percentFormat is Python's text % values for %s, %r, %d, %i, %f and %%,
// without flags and widths but for the digits of %f.
func (r *run) percentFormat(line at, format string, v Value) Value {
	values := []Value{v}
	named, _ := v.(*Dict)
	if s, ok := v.(*Sequence); ok && s.kind == tuple {
		values = s.items
	}
	used := 0
	next := func() Value {
		if used++; used > len(values) {
			r.fail(line, "not enough values for the format")
		}
		return values[used-1]
	}
	var parts []string
	for format != "" {
		text, rest, found := strings.Cut(format, "%")
		parts = append(parts, text)
		if !found {
			break
		}
		r.step(line, 1)
		var value Value
		chosen := false
		if name, after, ok := strings.Cut(rest, ")"); strings.HasPrefix(rest, "(") && ok {
			if named == nil {
				r.fail(line, "the format wants a mapping")
			}
			if value, ok = named.Get(name[1:]); !ok {
				r.fail(line, "the format wants a key %q", clip(name[1:]))
			}
			rest, chosen = after, true
		}
		digits := 6
		if strings.HasPrefix(rest, ".") && len(rest) > 2 && rest[1] >= '0' && rest[1] <= '9' && rest[2] == 'f' {
			digits, rest = int(rest[1]-'0'), rest[2:]
		}
		if rest == "" {
			r.fail(line, "the format ends in %%")
		}
		verb := rest[0]
		format = rest[1:]
		if verb == '%' {
			parts = append(parts, "%")
			continue
		}
		if !chosen {
			value = next()
		}
		parts = append(parts, r.percentVerb(line, verb, digits, value))
	}
	if named == nil && used < len(values) {
		r.fail(line, "not all values are used by the format")
	}
	return r.concat(line, parts, "")
}

func (r *run) percentVerb(line at, verb byte, digits int, v Value) string {
	switch verb {
	case 's':
		return r.str(line, v)
	case 'r':
		return r.repr(line, v)
	case 'd', 'i':
		if i, ok := whole(v); ok {
			return strconv.FormatInt(i, 10)
		}
		if f, ok := v.(float64); ok && f > -1e18 && f < 1e18 {
			return strconv.FormatInt(int64(f), 10)
		}
		r.fail(line, "%%d wants a number, not %s", typeName(v))
	case 'f':
		if f, ok := number(v); ok {
			return strconv.FormatFloat(f, 'f', digits, 64)
		}
		r.fail(line, "%%f wants a number, not %s", typeName(v))
	}
	r.fail(line, "the conversion %q of a format is not implemented", "%"+string(rune(verb)))
	return ""
}

// braceFormat is str.format for {}, {0} and {name} without specifications.
func braceFormat(r *run, a args, format string) Value {
	var parts []string
	automatic := 0
	for format != "" {
		i := strings.IndexAny(format, "{}")
		if i < 0 {
			parts = append(parts, format)
			break
		}
		parts = append(parts, format[:i])
		r.step(a.line, 1)
		if i+1 < len(format) && format[i+1] == format[i] {
			parts = append(parts, format[i:i+1])
			format = format[i+2:]
			continue
		}
		field, rest, ok := strings.Cut(format[i+1:], "}")
		if format[i] == '}' || !ok {
			r.fail(a.line, "a single brace in a format")
		}
		parts = append(parts, r.str(a.line, r.field(a, field, &automatic)))
		format = rest
	}
	return r.concat(a.line, parts, "")
}

// field finds the value for one replacement field.
func (r *run) field(a args, field string, automatic *int) Value {
	if field == "" {
		field = strconv.Itoa(*automatic)
		*automatic++
	}
	if i, err := strconv.Atoi(field); err == nil {
		if i < 0 || i >= len(a.positional) {
			r.fail(a.line, "the format wants argument %d of %d", i, len(a.positional))
		}
		return a.positional[i]
	}
	if strings.ContainsAny(field, ".[!:{") {
		r.fail(a.line, "the field {%s} of a format is not implemented", clip(field))
	}
	v, ok := a.lookup(field)
	if !ok {
		r.fail(a.line, "the format wants an argument %q", clip(field))
	}
	return v
}
