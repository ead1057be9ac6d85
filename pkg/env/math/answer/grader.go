package answer

import (
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// The forms of reference answers (recipe, data.train.fields.form).
const (
	FormInteger = "integer"
	FormFloat   = "float"
	FormBool    = "bool"
	FormList    = "list"
	FormOption  = "option"
)

// MaxChoices is the most options that a problem has: the number of letters.
const MaxChoices = 26

// Letter is that of the option at a position in [0, MaxChoices).
func Letter(at int) string { return string(rune('A' + at)) }

// Grader verifies responses to problems by the form of their answers: options,
// true or false, and numbers within a tolerance, each in its own way.
type Grader struct {
	Verifier
	settings Settings
}

// NewGrader makes the grader around the verifier that a recipe names.
func NewGrader(settings Settings) (Grader, error) {
	verifier, err := New(settings)
	return Grader{verifier, settings}, err
}

// wholeBytes bounds the texts that are surely whole: of longer ones mathverify.Clip may have
// cut off the end.
const wholeBytes = mathverify.MaxExtracted - utf8.UTFMax

// Grade scores a response by the form of its task's answer. Who repeats a
// reference of words and formulas word for word is right, however much of it
// the verifier can read.
func (g Grader) Grade(task env.Task, response string) Verification {
	found := g.byForm(task, response)
	if !found.Equal && found.Extracted != "" && len(found.Extracted) <= wholeBytes && normalizeWords(found.Extracted) == normalizeWords(task.Answer) {
		found.Equal, found.Readable = true, true
		found.Reason, found.Why = string(mathverify.ReasonSameText), "the answer's text is that of the reference"
	}
	return found
}

func (g Grader) byForm(task env.Task, response string) Verification {
	symbolic, tolerant := g.Verifier.(Symbolic)
	switch {
	case len(task.Choices) > 0:
		return g.choice(task, response)
	case task.Form == FormBool:
		return g.truth(task, response)
	case tolerant && (task.Form == FormFloat || task.Form == FormList):
		return symbolic.within(g.settings.Tolerance).Verify(task.Answer, response)
	}
	return g.Verifier.Verify(task.Answer, response)
}

// truth takes yes and no for true and false.
func (g Grader) truth(task env.Task, response string) Verification {
	found := g.Verifier.Verify(task.Answer, response)
	if found.Equal {
		return found
	}
	other := map[string]string{"true": "yes", "false": "no"}[strings.ToLower(task.Answer)]
	if second := g.Verifier.Verify(other, response); second.Equal {
		return second
	}
	return found
}

// choice grades a response to a multiple-choice problem. A letter
// decides: alone, in brackets or \text{}, or with its option behind, where the
// verifier's way of extraction looks, or announced. Else the response may give
// the text of the right option, if it is equal to no other option.
func (g Grader) choice(task env.Task, response string) Verification {
	last := g.settings.Extract == ExtractLast
	text := mathverify.Tagged(response)
	if !last {
		found, err := extract(response, g.settings.Extract, g.settings.Marker, parsed{form: formWords, items: []string{"A"}})
		if err != nil {
			return Verification{Why: err.Error(), Reason: string(mathverify.ReasonNoAnswer)}
		}
		text = found
	}
	chosen, ok := optionLetter(text, len(task.Choices))
	if !ok && last {
		chosen, ok = announcedLetter(text, len(task.Choices))
	}
	if ok {
		v := Verification{Extracted: chosen, Readable: true, Equal: chosen == task.Answer, Why: "the letter is that of another option", Reason: string(mathverify.ReasonUnequal)}
		if v.Equal {
			v.Why, v.Reason = "the letter is that of the right option", string(mathverify.ReasonEqual)
		}
		return v
	}
	right := int(task.Answer[0] - 'A')
	found := g.option(task.Choices[right], text, last)
	if !found.Equal {
		return found
	}
	for i, choice := range task.Choices {
		if i != right && g.option(choice, text, last).Equal {
			found.Equal, found.Why, found.Reason = false, "the answer is the text of several options", string(mathverify.ReasonUnequal)
			break
		}
	}
	return found
}

// option compares with the text of an option: in a response with the
// verifier, else as a whole answer.
func (g Grader) option(choice, text string, last bool) Verification {
	if last {
		return g.Verifier.Verify(choice, text)
	}
	if symbolic, ok := g.Verifier.(Symbolic); ok {
		symbolic.mode = ExtractWhole
		return symbolic.Verify(choice, text)
	}
	exact, _ := g.Verifier.(Exact)
	exact.mode = ExtractWhole
	return exact.Verify(choice, text)
}

// optionLetter reads a text that is one of the first count letters: B, (B),
// B., \text{(B)}, \textbf{B}, or B) or \textbf{(B)} with the option's text
// behind.
func optionLetter(text string, count int) (string, bool) {
	text = strings.Trim(strings.TrimSpace(text), "*$ ")
	for wrapped := true; wrapped; {
		wrapped = false
		for _, command := range []string{`\text{`, `\textbf{`, `\mathrm{`, `\mathbf{`, `\mbox{`, `\textrm{`, `\boxed{`} {
			if inner, ok := strings.CutPrefix(text, command); ok {
				if end := closingBrace(inner); end >= 0 {
					text, wrapped = strings.TrimSpace(inner[:end]+inner[end+1:]), true
				}
			}
		}
	}
	text = optionWord().ReplaceAllString(text, "")
	bracket := strings.HasPrefix(text, "(")
	bare := strings.TrimPrefix(text, "(")
	if bare == "" {
		return "", false
	}
	at := int(bare[0]) - 'A'
	if len(text) <= 3 && at >= 'a'-'A' { // b and (b), but not a sentence
		at -= 'a' - 'A'
	}
	if at < 0 || at >= count {
		return "", false
	}
	rest := bare[1:]
	closed := strings.HasPrefix(rest, ")")
	switch {
	case bracket && closed, !bracket && (rest == "" || closed || strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ": ") || rest == "." || rest == ":"):
		return Letter(at), true
	}
	return "", false
}

