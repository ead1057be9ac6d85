// Package tokenizer turns text into token ids and back, from and to the
// tokenizer.json of Hugging Face.
//
// Lathe makes tokenizers of its own, which work on bytes, so that any text,
// valid UTF-8 or not, is encoded without loss: the plain byte vocabulary
// ([NewBytes]), in which the id of a byte is its value, and byte-level BPE with
// the split of GPT-2 ([Train]) or of Llama 3 ([TrainNumbers]). [Load] and
// [Parse] read the BPE of a policy's folder, byte-level or with byte fallback,
// token id for token id as Hugging Face tokenizers 0.23 and the way
// transformers 5 sets it up. What they do not implement exactly they refuse with
// an error that names it.
//
// The vocabulary of such a policy may lack characters, or bytes. Text that it
// cannot spell becomes its token for what is unknown or, without one, nothing,
// as for the peer.
//
// A policy may have more ids than its tokenizer: Qwen rounds its vocabulary up
// to a multiple of 128 or 256. Such an id can be sampled, has a log-probability
// like any other, and stands for no text: it decodes to nothing, as in
// transformers. It is masked nowhere, so that the sampler's and the learner's
// distributions are the same.
package tokenizer

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
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

// Tokenizer is safe for concurrent use; what it says never changes.
type Tokenizer struct {
	pieces  []string     // the bytes that each id decodes to behind others
	added   []addedToken // by id
	addedAt map[string]int
	free    int32 // the id that one more added token gets; -1 for none
	roles   Roles
	named   map[string]string // what the files of a folder name: bos_token, image_token, …

	// The model. It works on bytes, or on the characters of Unicode.
	bytes        bool
	complete     bool           // every byte has a token
	byteID       [256]int32     // the id of each single byte, or -1
	runeID       map[rune]int32 // the id of each single character
	fallback     [256]int32     // the id of <0x00> and so on, or -1
	unknown      int32          // the id for what has none, or -1
	fuseUnknown  bool           // one for all in a row
	merges       []rule         // by rank
	pairs        pairTable
	ignoreMerges bool
	tokens       map[string]int32 // ids of the model's vocabulary by their text
	whole        map[string]int32 // those that encode to themselves
	cache        *pieceCache

	// What happens to text before the model sees it.
	normalizers    []normalizer
	byteNormalizer bool // one of them spells bytes
	steps          []step
	prefixes       bool // something is put before a text

	// What happens to tokens when they are decoded, unless the decoder is that
	// of bytes alone.
	decoders []decoderKind
	names    []string // by id, empty where there is no token
	middle   []stage  // for pieces

	own *ownSplit // of a tokenizer that was made, not read

	// The special tokens around a text (post_processor).
	before, after []int32

	verbatim, normalized *matcher // of the added tokens by their flag
	isSpecial, isSkipped []bool   // by id
	characters           *characters
}

// ownSplit is how a tokenizer of Lathe's own splits text.
type ownSplit struct {
	pattern string // of a first split, or empty
	gpt2    bool   // pieces are then split by patternGPT2
}

func newOwn(own ownSplit) *Tokenizer {
	t := &Tokenizer{tokens: map[string]int32{}, bytes: true, complete: true, unknown: -1, own: &own}
	if own.pattern != "" {
		t.steps = append(t.steps, step{tile: splitters[own.pattern]})
	}
	if own.gpt2 {
		t.steps = append(t.steps, step{tile: splitGPT2})
	}
	for b := range 256 {
		t.byteID[b] = t.addToken(string([]byte{byte(b)}))
	}
	return t
}

// NewBytes is the plain byte vocabulary: ids 0 to 255 are the bytes, the
// special tokens follow in the order given.
func NewBytes(specials []string, roles Roles) (*Tokenizer, error) {
	t := newOwn(ownSplit{})
	return t, t.finishOwn(specials, roles)
}

// addToken gives the next id to a token of the model, and returns it.
func (t *Tokenizer) addToken(piece string) int32 {
	id := int32(len(t.pieces))
	t.pieces = append(t.pieces, piece)
	t.tokens[piece] = id
	return id
}

