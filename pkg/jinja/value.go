package jinja

import (
	"math"
	"unicode"
)

// Value is a value of a template: nil (Python's None), bool, int64, float64,
// string, [*Dict], [*Sequence], or one that only templates make.
type Value any

type sequenceKind int

const (
	list sequenceKind = iota
	tuple
	view      // of a dict: has a length, no indices
	rangeKind // of integers
	generator // what filters such as map return: empty once it was iterated over
)

var sequenceNames = [...]string{"list", "tuple", "dict view", "range", "generator"}

// Sequence is a list or what behaves much like one.
type Sequence struct {
	kind  sequenceKind
	items []Value
}

// NewList makes a list; the caller leaves items alone afterwards.
func NewList(items ...Value) *Sequence { return &Sequence{list, items} }

// Len is the number of items.
func (s *Sequence) Len() int { return len(s.items) }

// Item returns item i.
func (s *Sequence) Item(i int) Value { return s.items[i] }

// indexable reports whether Python would take s[0].
func (s *Sequence) indexable() bool {
	return s.kind == list || s.kind == tuple || s.kind == rangeKind
}

// Dict is a dict: it keeps the order in which its keys were first set.
type Dict struct {
	keys   []Value
	values []Value
	places map[Value]int // by hashable form of the key
}

// NewDict makes an empty dict.
func NewDict() *Dict { return &Dict{places: map[Value]int{}} }

// hashable gives keys that Python finds equal the same form, and says whether
// the value can be a key.
func hashable(key Value) (Value, bool) {
	switch k := key.(type) {
	case nil, int64, string:
		return k, true
	case bool:
		if k {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if i := int64(k); float64(i) == k && math.Abs(k) < 1<<53 {
			return i, true
		}
		return k, true
	}
	return nil, false
}

// Set sets a key; the key must be a scalar.
func (d *Dict) Set(key string, value Value) { d.set(key, value) }

func (d *Dict) set(key, value Value) bool {
	form, ok := hashable(key)
	if !ok {
		return false
	}
	if place, there := d.places[form]; there {
		d.values[place] = value
		return true
	}
	d.places[form] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
	return true
}

// Get returns the value of a key.
func (d *Dict) Get(key string) (Value, bool) { return d.get(key) }

func (d *Dict) get(key Value) (Value, bool) {
	form, ok := hashable(key)
	if !ok {
		return nil, false
	}
	place, ok := d.places[form]
	if !ok {
		return nil, false
	}
	return d.values[place], true
}

// Len is the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// Entry returns the key and value set as number i.
func (d *Dict) Entry(i int) (key, value Value) { return d.keys[i], d.values[i] }

// undefined is the value of what is not there. It prints as nothing, is false
// and empty, and fails where it is used as anything else.
type undefined struct {
	what string // what is not there
}

// namespace is the one kind of object that templates may change.
type namespace struct{ attributes *Dict }

// loopState is the variable loop.
type loopState struct {
	items []Value
	index int // from 0
	depth int // from 0
	seen  *Sequence
}

// function is anything that can be called.
type function struct {
	name string
	call func(r *run, a args) Value
}

// args are the arguments of one call.
type args struct {
	line       at
	callee     string
	positional []Value
	names      []string
	named      []Value
}

func typeName(v Value) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *Sequence:
		return sequenceNames[x.kind]
	case *Dict:
		return "dict"
	case *undefined:
		return "undefined"
	case *namespace:
		return "namespace"
	case *loopState:
		return "loop"
	}
	return "function"
}

func truth(v Value) bool {
	switch x := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	case *Sequence:
		return x.kind == generator || len(x.items) > 0
	case *Dict:
		return len(x.keys) > 0
	}
	return true
}

// whole gives the integer that Python takes a value for in arithmetic.
func whole(v Value) (int64, bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case int64:
		return x, true
	}
	return 0, false
}

// number gives the float that Python takes a value for in arithmetic.
func number(v Value) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	i, ok := whole(v)
	return float64(i), ok
}

// isSpace is Python's str.isspace of one character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// isWord is \w of Python's regular expressions.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' }
