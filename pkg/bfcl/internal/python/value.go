// Package python has the values of Python that the simulated tools speak in:
// their literals, their texts, their equality, their arithmetic and their
// random numbers, as CPython has them.
package python

import (
	"fmt"
	"math"
	"math/big"
	"slices"
)

// Value is a Python object: nil (None), bool, int64 (an int that fits), *big.Int
// (an int that does not fit), float64, string (valid UTF-8), *List, *Dict, *Set
// or Number.
type Value any

// List is a Python list or tuple. Lists are shared, as in Python: whoever holds
// one sees what others append.
type List struct {
	Items []Value
	Tuple bool
}

// NewList makes a list of items.
func NewList(items ...Value) *List { return &List{Items: items} }

// Strings makes a list of strings.
func Strings(items ...string) *List {
	list := &List{Items: make([]Value, len(items))}
	for i, item := range items {
		list.Items[i] = item
	}
	return list
}

// Set is a Python set of whole numbers.
type Set struct{ members map[int64]struct{} }

// Add puts a member into the set.
func (s *Set) Add(member int64) {
	if s.members == nil {
		s.members = map[int64]struct{}{}
	}
	s.members[member] = struct{}{}
}

// Has tells whether the set has a member.
func (s *Set) Has(member int64) bool {
	_, has := s.members[member]
	return has
}

// Sorted lists the members from the smallest on.
func (s *Set) Sorted() []int64 {
	members := make([]int64, 0, len(s.members))
	for member := range s.members {
		members = append(members, member)
	}
	slices.Sort(members)
	return members
}

// Number is a number of a type that json.dumps refuses, such as Decimal: only
// its text, as repr writes it, is known.
type Number string

// Dict is a Python dict: it keeps the order in which keys came first. A key is
// nil, a bool, a number or a string; 1, 1.0 and True are the same key.
type Dict struct {
	keys   []Value
	values []Value
	index  map[Value]int
}

// NewDict makes a dict of keys and values in turn.
func NewDict(keysAndValues ...Value) *Dict {
	d := &Dict{}
	for i := 0; i < len(keysAndValues); i += 2 {
		d.Set(keysAndValues[i], keysAndValues[i+1])
	}
	return d
}

// Hashable tells whether a value can be a key.
func Hashable(v Value) bool {
	switch v.(type) {
	case nil, bool, int64, *big.Int, float64, string:
		return true
	}
	return false
}

// hashed turns a key into what all equal keys have in common.
func hashed(key Value) Value {
	switch k := key.(type) {
	case bool:
		if k {
			return int64(1)
		}
		return int64(0)
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<63 {
			return int64(k)
		}
	case *big.Int:
		return largeKey(k.String()) // no int64 is equal to it
	}
	return key
}

// largeKey is a key that is an int beyond int64.
type largeKey string

// Len counts the keys.
func (d *Dict) Len() int { return len(d.keys) }

// Keys lists the keys in order. The caller must not change them.
func (d *Dict) Keys() []Value { return d.keys }

// At returns the key and the value at a position.
func (d *Dict) At(i int) (key, value Value) { return d.keys[i], d.values[i] }

// Get finds the value of a key.
func (d *Dict) Get(key Value) (Value, bool) {
	if !Hashable(key) {
		return nil, false
	}
	i, found := d.index[hashed(key)]
	if !found {
		return nil, false
	}
	return d.values[i], true
}

// Set gives a key its value.
func (d *Dict) Set(key, value Value) {
	h := hashed(key)
	if i, found := d.index[h]; found {
		d.values[i] = value
		return
	}
	if d.index == nil {
		d.index = map[Value]int{}
	}
	d.index[h] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

// Delete takes a key out, if it is there.
func (d *Dict) Delete(key Value) {
	h := hashed(key)
	i, found := d.index[h]
	if !found {
		return
	}
	d.keys, d.values = slices.Delete(d.keys, i, i+1), slices.Delete(d.values, i, i+1)
	delete(d.index, h)
	for j := i; j < len(d.keys); j++ {
		d.index[hashed(d.keys[j])] = j
	}
}

// Copy copies a value and all that it holds.
func Copy(v Value) Value {
	switch v := v.(type) {
	case *List:
		list := &List{Items: make([]Value, len(v.Items)), Tuple: v.Tuple}
		for i, item := range v.Items {
			list.Items[i] = Copy(item)
		}
		return list
	case *Dict:
		d := &Dict{}
		for i, key := range v.keys {
			d.Set(key, Copy(v.values[i]))
		}
		return d
	case *Set:
		set := &Set{}
		for member := range v.members {
			set.Add(member)
		}
		return set
	}
	return v
}

// Equal is Python's ==: whole numbers, floats and bools compare by value, and
// the order of a dict's keys does not count.
func Equal(a, b Value) bool { return equal(a, b, false) }

// EqualArguments is Equal, with a list equal to a tuple of the same items.
func EqualArguments(a, b Value) bool { return equal(a, b, true) }

func equal(a, b Value, tuplesAsLists bool) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		text, ok := b.(string)
		return ok && a == text
	case Number:
		number, ok := b.(Number)
		return ok && a == number
	case *List:
		other, ok := b.(*List)
		if !ok || len(a.Items) != len(other.Items) || a.Tuple != other.Tuple && !tuplesAsLists {
			return false
		}
		for i := range a.Items {
			if !equal(a.Items[i], other.Items[i], tuplesAsLists) {
				return false
			}
		}
		return true
	case *Dict:
		other, ok := b.(*Dict)
		if !ok || a.Len() != other.Len() {
			return false
		}
		for i, key := range a.keys {
			value, found := other.Get(key)
			if !found || !equal(a.values[i], value, tuplesAsLists) {
				return false
			}
		}
		return true
	case *Set:
		other, ok := b.(*Set)
		return ok && slices.Equal(a.Sorted(), other.Sorted())
	}
	comparison, ok := compareNumbers(a, b)
	return ok && comparison == 0
}

// Truth is bool(v).
func Truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	case *Set:
		return len(v.members) > 0
	}
	return true
}

// TypeName is type(v).__name__.
func TypeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		if v.Tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *Set:
		return "set"
	}
	return fmt.Sprintf("%T", v)
}
