package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// The decoder fills typed structs from a YAML tree and reports every problem
// with its place. It is our own because the library's stops at the first
// error, drops the fraction of 1.5 on its way into an int, and reads 010 as
// eight.

// Defaulter is a part of a file that is absent by default, a pointer, and that
// has defaults of its own once it is present.
type Defaulter interface{ SetDefaults() }

// An Opener is a part of a list whose fields depend on its field name, which Open is
// told before the others are filled.
type Opener interface{ Open(name string) error }

// A Listed struct may be written as a list, which is that of one of its fields.
type Listed interface {
	List() (field string)
}

// A Worded type is a whole number of which some values are written as words. Those
// values are none that a number in a file could mean.
type Worded interface{ Words() map[string]int }

// Scalar is a truth value, number or text of a file, as JSON: a value whose type
// only its reader knows.
type Scalar string

// wordOf is the word for a whole number of a type, if it has one.
func wordOf(v reflect.Value) (word string, ok bool) {
	if worded, is := v.Interface().(Worded); is {
		for word, n := range worded.Words() {
			if v.Int() == int64(n) {
				return word, true
			}
		}
	}
	return "", false
}

// Options say how a document fills a struct.
type Options struct {
	// Ignore lists keys at the top that the caller has read by itself.
	Ignore []string
	// Rebase rewrites the texts of fields with the tag path:"file", so that a
	// path relative to one file's folder is true in another; nil for none.
	Rebase func(path string) string
	// Unknown is asked about a dotted path that names no field: the message
	// replaces ours unless it is empty, and skip leaves the field out without
	// a word. nil asks nobody.
	Unknown func(path string) (message string, skip bool)
}

