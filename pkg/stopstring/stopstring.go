// Package stopstring finds the strings at which a response ends, in text that
// comes token by token.
//
// A response ends with the token that completes a stop string, wherever in the
// token that is. Its text ends before the stop string, or after it; what the
// token says after the stop string is in neither. The token itself stays in
// the response: it was sampled, and its log-probability counts.
package stopstring

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Set is the stop strings of a response.
type Set struct {
	strings []string
	longest int // bytes
}

// New makes a set. A string that is empty, not UTF-8 or there twice is a usage
// error.
func New(stops []string) (*Set, error) {
	s := &Set{strings: slices.Clone(stops)}
	for i, stop := range stops {
		switch {
		case stop == "":
			return nil, exitcode.Usagef("stop string %d is empty: it would end every response before its first token", i+1)
		case !utf8.ValidString(stop):
			return nil, exitcode.Usagef("stop string %q is not UTF-8", stop)
		case slices.Contains(stops[:i], stop):
			return nil, exitcode.Usagef("stop string %q is given twice", stop)
		}
		s.longest = max(s.longest, len(stop))
	}
	return s, nil
}

// Strings lists the set's strings as they were given.
func (s *Set) Strings() []string { return s.strings }

// Empty reports whether there is nothing to find.
func (s *Set) Empty() bool { return len(s.strings) == 0 }

// Match is a stop string in a text.
type Match struct {
	Stop       string
	Start, End int // bytes of the text before the stop string, and with it
}

// Matcher looks for a set's strings in one text.
type Matcher struct {
	set  *Set
	tail string // the end of the text so far, in which a stop string may have begun
	seen int    // bytes of the text before the tail
	held int    // bytes at its end with which a stop string may have begun
}

// Held is the number of bytes at the end of the text that may turn out to be
// the beginning of a stop string: what comes before them can be shown.
func (m *Matcher) Held() int { return m.held }

// Matcher starts a text.
func (s *Set) Matcher() *Matcher { return &Matcher{set: s} }

// Write takes the next part of the text and reports the stop string that it
// completes: the one that ends first and, of those that end at the same place,
// the longest. A text is searched once: the matcher holds no more of it than a
// stop string is long. After a match the matcher is of no more use.
func (m *Matcher) Write(part string) (match Match, found bool) {
	text := m.tail + part
	for _, stop := range m.set.strings {
		start := strings.Index(text, stop)
		if start < 0 {
			continue
		}
		if end := start + len(stop); !found || end < match.End || end == match.End && start < match.Start {
			match, found = Match{stop, start, end}, true
		}
	}
	if found {
		match.Start, match.End = match.Start+m.seen, match.End+m.seen
		return match, true
	}
	m.held = 0
	for _, stop := range m.set.strings {
		for n := min(len(stop)-1, len(text)); n > m.held; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				m.held = n
			}
		}
	}
	keep := min(len(text), max(0, m.set.longest-1))
	m.seen += len(text) - keep
	m.tail = text[len(text)-keep:]
	return Match{}, false
}
