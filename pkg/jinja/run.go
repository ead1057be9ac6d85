package jinja

import (
	"fmt"
	"strings"
	"time"
)

// Budget bounds what one rendering may do. The zero value is the default: it
// grows with the size of the input, so that long conversations pass and a
// template alone cannot ask for much.
type Budget struct {
	Steps int64 // nodes evaluated, and work by the size of what it is done on
	Bytes int64 // of all texts and lists made on the way, kept or not
}

const (
	baseSteps, stepsPerByte = 200_000, 20
	baseBytes, bytesPerByte = 8 << 20, 100
	bytesPerItem            = 16 // of a list, against the budget of bytes
	bytesPerStep            = 64 // that an operation on text handles for one step
	deepestCall             = 1000
	longestRange            = 100_000 // as in Jinja's sandbox
)

// Options are the circumstances of a rendering.
type Options struct {
	// Now is the time that strftime_now tells. The zero time leaves
	// strftime_now undefined: a result must not depend on the clock.
	Now    time.Time
	Budget Budget
}

// Span is the text from byte Start to before byte End.
type Span struct{ Start, End int }

// Rendering is a rendered text and where its {% generation %} blocks are.
type Rendering struct {
	Text  string
	Spans []Span
}

// Render renders the template with the given variables. An error is an
// [*Error]: a fault of the template, or what it raised.
func (t *Template) Render(variables *Dict, o Options) (Rendering, error) {
	r := &run{
		options: o, output: &strings.Builder{}, budget: o.Budget,
		scope: &scope{variables: map[string]Value{}},
	}
	for i, key := range variables.keys {
		if name, ok := key.(string); ok {
			r.scope.variables[name] = variables.values[i]
		}
	}
	if r.budget == (Budget{}) {
		n := size(variables)
		r.budget = Budget{Steps: baseSteps + stepsPerByte*n, Bytes: baseBytes + bytesPerByte*n}
	}
	if err := caught(func() { r.statements(t.body) }); err != nil {
		return Rendering{}, err
	}
	return Rendering{Text: r.output.String(), Spans: r.spans}, nil
}

// size is about the bytes of a value.
func size(v Value) int64 {
	switch x := v.(type) {
	case string:
		return int64(len(x))
	case *Sequence:
		n := int64(0)
		for _, item := range x.items {
			n += bytesPerItem + size(item)
		}
		return n
	case *Dict:
		n := int64(0)
		for i, key := range x.keys {
			n += bytesPerItem + size(key) + size(x.values[i])
		}
		return n
	}
	return bytesPerItem
}

// run is one rendering.
type run struct {
	options Options
	budget  Budget
	output  *strings.Builder
	scope   *scope
	depth   int // of evaluation
	loops   int // for loops around the place
	nested  int // captured outputs around the place
	spans   []Span
}

// scope holds variables; what it lacks, its parent may have.
type scope struct {
	variables map[string]Value
	parent    *scope
}

