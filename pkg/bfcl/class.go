package bfcl

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// exception is what a method raises: the text of the Python exception. Methods
// panic with it and [Simulator.Execute] recovers it, as the reference does.
type exception string

// refusal is what a method returns that does not do what it is asked. Methods panic with
// it too.
type refusal struct{ result python.Value }

// refuseIf ends a method with its result if something is the case.
func refuseIf(is bool, result python.Value) {
	if is {
		panic(refusal{result})
	}
}

// lookup is the value of a key, or ends a method with a result.
func lookup(dict *python.Dict, key, otherwise python.Value) python.Value {
	value, found := dict.Get(key)
	refuseIf(!found, otherwise)
	return value
}

func raise(format string, a ...any) {
	panic(exception(fmt.Sprintf(format, a...)))
}

// must returns a value of package python, or raises its error.
func must[T any](value T, err error) T {
	if err != nil {
		raise("%v", err)
	}
	return value
}

// object is an instance of an API class.
type object interface {
	// attributes returns the public attributes, by name. What they hold may
	// be shared with the object.
	attributes() *python.Dict
}

// arguments are the values of all parameters of a method, in their order.
type arguments []python.Value

func (a arguments) text(i int) string {
	text, ok := a[i].(string)
	if !ok {
		raise("argument %d must be a str, not %s", i+1, python.TypeName(a[i]))
	}
	return text
}

func (a arguments) number(i int) python.Value {
	if !python.IsNumber(a[i]) {
		raise("argument %d must be a number, not %s", i+1, python.TypeName(a[i]))
	}
	return a[i]
}

func (a arguments) list(i int) *python.List {
	list, ok := a[i].(*python.List)
	if !ok {
		raise("argument %d must be a list, not %s", i+1, python.TypeName(a[i]))
	}
	return list
}

// key is an argument that a dict is asked for.
func (a arguments) key(i int) python.Value {
	if !python.Hashable(a[i]) {
		raise("unhashable type: '%s'", python.TypeName(a[i]))
	}
	return a[i]
}

// function is one method of a class.
type function struct {
	name       string
	parameters []parameter
	run        func(object, arguments) python.Value
}

type parameter struct {
	name     string
	optional bool
	fallback python.Value
}

// class is one of the eight APIs.
type class struct {
	name      string
	functions map[string]*function
	build     func(config *python.Dict) object
}

// method is a function of a class before the class is defined. Its signature
// is written as in Python, for example "tail(file_name, lines=10)".
type method[T object] struct {
	signature string
	run       func(T, arguments) python.Value
}

func define[T object](name string, build func(*python.Dict) T, methods []method[T]) *class {
	c := &class{
		name: name, functions: make(map[string]*function, len(methods)),
		build: func(config *python.Dict) object { return build(config) },
	}
	for _, m := range methods {
		f := parseSignature(m.signature)
		f.run = func(o object, a arguments) python.Value { return m.run(o.(T), a) }
		c.functions[f.name] = f
	}
	return c
}

func parseSignature(signature string) *function {
	name, inside, _ := strings.Cut(strings.TrimSuffix(signature, ")"), "(")
	f := &function{name: name}
	if inside == "" {
		return f
	}
	for _, written := range strings.Split(inside, ", ") {
		parameterName, fallback, optional := strings.Cut(written, "=")
		p := parameter{name: parameterName, optional: optional}
		if optional {
			call, err := python.ParseCall("f(" + fallback + ")")
			if err != nil {
				panic(fmt.Sprintf("the signature %q: %v", signature, err))
			}
			p.fallback = call.Positional[0]
		}
		f.parameters = append(f.parameters, p)
	}
	return f
}

// bind puts the arguments of a call into the order of the parameters and adds
// those that it leaves out.
func (f *function) bind(call python.Call) (arguments, error) {
	if len(call.Positional) > len(f.parameters) {
		return nil, fmt.Errorf("%s() takes %d positional arguments but %d were given", f.name, len(f.parameters), len(call.Positional))
	}
	bound := make(arguments, len(f.parameters))
	named := 0
	for i, p := range f.parameters {
		value, given := call.Named.Get(p.name)
		if given {
			named++
		}
		switch {
		case given && i < len(call.Positional):
			return nil, fmt.Errorf("%s() got multiple values for argument '%s'", f.name, p.name)
		case i < len(call.Positional):
			value = call.Positional[i]
		case !given && !p.optional:
			return nil, fmt.Errorf("%s() missing 1 required positional argument: '%s'", f.name, p.name)
		case !given:
			value = p.fallback
		}
		bound[i] = python.Copy(value)
	}
	if named < call.Named.Len() {
		return nil, fmt.Errorf("%s() got an unexpected keyword argument %s", f.name, python.Repr(f.unexpected(call.Named)))
	}
	return bound, nil
}

