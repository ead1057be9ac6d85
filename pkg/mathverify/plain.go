package mathverify

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// numbers finds plain numbers and expressions that begin with a digit.
func (s *scanner) numbers() []candidate {
	var found []candidate
	text := s.text
	tried := 0 // how far an expression was read that has no end
	for i := 0; i < len(text); {
		start, end := i, i
		if digitAt(text, i) || i >= tried {
			end, tried = expressionAt(text, i)
		}
		if end == start {
			i++
			continue
		}
		i = end
		// A sign belongs to the number unless something stands before it.
		if sign := signLength(text[:start]); sign > 0 && (sign == start || !wordAt(text, start-sign-1)) {
			start -= sign
		}
		behind := end + unitLength(text[end:])
		if start > 0 && !plainBefore(text, start) || behind < len(text) && !plainAfter(text, behind) || goesOn(text, behind) || began(text, start) {
			continue
		}
		content := strings.TrimRight(text[start:end], " ")
		content = plainNumber(content)
		c := candidate{text: content, start: start, end: end, priority: priorityAny}
		c.takePercent(text)
		found = append(found, c)
	}
	return found
}

// expressionAt finds the end of the number that begins at i, or of the expression
// that begins with a bracket or name and has a number in it: (1+2)/2, sqrt(3)/2.
// The end is i when none begins there; the text was read up to another place.
func expressionAt(text string, i int) (end, read int) {
	plain := digitAt(text, i) || text[i] == '.' && digitAt(text, i+1) || text[i] >= utf8.RuneSelf && vulgar().MatchString(text[i:min(len(text), i+utf8.UTFMax)])
	if !plain && !opening(text, i) {
		return i, i
	}
	end, read = plainExpression(text, i)
	switch found := text[i:end]; {
	case text[i] == '(' && strings.HasSuffix(found, ")"), text[i] != '(' && !plain && !strings.ContainsAny(found, "0123456789"):
		return i, read
	}
	return end, read
}

// longestOpened bounds an expression that begins with a bracket or name.
const longestOpened = 64 // bytes

// opening reports whether an expression may begin here with a bracket or name.
func opening(text string, i int) bool {
	if i > 0 && strings.IndexByte(" \n\t:=*-`", text[i-1]) < 0 {
		return false
	}
	n, _ := plainName(text[i:])
	return text[i] == '(' || n > 0
}

// plainName is the length of a name in plain expressions: the value π, or a
// function with its bracket to follow; 0 when other letters stand there.
func plainName(rest string) (length int, value bool) {
	if n := len("π"); strings.HasPrefix(rest, "π") {
		return n, true
	}
	if strings.HasPrefix(rest, "√") {
		return len("√"), false
	}
	end := 0
	for letterAt(rest, end) && rest[end] < utf8.RuneSelf {
		end++
	}
	switch word := strings.ToLower(rest[:end]); {
	case word == "pi":
		return end, true
	case strings.HasPrefix(rest[end:], "(") && slices.Contains(functions, word):
		return end, false
	}
	return 0, false
}

// signLength is the length of the sign that a text ends in, with a currency sign
// behind it: -$5; 0 for other texts.
func signLength(before string) int {
	bare := strings.TrimSuffix(before, "$")
	for _, sign := range []string{"-", "+", "−", "–"} {
		if strings.HasSuffix(bare, sign) {
			return len(before) - len(bare) + len(sign)
		}
	}
	return 0
}

func wordAt(s string, i int) bool { return letterAt(s, i) || digitAt(s, i) || s[i] == ')' }

// plainBefore forbids a number inside a formula, a word or behind \$.
func plainBefore(text string, start int) bool {
	switch c := text[start-1]; c {
	case ' ', '\n', '\t', '\r', ':', '=', '*', '"', '\'', '~', '`':
		return true
	case '(':
		return !applied(text[:start-1])
	case '$':
		return start < 2 || text[start-2] != '\\'
	}
	return text[start-1] >= utf8.RuneSelf // a currency sign or a dash
}

// applied reports whether a text ends in what a bracket behind is the argument
// or a factor of: f(3), log_2(8), 2(3).
func applied(before string) bool {
	from := len(before)
	for from > 0 && letterAt(before, from-1) && before[from-1] < utf8.RuneSelf {
		from--
	}
	switch word := before[from:]; {
	case word == "":
		return from > 0 && (wordAt(before, from-1) || before[from-1] == '}')
	case len(word) == 1 && word != "a" && word != "A":
		return true
	default:
		return slices.Contains(functions, strings.ToLower(word))
	}
}

