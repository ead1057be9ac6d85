package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Python's upper, lower, title and capitalize follow Unicode's full mappings:
// one character may become several, and a sigma that ends a word has a form of
// its own. Package strings maps one character to one.

func upper(s string) string { return cases.Upper(language.Und).String(s) }

// titled is the form that a character has at the beginning of a word.
func titled(c string) string { return cases.Title(language.Und, cases.NoLower).String(c) }

func lower(s string) string {
	var b strings.Builder
	writeLower(&b, s, 0, len(s))
	return b.String()
}

// writeLower writes the part of a text from one byte to before another in small
// letters; what is around it may make a sigma the last letter of a word.
func writeLower(b *strings.Builder, s string, from, to int) {
	for i, c := range s[from:to] {
		switch {
		case c == '\u0130': // a large I with a dot
			b.WriteString("i\u0307")
		case c == '\u03a3' && endsWord(s, from+i): // sigma
			b.WriteRune('\u03c2')
		default:
			b.WriteRune(unicode.ToLower(c))
		}
	}
}

// endsWord reports whether the sigma at a byte of a text has a letter before it
// and none after it, marks and the like aside.
func endsWord(s string, at int) bool {
	before := strings.TrimRightFunc(s[:at], ignoresCase)
	after := strings.TrimLeftFunc(s[at+len("\u03a3"):], ignoresCase)
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	return before != "" && isCased(last) && !(after != "" && isCased(next))
}

// ignoresCase is Unicode's Case_Ignorable.
func ignoresCase(c rune) bool {
	return unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", c)
}

// isCased is Unicode's Cased.
func isCased(c rune) bool {
	return unicode.In(c, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// capitalize is Python's str.capitalize.
func capitalize(s string) string {
	var b strings.Builder
	_, width := utf8.DecodeRuneInString(s)
	b.WriteString(titled(s[:width]))
	writeLower(&b, s, width, len(s))
	return b.String()
}

// title is Python's str.title: a letter is large after what has no case.
func title(s string) string {
	var b strings.Builder
	inWord := false
	for i, c := range s {
		if inWord {
			writeLower(&b, s, i, i+utf8.RuneLen(c))
		} else {
			b.WriteString(titled(string(c)))
		}
		inWord = isCased(c)
	}
	return b.String()
}
