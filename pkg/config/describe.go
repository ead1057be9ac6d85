package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// docKey names a type, or a field of one, whose meaning is known.
type docKey struct{ pkg, name string }

// sources are the texts that [Docs] was given, by package. Those of a package are read
// once they are asked for: every process would take as long to read all as for the rest
// of its start.
var sources = struct {
	sync.Mutex
	unread map[string][]string
	docs   map[docKey]string
}{unread: map[string][]string{}, docs: map[docKey]string{}}

// Docs hands over a source file with types of settings of the package of T, for
// whose fields its comments are the reference: there is no second text to keep
// in step. The result is true, for a package's variable.
func Docs[T any](source string) bool {
	sources.Lock()
	defer sources.Unlock()
	pkg := reflect.TypeFor[T]().PkgPath()
	sources.unread[pkg] = append(sources.unread[pkg], source)
	return true
}

func docOf(key docKey) string {
	sources.Lock()
	defer sources.Unlock()
	for _, source := range sources.unread[key.pkg] {
		for name, text := range comments(source) {
			sources.docs[docKey{key.pkg, name}] = text
		}
	}
	delete(sources.unread, key.pkg)
	return sources.docs[key]
}

// Field describes one field of settings.
type Field struct {
	Path    string // dotted
	Type    string // what a value looks like: whole number, number, text, …
	Default string // as YAML; empty for a group of fields
	Choices []string
	Doc     string // one paragraph, from the comment on the field
	Group   bool   // has fields of its own
}

// Describe lists every field of the struct that settings points to, in the
// order of [Write], with its value there, which is its default, and its
// meaning. Paths begin with prefix unless that is empty.
func Describe(settings any, prefix string) []Field {
	return describe(reflect.ValueOf(settings).Elem(), prefix)
}

func describe(v reflect.Value, prefix string) []Field {
	var fields []Field
	for _, own := range fieldsOf(v) {
		path := joinPath(prefix, own.name)
		f := Field{Path: path, Choices: own.choices(), Doc: own.doc}
		if f.Doc == "" {
			f.Doc = docOf(own.docs)
		}
		inner := own.present()
		menu, isMenu := menuOf(inner)
		switch kind := own.value.Kind(); {
		case isMenu:
			f.Type, f.Default = describeMenu(own.value, menu)
		case kind == reflect.Pointer && inner.Kind() != reflect.Struct:
			f.Type, f.Default = describeType(inner.Type()), "null"
		case kind == reflect.Pointer:
			f.Group, f.Default = true, "null"
		case kind == reflect.Struct:
			f.Group = true
		default:
			var b strings.Builder
			if kind == reflect.String {
				b.WriteString(Quote(own.value.String())) // on one line, unlike in a file
			} else {
				writeValue(&b, own.value, "")
			}
			f.Type, f.Default = describeType(inner.Type()), strings.TrimSpace(b.String())
		}
		if f.Group && f.Doc == "" {
			f.Doc = docOf(docKey{inner.Type().PkgPath(), inner.Type().Name()})
		}
		fields = append(fields, f)
		switch {
		case isMenu && own.value.Kind() == reflect.Pointer: // in the place of another, which is described
		case isMenu:
			for _, offer := range menu.Offers() {
				settings := reflect.ValueOf(offer.Settings).Elem()
				group := Field{Path: path + "." + offer.Name, Group: true, Doc: offer.Doc}
				fields = append(append(fields, group), describe(settings, group.Path)...)
			}
		case f.Group:
			fields = append(fields, describe(inner, path)...)
		case inner.Kind() == reflect.Slice && inner.Type().Elem().Kind() == reflect.Struct:
			fields = append(fields, describe(newWithDefaults(inner.Type().Elem()).Elem(), path+".N")...)
		}
	}
	return fields
}

// describeMenu says what a list of picks, or a pointer to one, looks like, and writes it.
func describeMenu(v reflect.Value, menu Menu) (form, text string) {
	const list = "list of names, or of {NAME: SETTINGS}"
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return list, "null"
		}
		v = v.Elem()
	}
	picks := v.Convert(reflect.TypeFor[[]Pick]()).Interface().([]Pick)
	if isSingle(v) && len(picks) == 1 {
		return "name, or {NAME: SETTINGS}", picks[0].short(menu.Offers())
	}
	return list, Short(picks, menu.Offers())
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		if worded, ok := reflect.Zero(t).Interface().(Worded); ok {
			return "whole number, or " + strings.Join(slices.Sorted(maps.Keys(worded.Words())), " or ")
		}
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	case reflect.Map:
		if t.Elem() == reflect.TypeFor[Scalar]() {
			return "names with values"
		}
		return "names with texts"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "list of groups"
		}
		return "list of " + strings.Replace(describeType(t.Elem()), "number", "numbers", 1)
	}
	panic(fmt.Sprintf("config: field of kind %s", t.Kind()))
}

// comments maps Type and Type.Field to the text of their comments.
func comments(source string) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		panic(fmt.Sprintf("config: reading our own source: %v", err)) // it compiled
	}
	docs := map[string]string{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			typ := spec.(*ast.TypeSpec)
			docs[typ.Name.Name] = paragraph(group.Doc)
			if s, ok := typ.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if len(f.Names) == 0 {
						continue // embedded
					}
					text := paragraph(f.Comment)
					if text == "" {
						text = paragraph(f.Doc)
					}
					docs[typ.Name.Name+"."+f.Names[0].Name] = text
				}
			}
		}
	}
	return docs
}

// paragraph is the first paragraph of a comment on one line.
func paragraph(group *ast.CommentGroup) string {
	text, _, _ := strings.Cut(group.Text(), "\n\n")
	return strings.Join(strings.Fields(text), " ")
}

// Table writes a table in Markdown with one row for each field. A group whose fields are the
// same as an earlier group's, defaults included, is one row that says so.
func Table(b *strings.Builder, fields []Field) {
	b.WriteString("| field | value | default | meaning |\n| --- | --- | --- | --- |\n")
	escape := strings.NewReplacer("|", `\|`, "\n", " ")
	groups := map[string]string{}
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		value := f.Type
		if len(f.Choices) > 0 {
			value = strings.Join(f.Choices, ", ")
		}
		name, shown, doc := "`"+f.Path+"`", f.Default, f.Doc
		if f.Group {
			name = "**" + name + "**"
			children, signature := childrenOf(fields, i)
			if earlier, ok := groups[signature]; ok && children > 0 {
				doc = strings.TrimPrefix(doc+"; ", "; ") + "fields and defaults as `" + earlier + "`"
				i += children
			} else {
				groups[signature] = f.Path
			}
		}
		if shown != "" {
			shown = "`" + escape.Replace(Shorten(shown)) + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, escape.Replace(value), shown, escape.Replace(doc))
	}
}

// childrenOf counts the fields below the group at an index, and puts what
// they have in common with another group's into a text.
func childrenOf(fields []Field, group int) (count int, signature string) {
	prefix := fields[group].Path + "."
	var b strings.Builder
	for _, f := range fields[group+1:] {
		name, ok := strings.CutPrefix(f.Path, prefix)
		if !ok {
			break
		}
		count++
		fmt.Fprintf(&b, "%s %s %s\n", name, f.Type, f.Default)
	}
	return count, b.String()
}