var (
	wholeNumber = lazyregexp.New(`^[-+]?(0|[1-9][0-9]*)$`)
	realNumber  = lazyregexp.New(`^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// fill decodes node into v, which is settable. path is the dotted path of v,
// empty at the top. What the node does not name keeps its value; lists are
// replaced whole.
func (d *Document) fill(v reflect.Value, node ast.Node, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if node.Type() == ast.NullType {
			v.SetZero()
			return
		}
		if v.IsNil() {
			v.Set(newWithDefaults(v.Type().Elem()))
		}
		d.fill(v.Elem(), node, path)
	case reflect.Struct:
		d.fillStruct(v, node, path)
	case reflect.Slice:
		d.fillSlice(v, node, path)
	case reflect.Map:
		d.fillMap(v, node, path)
	default:
		d.fillScalar(v, node)
	}
}

// newWithDefaults makes a pointer to a new value of a type, with the type's
// own defaults.
func newWithDefaults(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if with, ok := p.Interface().(Defaulter); ok {
		with.SetDefaults()
	}
	return p
}

// entries lists the pairs of a mapping, or reports that node is none.
func (d *Document) entries(node ast.Node, what string) []*ast.MappingValueNode {
	if values, ok := mappingOf(node); ok || node.Type() == ast.NullType { // null: a heading whose lines are all commented out
		return values
	}
	d.add(node.GetToken(), "%s wants fields, got %s", what, describeNode(node))
	return nil
}

// fields of one mapping that were seen already, with the line of each.
type seenKeys map[string]int

func (d *Document) duplicate(seen seenKeys, key *token.Token) bool {
	if line, twice := seen[key.Value]; twice {
		d.add(key, "%q is set twice; the first is on line %d", key.Value, line)
		return true
	}
	seen[key.Value] = key.Position.Line
	return false
}

func (d *Document) fillStruct(v reflect.Value, node ast.Node, path string) {
	if list, ok := node.(*ast.SequenceNode); ok {
		if listed, is := v.Interface().(Listed); is {
			if f, ok := fieldNamed(v, listed.List()); ok {
				d.fill(f.value, list, joinPath(path, listed.List()))
				return
			}
		}
	}
	if opener, ok := v.Addr().Interface().(Opener); ok && !d.open(opener, node, path) {
		return
	}
	seen := seenKeys{}
	for _, entry := range d.entries(node, pathOr(path, "the file")) {
		key := entry.Key.GetToken()
		if d.duplicate(seen, key) {
			continue
		}
		if path == "" && slices.Contains(d.options.Ignore, key.Value) {
			continue
		}
		f, ok := fieldNamed(v, key.Value)
		if !ok {
			if message := d.unknown(v, key.Value, path); message != "" {
				d.add(key, "%s", message)
			}
			continue
		}
		d.fill(f.value, entry.Value, joinPath(path, key.Value))
		if f.tag.Get("path") == "file" && d.options.Rebase != nil {
			rebase(f.value, d.options.Rebase)
		}
	}
}

// open tells a part of a list its name.
func (d *Document) open(opener Opener, node ast.Node, path string) bool {
	place, ok := (&Document{body: node}).At("name")
	name, isText := "", false
	if ok {
		name, isText = place.Text()
	}
	if !isText {
		d.add(node.GetToken(), "%s wants a name", path)
		return false
	}
	if err := opener.Open(name); err != nil {
		d.Add(place, "%s.name: %v", path, err)
		return false
	}
	return true
}

// unknown is the message for a key that names no field, or empty.
func (d *Document) unknown(v reflect.Value, name, path string) string {
	if d.options.Unknown != nil {
		if message, skip := d.options.Unknown(joinPath(path, name)); skip || message != "" {
			return message
		}
	}
	return unknownField(d.root, v, name, path)
}

// Rebase rewrites the texts of all fields with the tag path:"file" of the struct that
// settings points to.
func Rebase(settings any, by func(path string) string) {
	rebaseFields(reflect.ValueOf(settings).Elem(), by)
}

func rebaseFields(v reflect.Value, by func(string) string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			rebaseFields(v.Elem(), by)
		}
	case reflect.Slice:
		for i := range v.Len() {
			rebaseFields(v.Index(i), by)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v) {
			if f.tag.Get("path") == "file" {
				rebase(f.value, by)
			} else {
				rebaseFields(f.value, by)
			}
		}
	}
}

// rebase rewrites a text, or each of a list of texts.
func rebase(v reflect.Value, by func(string) string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(by(v.String()))
	case reflect.Slice:
		for i := range v.Len() {
			rebase(v.Index(i), by)
		}
	}
}

func (d *Document) fillSlice(v reflect.Value, node ast.Node, path string) {
	menu, isMenu := menuOf(v)
	if isMenu && isSingle(v) {
		d.fillMenu(v, menu, []ast.Node{node}, path)
		return
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.add(node.GetToken(), "want a list such as %s, got %s", exampleOf(v), describeNode(node))
		return
	}
	if len(list.Values) == 0 {
		v.SetZero() // so that equal recipes are equal in memory too
		return
	}
	if isMenu {
		d.fillMenu(v, menu, list.Values, path)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values))
	for i, value := range list.Values {
		out.Index(i).Set(newWithDefaults(v.Type().Elem()).Elem())
		d.fill(out.Index(i), value, joinPath(path, strconv.Itoa(i)))
	}
	v.Set(out)
}

func (d *Document) fillMap(v reflect.Value, node ast.Node, path string) {
	seen := seenKeys{}
	out := reflect.MakeMap(v.Type())
	for _, entry := range d.entries(node, path) {
		key := entry.Key.GetToken()
		if d.duplicate(seen, key) {
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		d.fill(value, entry.Value, joinPath(path, key.Value))
		out.SetMapIndex(reflect.ValueOf(key.Value), value)
	}
	v.SetZero()
	if len(seen) > 0 {
		v.Set(out)
	}
}

func (d *Document) fillScalar(v reflect.Value, node ast.Node) {
	text, quoted, ok := scalarText(node)
	if !ok {
		d.add(node.GetToken(), "want %s, got %s", typeName(v.Type()), describeNode(node))
		return
	}
	if v.Type() == reflect.TypeFor[Scalar]() {
		d.fillAny(v, node, text, quoted)
		return
	}
	if v.Kind() == reflect.String {
		if _, isText := node.(*ast.StringNode); !isText && !quoted {
			d.add(node.GetToken(), "want text, got %s; put it in quotes", describeNode(node))
			return
		}
		v.SetString(text)
		return
	}
	if quoted {
		d.add(node.GetToken(), "want %s, got text in quotes", typeName(v.Type()))
		return
	}
	if message := setScalar(v, text); message != "" {
		d.add(node.GetToken(), "%s", message)
	}
}

// fillAny sets a [Scalar] from what a node is written as.
func (d *Document) fillAny(v reflect.Value, node ast.Node, text string, quoted bool) {
	_, isText := node.(*ast.StringNode)
	switch {
	case quoted || isText:
		encoded, err := plainjson.Line(text)
		if err != nil {
			d.add(node.GetToken(), "%v", err)
			return
		}
		v.SetString(string(encoded))
	case text == "true" || text == "false" || json.Valid([]byte(text)):
		v.SetString(text)
	default:
		d.add(node.GetToken(), "want true, false, a number or text, got %s", text)
	}
}

// setScalar sets a number or a truth value from its plain text. The message
// says what is wrong, or is empty.
func setScalar(v reflect.Value, text string) (message string) {
	want := func() string { return fmt.Sprintf("want %s, got %s", typeName(v.Type()), text) }
	if worded, ok := v.Interface().(Worded); ok {
		if n, isWord := worded.Words()[text]; isWord {
			v.SetInt(int64(n))
			return ""
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		switch text {
		case "true":
			v.SetBool(true)
		case "false":
			v.SetBool(false)
		default:
			return want()
		}
	case reflect.Int:
		if !wholeNumber().MatchString(text) {
			return want()
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return want() + ", which is out of range"
		}
		v.SetInt(n)
	case reflect.Uint64:
		if !wholeNumber().MatchString(text) || text[0] == '-' {
			return want()
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64)
		if err != nil {
			return want() + ", which is out of range"
		}
		v.SetUint(n)
	case reflect.Float64:
		if !realNumber().MatchString(text) {
			return want()
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(x, 0) {
			return want() + ", which is out of range"
		}
		v.SetFloat(x + 0) // never minus zero, which would be written otherwise
	default:
		panic(fmt.Sprintf("config: field of kind %s", v.Kind()))
	}
	return ""
}

// scalarText is the text of a scalar, and whether it was quoted or a block.
func scalarText(node ast.Node) (text string, quoted, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		quoted = n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
		return n.Value, quoted, true
	case *ast.LiteralNode:
		return n.Value.Value, true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, false, true
	}
	return "", false, false
}

func describeNode(node ast.Node) string {
	switch n := node.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "fields"
	case *ast.BoolNode:
		return "the truth value " + n.Token.Value
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", Shorten(n.Value))
	case *ast.LiteralNode:
		return "a block of text"
	}
	return "the number " + Shorten(node.GetToken().Value)
}

// Shorten cuts a text that is shown in a message to forty characters.
func Shorten(s string) string {
	if runes := []rune(s); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return s
}

// typeName is what a message calls the values of a type.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float64:
		return "a finite number"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list"
	}
	return "fields"
}
