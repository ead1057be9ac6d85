package tokenizer

import (
	"sort"
	"unicode/utf8"
)

// Tail is the end of a text that takes at most so many tokens by itself: all of
// it if it fits, and else an ellipsis and an end that fits with it and would not
// with one character more, or nothing where not even the ellipsis fits.
//
// A longer text may take fewer tokens than its own end, which cuts a word in
// two: the end is one that binary search finds.
func (t *Tokenizer) Tail(text string, tokens int) string {
	fits := func(text string) bool { return len(t.EncodeText(text)) <= tokens }
	if fits(text) {
		return text
	}
	cut := func(size int) string { return "…" + text[start(text, len(text)-size):] }
	size := 4*tokens + utf8.UTFMax
	for size < len(text) && fits(cut(size)) {
		size *= 2
	}
	size = min(size, len(text))
	if i := sort.Search(size+1, func(i int) bool { return fits(cut(size - i)) }); i <= size {
		return cut(size - i)
	}
	return ""
}

// start is the first position from one on at which a character starts.
func start(text string, from int) int {
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return from
}