func (s *scope) lookup(name string) (Value, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.variables[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (r *run) fail(line at, format string, args ...any) {
	panic(&Error{Line: int(line), Message: fmt.Sprintf(format, args...)})
}

// step takes n steps from the budget.
func (r *run) step(line at, n int64) {
	if r.budget.Steps -= n; r.budget.Steps < 0 {
		r.fail(line, "the template does more than its budget of steps allows: it may loop for ever")
	}
}

// room makes sure that n bytes could be taken from the budget.
func (r *run) room(line at, n int64) {
	if n > r.budget.Bytes {
		r.fail(line, "the template makes more text than its budget of bytes allows")
	}
}

// take takes n bytes from the budget, and the steps to write them.
func (r *run) take(line at, n int64) {
	r.room(line, n)
	r.budget.Bytes -= n
	r.step(line, n/bytesPerStep)
}

// made accounts for a text that is there already; only for texts that are at
// most a small multiple of one accounted for before.
func (r *run) made(line at, text string) string {
	r.take(line, int64(len(text)))
	return text
}

// deeper counts a level of evaluation for as long as inside runs. A failure
// ends the run, so that nothing need be undone then.
func (r *run) deeper(line at) {
	if r.depth++; r.depth > deepestCall {
		r.fail(line, "evaluation nests deeper than %d: a macro may call itself for ever", deepestCall)
	}
}

// inScope runs inside with a scope of its own.
func (r *run) inScope(parent *scope, inside func(*scope)) {
	before := r.scope
	r.scope = &scope{variables: map[string]Value{}, parent: parent}
	inside(r.scope)
	r.scope = before
}

// capture collects what inside writes.
func (r *run) capture(inside func()) string {
	before := r.output
	r.output = &strings.Builder{}
	r.nested++
	inside()
	text := r.output.String()
	r.output = before
	r.nested--
	return text
}

func (r *run) write(line at, text string) {
	r.take(line, int64(len(text)))
	r.output.WriteString(text)
}

// signal says how a body ended.
type signal int

const (
	goOn signal = iota
	breakLoop
	continueLoop
)

func (r *run) statements(body []statement) signal {
	for _, s := range body {
		if how := r.statement(s); how != goOn {
			return how
		}
	}
	return goOn
}

func (r *run) statement(s statement) (how signal) {
	line := at(s.where())
	r.step(line, 1)
	r.deeper(line)
	defer func() { r.depth-- }()
	switch s := s.(type) {
	case *textStatement:
		r.write(line, s.text)
	case *outputStatement:
		r.write(line, r.str(line, r.eval(s.value)))
	case *ifStatement:
		for i, test := range s.tests {
			if truth(r.eval(test)) {
				return r.statements(s.bodies[i])
			}
		}
		return r.statements(s.otherwise)
	case *forStatement:
		return r.forLoop(s)
	case *setStatement:
		r.assign(line, s.target, r.eval(s.value))
	case *captureStatement:
		r.captured(s)
	case *withStatement:
		values := make([]Value, len(s.values))
		for i, value := range s.values {
			values[i] = r.eval(value)
		}
		r.inScope(r.scope, func(*scope) {
			for i, target := range s.targets {
				r.assign(line, target, values[i])
			}
			how = r.statements(s.body)
		})
		return how
	case *macroStatement:
		r.scope.variables[s.macro.name] = r.macro(s.macro)
	case *callStatement:
		r.write(line, r.str(line, r.call(s.call, r.macro(s.caller))))
	case *generationStatement:
		r.generation(s)
	case *loopControl:
		if s.keyword == "break" {
			return breakLoop
		}
		return continueLoop
	}
	return goOn
}

// generation renders a {% generation %} block and notes where it is.
func (r *run) generation(s *generationStatement) {
	if r.nested > 0 {
		r.fail(s.at, "a generation block inside a macro, a set block or another one has no known place in the text")
	}
	text := r.capture(func() {
		r.inScope(r.scope, func(*scope) { r.statements(s.body) })
	})
	start := r.output.Len()
	r.write(s.at, text)
	r.spans = append(r.spans, Span{start, r.output.Len()})
}

func (r *run) captured(s *captureStatement) {
	var value Value = r.capture(func() {
		r.inScope(r.scope, func(*scope) { r.statements(s.body) })
	})
	if s.filter != nil {
		value = r.filterCaptured(s.filter, s.inner, value)
	}
	if s.target == nil {
		r.write(s.at, r.str(s.at, value))
	} else {
		r.assign(s.at, s.target, value)
	}
}

// filterCaptured applies a chain of filters to a captured text.
func (r *run) filterCaptured(last, first *filtered, text Value) Value {
	if last != first {
		text = r.filterCaptured(last.of.(*filtered), first, text)
	}
	return r.filter(last, text)
}

func (r *run) assign(line at, to *target, value Value) {
	switch {
	case to.several != nil:
		items := r.iterate(line, value)
		if len(items) != len(to.several) {
			r.fail(line, "%d values cannot be unpacked into %d names", len(items), len(to.several))
		}
		for i, one := range to.several {
			r.assign(line, one, items[i])
		}
	case to.attribute != "":
		holder, _ := r.scope.lookup(to.name)
		ns, ok := holder.(*namespace)
		if !ok {
			r.fail(line, "cannot set %s.%s: only attributes of a namespace can be set", to.name, to.attribute)
		}
		r.setAttribute(line, ns, to.attribute, value)
	default:
		r.scope.variables[to.name] = value
	}
}

func (r *run) setAttribute(line at, ns *namespace, name string, value Value) {
	if strings.HasPrefix(name, "_") {
		r.fail(line, "attribute %q of a namespace begins with an underscore", clip(name))
	}
	ns.attributes.set(name, value)
}

func (r *run) forLoop(s *forStatement) (how signal) {
	items := r.iterate(s.at, r.eval(s.over))
	outer := r.scope
	if s.filter != nil {
		var kept []Value
		for _, item := range items {
			r.step(s.at, 1)
			r.inScope(outer, func(*scope) {
				r.assign(s.at, s.target, item)
				if truth(r.eval(s.filter)) {
					kept = append(kept, item)
				}
			})
		}
		items = kept
	}
	loop := &loopState{items: items, depth: r.loops}
	whole := false // a round has come to its end
	for i, item := range items {
		r.step(s.at, 1)
		loop.index = i
		r.inScope(outer, func(inner *scope) {
			inner.variables["loop"] = loop
			r.assign(s.at, s.target, item)
			r.loops++
			how = r.statements(s.body)
			r.loops--
		})
		whole = whole || how == goOn
		if how == breakLoop {
			break
		}
	}
	// Jinja notes at the end of a round that there was one, so that else also
	// follows a loop of which break or continue cut every round short.
	if !whole {
		r.inScope(outer, func(*scope) { how = r.statements(s.otherwise) })
		return how
	}
	return goOn
}

// macro makes the function of a macro. It sees the variables around its
// definition as they are when it is called.
func (r *run) macro(definition *macroDefinition) *function {
	around := r.scope
	return &function{name: definition.name, call: func(r *run, a args) Value {
		if len(a.positional) > len(definition.parameters) {
			r.fail(a.line, "macro %q takes %d arguments, not %d", definition.name, len(definition.parameters), len(a.positional))
		}
		loops := r.loops
		r.loops = 0
		text := ""
		r.inScope(around, func(inner *scope) {
			for i, parameter := range definition.parameters {
				inner.variables[parameter] = r.parameter(definition, i, a)
			}
			for i, name := range a.names {
				if name == "caller" {
					inner.variables[name] = a.named[i]
				} else if _, known := inner.variables[name]; !known {
					r.fail(a.line, "macro %q has no parameter %q", definition.name, clip(name))
				}
			}
			text = r.capture(func() { r.statements(definition.body) })
		})
		r.loops = loops
		return text
	}}
}

// parameter finds the value of parameter i of a macro.
func (r *run) parameter(definition *macroDefinition, i int, a args) Value {
	named, found := a.lookup(definition.parameters[i])
	switch {
	case i < len(a.positional) && found:
		r.fail(a.line, "macro %q gets %q twice", definition.name, definition.parameters[i])
	case i < len(a.positional):
		return a.positional[i]
	case found:
		return named
	case definition.defaults[i] != nil:
		return r.eval(definition.defaults[i])
	}
	return &undefined{fmt.Sprintf("parameter %q", definition.parameters[i])}
}
