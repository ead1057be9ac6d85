package tokenizer

import (
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// addedToken is a token that is found in text before the text is split.
type addedToken struct {
	id         int32
	content    string
	singleWord bool // not found next to a word character
	leftStrip  bool // takes the blanks before it along
	rightStrip bool
	normalized bool // found in the normalized text, in normalized form
	special    bool // left out by DecodeText, spelled out by EncodeText
}

// maxAddedBytes bounds the content of an added token, and with it what the
// search costs at each place of a text.
const maxAddedBytes = 1024

// matcher finds added tokens: the leftmost, the longest at that place.
type matcher struct {
	tokens   []addedToken
	starts   [256]bool
	children map[uint64]int32 // from node and byte to node; 0 is the root
	ends     []int32          // by node: index into tokens, or -1
}

// newMatcher builds a matcher from tokens and the forms in which they stand in
// text. Two tokens of one form, or one that is empty or too long, are data
// errors.
func newMatcher(tokens []addedToken, forms []string) (*matcher, error) {
	m := &matcher{tokens: tokens, children: map[uint64]int32{}, ends: []int32{-1}}
	for i, form := range forms {
		if form == "" || len(form) > maxAddedBytes {
			return nil, exitcode.Dataf("added token %d has %d bytes; 1 to %d are implemented", tokens[i].id, len(form), maxAddedBytes)
		}
		m.starts[form[0]] = true
		node := int32(0)
		for j := range len(form) {
			key := uint64(node)<<8 | uint64(form[j])
			next, ok := m.children[key]
			if !ok {
				next = int32(len(m.ends))
				m.children[key] = next
				m.ends = append(m.ends, -1)
			}
			node = next
		}
		if other := m.ends[node]; other >= 0 {
			return nil, exitcode.Dataf("added tokens %d and %d are both %q in text", tokens[other].id, tokens[i].id, form)
		}
		m.ends[node] = int32(i)
	}
	return m, nil
}

// longest returns the longest token that text starts with, and its length.
func (m *matcher) longest(text string) (*addedToken, int) {
	var (
		found  *addedToken
		length int
		node   int32
	)
	for i := range len(text) {
		next, ok := m.children[uint64(node)<<8|uint64(text[i])]
		if !ok {
			break
		}
		node = next
		if end := m.ends[node]; end >= 0 {
			found, length = &m.tokens[end], i+1
		}
	}
	return found, length
}

// split calls yield with each token found and each stretch of text between: a
// token with the text that it takes, or nil and the stretch. With spellOut special tokens are passed over, and so
// is what lies within them.
//
// This is find_matches of the peer (tokenizers, src/tokenizer/
// added_vocabulary.rs): a token among blanks that an earlier one has stripped
// is found all the same, unless it strips to its left and so ends before it
// begins. (Where it would end earlier still, the peer panics.)
func (m *matcher) split(c *characters, text string, spellOut bool, yield func(*addedToken, string)) {
	done := 0    // what is yielded
	blankTo := 0 // the end of the last run of blanks looked at
	for at := 0; at < len(text); {
		if !m.starts[text[at]] {
			at++
			continue
		}
		token, length := m.longest(text[at:])
		if token == nil {
			at++
			continue
		}
		start, stop := at, at+length
		at = stop
		if spellOut && token.special || token.singleWord && !standsAlone(c, text, start, stop) {
			continue
		}
		if token.leftStrip {
			for start > done {
				r, size := utf8.DecodeLastRuneInString(text[:start])
				if c.at(r)&classMask != space {
					break
				}
				start -= size
			}
		}
		if token.rightStrip {
			// Matches within one run of blanks look at it once.
			if stop >= blankTo {
				blankTo = stop + c.run(text[stop:], space)
			}
			stop = blankTo
		}
		if token.leftStrip && stop <= done {
			continue // nothing is left of it
		}
		if done < start {
			yield(nil, text[done:start])
		}
		yield(token, text[start:stop])
		done = stop
	}
	if done < len(text) {
		yield(nil, text[done:])
	}
}

func standsAlone(c *characters, text string, start, stop int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[stop:])
	return (start == 0 || !c.isWord(before)) && (stop == len(text) || !c.isWord(after))
}
