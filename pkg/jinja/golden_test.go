package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// kindOf has what our errors say for each kind of Jinja's and Python's.
var kindOf = map[string]*regexp.Regexp{
	"TemplateSyntaxError":    regexp.MustCompile(`expected|is not closed|missing|unknown tag|not implemented|cannot be assigned to|follows`),
	"SyntaxError":            regexp.MustCompile(`break outside of a for loop`),
	"TemplateAssertionError": regexp.MustCompile(`there is no (test|filter)|cannot be assigned to`),
	"UndefinedError":         regexp.MustCompile(`is undefined$`),
	"TemplateError":          regexp.MustCompile(`the template refuses this conversation: `),
	"TemplateRuntimeError":   regexp.MustCompile(`only attributes of a namespace can be set`),
	"SecurityError":          regexp.MustCompile(`begins with an underscore|is undefined$`), // what the sandbox forbids is not there
	"TypeError":              regexp.MustCompile(`not defined between|have no order|has no (length|JSON)|cannot be (iterated over|sliced)|expected a text|there can be text|wants|takes|no parameter|not all values|as a key of a dict`),
	"ValueError":             regexp.MustCompile(`cannot (step by 0|be unpacked)|separator of split is empty|is not (there|in the list)`),
	"IndexError":             regexp.MustCompile(`wants argument \d+ of \d+`),
	"ZeroDivisionError":      regexp.MustCompile(`division by zero$`),
	"OverflowError":          regexp.MustCompile(`at most \d+`),
}

// The golden texts were rendered by Jinja as transformers sets it up
// (testdata/make_golden.py).
func TestAgainstJinja(t *testing.T) {
	t.Parallel()
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
			kind, message, _ := strings.Cut(c.Why, ": ")
			_, parseErr := Parse(c.Template)
			if (parseErr != nil) != strings.HasSuffix(kind, "SyntaxError") && kind != "TemplateAssertionError" {
				t.Errorf("%q: parsing gives %v; Jinja has a %s", c.Template, parseErr, kind)
			}
			if words := kindOf[kind]; words == nil || !words.MatchString(err.Error()) || kind == "TemplateError" && !strings.HasSuffix(err.Error(), message) {
				t.Errorf("%q: %v; Jinja has a %s", c.Template, err, c.Why)
			}
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
