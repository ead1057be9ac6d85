package dataset

import (
	"bufio"
	"io"
)

// numerals reads JSON as Python writes it: its NaN, Infinity and -Infinity, which are no JSON,
// become the texts that they are in tables.
type numerals struct {
	*bufio.Reader
	rest    string // of a text that is being written
	inText  bool
	escaped bool
}

func asJSON(r *bufio.Reader) *bufio.Reader {
	return bufio.NewReaderSize(&numerals{Reader: r}, 64<<10)
}

func (n *numerals) Read(p []byte) (count int, err error) {
	for count < len(p) {
		if n.rest != "" {
			copied := copy(p[count:], n.rest)
			n.rest, count = n.rest[copied:], count+copied
			continue
		}
		c, err := n.ReadByte()
		if err == io.EOF && count > 0 {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		switch {
		case n.escaped:
			n.escaped = false
		case c == '\n': // no text goes on behind it
			n.inText = false
		case c == '"':
			n.inText = !n.inText
		case c == '\\':
			n.escaped = n.inText
		case !n.inText && n.follows(c, "NaN"):
			n.rest = `"nan"`
		case !n.inText && n.follows(c, "Infinity"):
			n.rest = `"inf"`
		case !n.inText && n.follows(c, "-Infinity"):
			n.rest = `"-inf"`
		}
		if n.rest == "" {
			p[count] = c
			count++
		}
	}
	return count, nil
}

// follows takes a word whose first byte has been read.
func (n *numerals) follows(first byte, word string) bool {
	if first != word[0] {
		return false
	}
	if next, _ := n.Peek(len(word) - 1); string(next) != word[1:] {
		return false
	}
	_, _ = n.Discard(len(word) - 1) // what has been peeked at is there
	return true
}