// marksBehind are LaTeX that a number outside of formulas may have behind it: a
// percent or degree sign, or a unit. They change no value, or are read apart.
var marksBehind = []string{`\%`, `\text{`, `\mathrm{`, `\ \text{`, `\,\text{`, `\ \mathrm{`, `\,\mathrm{`, `^\circ`, `^{\circ}`}

// unitLength is the length of a unit right behind a number, as in 5cm, 3m/s
// and 7m^2; 0 when other letters stand there, as in 2n.
func unitLength(rest string) int {
	length := 0
	for letterAt(rest, length) {
		end := length
		for letterAt(rest, end) && rest[end] < utf8.RuneSelf {
			end++
		}
		word := rest[length:end]
		if len(word) > 1 {
			word = strings.ToLower(word) // 5M is no length
		}
		if !units[word] && !ordinals[word] {
			return 0
		}
		length = end
		for _, power := range unitPowers {
			if strings.HasPrefix(rest[end:], power) {
				length = end + len(power)
				break
			}
		}
		if !strings.HasPrefix(rest[length:], "/") || !letterAt(rest, length+1) {
			break
		}
		length++
	}
	return length
}

// ordinals stand behind the number of a place: 3rd.
var ordinals = wordSet("st nd rd th")

// unitPowers are the exponents that a unit can have, the longer ones first.
var unitPowers = []string{"^{2}", "^{3}", "^2", "^3", "2", "3"}

// plainAfter forbids a number at the beginning of a formula or word.
func plainAfter(text string, end int) bool {
	switch c := text[end]; c {
	case ' ', '\n', '\t', '\r', ')', '.', ',', ';', ':', '!', '?', '%', '*', '"', '\'', '`', '$':
		return c != '.' || !digitAt(text, end+1)
	case '/': // $18/day, and not 18/ab
		rest := text[end+1 : min(len(text), end+24)]
		return unitLength(rest) > 1 || prose(rest)
	case '\\', '^':
		return slices.ContainsFunc(marksBehind, func(mark string) bool { return strings.HasPrefix(text[end:], mark) })
	}
	return text[end] >= utf8.RuneSelf
}

// plainExpression returns the end of the number or expression that begins at
// i, and i when none does, with how far it read.
func plainExpression(text string, i int) (end, read int) {
	longest := 256 // bytes
	if !digitAt(text, i) {
		longest = longestOpened // it may be none, and others are looked for inside
	}
	const deepest = 8 // of brackets
	end = i
	depth := 0
	whole := func(at int) { // what ends at a place has a value, if its brackets are closed
		if depth == 0 {
			end = at
		}
	}
	at := i
	for ; at < len(text) && at-i < longest; at++ {
		c := text[at]
		switch {
		case c >= '0' && c <= '9':
			whole(at + 1)
		case c == '(':
			if depth++; depth > deepest {
				return end, at
			}
		case c == ')':
			if depth == 0 {
				return end, at
			}
			depth--
			whole(at + 1)
		case c == '.' || c == ',':
			if !digitAt(text, at+1) {
				return end, at
			}
		case c == '^' && braced().MatchString(text[at:min(len(text), at+24)]):
			at += len(braced().FindString(text[at:min(len(text), at+24)])) - 1
			whole(at + 1)
		case operatorLength(text[at:]) > 0:
			at += operatorLength(text[at:]) - 1
		case c == ':' && end == at && digitAt(text, at+1): // the ratio 7:32
		case c == ' ':
			// A blank is inside only beside an operator, or between groups
			// of three digits.
			if !operatorNear(text, at) && !groupNear(text, at) && !(digitAt(text, at-1) && mixed().MatchString(text[at:min(len(text), at+24)])) {
				return end, at
			}
		case exponentLength(text, at) > 0:
			at += exponentLength(text, at) - 1
			whole(at + 1)
		case c >= utf8.RuneSelf && small().MatchString(text[at:min(len(text), at+24)]):
			at += len(small().FindString(text[at:min(len(text), at+24)])) - 1
			whole(at + 1)
		default:
			n, value := plainName(text[at:])
			if n == 0 {
				return end, at
			}
			at += n - 1
			if value {
				whole(at + 1)
			}
		}
	}
	return end, at
}

var (
	// braced is an exponent in braces.
	braced = lazyregexp.New(`^\^\{[-−+]?[0-9]+\}`)
	// vulgar is a fraction that is a single letter.
	vulgar = lazyregexp.New(`^[½¼¾⅓-⅞]`)
	// small is an exponent or a fraction in small figures.
	small = lazyregexp.New(`^(?:[⁺⁻]?[⁰¹²³⁴-⁹]+|[½¼¾⅓-⅞])`)
)

