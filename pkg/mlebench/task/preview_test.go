package task

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestDescribe: what a preview says of a file, by hand. Of the beginning of a file, which is
// cut anywhere, a last row or value that may not be whole does not count.
func TestDescribe(t *testing.T) {
	t.Parallel()
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `, "k%02d": 1`, i)
		}
		return "{" + b.String()[2:] + "}"
	}
	lines := func(n int) (all string) {
		for i := range n {
			all += fmt.Sprintf("  k%02d: 1\n", i)
		}
		return all
	}
	const notTable, notJSON, x = " cannot be read as a table\n", " cannot be read as JSON\n", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" // of 40 letters
	for _, c := range []struct {
		as   func(*strings.Builder, io.Reader, bool)
		text string
		cut  bool
		want string
	}{
		{describeTable, "x,y\n1,a\n2,b\n", false, " 2 rows, 2 columns\n  x: whole numbers, 1 to 2\n  y: one of a, b\n"},
		{describeTabs, "x\ty\n1\ta\n2\tb\n", false, " 2 rows, 2 columns\n  x: whole numbers, 1 to 2\n  y: one of a, b\n"},
		{describeTable, "\ufeff\"x\",gr\xf6\xdfe\n1,a\n2,b\n", false, " 2 rows, 2 columns\n  x: whole numbers, 1 to 2\n  gr?e: one of a, b\n"},
		{describeTable, "x,y\n1,NaN\nnull,0.5\n", false, " 2 rows, 2 columns\n  x: whole numbers, 1 to 1; 1 empty\n  y: numbers, 0.5 to 0.5; 1 empty\n"},
		{describeTable, "x,y\n", false, " 0 rows, 2 columns\n  x: empty\n  y: empty\n"},
		{describeTable, "x,y\n1,a\n2,b\n3,", true, " 2 rows, 2 columns\n  x: whole numbers, 1 to 2\n  y: one of a, b\n"},
		{describeTable, "x,y\n1,a\n2,b\n3,\"", true, " 1 rows, 2 columns\n  x: whole numbers, 1 to 1\n  y: one of a\n"},
		{describeTable, "x,y\n1,a\n2,b\n3,\"", false, notTable},
		{describeTable, "x,y\n1,a", true, " 0 rows, 2 columns\n  x: empty\n  y: empty\n"},
		{describeTable, "x,y\n\"", true, notTable},
		{describeTable, "x,y", true, notTable},
		{describeTable, "", false, notTable},
		{describeJSON, `[{"id": 1, "text": "a"}, {"id": 2}]`, false, " 2 objects in a list\n  id: 1\n  text: text, such as \"a\"\n"},
		{describeJSON, `[{"id": 1, "text": "a"}, {"id": 2, "te`, true, " 1 objects in a list\n  id: 1\n  text: text, such as \"a\"\n"},
		{describeJSON, `[1, {"id": 2}]`, false, " 2 values in a list\n"},
		{describeJSON, `[1, 2, 3]`, false, " 3 values in a list\n"},
		{describeJSON, `[]`, false, " 0 values in a list\n"},
		{describeJSON, "{\"a\": true}\n{\"a\": false}\n", false, " 2 objects, one a line\n  a: true\n"},
		{describeJSON, "1\n2\n", false, " 2 values, one a line\n"},
		{describeJSON, "{}\n[1]\n2", false, " 3 values, one a line\n"},
		{describeJSON, `{"n": [1, 2], "o": {"p": null}, "p": null, "l": [{"q": 1}]}`, false, " JSON, object\n  n: values in a list\n  o: object\n  p: null\n  l: objects in a list\n"},
		{describeJSON, `12`, false, " JSON, 12\n"},
		{describeJSON, `null`, false, " JSON, null\n"},
		{describeJSON, ``, false, " empty\n"},
		{describeJSON, ``, true, " empty\n"},
		{describeJSON, `{"a": `, false, notJSON},
		{describeJSON, `{"a": 1}}`, false, notJSON},
		{describeJSON, `[1, 2`, false, notJSON},
		{describeJSON, `a`, true, notJSON},
		{describeJSON, `{"a": 1} {"b"`, true, " JSON, object\n  a: 1\n"},
		{describeJSON, `{"a": 1} x`, true, " JSON, object\n  a: 1\n"},
		{describeJSON, `{"a": 1, "b": [1, 2`, true, " JSON, object\n  a: 1\n  b: values in a list\n"},
		{describeJSON, `{"a": 1, "b": `, true, " JSON, object\n  a: 1\n"},
		{describeJSON, strings.Repeat("[", 10001) + strings.Repeat("]", 10001), false, " 1 values in a list\n"},
		{describeJSON, strings.Repeat("[", 10001) + "1", true, notJSON},
		{describeJSON, strings.Repeat(`{"a":`, 10001) + `1` + strings.Repeat("}", 10001), true, notJSON},
		{describeJSON, keys(30), false, " JSON, object\n" + lines(30)},
		{describeJSON, keys(31), false, " JSON, object\n" + lines(30) + "  ... and more keys\n"},
		{describeJSON, `"` + x + `"`, false, " JSON, text, such as \"" + x + "\"\n"},
		{describeJSON, `{"` + x + `y": "` + x + `y"}`, false, " JSON, object\n  " + x + "…: text, such as \"" + x + "…\"\n"},
	} {
		var b strings.Builder
		if c.as(&b, strings.NewReader(c.text), c.cut); b.String() != c.want {
			t.Errorf("%.80s, cut %v: %q, want %q", c.text, c.cut, b.String(), c.want)
		}
	}
}

// TestNumbers: what a CSV file of other programs holds as a number is one.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cells []string
		want  string
	}{
		{[]string{"-1", "2e1"}, "whole numbers, -1 to 20"},
		{[]string{"1", "", "2.5"}, "numbers, 1 to 2.5; 1 empty"},
		{[]string{"3_0_1", "3_0_0"}, "one of 3_0_0, 3_0_1"}, // a picture, a row and a column
		{[]string{"0x1"}, "one of 0x1"},
	} {
		seen := column{numeric: true, whole: true, values: map[string]bool{}}
		for _, cell := range c.cells {
			seen.add(cell)
		}
		if got := seen.String(); got != c.want {
			t.Errorf("%q: %s; want %s", c.cells, got, c.want)
		}
	}
}
