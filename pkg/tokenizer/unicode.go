package tokenizer

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// unicodeText lists what Hugging Face tokenizers knows of every code point.
// Go's own tables differ (Unicode 15.0 in Go 1.26): the peer splits by the
// letters and numbers of a newer version and composes by those of Unicode 9.0.
//
//go:embed unicode.txt
var unicodeText string

// class is what the split patterns tell apart.
type class uint8

const (
	other class = iota
	space
	letter
	number
	classMask class = 3
	// wordBit marks what the peer's \w matches, for added tokens that are
	// whole words; it is no class of its own.
	wordBit class = 4
)

// characters holds the properties of all code points: blocks of 256, shared
// where they are equal.
type characters struct {
	block  [(utf8.MaxRune + 1) / 256]uint16
	blocks [][256]class
	ascii  [utf8.RuneSelf]class // without wordBit
	norm   normalization
}

// at returns the class of a rune and wordBit where it applies.
func (c *characters) at(r rune) class { return c.blocks[c.block[uint32(r)>>8]][uint8(r)] }

// first returns the class and length in bytes of a text's first character. A
// byte that is not UTF-8 is a character that is no letter, number or space.
// Text must not be empty.
func (c *characters) first(text string) (class, int) {
	if b := text[0]; b < utf8.RuneSelf {
		return c.ascii[b], 1
	}
	r, size := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && size == 1 {
		return other, 1
	}
	return c.at(r) & classMask, size
}

// run returns the length in bytes of the longest prefix of one class.
func (c *characters) run(text string, want class) int {
	n := 0
	for n < len(text) {
		got, size := c.first(text[n:])
		if got != want {
			break
		}
		n += size
	}
	return n
}

// isWord reports whether \w of the peer matches r.
func (c *characters) isWord(r rune) bool { return c.at(r)&wordBit != 0 }

// unicodeTables reads unicode.txt once. Its lines are checked by the tests, so
// a line that cannot be read is a mistake in the build.
var unicodeTables = sync.OnceValue(func() *characters {
	c := &characters{norm: normalization{class: map[rune]uint8{}, full: map[rune][]rune{}, pair: map[[2]rune]rune{}}}
	flat := make([]class, utf8.MaxRune+1)
	for line := range strings.Lines(unicodeText) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" {
			continue
		}
		var values []rune
		for field := range strings.FieldsSeq(rest) {
			v, err := strconv.ParseUint(field, 16, 32)
			if err != nil || v > utf8.MaxRune {
				panic("tokenizer: unicode.txt: " + line)
			}
			values = append(values, rune(v))
		}
		switch name {
		case "decompose":
			c.norm.full[values[0]] = values[1:]
			continue
		case "compose":
			c.norm.pair[[2]rune{values[0], values[1]}] = values[2]
			continue
		}
		for r := values[0]; r <= values[1]; r++ {
			switch name {
			case "letter":
				flat[r] |= letter
			case "number":
				flat[r] |= number
			case "space":
				flat[r] |= space
			case "word":
				flat[r] |= wordBit
			case "class":
				c.norm.class[r] = uint8(values[2])
			}
		}
	}
	seen := map[[256]class]uint16{}
	for i := range c.block {
		content := [256]class(flat[i*256:])
		index, ok := seen[content]
		if !ok {
			index = uint16(len(c.blocks))
			seen[content] = index
			c.blocks = append(c.blocks, content)
		}
		c.block[i] = index
	}
	for b := range c.ascii {
		c.ascii[b] = flat[b] & classMask
	}
	c.norm.finish()
	return c
})
