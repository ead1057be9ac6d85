package tokenizer

import "unicode/utf8"

// The split patterns that are implemented, as they are spelled in
// tokenizer.json. The first is also what ByteLevel with use_regex means
// (openai/gpt-2, src/encoder.py).
const (
	patternGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// splitter returns the length in bytes of a pattern's first match at the start
// of a text that is not empty. Each pattern matches at every place, so that
// the matches tile the text.
type splitter func(c *characters, text string) int

var splitters = map[string]splitter{
	patternGPT2:   splitGPT2,
	patternLlama3: func(c *characters, text string) int { return splitTiktoken(c, text, 3) },
	patternQwen2:  func(c *characters, text string) int { return splitTiktoken(c, text, 1) },
}

func splitGPT2(c *characters, text string) int {
	if text[0] == '\'' {
		if n := contraction(text); n > 0 {
			return n
		}
	}
	start := 0
	if text[0] == ' ' && len(text) > 1 {
		start = 1
	}
	kind, size := c.first(text[start:])
	if kind != space {
		return start + size + c.run(text[start+size:], kind)
	}
	return blanks(text, c.run(text, space))
}

// splitTiktoken matches the pattern of Llama 3 and, with runs of one digit,
// that of Qwen2.
func splitTiktoken(c *characters, text string, maxDigits int) int {
	if text[0] == '\'' {
		if n := foldedContraction(text); n > 0 {
			return n
		}
	}
	kind, size := c.first(text)
	switch kind {
	case letter:
		return size + c.run(text[size:], letter)
	case number:
		n := size
		for range maxDigits - 1 {
			if n == len(text) {
				break
			}
			more, width := c.first(text[n:])
			if more != number {
				break
			}
			n += width
		}
		return n
	}
	// One character that is no line end goes with the letters behind it.
	if text[0] != '\r' && text[0] != '\n' && size < len(text) {
		if next, width := c.first(text[size:]); next == letter {
			return size + width + c.run(text[size+width:], letter)
		}
	}
	// Punctuation takes a blank before it and the line ends behind it.
	start := 0
	if text[0] == ' ' {
		start = 1
	}
	if n := start + c.run(text[start:], other); n > start {
		for n < len(text) && (text[n] == '\r' || text[n] == '\n') {
			n++
		}
		return n
	}
	// White space: up to and with its last line end, if there is one.
	n := c.run(text, space)
	for i := n; i > 0; i-- {
		if text[i-1] == '\r' || text[i-1] == '\n' {
			return i
		}
	}
	return blanks(text, n)
}

// blanks matches \s+(?!\S)|\s+ at a run of n bytes of white space: all of it,
// less the last character when something follows.
func blanks(text string, n int) int {
	if n == len(text) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if n > last {
		return n - last
	}
	return n
}

// contraction matches 's|'t|'re|'ve|'m|'ll|'d behind an apostrophe.
func contraction(text string) int {
	if len(text) < 2 {
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

// foldedContraction is contraction with any case. The only letter beyond ASCII
// that folds into one of the pattern's is U+017F, the long s.
func foldedContraction(text string) int {
	if len(text) < 2 {
		return 0
	}
	const asciiCase = 0x20
	switch text[1] | asciiCase {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) < 3 {
		return 0
	}
	switch second := text[2] | asciiCase; text[1] | asciiCase {
	case 'r', 'v':
		if second == 'e' {
			return 3
		}
	case 'l':
		if second == 'l' {
			return 3
		}
	}
	if text[1:3] == "\u017f" {
		return 3
	}
	return 0
}
