package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Change is a field in which two texts differ that [Write] wrote.
type Change struct {
	Path     string  // whole
	Was, Now *string // nil where the text does not have the field
}

func (c Change) String() string {
	switch {
	case c.Now == nil:
		return fmt.Sprintf("%s: was %s", c.Path, Shorten(*c.Was))
	case c.Was == nil:
		return fmt.Sprintf("%s: now %s", c.Path, Shorten(*c.Now))
	}
	return fmt.Sprintf("%s: was %s, now %s", c.Path, Shorten(*c.Was), Shorten(*c.Now))
}

// Changes lists the fields in which two texts differ that [Write] wrote. A field that
// only one of them has is one that the other's binaries do not know, or stands below
// one that is null in the other; those that only the second has come last.
func Changes(was, is []byte) ([]Change, error) {
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
	var changes []Change
	known := map[string]bool{}
	for _, f := range before {
		known[f.path] = true
		value, there := now[f.path]
		switch {
		case !there:
			changes = append(changes, Change{Path: f.path, Was: &f.value})
		case value != f.value:
			changes = append(changes, Change{f.path, &f.value, &value})
		}
	}
	for _, f := range after {
		if !known[f.path] {
			changes = append(changes, Change{Path: f.path, Now: &f.value})
		}
	}
	return changes, nil
}

// Differences says the same in words: "optimizer.learning_rate: was 0.005, now 0.01".
func Differences(was, is []byte) ([]string, error) {
	changes, err := Changes(was, is)
	var words []string
	for _, c := range changes {
		words = append(words, c.String())
	}
	return words, err
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
			if names, ok := pickNames(v); ok {
				fields = append(fields, flatField{path, showList(names)})
				for _, entry := range v {
					visit(path, entry)
				}
				return
			}
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

// pickNames are the names of a list of picks as [Write] writes it: each entry has
// one key, whose value has fields.
func pickNames(list []any) (names []any, ok bool) {
	for _, entry := range list {
		pick, isMap := entry.(yaml.MapSlice)
		if !isMap || len(pick) != 1 {
			return nil, false
		}
		if _, isMap := pick[0].Value.(yaml.MapSlice); !isMap {
			return nil, false
		}
		names = append(names, fmt.Sprint(pick[0].Key))
	}
	return names, len(list) > 0
}
