package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// describeJSON says what a JSON file holds: its beginning is read value by value, so that no
// file is too large. A file of several values, such as JSON lines, is a list of them.
func describeJSON(b *strings.Builder, r io.Reader, cut bool) {
	d := json.NewDecoder(r)
	d.UseNumber()
	var shape jsonShape
	values := 0
	for ; ; values++ {
		var own jsonShape
		err := own.read(d, 0)
		if err == io.EOF || err != nil && cut && (values > 0 || errors.Is(err, io.ErrUnexpectedEOF)) {
			if values == 0 {
				shape = own // the beginning of one value
			}
			break
		}
		if err != nil {
			b.WriteString(" cannot be read as JSON\n")
			return
		}
		if values == 0 {
			shape = own
		}
	}
	if values > 1 {
		shape.rows, shape.of = values, "objects, one a line"
		if len(shape.keys) == 0 {
			shape.of = "values, one a line"
		}
	}
	shape.write(b)
}

// jsonShape is what is seen of a JSON value: of a list, its length and first element.
type jsonShape struct {
	of       string // list of objects, object, text …
	rows     int    // of a list
	keys     []string
	examples map[string]string
}

// deepestJSON bounds values inside values, as encoding/json does where it reads whole ones:
// a file of opening brackets alone would fill the stack.
const deepestJSON = 10_000

// read reads a value. Keys are those of an object, or of the first object of a list.
func (s *jsonShape) read(d *json.Decoder, depth int) error {
	if depth > deepestJSON {
		return errors.New("too many values inside values")
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		s.of = "values in a list"
		for d.More() {
			var own jsonShape
			if err := own.read(d, depth+1); err != nil {
				return unexpected(err)
			}
			if s.rows++; s.rows == 1 && own.of == "object" {
				s.of, s.keys, s.examples = "objects in a list", own.keys, own.examples
			}
		}
		_, err = d.Token()
	case json.Delim('{'):
		s.of, s.examples = "object", map[string]string{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return unexpected(err)
			}
			var own jsonShape
			err = own.read(d, depth+1)
			if name, _ := key.(string); len(s.keys) <= previewKeys && own.of != "" {
				s.keys = append(s.keys, name)
				s.examples[name] = own.of
			}
			if err != nil {
				return unexpected(err)
			}
		}
		_, err = d.Token()
	case nil:
		s.of = "null"
	default:
		s.of = fmt.Sprintf("%v", token)
		if text, is := token.(string); is {
			s.of = fmt.Sprintf("text, such as %q", clip(strings.ToValidUTF8(text, "?"), previewCell))
		}
	}
	return unexpected(err)
}

// unexpected is the end of a file inside a value.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s jsonShape) write(b *strings.Builder) {
	switch {
	case s.of == "":
		b.WriteString(" empty\n")
	case s.rows > 0 || strings.HasSuffix(s.of, "list"):
		fmt.Fprintf(b, " %d %s\n", s.rows, s.of)
	default:
		fmt.Fprintf(b, " JSON, %s\n", s.of)
	}
	for _, key := range s.keys[:min(len(s.keys), previewKeys)] {
		fmt.Fprintf(b, "  %s: %s\n", clip(key, previewCell), s.examples[key])
	}
	if len(s.keys) > previewKeys {
		b.WriteString("  ... and more keys\n")
	}
}
