package recipe

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// The comments on the types are the reference: there is no second text to
// keep in step.
var (
	//go:embed recipe.go
	recipeSource string
	//go:embed site.go
	siteSource string
)

// Field describes one field of a recipe or a site profile.
type Field struct {
	Path    string // dotted
	Type    string // what a value looks like: whole number, number, text, …
	Default string // as YAML; empty for a group of fields
	Choices []string
	Doc     string // one paragraph, from the comment on the field
	Group   bool   // has fields of its own
}

// Describe lists every field of a recipe in the order of [Write], with its
// default and its meaning.
func Describe() []Field {
	r := Defaults()
	return describe(reflect.ValueOf(r), "", comments(recipeSource), Choices)
}

// DescribeSite does the same for site profiles.
func DescribeSite() []Field {
	return describe(reflect.ValueOf(DefaultSite()), "", comments(siteSource), func(path string) []string { return siteChoices[path] })
}

func describe(v reflect.Value, prefix string, docs map[string]string, choices func(string) []string) []Field {
	var fields []Field
	t := v.Type()
	for i := range t.NumField() {
		path := joinPath(prefix, yamlName(t.Field(i)))
		value := v.Field(i)
		f := Field{Path: path, Choices: choices(path), Doc: docs[t.Name()+"."+t.Field(i).Name]}
		inner := value
		switch {
		case value.Kind() == reflect.Pointer:
			f.Group, f.Default = true, "null"
			inner = newWithDefaults(value.Type().Elem()).Elem()
		case value.Kind() == reflect.Struct:
			f.Group = true
		default:
			var b strings.Builder
			if value.Kind() == reflect.String {
				b.WriteString(quote(value.String())) // on one line, unlike in a file
			} else {
				writeValue(&b, value, "")
			}
			f.Type, f.Default = describeType(value.Type()), strings.TrimSpace(b.String())
		}
		if f.Group && f.Doc == "" {
			f.Doc = docs[inner.Type().Name()]
		}
		fields = append(fields, f)
		switch {
		case f.Group:
			fields = append(fields, describe(inner, path, docs, choices)...)
		case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct:
			entry := reflect.New(value.Type().Elem()).Elem()
			fields = append(fields, describe(entry, path+".N", docs, choices)...)
		}
	}
	return fields
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	case reflect.Map:
		return "names with texts"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "list of groups"
		}
		return "list of " + strings.Replace(describeType(t.Elem()), "number", "numbers", 1)
	}
	panic(fmt.Sprintf("recipe: field of kind %s", t.Kind()))
}

// comments maps Type and Type.Field to the text of their comments.
func comments(source string) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		panic(fmt.Sprintf("recipe: reading our own source: %v", err)) // it compiled
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

// Reference is the page jobs/REFERENCE.md: every field of recipes and site
// profiles, and every preset.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Recipes and site profiles

Generated from the types in pkg/recipe; ` + "`go test ./pkg/recipe -run Reference -update`" + ` writes it anew.

A recipe is one YAML file. Later wins: defaults, preset, the files named by ` + "`base:`" + `, the file, ` + "`--set FIELD=VALUE`" + `.

## Recipe

`)
	referenceTable(&b, Describe())
	b.WriteString("\n## Site profile\n\n")
	referenceTable(&b, DescribeSite())
	b.WriteString("\n## Presets\n\nWhat each preset puts in `advantage`, `filters` and `loss`.\n")
	for _, name := range PresetNames() {
		objective, err := Preset(name)
		if err != nil {
			panic(err) // PresetNames lists what Preset knows
		}
		fmt.Fprintf(&b, "\n### %s\n\n```yaml\n", name)
		for _, part := range []struct {
			name  string
			value any
		}{{"advantage", objective.Advantage}, {"filters", objective.Filters}, {"loss", objective.Loss}} {
			b.WriteString(part.name + ":")
			writeValue(&b, reflect.ValueOf(part.value), "")
		}
		b.WriteString("```\n")
	}
	return b.String()
}

// referenceTable writes one row for each field. A group whose fields are the
// same as an earlier group's, defaults included, is one row that says so.
func referenceTable(b *strings.Builder, fields []Field) {
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
			if earlier, ok := groups[signature]; ok {
				doc = "fields and defaults as `" + earlier + "`"
				i += children
			}
			groups[signature] = f.Path
		}
		if shown != "" {
			shown = "`" + escape.Replace(shorten(shown)) + "`"
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
