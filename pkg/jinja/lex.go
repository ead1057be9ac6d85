package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind int

const (
	endOfTemplate kind = iota
	textToken          // text outside of tags
	outputBegin        // {{
	outputEnd
	blockBegin // {%
	blockEnd
	nameToken
	stringToken
	integerToken
	floatToken
	operator
)

type token struct {
	kind    kind
	text    string // of a string: decoded
	integer int64
	float   float64
	line    int
}

// operators, longest first.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",",
}

// lexer cuts a template into tokens. Whitespace control follows jinja2/lexer.py:
// a minus sign strips, a plus sign keeps, the newline after a block or comment
// goes, and so does the indentation before one.
type lexer struct {
	source string
	at     int
	line   int
	// afterNewline: what was read last ended in a newline, as at the start.
	afterNewline bool
	tokens       []token
}

func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{source: strings.TrimSuffix(source, "\n"), line: 1, afterNewline: true}
	for l.at < len(l.source) {
		if err := l.textAndTag(); err != nil {
			return nil, err
		}
	}
	l.add(token{kind: endOfTemplate})
	return l.tokens, nil
}

func (l *lexer) fail(format string, args ...any) error {
	return &Error{Line: l.line, Message: fmt.Sprintf(format, args...)}
}

func (l *lexer) add(t token) {
	t.line = l.line
	l.tokens = append(l.tokens, t)
}

// advance moves on by n bytes.
func (l *lexer) advance(n int) {
	l.line += strings.Count(l.source[l.at:l.at+n], "\n")
	l.at += n
}

// signAt is the sign of whitespace control at a place of a text, or 0.
func signAt(text string, at int) byte {
	if at >= 0 && at < len(text) && (text[at] == '-' || text[at] == '+') {
		return text[at]
	}
	return 0
}

// spaces is the length of the whitespace at the start of a text.
func spaces(text string) int { return len(text) - len(strings.TrimLeftFunc(text, isSpace)) }

// textAndTag reads the text up to the next tag, and the tag.
func (l *lexer) textAndTag() error {
	rest := l.source[l.at:]
	begin := nextTag(rest)
	text := rest[:begin]
	if begin == len(rest) {
		l.addText(text, begin)
		return nil
	}
	opening := rest[begin+1]
	sign := signAt(rest, begin+2)
	l.addText(l.stripBefore(text, sign, opening), begin)
	tag := rest[begin:]
	skip := 2
	if sign != 0 {
		skip = 3
	}
	switch opening {
	case '#':
		return l.comment(tag, skip)
	case '{':
		l.add(token{kind: outputBegin})
		l.advance(skip)
		return l.inside(outputEnd, "}}")
	}
	if isWordTag(tag[skip:], "raw") {
		return l.raw(skip)
	}
	l.add(token{kind: blockBegin})
	l.advance(skip)
	return l.inside(blockEnd, "%}")
}

// nextTag finds the start of a tag, or the end of the text.
func nextTag(text string) int {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '{')
		if i < 0 || from+i+1 >= len(text) {
			return len(text)
		}
		from += i
		if c := text[from+1]; c == '{' || c == '%' || c == '#' {
			return from
		}
		from++
	}
}

// stripBefore takes away the whitespace before a tag that the tag eats.
func (l *lexer) stripBefore(text string, sign, opening byte) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, isSpace)
	case sign == '+' || opening == '{':
		return text
	}
	lineStart := strings.LastIndexByte(text, '\n') + 1
	if (lineStart > 0 || l.afterNewline) && spaces(text[lineStart:]) == len(text)-lineStart {
		return text[:lineStart]
	}
	return text
}

// addText adds text, which stood for n bytes of source.
func (l *lexer) addText(text string, n int) {
	if text != "" {
		l.add(token{kind: textToken, text: text})
	}
	l.advance(n)
	l.afterNewline = false
}

// closeTag steps over the end of a tag, which is suffix with or without a
// sign, and the whitespace that it eats. eatNewline is for blocks and comments.
func (l *lexer) closeTag(sign byte, suffix string, eatNewline bool) {
	from := l.at
	if sign != 0 {
		l.advance(1)
	}
	l.advance(len(suffix))
	switch {
	case sign == '-':
		l.advance(spaces(l.source[l.at:]))
	case sign == 0 && eatNewline && strings.HasPrefix(l.source[l.at:], "\n"):
		l.advance(1)
	}
	l.afterNewline = strings.HasSuffix(l.source[from:l.at], "\n")
}

func (l *lexer) comment(tag string, skip int) error {
	end := strings.Index(tag[skip:], "#}")
	if end < 0 {
		return l.fail("a comment is not closed")
	}
	end += skip
	sign := signAt(tag[skip:], end-skip-1)
	if sign != 0 {
		end--
	}
	l.advance(end)
	l.closeTag(sign, "#}", true)
	return nil
}

// isWordTag reports whether the inside of a block tag is one word and no more.
func isWordTag(inside, word string) bool {
	inside = strings.TrimLeftFunc(inside, isSpace)
	rest, ok := strings.CutPrefix(inside, word)
	rest = strings.TrimLeftFunc(rest, isSpace)
	return ok && (strings.HasPrefix(rest, "%}") || strings.HasPrefix(rest, "-%}") || strings.HasPrefix(rest, "+%}"))
}

