// Package plainjson is JSON with <, > and & as they are: what encoding/json writes
// unless it is told so is for pages, and reads badly anywhere else.
package plainjson

import (
	"bytes"
	"encoding/json"
)

// Line is a value on one line, which has no end of line.
func Line(value any) ([]byte, error) {
	text, err := encode(value, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}

// Document is a value over several lines, indented by two spaces and ended.
func Document(value any) ([]byte, error) {
	return encode(value, "  ")
}

func encode(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return b.Bytes(), err
}
