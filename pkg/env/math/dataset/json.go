package dataset

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env/math/answer"
)

// lookup follows a path: the name of a field, or names and positions in lists
// with dots between.
func lookup(fields map[string]json.RawMessage, path string) (json.RawMessage, bool) {
	if raw, ok := fields[path]; ok {
		return raw, true
	}
	name, rest, nested := strings.Cut(path, ".")
	raw, ok := fields[name]
	if !ok || !nested {
		return nil, false
	}
	return inside(raw, rest)
}

// inside follows a path in a value.
func inside(raw json.RawMessage, path string) (json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	switch jsonType(raw) {
	case "an object":
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return nil, false
		}
		return lookup(fields, path)
	case "a list":
		step, rest, nested := strings.Cut(path, ".")
		var items []json.RawMessage
		at, err := strconv.Atoi(step)
		if err != nil || json.Unmarshal(raw, &items) != nil || at < 0 || at >= len(items) {
			return nil, false
		}
		if !nested {
			return items[at], true
		}
		return inside(items[at], rest)
	}
	return nil, false
}

// quoted is a text as JSON.
func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a string always can be
	return raw
}

func stringText(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// scalarText is the text of a string, or a number, true or false as written.
func scalarText(raw json.RawMessage) (string, bool) {
	if s, ok := stringText(raw); ok {
		return s, true
	}
	switch jsonType(raw) {
	case "a number", "true", "false":
		return string(raw), true
	}
	return "", false
}

// answerText is the text of an answer: True and False as DeepMind's data
// write them, and a number with an exponent written out.
func answerText(raw json.RawMessage) (string, bool) {
	text, ok := scalarText(raw)
	switch jsonType(raw) {
	case "true":
		return "True", true
	case "false":
		return "False", true
	case "a number":
		return plainNumber(text)
	}
	return text, ok
}

// maxExponent bounds the exponent of an answer: more than any float64 has.
const maxExponent = 400

// plainNumber writes a JSON number without its exponent.
func plainNumber(text string) (string, bool) {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok {
		return text, true
	}
	e, err := strconv.Atoi(exponent)
	if err != nil || e > maxExponent || e < -maxExponent || len(mantissa) > answer.MaxDigits/2 {
		return "", false
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return "", false
	}
	if value.IsInt() {
		return value.RatString(), true
	}
	places, _ := value.FloatPrec()
	return value.FloatString(places), true
}

func jsonType(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return "nothing"
	case raw[0] == '"':
		return "a string"
	case raw[0] == '{':
		return "an object"
	case raw[0] == '[':
		return "a list"
	case raw[0] == 't':
		return "true"
	case raw[0] == 'f':
		return "false"
	case raw[0] == 'n':
		return "null"
	}
	return "a number"
}