// raw reads {% raw %} … {% endraw %}.
func (l *lexer) raw(skip int) error {
	l.advance(skip)
	end := strings.Index(l.source[l.at:], "%}")
	minus := l.source[l.at+end-1] == '-'
	l.advance(end + 2)
	if minus {
		l.advance(spaces(l.source[l.at:]))
	}
	l.afterNewline = false
	for from := l.at; ; {
		i := strings.Index(l.source[from:], "{%")
		if i < 0 {
			return l.fail("a raw block is not closed")
		}
		begin := from + i
		from = begin + 2
		sign := signAt(l.source, from)
		if sign != 0 {
			from++
		}
		if !isWordTag(l.source[from:], "endraw") {
			continue
		}
		text := l.source[l.at:begin]
		l.addText(l.stripBefore(text, sign, '%'), len(text))
		end := l.at + strings.Index(l.source[l.at:], "%}")
		if sign = signAt(l.source, end-1); sign != 0 {
			end--
		}
		l.advance(end - l.at)
		l.closeTag(sign, "%}", true)
		return nil
	}
}

// inside reads the tokens of a tag up to its end. The end counts only outside
// of brackets.
func (l *lexer) inside(end kind, suffix string) error {
	var open []byte
	for {
		l.advance(spaces(l.source[l.at:]))
		rest := l.source[l.at:]
		if rest == "" {
			return l.fail("a tag is not closed: %s is missing", suffix)
		}
		if len(open) == 0 {
			sign := byte(0)
			if rest[0] == '-' || rest[0] == '+' && end == blockEnd {
				sign = rest[0]
			}
			if strings.HasPrefix(rest, suffix) {
				sign = 0
			}
			if sign == 0 && strings.HasPrefix(rest, suffix) || sign != 0 && strings.HasPrefix(rest[1:], suffix) {
				l.add(token{kind: end})
				l.closeTag(sign, suffix, end == blockEnd)
				return nil
			}
		}
		var err error
		switch c := rest[0]; {
		case c == '\'' || c == '"':
			err = l.str(rest)
		case c >= '0' && c <= '9':
			err = l.number(rest)
		default:
			if n := nameLength(rest); n > 0 {
				l.add(token{kind: nameToken, text: rest[:n]})
				l.advance(n)
				continue
			}
			open, err = l.operator(rest, open)
		}
		if err != nil {
			return err
		}
	}
}

func nameLength(text string) int {
	for i, r := range text {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r) && !unicode.IsMark(r)) {
			return i
		}
	}
	return len(text)
}

func (l *lexer) operator(rest string, open []byte) ([]byte, error) {
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			open = append(open, ")]}"[strings.Index("([{", op)])
		case ")", "]", "}":
			if len(open) == 0 || open[len(open)-1] != op[0] {
				return nil, l.fail("unexpected %q", op)
			}
			open = open[:len(open)-1]
		}
		l.add(token{kind: operator, text: op})
		l.advance(len(op))
		return open, nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return nil, l.fail("unexpected character %q", r)
}

func (l *lexer) number(rest string) error {
	n := 0
	for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '_') {
		n++
	}
	float := false
	if n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
		float = true
		for n++; n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '_'); n++ {
		}
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		m := n + 1
		if m < len(rest) && (rest[m] == '+' || rest[m] == '-') {
			m++
		}
		if m < len(rest) && rest[m] >= '0' && rest[m] <= '9' {
			for float, n = true, m; n < len(rest) && rest[n] >= '0' && rest[n] <= '9'; n++ {
			}
		}
	}
	digits := strings.ReplaceAll(rest[:n], "_", "")
	t := token{kind: integerToken, text: rest[:n]}
	var err error
	if float {
		t.kind = floatToken
		t.float, err = strconv.ParseFloat(digits, 64)
		if math.IsInf(t.float, 0) {
			err = nil // as Python reads it
		}
	} else {
		t.integer, err = strconv.ParseInt(digits, 10, 64)
	}
	if err != nil {
		return l.fail("number %q: %v", clip(rest[:n]), err)
	}
	l.add(t)
	l.advance(n)
	return nil
}

func (l *lexer) str(rest string) error {
	quote := rest[0]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			decoded, err := unescape(rest[1:i])
			if err != nil {
				return l.fail("string %s: %v", clip(rest[:i+1]), err)
			}
			l.add(token{kind: stringToken, text: decoded})
			l.advance(i + 1)
			return nil
		}
	}
	return l.fail("a string is not closed")
}

var simpleEscapes = map[byte]byte{
	'\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
}

// unescape reads Python's escapes in a string literal; one that Python does
// not know stays as it is.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++ // the lexer never ends a string at a backslash
		c := s[i]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		switch {
		case simpleEscapes[c] != 0:
			b.WriteByte(simpleEscapes[c])
		case c == '\n':
		case digits > 0:
			if i+digits >= len(s) {
				return "", fmt.Errorf(`\%c wants %d hexadecimal digits`, c, digits)
			}
			code, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || code > unicode.MaxRune {
				return "", fmt.Errorf(`\%s is not a character`, s[i:i+1+digits])
			}
			b.WriteRune(rune(code))
			i += digits
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			code, _ := strconv.ParseUint(s[i:i+n], 8, 32)
			b.WriteRune(rune(code))
			i += n - 1
		case c == 'N':
			return "", fmt.Errorf(`\N{name} is not implemented`)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}
