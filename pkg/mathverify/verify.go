package mathverify

import (
	"errors"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// Reason says how a result came about.
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

// Result is a result for a response.
type Result struct {
	Equal     bool
	Extracted string // the text that was taken as the answer; at most MaxExtracted bytes, valid UTF-8
	Readable  bool   // the answer could be read as mathematics
	Reason    Reason
	Kind      string // the form of the reference answer: integer, rational, decimal, set …
}

// Explain is the result in one sentence; it never tells the reference answer.
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
	other  *node // a second reading, nil for most: 1,5 as 1.5, and the 28 of $28$ percent
	set    bool
}

// NewReference reads a reference answer: bare mathematics, or a solution that
// ends in it. It never fails: what cannot be parsed is compared as text.
func NewReference(gold string) *Reference {
	r := &Reference{text: strings.TrimSpace(gold), set: strings.TrimSpace(gold) != ""}
	b := &budget{steps: maxSteps}
	bare := strings.ReplaceAll(gold, `\$`, "") // a currency sign begins no formula
	if !strings.ContainsAny(bare, "$\n") && !strings.Contains(gold, `\boxed`) && !strings.Contains(gold, `\(`) && !strings.Contains(gold, `\[`) {
		if n, err := parse(amount(gold), b); err == nil {
			r.parsed, r.other = n, decimalComma(r.text, n, b)
			if r.other == nil {
				r.other = withoutExponents(gold, b)
			}
			return r
		}
		if strings.Contains(bare, `\`) { // a formula that cannot be read, and not a sentence with numbers in it
			return r
		}
	}
	for i, c := range extract(gold, DefaultOptions()) {
		if i == 0 {
			r.text = c.text
		}
		if i == maxCandidates || c.priority == priorityAny && !strings.Contains(strings.ReplaceAll(gold, "$", ""), strings.ReplaceAll(c.text, "$", "")) {
			break
		}
		if n, err := parse(c.text, b); err == nil {
			r.text, r.parsed, r.other = c.text, n, c.number(b)
			break
		}
	}
	return r
}

// decimalComma reads a text as a number with a decimal comma where it reads as
// a list of two as well; nil for other texts.
func decimalComma(text string, list *node, b *budget) *node {
	if list.kind != kindList || len(list.args) != 2 || strings.Trim(strings.TrimPrefix(text, "-"), "0123456789,") != "" {
		return nil
	}
	n, _ := parse(plainNumber(text), b)
	return n
}

// Kind is the form of the reference answer.
func (r *Reference) Kind() string {
	if r.parsed == nil {
		return "text"
	}
	return r.parsed.describe()
}

// Verify checks a response against a reference answer.
func Verify(gold, response string, options Options) Result {
	return NewReference(gold).Verify(response, options)
}

// Verify checks a response. It is a function of its arguments alone, starts
// no goroutine, and does a bounded amount of work whatever the response is.
func (r *Reference) Verify(response string, options Options) Result {
	return r.verify(r.candidates(response, options), options, nil)
}

// candidates lists what may be the answer, best first.
func (r *Reference) candidates(response string, options Options) []candidate {
	candidates := extract(response, options)
	if len(candidates) == 0 && !options.Anchored && options.Targets.has(TargetWords) && (r.parsed == nil || letters(r.parsed) != "") {
		candidates = bare(response)
	}
	if options.OnlyBest {
		candidates = candidates[:min(1, len(candidates))]
	}
	return candidates
}

// VerifyAnswer checks a text that is the answer itself, without a search for
// it.
func (r *Reference) VerifyAnswer(answer string, options Options) Result {
	return r.verify(whole(answer), options, nil)
}

// amount is a bare text without the words for what it counts. Shorter words may be factors.
func amount(text string) string {
	if text = strings.TrimSpace(text); prose(text) {
		return withoutCounted(text)
	}
	return text
}

// whole makes a candidate of a text that is the answer itself.
func whole(answer string) []candidate {
	if answer = Unwrap(answer); answer == "" {
		return nil
	}
	return []candidate{{text: answer, end: len(answer), priority: priorityWhole}}
}

// verify compares the first candidate that can be read; with [MatchAny], each
// until one is equal. It tells its steps to the trace, if there is one.
func (r *Reference) verify(candidates []candidate, options Options, t *trace) Result {
	result := Result{Reason: ReasonNoAnswer, Kind: r.Kind()}
	if !r.set {
		result.Reason = ReasonNoReference
	}
	if !r.set || len(candidates) == 0 {
		return result
	}
	b := &budget{steps: maxSteps}
	c := &comparer{budget: b, options: options, trace: t}
	result.Extracted = Clip(candidates[0].text)
	result.Reason = ReasonUnreadable
	for i, candidate := range candidates {
		if i == maxCandidates {
			break
		}
		parsed, err := parse(amount(candidate.text), b)
		if strings.TrimSpace(candidate.text) == "" { // an empty box is no empty set
			err = errParse
		}
		t.candidate(candidate, parsed, err)
		if errors.Is(err, errBudget) {
			result.Reason = ReasonBudget
			return result
		}
		if err != nil {
			if i == 0 && r.sameText(candidate.text) {
				t.note("the texts are the same, blanks, case and type aside")
				result.Equal, result.Reason = true, ReasonSameText
				return result
			}
			continue
		}
		result.Extracted, result.Readable = Clip(candidate.text), true
		switch {
		case options.SplitImaginary && r.parsed != nil && apart(r.text) != apart(candidate.text) && imaginary(r.parsed) && imaginary(parsed):
			t.note("the i of one side stands apart, and that of the other does not")
			result.Reason = ReasonUnequal
		case r.parsed != nil && c.equalReadings(r, candidate, parsed):
			result.Equal, result.Reason = true, ReasonEqual
		case b.exhausted() || b.undecided:
			result.Reason = ReasonBudget
		case r.parsed == nil && r.sameText(candidate.text):
			result.Equal, result.Reason = true, ReasonSameText
		default:
			result.Reason = ReasonUnequal
		}
		if result.Equal || options.Match != MatchAny || b.exhausted() {
			return result
		}
	}
	return result
}

// equalReadings compares by the first readings of both sides, then by the
// second ones; a side that has one reading is compared with both of the other.
func (c *comparer) equalReadings(r *Reference, answer candidate, parsed *node) bool {
	if c.equal(r.parsed, c.inNamesOf(r.parsed, parsed)) {
		return true
	}
	if other := c.restated(answer, parsed); other != nil && c.equal(r.parsed, c.inNamesOf(r.parsed, other)) {
		return true
	}
	gold, got := r.other, answer.number(c.budget)
	if gold == nil && got == nil {
		return false
	}
	if gold == nil {
		gold = r.parsed
	}
	if got == nil {
		got = parsed
	}
	return c.equal(gold, c.inNamesOf(gold, got))
}

// restated reads what a response gives as the same value as its answer; nil when
// it is another one. A decimal is the same value if it is rounded from it.
func (c *comparer) restated(answer candidate, parsed *node) *node {
	if answer.also == "" {
		return nil
	}
	other, err := parse(answer.also, c.budget)
	if err != nil {
		return nil
	}
	if c.equal(parsed, other) {
		return other
	}
	a, ok1 := c.realValue(parsed)
	b, ok2 := c.realValue(other)
	if _, fraction, point := strings.Cut(strings.TrimSpace(answer.also), "."); ok1 && ok2 && point {
		scale := new(big.Rat).SetInt(pow10(len(fraction)))
		if roundedRat(a, scale).Cmp(roundedRat(b, scale)) == 0 {
			return other
		}
	}
	return nil
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
