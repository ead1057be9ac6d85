package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Pick is an entry of a list of choices. A file writes it as NAME or as
// {NAME: SETTINGS}; the settings stand nowhere else.
type Pick struct {
	Name     string
	Settings any // a pointer to a struct
}

// MarshalJSON writes a pick as a file has it, with every setting.
func (p Pick) MarshalJSON() ([]byte, error) {
	settings := map[string]any{}
	for _, f := range fieldsOf(reflect.ValueOf(p.Settings).Elem()) {
		settings[f.name] = f.value.Interface()
	}
	return json.Marshal(map[string]any{p.Name: settings})
}

// JSONOfOne writes the pick of a [Single] as a file has it: the name alone where the
// choice has no settings.
func JSONOfOne(picks []Pick) ([]byte, error) {
	switch {
	case len(picks) != 1:
		return []byte("null"), nil
	case len(fieldsOf(reflect.ValueOf(picks[0].Settings).Elem())) == 0:
		return json.Marshal(picks[0].Name)
	}
	return json.Marshal(picks[0])
}

// Short writes picks on one line, with those settings alone that are not the
// default ones.
func Short(picks []Pick, offers Variants) string {
	words := make([]string, len(picks))
	for i, p := range picks {
		words[i] = p.short(offers)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func (p Pick) short(offers Variants) string {
	if set := Overrides(p.Settings, offers.Of(p.Name)); len(set) > 0 {
		return "{" + p.Name + ": {" + strings.Join(set, ", ") + "}}"
	}
	return p.Name
}

// Overrides lists the fields of settings whose values are not those of defaults, which
// is of the same type, as "PATH: VALUE" in the order of [Write].
func Overrides(settings, defaults any) []string {
	was := map[string]string{}
	for _, f := range Describe(defaults, "") {
		was[f.Path] = f.Default
	}
	var set []string
	for _, f := range Describe(settings, "") {
		if before, known := was[f.Path]; !f.Group && (!known || before != f.Default) {
			set = append(set, f.Path+": "+f.Default)
		}
	}
	return set
}

// A Menu is a list of picks that knows what can be picked.
type Menu interface {
	// Offers are the choices, with their default settings.
	Offers() Variants
}

// A Single is a menu of which exactly one choice is picked. A file writes it without a
// list, as NAME or {NAME: SETTINGS}.
type Single interface {
	Menu
	Single()
}

func isSingle(v reflect.Value) bool {
	_, ok := v.Interface().(Single)
	return ok
}

// menuOf is the menu of a list of picks.
func menuOf(v reflect.Value) (Menu, bool) {
	menu, ok := v.Interface().(Menu)
	return menu, ok && v.Kind() == reflect.Slice
}

// picked is the settings of the pick of a name.
func picked(v reflect.Value, name string) (settings reflect.Value, ok bool) {
	if _, ok := menuOf(v); !ok {
		return v, false
	}
	for i := range v.Len() {
		if p := v.Index(i).Interface().(Pick); p.Name == name {
			return reflect.ValueOf(p.Settings).Elem(), true
		}
	}
	return v, false
}

// fillMenu decodes a list of picks.
func (d *Document) fillMenu(v reflect.Value, menu Menu, nodes []ast.Node, path string) {
	picks := reflect.MakeSlice(v.Type(), 0, len(nodes))
	seen := map[string]bool{}
	for i, node := range nodes {
		name, settings := node, ast.Node(nil)
		if entries, _ := mappingOf(node); len(entries) == 1 {
			name, settings = entries[0].Key.(ast.Node), entries[0].Value
		}
		text, _, ok := scalarText(name)
		at := joinPath(path, strconv.Itoa(i))
		if isSingle(v) {
			at = path
		}
		if _, isText := name.(*ast.StringNode); !ok || !isText {
			d.add(node.GetToken(), "%s wants the name of a choice or {NAME: {SETTING: VALUE}}, got %s", at, describeNode(node))
			continue
		}
		offers := menu.Offers() // anew for each pick, with settings of its own
		own := offers.Of(text)
		switch {
		case own == nil:
			d.add(name.GetToken(), "%s: there is no choice %q; %s", at, Shorten(text), nearestOf(text, offers))
			continue
		case seen[text]:
			d.add(name.GetToken(), "%s: %q stands in the list twice", at, text)
			continue
		}
		seen[text] = true
		if settings != nil {
			d.fill(reflect.ValueOf(own).Elem(), settings, joinPath(path, text))
		}
		picks = reflect.Append(picks, reflect.ValueOf(Pick{Name: text, Settings: own}))
	}
	v.Set(picks)
}

// mappingOf lists the pairs of a mapping; ok is false for any other node.
func mappingOf(node ast.Node) (pairs []*ast.MappingValueNode, ok bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func nearestOf(name string, offers Variants) string {
	names := make([]string, len(offers))
	for i, o := range offers {
		names[i] = o.Name
	}
	if near, ok := Nearest(name, names); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "there are " + strings.Join(names, ", ")
}

func writeMenu(b *strings.Builder, v reflect.Value, indent string) {
	if isSingle(v) {
		p := v.Index(0).Interface().(Pick)
		if settings := reflect.ValueOf(p.Settings).Elem(); len(fieldsOf(settings)) > 0 {
			b.WriteString("\n" + indent + "  " + p.Name + ":")
			writeValue(b, settings, indent+"  ")
			return
		}
		b.WriteString(" " + Quote(p.Name) + "\n")
		return
	}
	b.WriteByte('\n')
	for i := range v.Len() {
		p := v.Index(i).Interface().(Pick)
		b.WriteString(indent + "  - " + p.Name + ":")
		writeValue(b, reflect.ValueOf(p.Settings).Elem(), indent+"    ")
	}
}

// exampleOf shows how a list is written.
func exampleOf(v reflect.Value) string {
	if _, ok := menuOf(v); ok {
		return "[NAME, {NAME: {SETTING: VALUE}}]"
	}
	return "[a, b]"
}