// exponentLength is the length of the exponent of a number in scientific
// notation, which ends before at.
func exponentLength(text string, at int) int {
	if at == 0 || text[at]|0x20 != 'e' || !digitAt(text, at-1) && text[at-1] != '.' {
		return 0
	}
	n := len(exponent().FindString(text[at:min(len(text), at+24)]))
	if letterAt(text, at+n) {
		return 0
	}
	return n
}

// operators join numbers in plain expressions.
var operators = []string{"+", "-", "*", "/", "^", "×", "·", "−", "÷"}

// operatorLength is the length of the operator that a text begins with, 0 for
// other texts. An x is one before a power of ten: 6.02 x 10^23.
func operatorLength(rest string) int {
	for _, o := range operators {
		if strings.HasPrefix(rest, o) {
			return len(o)
		}
	}
	if strings.HasPrefix(rest, "x 10^") || strings.HasPrefix(rest, "x10^") {
		return 1
	}
	return 0
}

var (
	// more is what goes on behind a number that is not the whole answer: the
	// rest of a formula that cannot be read as a plain expression.
	more = lazyregexp.New(`^(?: ?[-+*/^×·−]|\)+[*/^×·]) ?(?:\(|\\[a-z]|[a-zA-Z](?:[^a-zA-Z]|$)|(?:pi|sqrt|sin|cos|tan|log|ln|exp)\b)`)
	// less is the same before a number.
	less = lazyregexp.New(`(?:^|[^a-zA-Z\\])(?:[0-9)]*[a-zA-Z]|[0-9]*pi|[)}])(?:\^\S+)? ?[-+*/^×·−] ?$`)
)

// goesOn reports whether a formula goes on behind a number.
func goesOn(text string, end int) bool {
	if end >= len(text) || strings.IndexByte(" -+*/^)\xc3\xc2\xe2", text[end]) < 0 {
		return false
	}
	rest := text[end:min(len(text), end+12)]
	if strings.HasPrefix(rest, "**") || slices.ContainsFunc(marksBehind, func(mark string) bool { return strings.HasPrefix(rest, mark) }) {
		return false
	}
	return more().MatchString(rest) && !article(rest)
}

// began reports whether a formula began before a number.
func began(text string, start int) bool {
	if start == 0 {
		return false
	}
	before := text[max(0, start-16):start]
	if strings.HasSuffix(before, "**") {
		return false
	}
	return strings.ContainsAny(before[max(0, len(before)-4):], "-+*/^×·−") && less().MatchString(before) && !article(before)
}

// article reports whether the letter beside a dash or sign is the word a, or I.
func article(text string) bool {
	return strings.Contains(text, " a ") || strings.Contains(text, " I ")
}

// operatorNear reports whether an operator stands at one side of a blank, and
// what it may join at the other.
func operatorNear(text string, blank int) bool {
	if slices.ContainsFunc(operators, func(o string) bool { return strings.HasSuffix(text[:blank], o) }) ||
		strings.HasSuffix(text[:blank], " x") && strings.HasPrefix(text[blank:], " 10^") {
		return true
	}
	n := operatorLength(text[blank+1:])
	behind := blank + 1 + n
	return n > 0 && behind < len(text) && (text[behind] == ' ' || digitAt(text, behind) || text[behind] == '(')
}

func groupNear(text string, blank int) bool {
	return blank > 0 && digitAt(text, blank-1) && digitAt(text, blank+1) && digitAt(text, blank+2) && digitAt(text, blank+3) && !digitAt(text, blank+4)
}

// plainNumber rewrites what only plain numbers have: blanks between thousands
// and a decimal comma.
func plainNumber(s string) string {
	s = powerOfTen().ReplaceAllString(s, "*10^")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == ' ' && groupNear(s, i):
			continue
		case s[i] == ',' && i > 0 && digitAt(s, i-1) && !thousand(s, i):
			b.WriteByte('.')
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// powerOfTen is an x that is a sign of multiplication.
var powerOfTen = lazyregexp.New(` ?x ?10\^`)

// thousand reports whether the comma at i stands before thousands: 1,234 and
// 12,034,567, not 0,111 and 1234,567.
func thousand(s string, i int) bool {
	start := i
	for start > 0 && digitAt(s, start-1) {
		start--
	}
	first := start == 0 || s[start-1] != ','
	return groupOfThree(s[i:]) && i-start <= 3 && (!first || s[start] != '0')
}
