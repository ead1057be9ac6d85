package plainjson

import (
	"strings"
	"testing"
)

func TestBothForms(t *testing.T) {
	t.Parallel()
	value := map[string]any{"b": "1 < 2 & 3 > 2", "a": []int{1}}
	for name, c := range map[string]struct {
		write func(any) ([]byte, error)
		want  string
	}{
		"line":     {Line, `{"a":[1],"b":"1 < 2 & 3 > 2"}`},
		"document": {Document, "{\n  \"a\": [\n    1\n  ],\n  \"b\": \"1 < 2 & 3 > 2\"\n}\n"},
	} {
		if found, err := c.write(value); string(found) != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, found, err, c.want)
		}
		if _, err := c.write(func() {}); err == nil {
			t.Errorf("%s: a function was written", name)
		}
	}
}

func TestStrict(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a": {"b": 1}}`:                   "",
		` {"a": {"b": 1}} `:                 "",
		`{"a": {"b": 1, "c": 2}}`:           `there is no field "c": the fields are b`,
		`{"a": {"b": 1}} {}`:                `'{' at byte 17 does not belong there`,
		`{"a": {"b": "x"}}`:                 `"a.b" has a string where a number must be`,
		`{"a": {"b": 1`:                     "it ends too early",
		"{\"a\": {\"b\": 1}, \"\xff\": 1}":  "it is not UTF-8",
		`{"list": [{}, {"e": [], "g": 1}]}`: `there is no field "g": the fields are e, f`,
		`{"list": [{"e": 1}]}`:              `"list.e" has a number where a list must be`,
		`{"a": {"b": 1}}}`:                  `'}' at byte 16 does not belong there`,
		`x`:                                 `'x' at byte 1 does not belong there`,
		`[1]`:                               "it has a list where an object must be",
		`{"Secret": 1}`:                     `there is no field "Secret": the fields are a, list`,
		`{"arguments": {}, "args": 1}`:      `there is no field "arguments": the fields are a, list`,
	} {
		var v struct {
			A struct {
				B int `json:"b"`
			} `json:"a"`
			Secret int `json:"-"`
			List   []*struct {
				E []string `json:"e"`
				F bool     `json:"f,omitempty"`
			} `json:"list"`
		}
		err := Strict([]byte(text), &v)
		if want == "" && (err != nil || v.A.B != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
