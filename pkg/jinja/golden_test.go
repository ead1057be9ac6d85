package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// The golden texts were rendered by Jinja as transformers sets it up
// (testdata/make_golden.py).
func TestAgainstJinja(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Variables json.RawMessage
		Cases     []struct {
			Template, Text, Why string
			Error               bool
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	variables, err := ParseJSON(golden.Variables)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range golden.Cases {
		got, err := render(c.Template, variables.(*Dict), Options{})
		switch {
		case c.Error && err == nil:
			t.Errorf("%q: rendered %q; Jinja fails: %s", c.Template, got.Text, c.Why)
		case c.Error:
		case err != nil:
			t.Errorf("%q: %v; Jinja renders %q", c.Template, err, c.Text)
		case got.Text != c.Text:
			t.Errorf("%q:\n got %q\nwant %q", c.Template, got.Text, c.Text)
		}
	}
	t.Logf("%d templates", len(golden.Cases))
}

func render(source string, variables *Dict, o Options) (Rendering, error) {
	t, err := Parse(source)
	if err != nil {
		return Rendering{}, err
	}
	return t.Render(variables, o)
}
