package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// nextSplit returns the length of the first match of GPT-2's pattern
// (openai/gpt-2, src/encoder.py) at the start of a text that is not empty:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The pattern matches at every place, so that matches tile the text. A byte
// that is not UTF-8 counts as a character that is no letter, number or space.
func nextSplit(text string) int {
	if n := contraction(text); n > 0 {
		return n
	}
	start := 0
	if text[0] == ' ' && len(text) > 1 {
		start = 1
	}
	if class := classAt(text[start:]); class != space {
		return start + runOf(text[start:], class)
	}
	// White space: all of it, less the last character when something follows,
	// which then goes with the next match if it is a blank.
	n := runOf(text, space)
	if n == len(text) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if n > last {
		return n - last
	}
	return n
}

// contraction matches the pattern's first seven alternatives.
func contraction(text string) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	switch text[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) >= 3 {
		switch text[1:3] {
		case "re", "ve", "ll":
			return 3
		}
	}
	return 0
}

type class int

const (
	space class = iota
	letter
	number
	other
)

func classAt(text string) class {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && size == 1:
		return other
	case unicode.IsSpace(r):
		return space
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	}
	return other
}

// runOf is the length in bytes of the longest prefix of one class.
func runOf(text string, want class) int {
	n := 0
	for n < len(text) && classAt(text[n:]) == want {
		_, size := utf8.DecodeRuneInString(text[n:])
		n += size
	}
	return n
}
