package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Variant is a part of an open section: the settings of one choice, under its
// name.
type Variant struct {
	Name     string
	Settings any    // a pointer to the value, with its defaults
	Doc      string // what is said of it where its type has no comment
}

// Variants are the fields of an open section, in the order in which they are
// written.
type Variants []Variant

// Of is the settings of a name, nil for a name that has none.
func (v Variants) Of(name string) any {
	for _, variant := range v {
		if variant.Name == name {
			return variant.Settings
		}
	}
	return nil
}

// Only keeps the settings of the names.
func (v Variants) Only(names ...string) Variants {
	var kept Variants
	for _, variant := range v {
		if slices.Contains(names, variant.Name) {
			kept = append(kept, variant)
		}
	}
	return kept
}

// Chooser is a struct of settings that knows, while the program runs, the
// choices of fields without the tag: those that packages registered.
type Chooser interface {
	// Choices lists the values of a field by its name; nil for any value.
	Choices(field string) []string
}

// field is a field as a file has it.
type field struct {
	name   string
	value  reflect.Value
	tag    reflect.StructTag
	doc    string
	docs   docKey          // where the comment is, if doc is empty
	owners []reflect.Value // of the field and of the structs that it stands in inline, the innermost first
}

// fieldsOf lists the fields of a struct as a file has them: those of inline
// parts stand among the others.
func fieldsOf(v reflect.Value) []field {
	t := v.Type()
	var fields []field
	for i := range t.NumField() {
		own := t.Field(i)
		name, options, _ := strings.Cut(own.Tag.Get("yaml"), ",")
		if options != "inline" {
			fields = append(fields, field{name: name, value: v.Field(i), tag: own.Tag, owners: []reflect.Value{v}, docs: docKey{t.PkgPath(), t.Name() + "." + own.Name}})
			continue
		}
		if own.Type == reflect.TypeFor[Variants]() {
			for _, variant := range v.Field(i).Interface().(Variants) {
				value := reflect.ValueOf(variant.Settings).Elem()
				fields = append(fields, field{name: variant.Name, value: value, doc: variant.Doc, docs: docKey{value.Type().PkgPath(), value.Type().Name()}})
			}
			continue
		}
		switch {
		case own.Type.Kind() == reflect.Struct:
			fields = append(fields, ownedBy(v, fieldsOf(v.Field(i)))...)
		case own.Type.Kind() != reflect.Interface:
			panic(fmt.Sprintf("config: the inline field %s.%s is no struct, any or Variants", t, own.Name))
		case !v.Field(i).IsNil():
			fields = append(fields, ownedBy(v, fieldsOf(v.Field(i).Elem().Elem()))...)
		}
	}
	return fields
}

func ownedBy(v reflect.Value, fields []field) []field {
	for i := range fields {
		fields[i].owners = append(fields[i].owners, v)
	}
	return fields
}

func fieldNamed(v reflect.Value, name string) (field, bool) {
	for _, f := range fieldsOf(v) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// present is the value of the field; where it is null, that which it has by
// default once it is present.
func (f field) present() reflect.Value {
	switch {
	case f.value.Kind() != reflect.Pointer:
		return f.value
	case f.value.IsNil():
		return newWithDefaults(f.value.Type().Elem()).Elem()
	}
	return f.value.Elem()
}

// choices are the values of a field that names one of several things.
func (f field) choices() []string {
	if tag := f.tag.Get("choices"); tag != "" {
		return strings.Split(tag, ",")
	}
	for _, v := range f.owners {
		if owner, ok := v.Interface().(Chooser); ok {
			if choices := owner.Choices(f.name); choices != nil {
				return choices
			}
		}
	}
	return nil
}

// at finds the field at a dotted path below a struct.
func at(v reflect.Value, path string) (field, bool) {
	var f field
	for i, name := range strings.Split(path, ".") {
		if i > 0 {
			v = f.present()
		}
		if settings, ok := picked(v, name); ok {
			f = field{value: settings}
			continue
		}
		if v.Kind() == reflect.Slice { // of groups; the name is a position
			position, err := strconv.Atoi(name)
			if err != nil || position < 0 || position >= v.Len() {
				return field{}, false
			}
			f = field{value: v.Index(position)}
			continue
		}
		if v.Kind() != reflect.Struct {
			return field{}, false
		}
		var ok bool
		if f, ok = fieldNamed(v, name); !ok {
			return field{}, false
		}
	}
	return f, true
}

// Choices lists the values of a field that names one of several things, by its
// dotted path below the struct that settings points to; nil for any other.
func Choices(settings any, path string) []string {
	f, ok := at(reflect.ValueOf(settings).Elem(), path)
	if !ok {
		return nil
	}
	return f.choices()
}

// Has reports whether there is a field at a dotted path below the struct that
// settings points to, in a part that is null too.
func Has(settings any, path string) bool {
	_, ok := at(reflect.ValueOf(settings).Elem(), path)
	return ok
}

// Find is the value at a dotted path below the struct that settings points to.
// ok is false where there is no such field, where it is of another type, and
// below a part that is null.
func Find[T any](settings any, path string) (value T, ok bool) {
	f, ok := find(reflect.ValueOf(settings).Elem(), path)
	if !ok {
		return value, false
	}
	value, ok = f.Interface().(T)
	return value, ok
}

func find(v reflect.Value, path string) (reflect.Value, bool) {
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer {
			v = v.Elem() // not valid below null
		}
		if !v.IsValid() {
			return v, false
		}
		if settings, ok := picked(v, name); ok {
			v = settings
			continue
		}
		if v.Kind() != reflect.Struct {
			return v, false
		}
		f, ok := fieldNamed(v, name)
		if !ok {
			return v, false
		}
		v = f.value
	}
	return v, true
}

// Pointer points to the value at a dotted path below the struct that settings
// points to. ok is false where there is no such field, or of another type.
func Pointer[T any](settings any, path string) (pointer *T, ok bool) {
	v, ok := find(reflect.ValueOf(settings).Elem(), path)
	if !ok {
		return nil, false
	}
	pointer, ok = v.Addr().Interface().(*T)
	return pointer, ok
}

// Names lists the fields of the struct that settings points to, in their order.
func Names(settings any) []string {
	var names []string
	for _, f := range fieldsOf(reflect.ValueOf(settings).Elem()) {
		names = append(names, f.name)
	}
	return names
}
