// Package tokenizer turns text into token ids and back, from and to the
// tokenizer.json of Hugging Face.
//
// Every tokenizer here works on bytes, so that any text, valid UTF-8 or not,
// is encoded without loss: the plain byte vocabulary ([NewBytes]), in which the
// id of a byte is its value; a byte-level BPE with the split of GPT-2
// ([Train]) or of Llama 3 ([TrainNumbers]); and the byte-level BPE of a policy's
// folder ([Load]), with the split of GPT-2, Llama 3 or Qwen2 (which Qwen2.5 and
// Qwen3 share). [Load] reads what it implements exactly, token id for token id
// as Hugging Face tokenizers 0.23 and the way transformers 5 sets it up, and
// refuses every other tokenizer.json with one sentence.
//
// A policy may have more ids than its tokenizer: Qwen rounds its vocabulary up
// to a multiple of 128 or 256. Such an id can be sampled, has a log-probability
// like any other, and stands for no text: it decodes to nothing, as in
// transformers. It is masked nowhere, so that the sampler's and the learner's
// distributions are the same.
package tokenizer

import (
	"maps"
	"sort"
	"strings"
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
	pieces  []string     // the bytes that each id decodes to
	added   []addedToken // by id
	addedAt map[string]int
	roles   Roles
	named   map[string]string // what the files of a folder name: bos_token, image_token, …

	// The model.
	byteID       [256]int32 // the id of each single byte
	merges       []rule     // by rank
	pairs        pairTable
	ignoreMerges bool
	tokens       map[string]int32 // ids of the model's vocabulary by bytes
	whole        map[string]int32 // those that encode to themselves
	cache        *pieceCache

	// What happens to text before the model sees it.
	composed    bool     // NFC
	pattern     string   // of the first split, or empty
	split       splitter // of pattern
	prefixSpace bool     // a piece that starts with no blank gets one
	gpt2        bool     // pieces are then split by patternGPT2

	// The special tokens around a text (post_processor).
	before, after []int32

	verbatim, normalized *matcher // of the added tokens by their flag
	isSpecial            []bool   // by id
	characters           *characters
}

// NewBytes is the plain byte vocabulary: ids 0 to 255 are the bytes, the
// special tokens follow in the order given.
func NewBytes(specials []string, roles Roles) (*Tokenizer, error) {
	t := &Tokenizer{tokens: map[string]int32{}}
	t.addBytes()
	return t, t.finishOwn(specials, roles)
}

func (t *Tokenizer) addBytes() {
	for b := range 256 {
		t.byteID[b] = t.addToken(string([]byte{byte(b)}))
	}
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
	var verbatim, normalized []addedToken
	var verbatimForms, normalizedForms []string
	for i, a := range t.added {
		t.addedAt[a.content] = i
		t.isSpecial[a.id] = a.special
		form := a.content
		if a.normalized {
			form = t.normalize(form)
			normalized, normalizedForms = append(normalized, a), append(normalizedForms, form)
		} else {
			verbatim, verbatimForms = append(verbatim, a), append(verbatimForms, form)
		}
		t.pieces[a.id] = decodedForm(form)
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

// Encode encodes text in which the names of special and other added tokens
// mean these tokens: templates and other text that we wrote, not what users or
// policies wrote. It is transformers' encode with add_special_tokens=False.
func (t *Tokenizer) Encode(text string) []int32 { return t.encode(text, false) }

// EncodeText encodes text as text: the name of a special token in it is
// spelled out like any other word. Added tokens that are not special, such as
// the <think> of Qwen3, are still found. It is transformers' encode with
// add_special_tokens=False and split_special_tokens=True.
func (t *Tokenizer) EncodeText(text string) []int32 { return t.encode(text, true) }

// WithSpecial returns the ids with the special tokens around them that the
// tokenizer puts around every text (transformers' add_special_tokens=True):
// for Llama 3, <|begin_of_text|> before it.
func (t *Tokenizer) WithSpecial(ids []int32) []int32 {
	out := make([]int32, 0, len(t.before)+len(ids)+len(t.after))
	return append(append(append(out, t.before...), ids...), t.after...)
}

func (t *Tokenizer) encode(text string, spellOut bool) []int32 {
	ids := make([]int32, 0, len(text)/3+4)
	t.verbatim.split(t.characters, text, spellOut, func(token *addedToken, stretch string) {
		if token != nil {
			ids = append(ids, token.id)
			return
		}
		t.normalized.split(t.characters, t.normalize(stretch), spellOut, func(token *addedToken, stretch string) {
			if token != nil {
				ids = append(ids, token.id)
			} else {
				ids = t.appendStretch(ids, stretch)
			}
		})
	})
	return ids
}

func (t *Tokenizer) normalize(text string) string {
	if !t.composed {
		return text
	}
	return t.characters.norm.nfc(text)
}

// appendStretch encodes text without added tokens.
func (t *Tokenizer) appendStretch(ids []int32, text string) []int32 {
	if len(t.whole) == 256 && len(t.merges) == 0 && !t.prefixSpace {
		for i := range len(text) {
			ids = append(ids, t.byteID[text[i]])
		}
		return ids
	}
	for text != "" {
		n := len(text)
		if t.split != nil {
			n = t.split(t.characters, text)
		}
		piece := text[:n]
		text = text[n:]
		if t.prefixSpace && piece[0] != ' ' {
			piece = " " + piece
		}
		if !t.gpt2 {
			ids = t.appendPiece(ids, piece)
			continue
		}
		for piece != "" {
			n := splitGPT2(t.characters, piece)
			ids = t.appendPiece(ids, piece[:n])
			piece = piece[n:]
		}
	}
	return ids
}

// Decode returns the bytes that the ids stand for, special tokens by their
// names. An id beyond the vocabulary stands for nothing.
func (t *Tokenizer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(t.piece(id))
	}
	return b.String()
}

// DecodeText returns the text that the ids stand for without the special
// tokens, as transformers' decode with skip_special_tokens=True: U+FFFD stands
// for bytes that are not UTF-8.
func (t *Tokenizer) DecodeText(ids []int32) string {
	d := Decoder{tokenizer: t, SkipSpecial: true}
	return d.Write(ids...) + d.Flush()
}

// piece is the bytes of an id, none for an id beyond the vocabulary.
func (t *Tokenizer) piece(id int32) string {
	if id < 0 || int(id) >= len(t.pieces) {
		return ""
	}
	return t.pieces[id]
}
