package mathverify

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func (p *parser) literal(s string) bool {
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

// word takes a command, not the beginning of a longer one.
func (p *parser) word(s string) bool {
	if strings.HasPrefix(p.text[p.at:], s) && !letterAt(p.text, p.at+len(s)) {
		p.at += len(s)
		return true
	}
	return false
}

// spacing are commands that print nothing.
var spacing = []string{
	`\left`, `\right`, `\,`, `\;`, `\:`, `\!`, `\ `, `\quad`, `\qquad`, `\displaystyle`, `\textstyle`, `\limits`, `\nolimits`,
	`\bigl`, `\bigr`, `\Bigl`, `\Bigr`, `\biggl`, `\biggr`, `\big`, `\Big`, `\bigg`, `\Bigg`, `\middle`, `\phantom{}`, "~",
}

// blanks skips what prints nothing.
func (p *parser) blanks() {
	for p.at < len(p.text) {
		c := p.text[p.at]
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			p.at++
			continue
		}
		if c != '\\' && c != '~' {
			return
		}
		before := p.at
		for _, s := range spacing {
			if letterAt(s, len(s)-1) && p.word(s) || !letterAt(s, len(s)-1) && p.literal(s) {
				if (s == `\left` || s == `\right`) && strings.HasPrefix(p.text[p.at:], ".") {
					p.at++ // a bracket that is not printed
				}
				break
			}
		}
		if p.at == before {
			return
		}
	}
}

func letterAt(s string, i int) bool {
	if i >= len(s) || i < 0 {
		return false
	}
	if s[i] < utf8.RuneSelf {
		return s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z'
	}
	r, _ := utf8.DecodeRuneInString(s[i:])
	return unicode.IsLetter(r)
}

func digitAt(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }

// command returns the name of the LaTeX command that s begins with, and its
// length in bytes; a backslash with a sign is a command of one character.
func command(s string) (name string, length int) {
	if s == "" || s[0] != '\\' {
		return "", 0
	}
	i := 1
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z') {
		i++
	}
	if i == 1 && len(s) > 1 {
		i++
	}
	return s[1:i], i
}
