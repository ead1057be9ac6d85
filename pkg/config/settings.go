package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Apply folds command-line settings such as rollout.shards=3 into the struct
// that target points to, in their order. Text is taken as it stands, without YAML's rules, unless it is in
// quotes; every other value is YAML. A number selects an entry of a list, and
// the number after the last adds one.
func Apply(target any, settings []string, options Options) error {
	for _, setting := range settings {
		if err := applySetting(reflect.ValueOf(target).Elem(), setting, options); err != nil {
			return err
		}
	}
	return nil
}

func applySetting(root reflect.Value, setting string, options Options) error {
	path, text, ok := strings.Cut(setting, "=")
	if !ok {
		return exitcode.Usagef("--set %s: want FIELD=VALUE", Shorten(setting))
	}
	name := "--set " + Shorten(setting)
	options.Rebase = nil // a setting's paths are the whole file's
	v, message := locate(&Document{root: root, options: options}, strings.Split(path, "."))
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
	d, err := Parse(name, []byte(text))
	d.root, d.options = root, options
	d.lines = nil // a place inside one word helps nobody
	if len(d.problems) > 0 {
		return d.Err()
	}
	if err != nil {
		return err
	}
	node := d.body
	if node == nil || node.Type() == ast.NullType && v.Kind() != reflect.Pointer {
		return exitcode.Usagef("%s: want %s, got nothing", name, typeName(v.Type()))
	}
	d.fill(v, node, path)
	return d.Err()
}

// locate finds the field at a path, making the absent parts on its way. The
// message says why there is none, or is empty.
func locate(d *Document, path []string) (field reflect.Value, message string) {
	v := d.root
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
			f, ok := fieldNamed(v, name)
			if !ok {
				return v, d.unknown(v, name, parent)
			}
			v = f.value
		case reflect.Slice:
			if _, ok := menuOf(v); ok {
				settings, ok := picked(v, name)
				if !ok {
					return v, fmt.Sprintf("%s does not name %q, so it has no settings: --set %s=[NAME, {NAME: {SETTING: VALUE}}] replaces the list", parent, Shorten(name), parent)
				}
				v = settings
				continue
			}
			index, err := strconv.Atoi(name)
			if err != nil || index < 0 || index > v.Len() {
				return v, parent + " is a list of " + strconv.Itoa(v.Len()) +
					" entries, numbered from 0; " + strconv.Quote(Shorten(name)) + " is none of them"
			}
			if index == v.Len() {
				v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			}
			v = v.Index(index)
		default:
			return v, parent + " is " + typeName(v.Type()) + " and has no field " + strconv.Quote(Shorten(name))
		}
	}
	return v, ""
}
