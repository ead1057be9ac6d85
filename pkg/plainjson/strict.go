package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Strict reads a value from a text that has nothing else in it. A key that the
// value has no field for is an error: who misspells one would else get the
// default without a word. Errors are said without the words of Go.
func Strict(text []byte, value any) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil { // also what follows the value
		return explain(text, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(value)
	if err == nil {
		return nil
	}
	if key, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		known := fieldsBeside(whole, reflect.TypeOf(value), strings.Trim(key, `"`))
		return fmt.Errorf("there is no field %s: the fields are %s", key, strings.Join(known, ", "))
	}
	return explain(text, err)
}

// fieldsBeside lists the fields of the object that has an unknown key.
func fieldsBeside(raw json.RawMessage, t reflect.Type, key string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return fieldsBeside(raw, t.Elem(), key)
	case reflect.Slice, reflect.Array:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // what is no list has no keys
		for _, item := range items {
			if known := fieldsBeside(item, t.Elem(), key); known != nil {
				return known
			}
		}
	case reflect.Struct:
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(raw, &fields)
		var known []string
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			known = append(known, name)
			if inside := fieldsBeside(fields[name], f.Type, key); inside != nil {
				return inside
			}
		}
		if _, has := fields[key]; has && !slices.Contains(known, key) {
			return known
		}
	}
	return nil
}

// explain says an error of encoding/json without the words of Go.
func explain(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return explainSyntax(text, syntax)
	case errors.As(err, &kind):
		what := "it"
		if kind.Field != "" {
			what = fmt.Sprintf("%q", strings.ToLower(kind.Field)) // that of a field without a tag is Go's
		}
		return fmt.Errorf("%s has %s where %s must be", what, found(kind.Value), wanted(kind.Type))
	}
	return err
}

func explainSyntax(text []byte, err *json.SyntaxError) error {
	at := int(err.Offset) - 1 // the offset counts what was read, the fault included
	if strings.HasPrefix(err.Error(), "unexpected end") || at < 0 || at >= len(text) {
		return errors.New("it is not JSON: it ends too early")
	}
	r, _ := utf8.DecodeRune(text[at:])
	return fmt.Errorf("it is not JSON: %q at byte %d does not belong there", r, at+1)
}

// found names the kind of a value, which encoding/json calls "string",
// "number" or "number 1.5".
func found(value string) string {
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return "the number " + number
	}
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + value
}

// wanted names the kind of values that a type takes.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int32:
		return "a whole number of 32 bits"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}