var (
	// answerWord is looked for in the response as it is: in lower case some letters
	// have another number of bytes.
	answerWord = lazyregexp.New("(?i)answer")
	// chosenWord is another announcement, of a response without that word.
	chosenWord = lazyregexp.New("(?i)(?:correct|right|best) (?:option|choice)")
	optionWord = lazyregexp.New(`(?i)^(?:option|choice)[ ~\\]+`)
	// sentence is a letter that a sentence goes on behind, and another is one more letter.
	sentence = lazyregexp.New(`^\(?([A-Z])\)?\*{0,2}(?:[,.;:"'\]]| (?:[-–—(]|because\b|since\b|as\b))`)
	another  = lazyregexp.New(`^\(?[A-Z][)*,;/& ]*(?:and |or )?\(?[A-Z]\b`)
)

// announcedLetter finds the letter in a response: in its last box; else after
// the last "answer" on its line, or "correct option"; else on the last line.
func announcedLetter(response string, count int) (string, bool) {
	if boxed, err := LastBoxed(response); err == nil {
		return optionLetter(boxed, count)
	}
	found := answerWord().FindAllStringIndex(response, -1)
	if found == nil {
		found = chosenWord().FindAllStringIndex(response, -1)
	}
	if len(found) > 0 {
		rest, _, _ := strings.Cut(strings.TrimLeft(response[found[len(found)-1][1]:], " :*\n"), "\n")
		for _, word := range []string{"is", "would be", "must be", ":", "option", "choice", "Option"} {
			rest = strings.TrimLeft(strings.TrimPrefix(rest, word), ` :*"'[`)
		}
		if found, ok := optionLetter(strings.TrimSuffix(rest, "."), count); ok {
			return found, true
		}
		if m := sentence().FindStringSubmatch(rest); m != nil && int(m[1][0]-'A') < count && !another().MatchString(rest) {
			return m[1], true
		}
	}
	return optionLetter(lastLine(response), count)
}
