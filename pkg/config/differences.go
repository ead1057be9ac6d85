package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Differences lists the fields in which two texts differ that [Write] wrote,
// each with its whole path: "optimizer.learning_rate: was 0.005, now 0.01". A
// field that only one of them has is one that the other's binaries do not
// know, or stands below one that is null in the other.
func Differences(was, is []byte) ([]string, error) {
	before, err := flatten(was)
	if err != nil {
		return nil, err
	}
	after, err := flatten(is)
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	for _, f := range after {
		now[f.path] = f.value
	}
	var differences []string
	known := map[string]bool{}
	for _, f := range before {
		known[f.path] = true
		value, there := now[f.path]
		switch {
		case !there:
			differences = append(differences, fmt.Sprintf("%s: was %s", f.path, Shorten(f.value)))
		case value != f.value:
			differences = append(differences, fmt.Sprintf("%s: was %s, now %s", f.path, Shorten(f.value), Shorten(value)))
		}
	}
	for _, f := range after {
		if !known[f.path] {
			differences = append(differences, fmt.Sprintf("%s: now %s", f.path, Shorten(f.value)))
		}
	}
	return differences, nil
}

// flatField is a field without fields of its own, by its whole path.
type flatField struct{ path, value string }

func flatten(text []byte) ([]flatField, error) {
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &root, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	var fields []flatField
	var visit func(path string, value any)
	visit = func(path string, value any) {
		switch v := value.(type) {
		case yaml.MapSlice:
			for _, item := range v {
				visit(joinPath(path, fmt.Sprint(item.Key)), item.Value)
			}
		case []any:
			if len(v) > 0 && reflect.TypeOf(v[0]) == reflect.TypeFor[yaml.MapSlice]() {
				for i, entry := range v {
					visit(fmt.Sprintf("%s.%d", path, i), entry)
				}
				return
			}
			fields = append(fields, flatField{path, showList(v)})
		default:
			fields = append(fields, flatField{path, showValue(v)})
		}
	}
	visit("", root)
	return fields, nil
}

func showList(values []any) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = showValue(v)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func showValue(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		if _, err := strconv.ParseFloat(v, 64); err == nil {
			return v // the library takes 1e-05 for text
		}
		return Quote(v)
	}
	return fmt.Sprint(value)
}
