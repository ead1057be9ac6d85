package tokenizer

import (
	"sort"
	"unicode/utf8"
)

// Tail is the end of a text that takes at most so many tokens by itself: all of
// it if it fits, and else an ellipsis and the longest end that fits with it, or
// nothing where not even the ellipsis does.
func (t *Tokenizer) Tail(text string, tokens int) string {
	fits := func(text string) bool { return len(t.EncodeText(text)) <= tokens }
	// What a program prints may be megabytes: as much of its end is looked at
	// as cannot fit.
	window := 4*tokens + utf8.UTFMax
	for window < len(text) && fits(text[start(text, len(text)-window):]) {
		window *= 2
	}
	first := max(0, len(text)-window)
	if first == 0 && fits(text) {
		return text
	}
	cut := func(i int) string { return "…" + text[start(text, first+i):] }
	n := len(text) - first
	if i := sort.Search(n+1, func(i int) bool { return fits(cut(i)) }); i <= n {
		return cut(i)
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
