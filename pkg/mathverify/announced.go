package mathverify

import (
	"cmp"
	"slices"
	"strings"
)

// anchored raises the priority of the first candidate after each phrase that
// announces an answer.
func anchored(text string, found []candidate) {
	const word = "answer"
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.start, b.start) })
	next := 0
	for at := 0; ; {
		i := indexFold(text[at:], word)
		if i < 0 {
			return
		}
		anchor := at + i
		at = anchor + len(word)
		for next < len(found) && found[next].start < at {
			next++
		}
		if next < len(found) {
			raise(text, &found[announced(text, found, next, at+reach)], anchor, at)
		}
	}
}

// links join what is asked for to its value: the largest $n$ is 34.
var links = []string{"is", "is:", "is equal to", "equals", "="}

// reach is how far behind its announcement an answer begins, in bytes.
const reach = 100

// announced follows the links from the candidate at i to the last one that
// begins before a place in the text.
func announced(text string, found []candidate, i, before int) int {
	for i+1 < len(found) && found[i].end <= found[i+1].start && found[i+1].start <= before && slices.Contains(links, strings.TrimSpace(text[found[i].end:found[i+1].start])) {
		i++
	}
	return i
}

// raise gives a candidate the priority of the phrase that ends at end.
func raise(text string, c *candidate, anchor, end int) {
	if c.start-end > reach || c.priority == priorityBoxed {
		return
	}
	gap := text[end:c.start]
	if strings.Contains(gap, "\n") && strings.TrimSpace(gap) != ":" {
		return
	}
	final := endsIn(text[:anchor], "final ")
	is := strings.HasPrefix(strings.TrimSpace(gap), "is") || strings.Contains(gap, " is ") || strings.Contains(gap, " is:")
	switch {
	case final && is && hope(text[c.end:]):
		c.priority = priorityHope
	case final && is:
		c.priority = min(c.priority, priorityFinal)
	case strings.HasPrefix(gap, ":") && len(gap) <= 50:
		c.priority = min(c.priority, priorityColon)
	case len(gap) <= 50:
		c.priority = min(c.priority, priorityAnswer)
	}
}

// endsIn reports whether a text ends in ASCII words, in whatever case.
func endsIn(text, words string) bool {
	return len(text) >= len(words) && strings.EqualFold(text[len(text)-len(words):], words)
}

// hope reports whether ". I hope" follows.
func hope(rest string) bool {
	rest = strings.TrimLeft(rest, " .")
	return strings.HasPrefix(rest, "I hope")
}

// indexFold finds a lower-case ASCII word without regard to case.
func indexFold(s, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if (s[i]|0x20) == word[0] && strings.EqualFold(s[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}
