package python

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

// maxDepth bounds how deep values may be nested in what others wrote.
const maxDepth = 100

var errTooDeep = fmt.Errorf("values are nested more than %d deep", maxDepth)

// FromJSON is json.loads: it keeps the order of keys, of a key that comes twice
// the last value, and tells whole numbers from floats.
func FromJSON(text []byte) (Value, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := decodeJSON(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON value")
	}
	return value, nil
}

func decodeJSON(decoder *json.Decoder, depth int) (Value, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return parseNumber(token.String())
	case json.Delim:
		var value Value
		if token == '[' {
			value, err = decodeJSONList(decoder, depth)
		} else {
			value, err = decodeJSONDict(decoder, depth)
		}
		if err != nil {
			return nil, err
		}
		_, err = decoder.Token() // the closing bracket, which the decoder has checked
		return value, err
	default: // nil, bool or string
		return token, nil
	}
}

func decodeJSONList(decoder *json.Decoder, depth int) (Value, error) {
	list := NewList()
	for decoder.More() {
		item, err := decodeJSON(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, item)
	}
	return list, nil
}

func decodeJSONDict(decoder *json.Decoder, depth int) (Value, error) {
	dict := &Dict{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		value, err := decodeJSON(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		dict.Set(key, value)
	}
	return dict, nil
}

// parseNumber reads a decimal literal without a sign of + and without
// underscores: whole without a point and exponent, a float with one.
func parseNumber(text string) (Value, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // Python reads 1e999 as inf
			return nil, fmt.Errorf("reading the number %q: %w", text, err)
		}
		return f, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if len(text) > 4301 {
		return nil, ErrTooLarge
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, fmt.Errorf("reading the number %q: not a whole number", text)
	}
	return n, nil
}
