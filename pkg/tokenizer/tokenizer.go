// Package tokenizer turns text into token ids and back, from and to the
// tokenizer.json of Hugging Face.
//
// Two tokenizers exist, both on bytes, so that any text, valid UTF-8 or not,
// is encoded and decoded without loss: the plain byte vocabulary ([NewBytes]),
// in which the id of a byte is its value, and a byte-level BPE with the split
// of GPT-2 ([Train]). [Load] reads what it implements exactly and refuses
// every other tokenizer.json with one sentence.
package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exit"
)

// Special is a token that stands for no text of its own, such as the end of a
// turn. It is matched in prefixes and suffixes of a [ChatFormat], never in
// the content of a message.
type Special struct {
	Content string
	ID      int32
}

// Roles names the special tokens that other programs look for. An empty name
// means that the tokenizer has none.
type Roles struct {
	BOS string // starts every text
	EOS string // ends a response
	Pad string
}

// Tokenizer is immutable and safe for concurrent use.
type Tokenizer struct {
	pieces   []string         // bytes of each id; the content of special tokens
	byteID   [256]int32       // the id of each single byte
	merges   map[uint64]merge // by pair of ids
	specials []Special        // by id
	roles    Roles
	split    bool // whether text is cut by the GPT-2 pattern before merging
}

// merge replaces a pair of adjacent tokens; the lowest rank goes first.
type merge struct {
	rank int32
	id   int32
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// NewBytes is the plain byte vocabulary: ids 0 to 255 are the bytes, the
// special tokens follow in the order given.
func NewBytes(specials []string, roles Roles) (*Tokenizer, error) {
	t := &Tokenizer{merges: map[uint64]merge{}}
	for b := range 256 {
		t.pieces = append(t.pieces, string([]byte{byte(b)}))
		t.byteID[b] = int32(b)
	}
	if err := t.addSpecials(specials); err != nil {
		return nil, err
	}
	return t, t.setRoles(roles)
}

func (t *Tokenizer) addSpecials(contents []string) error {
	for _, content := range contents {
		if content == "" || !utf8.ValidString(content) {
			return exit.Usagef("special token %q is empty or not UTF-8", content)
		}
		for _, other := range t.specials {
			if other.Content == content {
				return exit.Usagef("special token %q is given twice", content)
			}
		}
		t.specials = append(t.specials, Special{Content: content, ID: int32(len(t.pieces))})
		t.pieces = append(t.pieces, content)
	}
	return nil
}

func (t *Tokenizer) setRoles(roles Roles) error {
	for _, content := range []string{roles.BOS, roles.EOS, roles.Pad} {
		if _, ok := t.SpecialID(content); content != "" && !ok {
			return exit.Usagef("token %q is not one of the special tokens", content)
		}
	}
	t.roles = roles
	return nil
}

// Size is the number of ids.
func (t *Tokenizer) Size() int { return len(t.pieces) }

// Specials lists the special tokens by id.
func (t *Tokenizer) Specials() []Special { return t.specials }

// Roles returns the names of the special tokens with a known use.
func (t *Tokenizer) Roles() Roles { return t.roles }

// SpecialID finds a special token by its content.
func (t *Tokenizer) SpecialID(content string) (int32, bool) {
	for _, s := range t.specials {
		if s.Content == content {
			return s.ID, true
		}
	}
	return 0, false
}

// IsSpecial reports whether an id is that of a special token.
func (t *Tokenizer) IsSpecial(id int32) bool {
	for _, s := range t.specials {
		if s.ID == id {
			return true
		}
	}
	return false
}

// Encode encodes text in which the names of special tokens mean these tokens:
// templates and other text that we wrote, not what users or policies wrote.
func (t *Tokenizer) Encode(text string) []int32 {
	var ids []int32
	for text != "" {
		at, special := t.nextSpecial(text)
		ids = t.appendText(ids, text[:at])
		if at == len(text) {
			break
		}
		ids = append(ids, special.ID)
		text = text[at+len(special.Content):]
	}
	return ids
}

// EncodeText encodes text as text: the name of a special token in it is
// spelled out like any other word.
func (t *Tokenizer) EncodeText(text string) []int32 { return t.appendText(nil, text) }

// nextSpecial finds the leftmost special token, the longest at that place; it
// returns len(text) when there is none.
func (t *Tokenizer) nextSpecial(text string) (at int, found Special) {
	at = len(text)
	for _, s := range t.specials {
		i := strings.Index(text, s.Content)
		if i >= 0 && (i < at || i == at && len(s.Content) > len(found.Content)) {
			at, found = i, s
		}
	}
	return at, found
}

func (t *Tokenizer) appendText(ids []int32, text string) []int32 {
	if len(t.merges) == 0 {
		for i := range len(text) {
			ids = append(ids, t.byteID[text[i]])
		}
		return ids
	}
	for text != "" {
		n := len(text)
		if t.split {
			n = nextSplit(text)
		}
		ids = t.appendMerged(ids, text[:n])
		text = text[n:]
	}
	return ids
}

// Decode returns the bytes that the ids stand for, special tokens by their
// names. An id beyond the vocabulary gives U+FFFD.
func (t *Tokenizer) Decode(ids []int32) string { return t.decode(ids, true) }

// DecodeText is Decode without the special tokens.
func (t *Tokenizer) DecodeText(ids []int32) string { return t.decode(ids, false) }

func (t *Tokenizer) decode(ids []int32, specials bool) string {
	var b strings.Builder
	for _, id := range ids {
		switch {
		case id < 0 || int(id) >= len(t.pieces):
			b.WriteRune(utf8.RuneError)
		case specials || !t.IsSpecial(id):
			b.WriteString(t.pieces[id])
		}
	}
	return b.String()
}
