package answer

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

// The ways to find the answer in a response (recipe, env.answer.extract).
const (
	ExtractWhole  = "whole"  // the response is the answer
	ExtractLast   = "last"   // the last number; for answers in words, the last words
	ExtractMarked = "marked" // what follows the last marker on its line
	ExtractBoxed  = "boxed"  // what is in the last \boxed{}
)

var (
	errEmpty        = errors.New("the response is empty")
	errNoBox        = errors.New(`the response has no \boxed{}`)
	errOpenBox      = errors.New(`the last \boxed{ is never closed`)
	errNoNumber     = errors.New("the response has no number")
	errBrokenNumber = errors.New("a number with a tail that cannot be read")
)

// extract finds the text of the answer. What it finds for [ExtractLast]
// depends on the form of the reference answer alone, never on its value. Thinking,
// tags, end marks and what else is around an answer are no part of it.
func extract(response, mode, marker string, gold parsed) (string, error) {
	response = mathverify.Answered(response)
	tagged := mathverify.Tagged(response)
	if tagged == "" {
		return "", errEmpty
	}
	switch mode {
	case ExtractMarked:
		// The marker is looked for outside of the tag too.
		at := strings.LastIndex(response, marker)
		if at < 0 {
			return "", fmt.Errorf("the response has no %q", marker)
		}
		rest, _, _ := strings.Cut(response[at+len(marker):], "\n")
		if rest = mathverify.Unwrap(rest); rest == "" {
			return "", fmt.Errorf("nothing follows the last %q", marker)
		}
		return rest, nil
	case ExtractBoxed:
		boxed, err := LastBoxed(response)
		return mathverify.Unwrap(boxed), err
	case ExtractLast:
		if gold.form == formNumber {
			return lastNumber(tagged)
		}
		items := lastItems(tagged, gold)
		if items == "" {
			return "", errEmpty
		}
		return items, nil
	}
	return mathverify.Unwrap(response), nil
}

// box is the beginning of one; a number may stand in it without braces.
var box = lazyregexp.New(`\\(?:boxed|fbox|framebox)(?:\s*\{| +[0-9])`)

// LastBoxed returns what is in the last \boxed{}, \fbox{} or \framebox{},
// braces balanced. It is an error when there is none, or nothing in it.
func LastBoxed(s string) (string, error) {
	all := box().FindAllStringIndex(s, -1)
	if all == nil {
		return "", errNoBox
	}
	at := all[len(all)-1][1]
	if s[at-1] != '{' {
		s = s[at-1:]
		if end := strings.IndexAny(s, " \t\n$\\"); end >= 0 {
			s = s[:end]
		}
		return s, nil
	}
	s = s[at:]
	end := closingBrace(s)
	if end < 0 {
		return "", errOpenBox
	}
	if inside := strings.TrimSpace(s[:end]); inside != "" {
		return inside, nil
	}
	return "", errors.New(`the last \boxed{} is empty`)
}

// closingBrace is where the brace closes that was opened before s, or -1.
func closingBrace(s string) int {
	depth := 1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// lastNumber returns the last number of a text, in one pass over it. Digits
// inside a word that starts with a letter (x2) are no number; a number with a
// tail that makes it another one (1e9, 0x10, 3.1.4, 1/2/3, --5) cannot be
// read, and no earlier number stands in for it: it is returned whole, with an error.
func lastNumber(s string) (string, error) {
	found, broken := "", false
	for at := 0; at < len(s); {
		start := at
		if r, size := utf8.DecodeRuneInString(s[at:]); wordRune(r) && (r < '0' || r > '9') {
			at += size
			at += word(s[at:])
			continue
		}
		_, n := scanLiteral(s[at:])
		if n == 0 {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
			continue
		}
		before, _ := utf8.DecodeLastRuneInString(s[:at]) // utf8.RuneError at the start
		sign := strings.HasPrefix(s[at:], "-") || strings.HasPrefix(s[at:], "−") || strings.HasPrefix(s[at:], "+")
		if sign && (wordRune(before) || before == ')') {
			_, size := utf8.DecodeRuneInString(s[at:]) // an operator: 5-3
			at += size
			continue
		}
		at += n
		broken = sign && (before == '-' || before == '−' || before == '+')
		if broken {
			start -= utf8.RuneLen(before)
		}
		if tail := brokenTail(s[at:]); tail > 0 {
			broken, at = true, at+tail
		}
		found = s[start:at]
	}
	switch {
	case found == "":
		return "", errNoNumber
	case broken:
		return found, errBrokenNumber
	}
	return found, nil
}

// brokenTail is the length of what follows a number and changes it: an
// exponent, letters with digits among them, or one more point or slash with
// digits. Letters alone are a unit: 5kg.
func brokenTail(s string) int {
	if n := word(s); n > 0 {
		if strings.ContainsAny(s[:n], "0123456789") {
			return n
		}
		if (s[:n] == "e" || s[:n] == "E") && len(s) > n+1 && (s[n] == '-' || s[n] == '+') {
			if d := digits(s[n+1:]); d > 0 {
				return n + 1 + d
			}
		}
		return 0
	}
	if len(s) > 1 && (s[0] == '.' || s[0] == '/') {
		if d := digits(s[1:]); d > 0 {
			return 1 + d
		}
	}
	return 0
}

// word is the length of the letters, digits and underscores at the start of s.
func word(s string) int {
	for i, r := range s {
		if !wordRune(r) {
			return i
		}
	}
	return len(s)
}

func wordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// lastItems returns, from the last line of a response, as many comma-separated
// items as the reference answer has; the first of them is as many words as the
// reference's first item.
func lastItems(response string, gold parsed) string {
	items := strings.Split(lastLine(response), ",")
	if len(items) > len(gold.items) {
		items = items[len(items)-len(gold.items):]
	}
	words := strings.Fields(items[0])
	if keep := max(1, len(strings.Fields(gold.items[0]))); len(words) > keep {
		words = words[len(words)-keep:]
	}
	items[0] = strings.Join(words, " ")
	return strings.Trim(strings.Join(items, ","), " \t.!*\"'")
}
