package jinja

import (
	"fmt"
	"strings"
	"time"
)

// globals are the functions that every template sees. strftime_now is apart:
// it is there only when the caller gives a time.
var globals map[string]func(r *run, a args) Value

func init() {
	globals = map[string]func(r *run, a args) Value{
		"range":           rangeOf,
		"dict":            dictOf,
		"namespace":       namespaceOf,
		"raise_exception": raise,
	}
}

func rangeOf(r *run, a args) Value {
	bounds := make([]int64, len(a.positional))
	for i, v := range a.positional {
		n, ok := whole(v)
		if !ok {
			r.known(a.line, v)
			r.fail(a.line, "range wants integers, not %s", typeName(v))
		}
		bounds[i] = n
	}
	start, stop, step := int64(0), int64(0), int64(1)
	switch {
	case len(a.names) > 0 || len(bounds) == 0 || len(bounds) > 3:
		r.fail(a.line, "range wants one to three arguments without names")
	case len(bounds) == 1:
		stop = bounds[0]
	case len(bounds) == 2:
		start, stop = bounds[0], bounds[1]
	default:
		start, stop, step = bounds[0], bounds[1], bounds[2]
	}
	if step == 0 {
		r.fail(a.line, "range cannot step by 0")
	}
	numbers := &Sequence{kind: rangeKind}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(numbers.items) == longestRange {
			r.fail(a.line, "a range has at most %d numbers", longestRange)
		}
		numbers.items = append(numbers.items, i)
		if next := i + step; (next > i) != (step > 0) {
			break // past the last integer
		}
	}
	r.take(a.line, bytesPerItem*int64(len(numbers.items)))
	return numbers
}

func dictOf(r *run, a args) Value {
	d := NewDict()
	if len(a.positional) > 1 {
		r.fail(a.line, "%s wants at most one argument without a name", a.callee)
	}
	for _, from := range a.positional {
		if other, ok := from.(*Dict); ok {
			r.take(a.line, 2*bytesPerItem*int64(other.Len()))
			for i, key := range other.keys {
				d.set(key, other.values[i])
			}
			continue
		}
		for _, pair := range r.iterate(a.line, from) {
			entry := r.iterate(a.line, pair)
			if len(entry) != 2 || !d.set(entry[0], entry[1]) {
				r.fail(a.line, "%s wants pairs of a key and a value", a.callee)
			}
		}
	}
	for i, name := range a.names {
		d.set(name, a.named[i])
	}
	return d
}

func namespaceOf(r *run, a args) Value {
	ns := &namespace{NewDict()}
	d := dictOf(r, a).(*Dict)
	for i, key := range d.keys {
		r.setAttribute(a.line, ns, r.str(a.line, key), d.values[i])
	}
	return ns
}

func raise(r *run, a args) Value {
	bound := r.bind(a, 1, "message")
	r.fail(a.line, "the template refuses this conversation: %s", clip(r.str(a.line, bound[0])))
	return nil
}

func strftimeNow(r *run, a args) Value {
	bound := r.bind(a, 1, "format")
	format, ok := bound[0].(string)
	if !ok {
		r.fail(a.line, "strftime_now wants a format, not %s", typeName(bound[0]))
	}
	r.room(a.line, 8*int64(len(format)))
	text, err := strftime(r.options.Now, format)
	if err != nil {
		r.fail(a.line, "strftime_now: %v", err)
	}
	return r.made(a.line, text)
}

// layouts are strftime's directives (in the C locale) as layouts of package
// time.
var layouts = map[rune]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'H': "15", 'I': "03", 'j': "002", 'm': "01",
	'M': "04", 'p': "PM", 'S': "05", 'y': "06", 'Y': "2006", 'f': "000000", 'e': "_2", 'h': "Jan",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05",
	'c': "Mon Jan _2 15:04:05 2006",
}

// strftime writes a time as Python's datetime.strftime does in the C locale.
func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	directive, padded := false, true
	for _, c := range format {
		switch layout := layouts[c]; {
		case !directive && c == '%':
			directive, padded = true, true
			continue
		case !directive:
			b.WriteRune(c)
		case c == '%':
			b.WriteByte('%')
		case c == '-' && padded:
			padded = false
			continue
		case c == 'w':
			fmt.Fprint(&b, int(t.Weekday()))
		case c == 'f':
			fmt.Fprintf(&b, "%06d", t.Nanosecond()/1000)
		case c == 'z' || c == 'Z':
			// A time without a zone: nothing.
		case layout == "":
			return "", fmt.Errorf("directive %%%c is not implemented", c)
		case !padded:
			unpadded := strings.TrimLeft(t.Format(layout), "0 ")
			if unpadded == "" {
				unpadded = "0"
			}
			b.WriteString(unpadded)
		default:
			b.WriteString(t.Format(layout))
		}
		directive = false
	}
	if directive {
		b.WriteByte('%')
	}
	return b.String(), nil
}
