package jinja

import "fmt"

// test evaluates VALUE is TEST.
func (r *run) test(e *tested) Value {
	v := r.eval(e.of)
	return r.named(e.at, e.name, v, r.arguments(e.at, e.name, &e.arguments))
}

// named runs a test by its name.
func (r *run) named(line at, name string, v Value, a args) bool {
	test, ok := tests[name]
	if !ok {
		r.fail(line, "there is no test %q", clip(name))
	}
	a.callee = fmt.Sprintf("test %q", name)
	return test(r, a, v)
}

var tests map[string]func(r *run, a args, v Value) bool

func init() {
	comparing := func(operator string) func(r *run, a args, v Value) bool {
		return func(r *run, a args, v Value) bool {
			return r.compare(a.line, operator, v, r.bind(a, 1, "other")[0])
		}
	}
	ofType := func(is func(v Value) bool) func(*run, args, Value) bool {
		return func(r *run, a args, v Value) bool {
			r.bind(a, 0)
			return is(v)
		}
	}
	parity := func(odd bool) func(r *run, a args, v Value) bool {
		return func(r *run, a args, v Value) bool {
			r.bind(a, 0)
			return (r.wantInteger(a.line, v, 0)%2 != 0) == odd
		}
	}
	tests = map[string]func(r *run, a args, v Value) bool{
		"defined":   ofType(func(v Value) bool { _, undefined := v.(*undefined); return !undefined }),
		"undefined": ofType(func(v Value) bool { _, undefined := v.(*undefined); return undefined }),
		"none":      ofType(func(v Value) bool { return v == nil }),
		"boolean":   ofType(func(v Value) bool { _, ok := v.(bool); return ok }),
		"true":      ofType(func(v Value) bool { return v == true }),
		"false":     ofType(func(v Value) bool { return v == false }),
		"integer":   ofType(func(v Value) bool { _, ok := v.(int64); return ok }),
		"float":     ofType(func(v Value) bool { _, ok := v.(float64); return ok }),
		"number":    ofType(func(v Value) bool { _, ok := number(v); return ok }),
		"string":    ofType(func(v Value) bool { _, ok := v.(string); return ok }),
		"mapping":   ofType(func(v Value) bool { _, ok := v.(*Dict); return ok }),
		"callable":  ofType(func(v Value) bool { _, ok := v.(*function); return ok }),
		"iterable":  ofType(iterable),
		"sequence":  ofType(sequence),
		"sameas": func(r *run, a args, v Value) bool {
			other := r.bind(a, 1, "other")[0]
			_, scalar := hashable(v)
			return typeName(v) == typeName(other) && (v == other || scalar && r.equal(a.line, v, other))
		},
		"in":   func(r *run, a args, v Value) bool { return r.contains(a.line, r.bind(a, 1, "seq")[0], v) },
		"odd":  parity(true),
		"even": parity(false),
		"divisibleby": func(r *run, a args, v Value) bool {
			return r.equal(a.line, r.arithmetic(a.line, "%", v, r.bind(a, 1, "num")[0]), int64(0))
		},
		"upper": func(r *run, a args, v Value) bool { return stringMethods["isupper"](r, a, r.str(a.line, v)) == true },
		"lower": func(r *run, a args, v Value) bool { return stringMethods["islower"](r, a, r.str(a.line, v)) == true },
		"filter": func(_ *run, _ args, v Value) bool {
			name, ok := v.(string)
			_, known := filters[name]
			return ok && known
		},
		"test": func(_ *run, _ args, v Value) bool {
			name, ok := v.(string)
			_, known := tests[name]
			return ok && known
		},
	}
	for name, operator := range map[string]string{
		"eq": "==", "equalto": "==", "ne": "!=", "lt": "<", "lessthan": "<", "le": "<=", "gt": ">", "greaterthan": ">", "ge": ">=",
	} {
		tests[name] = comparing(operator)
		tests[operator] = tests[name]
	}
}

func iterable(v Value) bool {
	switch v.(type) {
	case string, *Sequence, *Dict, *undefined:
		return true
	}
	return false
}

// sequence reports whether Python would take len(v) and v[0].
func sequence(v Value) bool {
	s, ok := v.(*Sequence)
	return ok && s.indexable() || iterable(v) && !ok
}