// finishOwn adds the special tokens of a tokenizer that is made, not read.
func (t *Tokenizer) finishOwn(specials []string, roles Roles) error {
	seen := map[string]bool{}
	for _, content := range specials {
		if content == "" || !utf8.ValidString(content) {
			return exitcode.Usagef("special token %q is empty or not UTF-8", content)
		}
		if decodedForm(content) != content {
			return exitcode.Usagef("special token %q would not decode to itself: it is spelled in the characters that stand for bytes", content)
		}
		if seen[content] {
			return exitcode.Usagef("special token %q is given twice", content)
		}
		seen[content] = true
		t.added = append(t.added, addedToken{id: int32(len(t.pieces)), content: content, special: true})
		t.pieces = append(t.pieces, "") // setAdded fills it in
	}
	if err := t.finish(); err != nil {
		return err
	}
	return t.setRoles(roles)
}

// finish builds what Encode looks things up in.
func (t *Tokenizer) finish() error {
	t.characters = unicodeTables()
	t.pairs = newPairTable(t.merges)
	t.cache = newPieceCache()
	t.findWhole()
	return t.setAdded()
}

// findWhole lists the tokens that encode to themselves: with ignore_merges all
// of them, otherwise those that the merges can make.
func (t *Tokenizer) findWhole() {
	if t.ignoreMerges {
		t.whole = t.tokens
		return
	}
	t.whole = make(map[string]int32, len(t.tokens))
	var ids []int32
	for piece, id := range t.tokens { // any order: each stands alone
		if ids = t.appendMerged(ids[:0], piece); len(ids) == 1 && ids[0] == id {
			t.whole[piece] = id
		}
	}
}

// setAdded builds the search for added tokens, which it brings into the order
// of their ids.
func (t *Tokenizer) setAdded() error {
	sort.Slice(t.added, func(i, j int) bool { return t.added[i].id < t.added[j].id })
	t.isSpecial = make([]bool, len(t.pieces))
	t.addedAt = make(map[string]int, len(t.added))
	contents, forms := map[string]bool{}, make([]string, len(t.added))
	var verbatim, normalized []addedToken
	var verbatimForms, normalizedForms []string
	for i, a := range t.added {
		t.addedAt[a.content] = i
		t.isSpecial[a.id] = a.special
		contents[a.content] = contents[a.content] || a.special
		form := a.content
		if a.normalized {
			form = t.normalize(form, beginning)
			normalized, normalizedForms = append(normalized, a), append(normalizedForms, form)
		} else {
			verbatim, verbatimForms = append(verbatim, a), append(verbatimForms, form)
		}
		t.setPiece(a.id, form)
		forms[i] = form
	}
	// The peer leaves tokens out whose form is the name of a special token.
	t.isSkipped = make([]bool, len(t.pieces))
	for i, a := range t.added {
		t.isSkipped[a.id] = contents[forms[i]]
	}
	var err error
	if t.verbatim, err = newMatcher(verbatim, verbatimForms); err != nil {
		return err
	}
	t.normalized, err = newMatcher(normalized, normalizedForms)
	return err
}

func (t *Tokenizer) setRoles(roles Roles) error {
	for _, content := range []string{roles.BOS, roles.EOS, roles.Pad} {
		if content != "" && t.indexAdded(content) < 0 {
			return exitcode.Usagef("token %q is not one of the special tokens", content)
		}
	}
	t.roles = roles
	return nil
}

// Size is the number of ids.
func (t *Tokenizer) Size() int { return len(t.pieces) }

// Specials lists the special tokens by id.
func (t *Tokenizer) Specials() []Special {
	var specials []Special
	for _, a := range t.added {
		if a.special {
			specials = append(specials, Special{Content: a.content, ID: a.id})
		}
	}
	return specials
}

// Roles returns the names of the special tokens with a known use.
func (t *Tokenizer) Roles() Roles { return t.roles }

// Named lists the special tokens of a folder by the names that its files give
// them (bos_token, image_token, …), under which chat templates read them.
func (t *Tokenizer) Named() map[string]string { return maps.Clone(t.named) }

// SpecialID finds a special token by its content.
func (t *Tokenizer) SpecialID(content string) (int32, bool) {
	at := t.indexAdded(content)
	if at < 0 || !t.added[at].special {
		return 0, false
	}
	return t.added[at].id, true
}

// indexAdded finds an added token by its content; it returns -1 if there is
// none.
func (t *Tokenizer) indexAdded(content string) int {
	if at, ok := t.addedAt[content]; ok {
		return at
	}
	return -1
}

