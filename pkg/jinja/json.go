package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// ParseJSON reads one JSON value, the keys of objects in their order. Numbers
// without a point or exponent are integers of 64 bits.
func ParseJSON(raw []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := parseJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON value")
	}
	return v, nil
}

func parseJSON(d *json.Decoder, depth int) (Value, error) {
	if depth > deepestValue {
		return nil, fmt.Errorf("values nest deeper than %d", deepestValue)
	}
	token, err := d.Token()
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		return parseNumber(t.String())
	case json.Delim:
		if t == '[' {
			return parseArray(d, depth)
		}
		return parseObject(d, depth)
	}
	return token, nil // string, bool or nil
}

func parseNumber(text string) (Value, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if !bytes.ContainsAny([]byte(text), ".eE") {
		return nil, fmt.Errorf("integer %s does not fit into 64 bits", clip(text))
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s: %w", clip(text), err)
	}
	return f, nil
}

func parseArray(d *json.Decoder, depth int) (Value, error) {
	l := NewList()
	for d.More() {
		item, err := parseJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, item)
	}
	_, err := d.Token()
	return l, err
}

func parseObject(d *json.Decoder, depth int) (Value, error) {
	object := NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := parseJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		object.set(key, value)
	}
	_, err := d.Token()
	return object, err
}