func (f *function) unexpected(named *python.Dict) python.Value {
	for _, key := range named.Keys() {
		known := false
		for _, p := range f.parameters {
			known = known || p.name == key
		}
		if !known {
			return key
		}
	}
	return nil
}

//go:embed tables.json
var tablesJSON []byte

// tables has the default states and look-up tables by class.
var tables = sync.OnceValue(func() *python.Dict {
	value, err := python.FromJSON(tablesJSON)
	if err != nil {
		panic(fmt.Sprintf("tables.json: %v", err))
	}
	return value.(*python.Dict)
})

// table finds a look-up table of a class.
func table[T python.Value](class, name string) T {
	of, _ := tables().Get(class)
	value, found := of.(*python.Dict).Get(name)
	if !found {
		panic("tables.json has no " + class + "." + name)
	}
	return value.(T)
}

// state holds the public attributes of an object.
type state struct{ *python.Dict }

// newState takes the default attributes of a class, and of them those that
// the configuration has from there.
func newState(class string, config *python.Dict) state {
	s := state{python.Copy(table[*python.Dict](class, "default_state")).(*python.Dict)}
	for _, name := range s.Keys() {
		if value, given := config.Get(name); given {
			s.Set(name, python.Copy(value))
		}
	}
	return s
}

func (s state) attributes() *python.Dict { return s.Dict }

// value returns an attribute; all exist from the beginning.
func (s state) value(name string) python.Value {
	value, _ := s.Get(name)
	return value
}

func (s state) dict(name string) *python.Dict {
	dict, ok := s.value(name).(*python.Dict)
	if !ok {
		raise("%s is no dict", name)
	}
	return dict
}

func (s state) list(name string) *python.List {
	list, ok := s.value(name).(*python.List)
	if !ok {
		raise("%s is no list", name)
	}
	return list
}

// next returns a counter and sets it one further.
func (s state) next(name string) python.Value {
	value := s.value(name)
	s.Set(name, must(python.Operator('+').Apply(value, int64(1))))
	return value
}

// member reads a value of a dict by a key that must be there.
func member(dict python.Value, key python.Value) python.Value {
	d, ok := dict.(*python.Dict)
	if !ok {
		raise("'%s' object is not subscriptable", python.TypeName(dict))
	}
	value, found := d.Get(key)
	if !found {
		raise("%s", python.Repr(key)) // the text of a KeyError
	}
	return value
}

// result makes the dict that a method returns.
func result(keysAndValues ...python.Value) python.Value { return python.NewDict(keysAndValues...) }

// failed makes the dict of a method that cannot do what it is asked.
func failed(format string, a ...any) python.Value {
	return result("error", fmt.Sprintf(format, a...))
}

func less(a, b python.Value) bool { return must(python.Less(a, b)) }

// lowerCase is v.lower().
func lowerCase(v python.Value) string {
	text, ok := v.(string)
	if !ok {
		raise("'%s' object has no attribute 'lower'", python.TypeName(v))
	}
	return strings.ToLower(text)
}

func contains(list *python.List, wanted python.Value) bool { return position(list, wanted) >= 0 }

func position(list *python.List, wanted python.Value) int {
	for i, item := range list.Items {
		if python.Equal(item, wanted) {
			return i
		}
	}
	return -1
}

// wholeKeys replaces the keys of a dict that are decimal texts with ints, as
// JSON had no other way to write them.
func wholeKeys(dict *python.Dict) *python.Dict {
	whole := &python.Dict{}
	for i := range dict.Len() {
		key, value := dict.At(i)
		if text, ok := key.(string); ok {
			if n, err := decimal(text); err == nil {
				key = n
			}
		}
		whole.Set(key, value)
	}
	return whole
}

var errNotDecimal = errors.New("not a decimal number")

func decimal(text string) (python.Value, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return nil, errNotDecimal
	}
	call, err := python.ParseCall("f(" + text + ")")
	if err != nil {
		return nil, err
	}
	return call.Positional[0], nil
}
