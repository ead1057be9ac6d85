package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// Write writes the struct that settings points to as YAML, with every field in
// the order of its type, defaults included. Equal settings have equal bytes,
// and [Document.Fill] gives them back.
func Write(settings any) []byte {
	var b strings.Builder
	writeStruct(&b, reflect.ValueOf(settings).Elem(), "")
	return []byte(b.String())
}

func writeStruct(b *strings.Builder, v reflect.Value, indent string) {
	for _, f := range fieldsOf(v) {
		b.WriteString(indent)
		b.WriteString(f.name)
		b.WriteByte(':')
		writeValue(b, f.value, indent)
	}
}

// writeValue writes what follows a field's colon, up to the end of its line
// or block.
func writeValue(b *strings.Builder, v reflect.Value, indent string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString(" null\n")
			return
		}
		writeValue(b, v.Elem(), indent)
	case reflect.Struct:
		if len(fieldsOf(v)) == 0 {
			b.WriteString(" {}\n")
			return
		}
		b.WriteByte('\n')
		writeStruct(b, v, indent+"  ")
	case reflect.Slice:
		writeList(b, v, indent)
	case reflect.Map:
		writeMap(b, v, indent)
	case reflect.String:
		if s := v.String(); blockText(s) {
			b.WriteString(" |-\n")
			for _, line := range strings.Split(s, "\n") {
				if line != "" {
					b.WriteString(indent + "  " + line)
				}
				b.WriteByte('\n')
			}
			return
		}
		fallthrough
	default:
		b.WriteString(" " + scalar(v) + "\n")
	}
}

func writeList(b *strings.Builder, v reflect.Value, indent string) {
	if _, ok := menuOf(v); ok && v.Len() > 0 {
		writeMenu(b, v, indent)
		return
	}
	if v.Type().Elem().Kind() != reflect.Struct || v.Len() == 0 {
		words := make([]string, v.Len())
		for i := range words {
			words[i] = scalar(v.Index(i))
		}
		b.WriteString(" [" + strings.Join(words, ", ") + "]\n")
		return
	}
	b.WriteByte('\n')
	for i := range v.Len() {
		var entry strings.Builder
		writeStruct(&entry, v.Index(i), indent+"    ")
		b.WriteString(indent + "  - " + strings.TrimPrefix(entry.String(), indent+"    "))
	}
}

func writeMap(b *strings.Builder, v reflect.Value, indent string) {
	if v.Len() == 0 {
		b.WriteString(" {}\n")
		return
	}
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	b.WriteByte('\n')
	for _, key := range keys {
		b.WriteString(indent + "  " + Quote(key.String()) + ": " + scalar(v.MapIndex(key)) + "\n")
	}
}

func scalar(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[Scalar]() {
			var text string
			if json.Unmarshal([]byte(v.String()), &text) != nil {
				return v.String()
			}
			return Quote(text)
		}
		return Quote(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int:
		if word, ok := wordOf(v); ok {
			return word
		}
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	panic(fmt.Sprintf("config: field of kind %s", v.Kind()))
}

// plain is text that YAML reads as itself without quotes.
var plain = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_/-]*$`)

// words that some YAML reader takes for a truth value or for nothing.
var reserved = map[string]bool{
	"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true,
}

// Quote writes text so that YAML reads the same text back: plain where that
// is safe, else in double quotes with the escapes that YAML and JSON share.
func Quote(s string) string {
	if plain().MatchString(s) && !reserved[strings.ToLower(s)] {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x10000 && (forbidden(r) || !unicode.IsPrint(r)):
			fmt.Fprintf(&b, `\u%04X`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// blockText reports whether text of several lines can stand as a block: every
// character shows, and no line begins or ends with a space.
func blockText(s string) bool {
	if !strings.Contains(s, "\n") || strings.HasSuffix(s, "\n") || strings.HasPrefix(s, "\n") {
		return false
	}
	for _, line := range strings.Split(s, "\n") {
		if line != strings.TrimSpace(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return false
		}
	}
	return true
}
