package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Python's upper, lower, title and capitalize follow Unicode's full mappings:
// one character may become several, and a sigma that ends a word has a form of
// its own. Package strings maps one character to one.

// manyUpper and manyTitle list the characters that become several, each with
// what it becomes (SpecialCasing.txt, as Python's str has it).
const (
	manyUpper = "ß SS ŉ \u02bcN ǰ J\u030c \u0390 \u0399\u0308\u0301 \u03b0 \u03a5\u0308\u0301 \u0587 \u0535\u0552 " +
		"\u1e96 H\u0331 \u1e97 T\u0308 \u1e98 W\u030a \u1e99 Y\u030a \u1e9a A\u02be \u1f50 \u03a5\u0313 " +
		"\u1f52 \u03a5\u0313\u0300 \u1f54 \u03a5\u0313\u0301 \u1f56 \u03a5\u0313\u0342 \u1f80 \u1f08\u0399 " +
		"\u1f81 \u1f09\u0399 \u1f82 \u1f0a\u0399 \u1f83 \u1f0b\u0399 \u1f84 \u1f0c\u0399 \u1f85 \u1f0d\u0399 " +
		"\u1f86 \u1f0e\u0399 \u1f87 \u1f0f\u0399 \u1f88 \u1f08\u0399 \u1f89 \u1f09\u0399 \u1f8a \u1f0a\u0399 " +
		"\u1f8b \u1f0b\u0399 \u1f8c \u1f0c\u0399 \u1f8d \u1f0d\u0399 \u1f8e \u1f0e\u0399 \u1f8f \u1f0f\u0399 " +
		"\u1f90 \u1f28\u0399 \u1f91 \u1f29\u0399 \u1f92 \u1f2a\u0399 \u1f93 \u1f2b\u0399 \u1f94 \u1f2c\u0399 " +
		"\u1f95 \u1f2d\u0399 \u1f96 \u1f2e\u0399 \u1f97 \u1f2f\u0399 \u1f98 \u1f28\u0399 \u1f99 \u1f29\u0399 " +
		"\u1f9a \u1f2a\u0399 \u1f9b \u1f2b\u0399 \u1f9c \u1f2c\u0399 \u1f9d \u1f2d\u0399 \u1f9e \u1f2e\u0399 " +
		"\u1f9f \u1f2f\u0399 \u1fa0 \u1f68\u0399 \u1fa1 \u1f69\u0399 \u1fa2 \u1f6a\u0399 \u1fa3 \u1f6b\u0399 " +
		"\u1fa4 \u1f6c\u0399 \u1fa5 \u1f6d\u0399 \u1fa6 \u1f6e\u0399 \u1fa7 \u1f6f\u0399 \u1fa8 \u1f68\u0399 " +
		"\u1fa9 \u1f69\u0399 \u1faa \u1f6a\u0399 \u1fab \u1f6b\u0399 \u1fac \u1f6c\u0399 \u1fad \u1f6d\u0399 " +
		"\u1fae \u1f6e\u0399 \u1faf \u1f6f\u0399 \u1fb2 \u1fba\u0399 \u1fb3 \u0391\u0399 \u1fb4 \u0386\u0399 " +
		"\u1fb6 \u0391\u0342 \u1fb7 \u0391\u0342\u0399 \u1fbc \u0391\u0399 \u1fc2 \u1fca\u0399 " +
		"\u1fc3 \u0397\u0399 \u1fc4 \u0389\u0399 \u1fc6 \u0397\u0342 \u1fc7 \u0397\u0342\u0399 " +
		"\u1fcc \u0397\u0399 \u1fd2 \u0399\u0308\u0300 \u1fd3 \u0399\u0308\u0301 \u1fd6 \u0399\u0342 " +
		"\u1fd7 \u0399\u0308\u0342 \u1fe2 \u03a5\u0308\u0300 \u1fe3 \u03a5\u0308\u0301 \u1fe4 \u03a1\u0313 " +
		"\u1fe6 \u03a5\u0342 \u1fe7 \u03a5\u0308\u0342 \u1ff2 \u1ffa\u0399 \u1ff3 \u03a9\u0399 " +
		"\u1ff4 \u038f\u0399 \u1ff6 \u03a9\u0342 \u1ff7 \u03a9\u0342\u0399 \u1ffc \u03a9\u0399 \ufb00 FF " +
		"\ufb01 FI \ufb02 FL \ufb03 FFI \ufb04 FFL \ufb05 ST \ufb06 ST \ufb13 \u0544\u0546 \ufb14 \u0544\u0535 " +
		"\ufb15 \u0544\u053b \ufb16 \u054e\u0546 \ufb17 \u0544\u053d "
	manyTitle = "ß Ss ŉ \u02bcN ǰ J\u030c \u0390 \u0399\u0308\u0301 \u03b0 \u03a5\u0308\u0301 \u0587 \u0535\u0582 " +
		"\u1e96 H\u0331 \u1e97 T\u0308 \u1e98 W\u030a \u1e99 Y\u030a \u1e9a A\u02be \u1f50 \u03a5\u0313 " +
		"\u1f52 \u03a5\u0313\u0300 \u1f54 \u03a5\u0313\u0301 \u1f56 \u03a5\u0313\u0342 \u1fb2 \u1fba\u0345 " +
		"\u1fb4 \u0386\u0345 \u1fb6 \u0391\u0342 \u1fb7 \u0391\u0342\u0345 \u1fc2 \u1fca\u0345 " +
		"\u1fc4 \u0389\u0345 \u1fc6 \u0397\u0342 \u1fc7 \u0397\u0342\u0345 \u1fd2 \u0399\u0308\u0300 " +
		"\u1fd3 \u0399\u0308\u0301 \u1fd6 \u0399\u0342 \u1fd7 \u0399\u0308\u0342 \u1fe2 \u03a5\u0308\u0300 " +
		"\u1fe3 \u03a5\u0308\u0301 \u1fe4 \u03a1\u0313 \u1fe6 \u03a5\u0342 \u1fe7 \u03a5\u0308\u0342 " +
		"\u1ff2 \u1ffa\u0345 \u1ff4 \u038f\u0345 \u1ff6 \u03a9\u0342 \u1ff7 \u03a9\u0342\u0345 \ufb00 Ff " +
		"\ufb01 Fi \ufb02 Fl \ufb03 Ffi \ufb04 Ffl \ufb05 St \ufb06 St \ufb13 \u0544\u0576 \ufb14 \u0544\u0565 " +
		"\ufb15 \u0544\u056b \ufb16 \u054e\u0576 \ufb17 \u0544\u056d "
)

var upperOf, titleOf = pairsOf(manyUpper), pairsOf(manyTitle)

func pairsOf(list string) map[rune]string {
	pairs := map[rune]string{}
	fields := strings.Fields(list)
	for i := 0; i < len(fields); i += 2 {
		from, _ := utf8.DecodeRuneInString(fields[i])
		pairs[from] = fields[i+1]
	}
	return pairs
}

func upper(s string) string {
	var b strings.Builder
	for _, c := range s {
		writeCased(&b, c, upperOf, unicode.ToUpper)
	}
	return b.String()
}

func writeCased(b *strings.Builder, c rune, many map[rune]string, one func(rune) rune) {
	if several, ok := many[c]; ok {
		b.WriteString(several)
	} else {
		b.WriteRune(one(c))
	}
}

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
	first, width := utf8.DecodeRuneInString(s)
	if width > 0 {
		writeCased(&b, first, titleOf, unicode.ToTitle)
	}
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
			writeCased(&b, c, titleOf, unicode.ToTitle)
		}
		inWord = isCased(c)
	}
	return b.String()
}
