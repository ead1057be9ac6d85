package jsonlines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Decode reads the JSON object of a line. What is wrong with it is said in
// our words. strict refuses fields that v does not have.
func Decode(line []byte, v any, strict bool) error {
	if !utf8.Valid(line) {
		return errors.New("it is not UTF-8")
	}
	if !strict {
		return explainJSON(line, json.Unmarshal(line, v))
	}
	var whole json.RawMessage
	if err := json.Unmarshal(line, &whole); err != nil { // also what follows the object
		return explainJSON(line, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	return explainJSON(line, decoder.Decode(v))
}

// explainJSON says an error of encoding/json without the words of Go.
func explainJSON(line []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return explainSyntax(line, syntax)
	case errors.As(err, &kind):
		what := "the line"
		if kind.Field != "" {
			what = fmt.Sprintf("%q", strings.ToLower(kind.Field)) // that of a field without a tag is Go's
		}
		return fmt.Errorf("%s has %s where %s must be", what, foundJSON(kind.Value), wantedJSON(kind.Type))
	}
	if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fmt.Errorf("there is no field %s", field)
	}
	return err
}

func explainSyntax(line []byte, err *json.SyntaxError) error {
	at := int(err.Offset) - 1 // the offset counts what was read, the fault included
	if strings.HasPrefix(err.Error(), "unexpected end") || at < 0 || at >= len(line) {
		return errors.New("it is not JSON: it ends too early")
	}
	found, _ := utf8.DecodeRune(line[at:])
	return fmt.Errorf("it is not JSON: %q at byte %d does not belong there", found, at+1)
}

// foundJSON names the kind of a value, which encoding/json calls "string",
// "number" or "number 1.5".
func foundJSON(value string) string {
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

// wantedJSON names the kind of values that a type takes.
func wantedJSON(t reflect.Type) string {
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
