package mathverify

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options say how answers are compared.
type Options struct {
	// DecimalPlaces is what both sides are rounded to when one of them was
	// written with a decimal point.
	DecimalPlaces int
	// SetForRelation lets a condition such as 1 < x < 2 stand for a reference
	// that is the set (1, 2). The reverse is always allowed.
	SetForRelation bool
	// Anchored takes only answers that are boxed or announced.
	Anchored bool
	// AsLibrary keeps a habit of Math-Verify 0.8 that is wrong as mathematics,
	// for runs that are to have its rewards: an i that stands apart, as in
	// 2 i + 1, is another symbol than one beside a digit, as in 1+2i.
	AsLibrary bool
}

// DefaultOptions are those of Math-Verify: six places, no conditions for sets.
func DefaultOptions() Options { return Options{DecimalPlaces: 6} }

// Reason says how a verdict came about.
type Reason string

// The reasons.
const (
	ReasonEqual       Reason = "equal"
	ReasonSameText    Reason = "same text"
	ReasonUnequal     Reason = "not equal"
	ReasonNoAnswer    Reason = "no answer"
	ReasonUnreadable  Reason = "cannot be read"
	ReasonBudget      Reason = "budget"
	ReasonNoReference Reason = "no reference answer"
)

// Result is a verdict on a response.
type Result struct {
	Equal     bool
	Extracted string // the text that was taken as the answer; at most MaxExtracted bytes, valid UTF-8
	Readable  bool   // the answer could be read as mathematics
	Reason    Reason
	Kind      string // the form of the reference answer: integer, rational, decimal, set …
}

// Explain is the verdict in one sentence; it never tells the reference answer.
func (r Result) Explain() string {
	switch r.Reason {
	case ReasonEqual:
		return "the answer equals the reference"
	case ReasonSameText:
		return "the answer's text is that of the reference"
	case ReasonNoAnswer:
		return "the response has no answer"
	case ReasonUnreadable:
		return "not equal: the answer cannot be read as mathematics"
	case ReasonBudget:
		return "not equal: budget: the answer needs more work than one verification may do"
	case ReasonNoReference:
		return "there is no reference answer"
	}
	return "not equal"
}

// Reference is a reference answer, parsed once for many responses. It is
// immutable and safe for concurrent use.
type Reference struct {
	text   string
	parsed *node // nil when it can be compared as text alone
	set    bool
}

// NewReference reads a reference answer: bare mathematics, or a solution that
// ends in it. It never fails: what cannot be parsed is compared as text.
func NewReference(gold string) *Reference {
	r := &Reference{text: strings.TrimSpace(gold), set: strings.TrimSpace(gold) != ""}
	b := &budget{steps: maxSteps}
	if !strings.ContainsAny(gold, "$\n") && !strings.Contains(gold, `\boxed`) && !strings.Contains(gold, `\(`) && !strings.Contains(gold, `\[`) {
		if n, err := parse(gold, b); err == nil {
			r.parsed = n
			return r
		}
	}
	for i, c := range extract(gold) {
		if i == 0 {
			r.text = c.text
		}
		if i == maxCandidates || c.priority == priorityAny && strings.ContainsAny(gold, "$") && !strings.Contains(gold, c.text) {
			break
		}
		if n, err := parse(c.text, b); err == nil {
			r.text, r.parsed = c.text, n
			break
		}
	}
	return r
}

// Kind is the form of the reference answer.
func (r *Reference) Kind() string {
	if r.parsed == nil {
		return "text"
	}
	return r.parsed.describe()
}

// Verify judges a response against a reference answer.
func Verify(gold, response string, options Options) Result {
	return NewReference(gold).Verify(response, options)
}

// Verify judges a response. It is a function of its arguments alone, starts
// no goroutine, and does a bounded amount of work whatever the response is.
func (r *Reference) Verify(response string, options Options) Result {
	candidates := extract(response)
	if options.Anchored {
		for i, c := range candidates {
			if c.priority == priorityAny {
				candidates = candidates[:i]
				break
			}
		}
	}
	if len(candidates) == 0 && !options.Anchored && (r.parsed == nil || letters(r.parsed) != "") {
		candidates = bare(response)
	}
	return r.judge(candidates, options)
}

// VerifyAnswer judges a text that is the answer itself, without a search for
// it.
func (r *Reference) VerifyAnswer(answer string, options Options) Result {
	if strings.TrimSpace(answer) == "" {
		return r.judge(nil, options)
	}
	return r.judge([]candidate{{text: answer}}, options)
}

// judge compares the first candidate that can be read.
func (r *Reference) judge(candidates []candidate, options Options) Result {
	result := Result{Reason: ReasonNoAnswer, Kind: r.Kind()}
	if !r.set {
		result.Reason = ReasonNoReference
	}
	if !r.set || len(candidates) == 0 {
		return result
	}
	b := &budget{steps: maxSteps}
	c := &comparer{budget: b, options: options}
	result.Extracted = Clip(candidates[0].text)
	result.Reason = ReasonUnreadable
	for i, candidate := range candidates {
		if i == maxCandidates {
			break
		}
		parsed, err := parse(candidate.text, b)
		if errors.Is(err, errBudget) {
			result.Reason = ReasonBudget
			return result
		}
		if err != nil {
			if i == 0 && r.sameText(candidate.text) {
				result.Equal, result.Reason = true, ReasonSameText
				return result
			}
			continue
		}
		result.Extracted, result.Readable = Clip(candidate.text), true
		switch {
		case options.AsLibrary && r.parsed != nil && apart(r.text) != apart(candidate.text) && imaginary(r.parsed) && imaginary(parsed):
			result.Reason = ReasonUnequal
		case r.parsed != nil && c.equal(r.parsed, parsed):
			result.Equal, result.Reason = true, ReasonEqual
		case b.exhausted() || b.large:
			result.Reason = ReasonBudget
		case r.parsed == nil && r.sameText(candidate.text):
			result.Equal, result.Reason = true, ReasonSameText
		default:
			result.Reason = ReasonUnequal
		}
		return result
	}
	return result
}

func imaginary(n *node) bool {
	return n.kind == kindConstant && n.name == "i" || slices.ContainsFunc(n.args, imaginary)
}

// apart reports whether an i stands alone in a text.
func apart(text string) bool {
	for i := range len(text) {
		alone := text[i] == 'i' && !letterAt(text, i+1) && !digitAt(text, i+1)
		if alone && (i == 0 || !letterAt(text, i-1) && !digitAt(text, i-1)) {
			return true
		}
	}
	return false
}

func (r *Reference) sameText(text string) bool {
	want := plainText(r.text)
	return want != "" && len(text) <= maxAnswerBytes && want == plainText(text)
}

// MaxExtracted bounds, in bytes, the answer's text in a result.
const MaxExtracted = 256

// Clip bounds a text for a record to MaxExtracted bytes, at a rune border, and
// makes it UTF-8.
func Clip(s string) string {
	if len(s) > MaxExtracted {
		end := MaxExtracted
		for end > MaxExtracted-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
