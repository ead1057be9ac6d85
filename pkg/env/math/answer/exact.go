package answer

import (
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// Exact is the verifier of integers, rationals and decimals, lists of them,
// and words.
//
// The form of the reference decides how a response is read. A reference that
// is a number asks for a number: 1/2, 2/4, 0.5 and .50 are equal, exactly, or
// to DecimalPlaces digits when one of the two is written with a point. A
// reference with commas that is no number asks for a list, compared item by
// item in the order written: in the data we know, such lists are answers to
// "sort", or printed in ascending order. "1,234" is a number, "1, 234" a list.
// Any other reference is words (True, b, 7*sqrt(3), -13c), equal but for case,
// blanks beside punctuation, a final full stop, and parentheses around one
// letter.
//
// Scientific notation is read with a point or a sign, as in 1.5e3 and 1e-5.
// Percentages, units, digits other than ASCII, and numbers of more than 1000
// digits are not read.
type Exact struct {
	mode   string
	marker string
	places int
}

// NewExact checks the settings and returns the verifier.
func NewExact(settings Settings) (Exact, error) {
	if err := checkAnswer(settings); err != nil {
		return Exact{}, err
	}
	return Exact{mode: settings.Extract, marker: settings.Marker, places: settings.DecimalPlaces}, nil
}

// Verify scores a response.
func (e Exact) Verify(gold, response string) Verification {
	if strings.TrimSpace(gold) == "" {
		return Verification{Why: "there is no reference answer", Reason: string(mathverify.ReasonNoReference)}
	}
	want := parseAnswer(gold)
	text, err := extract(response, e.mode, e.marker, want)
	v := Verification{Extracted: mathverify.Clip(text)}
	if err != nil {
		v.Why, v.Reason = err.Error(), string(mathverify.ReasonNoAnswer)
		if v.Extracted != "" {
			v.Reason = string(mathverify.ReasonUnreadable)
		}
		return v
	}
	v.Reason = string(mathverify.ReasonUnreadable)
	switch want.form {
	case formNumber:
		got, err := parseNumber(text)
		if err != nil {
			v.Why = fmt.Sprintf("the answer cannot be read: %v", err)
			return v
		}
		v.Equal = equalNumbers(want.number, got, e.places)
	default:
		if len(text) > MaxBytes {
			v.Why = fmt.Sprintf("the answer cannot be read: it is longer than %d bytes", MaxBytes)
			return v
		}
		v.Equal = e.equalItems(want, parseAnswer(text))
	}
	v.Readable = true
	v.Why, v.Reason = "the answer is wrong", string(mathverify.ReasonUnequal)
	if v.Equal {
		v.Why, v.Reason = "the answer is right", string(mathverify.ReasonEqual)
	}
	return v
}

func (e Exact) equalItems(want, got parsed) bool {
	if len(want.items) != len(got.items) {
		return false
	}
	for i := range want.items {
		if normalizeWords(want.items[i]) == normalizeWords(got.items[i]) {
			continue
		}
		a, errA := parseNumber(want.items[i])
		b, errB := parseNumber(got.items[i])
		if errA != nil || errB != nil || !equalNumbers(a, b, e.places) {
			return false
		}
	}
	return true
}

type form int

const (
	formNumber form = iota
	formList
	formWords
)

// parsed is a reference answer, read.
type parsed struct {
	form   form
	number number   // of formNumber
	items  []string // trimmed; one for formNumber and formWords
}

func parseAnswer(s string) parsed {
	if n, err := parseNumber(s); err == nil {
		return parsed{form: formNumber, number: n, items: []string{strings.TrimSpace(s)}}
	}
	items := splitTop(s)
	if len(items) > 1 {
		return parsed{form: formList, items: items}
	}
	return parsed{form: formWords, items: items}
}

// splitTop cuts at the commas that stand in no brackets.
func splitTop(s string) []string {
	var items []string
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				items = append(items, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	return append(items, strings.TrimSpace(s[start:]))
}

// normalizeWords is the form in which words are compared.
func normalizeWords(s string) string {
	s = strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(s), "."), "−", "-"))
	var b strings.Builder
	var blank bool
	var last byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			blank = true
			continue
		}
		if blank && b.Len() > 0 && !punctuation(last) && !punctuation(c) {
			b.WriteByte(' ')
		}
		blank = false
		b.WriteByte(c)
		last = c
	}
	out := b.String()
	if len(out) == 3 && out[0] == '(' && out[2] == ')' && out[1] >= 'a' && out[1] <= 'z' {
		return out[1:2]
	}
	return out
}

func punctuation(c byte) bool {
	return c >= '!' && c <= '/' || c >= ':' && c <= '@' || c >= '[' && c <= '`' || c >= '{' && c <= '~'
}
