package plainjson

import "testing"

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
