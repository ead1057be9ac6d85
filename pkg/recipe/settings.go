package recipe

import (
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// applySettings folds command-line settings such as rollout.shards=3 into a
// struct. Text is taken as it stands, without YAML's rules, unless it is in
// quotes; every other value is YAML. A number selects an entry of a list, and
// the number after the last adds one.
func applySettings(target any, settings []string) error {
	for _, setting := range settings {
		if err := applySetting(reflect.ValueOf(target).Elem(), setting); err != nil {
			return err
		}
	}
	return nil
}

func applySetting(root reflect.Value, setting string) error {
	path, text, ok := strings.Cut(setting, "=")
	if !ok {
		return exitcode.Usagef("--set %s: want FIELD=VALUE", shorten(setting))
	}
	name := "--set " + shorten(setting)
	v, message := locate(root, strings.Split(path, "."))
	if message != "" {
		return exitcode.Usagef("%s: %s", name, message)
	}
	if v.Kind() == reflect.String && !strings.HasPrefix(text, `"`) && !strings.HasPrefix(text, `'`) {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && forbidden(r) }) {
			return exitcode.Usagef("%s: the text has a control character or is not valid UTF-8", name)
		}
		v.SetString(text)
		return nil
	}
	d, node, err := parseYAML(name, []byte(text))
	d.root = root.Type()
	d.lines = nil // a place inside one word helps nobody
	if len(d.problems) > 0 {
		return d.err()
	}
	if err != nil {
		return err
	}
	if node == nil || node.Type() == ast.NullType && v.Kind() != reflect.Pointer {
		return exitcode.Usagef("%s: want %s, got nothing", name, typeName(v.Type()))
	}
	d.fill(v, node, path)
	return d.err()
}

// locate finds the field at a path, making the absent parts on its way. The
// message says why there is none, or is empty.
func locate(v reflect.Value, path []string) (field reflect.Value, message string) {
	root := v.Type()
	for i, name := range path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(newWithDefaults(v.Type().Elem()))
			}
			v = v.Elem()
		}
		parent := strings.Join(path[:i], ".")
		switch v.Kind() {
		case reflect.Struct:
			index, ok := fieldIndex(v.Type(), name)
			if !ok {
				return v, unknownField(root, v.Type(), name, parent)
			}
			v = v.Field(index)
		case reflect.Slice:
			index, err := strconv.Atoi(name)
			if err != nil || index < 0 || index > v.Len() {
				return v, parent + " is a list of " + strconv.Itoa(v.Len()) +
					" entries, numbered from 0; " + strconv.Quote(shorten(name)) + " is none of them"
			}
			if index == v.Len() {
				v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			}
			v = v.Index(index)
		default:
			return v, parent + " is " + typeName(v.Type()) + " and has no field " + strconv.Quote(shorten(name))
		}
	}
	return v, ""
}
