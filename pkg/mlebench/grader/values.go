package grader

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
)

// numbersOf are the values of a column as an array of floats: texts are read as
// Python's float reads them.
func numbersOf(c *frame.Column) ([]float64, error) {
	if c.Numeric() {
		return c.Numbers, nil
	}
	values := make([]float64, c.Len())
	for row := range values {
		v, ok := pythonFloat(c.String(row))
		if !ok {
			return nil, exitcode.Dataf("column %q: %s is not a number", c.Name, frame.Shortened(c.String(row)))
		}
		values[row] = v
	}
	return values, nil
}

// finiteOf are the values of a column; it refuses what is no finite number.
func finiteOf(c *frame.Column) ([]float64, error) {
	values, err := numbersOf(c)
	if err != nil {
		return nil, err
	}
	return values, allFinite(c.Name, values)
}

func allFinite(name string, values []float64) error {
	for row, v := range values {
		if !finite(v) {
			return exitcode.Dataf("column %q, row %d in the order of ids: it is %v", name, row+1, v)
		}
	}
	return nil
}

// wordsOf are the values of a column as Python's str writes them.
func wordsOf(c *frame.Column) []string {
	words := make([]string, c.Len())
	for row := range words {
		words[row] = c.String(row)
	}
	return words
}

// textsOf are the texts of a column, blank where one is missing; it refuses numbers.
func textsOf(c *frame.Column) ([]string, error) {
	texts := make([]string, c.Len())
	for row := range texts {
		switch {
		case c.IsMissing(row):
		case c.Numeric():
			return nil, exitcode.Dataf("column %q is of numbers, and must be of texts: %s", c.Name, frame.Shortened(c.String(row)))
		default:
			texts[row] = c.Texts[row]
		}
	}
	return texts, nil
}

// presentTexts are the texts of a column; it refuses numbers and missing ones.
func presentTexts(c *frame.Column) ([]string, error) {
	texts, err := textsOf(c)
	if err == nil && c.AnyMissing() {
		err = exitcode.Dataf("column %q has empty cells", c.Name)
	}
	return texts, err
}

// wholeOf are the values of a column cut to whole numbers, as Python's int does.
func wholeOf(c *frame.Column) ([]int, error) {
	values := make([]int, c.Len())
	for row := range values {
		switch {
		case c.Kind == frame.Text:
			v, ok := pythonInt(c.Texts[row])
			if !ok {
				return nil, exitcode.Dataf("column %q: %s is not a whole number", c.Name, frame.Shortened(c.String(row)))
			}
			values[row] = v
		case !finite(c.Numbers[row]):
			return nil, exitcode.Dataf("column %q: %s is not a whole number", c.Name, c.String(row))
		default:
			values[row] = int(c.Numbers[row])
		}
	}
	return values, nil
}

// both are the values of a column of the answers and of one of the submission.
func (p *pair) both(asked, given string, of func(*frame.Column) ([]float64, error)) (a, g []float64, err error) {
	if a, err = finiteOf(p.answers.Column(asked)); err != nil {
		return nil, nil, err
	}
	if g, err = of(p.given.Column(given)); err != nil {
		return nil, nil, err
	}
	if len(a) != len(g) {
		return nil, nil, exitcode.Dataf("%d rows are compared with %d", len(g), len(a))
	}
	return a, g, nil
}

// pythonFloat reads a number as Python's float does.
func pythonFloat(text string) (float64, bool) {
	text, ok := digitsJoined(text)
	if !ok || strings.ContainsAny(text, "xXpP_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil || math.IsInf(v, 0)
}

// pythonInt reads a whole number as Python's int does.
func pythonInt(text string) (int, bool) {
	text, ok := digitsJoined(text)
	if !ok {
		return 0, false
	}
	v, err := strconv.Atoi(text)
	return v, err == nil
}

// digitsJoined takes away white space around a number, and underscores between its
// digits.
func digitsJoined(text string) (string, bool) {
	text = strings.TrimFunc(text, isSpace)
	if !strings.Contains(text, "_") {
		return text, text != ""
	}
	for i, r := range text {
		if r == '_' && (i == 0 || i == len(text)-1 || !unicode.IsDigit(rune(text[i-1])) || !unicode.IsDigit(rune(text[i+1]))) {
			return "", false
		}
	}
	return strings.ReplaceAll(text, "_", ""), true
}

// isSpace says what Python takes for white space.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// fields cuts a text at white space, as Python's split does.
func fields(text string) []string { return strings.FieldsFunc(text, isSpace) }

// wordSet are the words of a text in lower case.
func wordSet(text string) map[string]bool {
	return setOf(fields(cases.Lower(language.Und).String(text)))
}

func setOf(items []string) map[string]bool {
	set := make(map[string]bool, len(items))
	for _, item := range items {
		set[item] = true
	}
	return set
}