// IsSpecial reports whether an id is that of a special token.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.isSpecial) && t.isSpecial[id]
}

// skipped reports whether an id is left out by DecodeText.
func (t *Tokenizer) skipped(id int32) bool {
	return id >= 0 && int(id) < len(t.isSkipped) && t.isSkipped[id]
}

// Encode encodes text in which the names of special and other added tokens
// mean these tokens: templates and other text that we wrote, not what users or
// policies wrote. It is transformers' encode with add_special_tokens=False.
func (t *Tokenizer) Encode(text string) []int32 { return t.encode(nil, text, false, beginning) }

// EncodeText encodes text as text: the name of a special token in it is
// spelled out like any other word. Added tokens that are not special, such as
// the <think> of Qwen3, are still found. It is transformers' encode with
// add_special_tokens=False and split_special_tokens=True.
func (t *Tokenizer) EncodeText(text string) []int32 { return t.encode(nil, text, true, beginning) }

// Continue appends the tokens of a text, encoded as by Encode or, with spellOut,
// as by EncodeText. What a tokenizer puts before every text (the ▁ of Llama 2)
// it puts before this one only where it would do so within a text: behind
// nothing, and behind an added token. The id -1 stands for text before.
func (t *Tokenizer) Continue(ids []int32, text string, spellOut bool) []int32 {
	at := beginning
	if n := len(ids); n > 0 {
		at = continued
		if t.isAdded(ids[n-1]) {
			at = inside
		}
	}
	return t.encode(ids, text, spellOut, at)
}

func (t *Tokenizer) isAdded(id int32) bool {
	_, found := slices.BinarySearchFunc(t.added, id, func(a addedToken, id int32) int { return cmp.Compare(a.id, id) })
	return found
}

// WithSpecial returns the ids with the special tokens around them that the
// tokenizer puts around every text (transformers' add_special_tokens=True):
// for Llama 3, <|begin_of_text|> before it.
func (t *Tokenizer) WithSpecial(ids []int32) []int32 {
	out := make([]int32, 0, len(t.before)+len(ids)+len(t.after))
	return append(append(append(out, t.before...), ids...), t.after...)
}

func (t *Tokenizer) encode(ids []int32, text string, spellOut bool, at place) []int32 {
	ids = slices.Grow(ids, len(text)/3+4)
	t.verbatim.split(t.characters, text, spellOut, func(token *addedToken, stretch string) {
		here := at
		at = inside
		if token != nil {
			ids = append(ids, token.id)
			return
		}
		t.normalized.split(t.characters, t.normalize(stretch, here), spellOut, func(token *addedToken, stretch string) {
			if token != nil {
				ids = append(ids, token.id)
			} else {
				ids = t.appendStretch(ids, stretch, here)
			}
			here = inside
		})
	})
	return ids
}

// appendStretch encodes text without added tokens.
func (t *Tokenizer) appendStretch(ids []int32, text string, at place) []int32 {
	if t.complete && len(t.whole) == 256 && len(t.merges) == 0 && len(t.steps) == 0 {
		for i := range len(text) {
			ids = append(ids, t.byteID[text[i]])
		}
		return ids
	}
	return t.appendSteps(ids, t.steps, text, at)
}

// Decode returns the bytes that the ids stand for, special tokens by their
// names. An id beyond the vocabulary stands for nothing.
func (t *Tokenizer) Decode(ids []int32) string {
	d := t.NewByteDecoder()
	return d.Write(ids...) + d.Flush()
}

// DecodeText returns the text that the ids stand for without the special
// tokens, as transformers' decode with skip_special_tokens=True: U+FFFD stands
// for bytes that are not UTF-8.
func (t *Tokenizer) DecodeText(ids []int32) string {
	d := Decoder{tokenizer: t, SkipSpecial: true}
	return d.Write(ids...) + d.Flush()
}

// Piece returns the bytes that an id stands for behind other ids: with the
// blank that Decode leaves out at the beginning of a text. An id beyond the
// vocabulary stands for none.
func (t *Tokenizer) Piece(id int32) string {
	if id < 0 || int(id) >= len(t.pieces) {
		return ""
	}
	return t.pieces[id]
}

// name is the name of an id, empty for one beyond the vocabulary.
func (t *Tokenizer) name(id int32) string {
	if id < 0 || int(id) >= len(t.names) {
		return ""
	}
	return t.names[id]
}
