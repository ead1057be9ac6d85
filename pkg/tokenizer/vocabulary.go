package tokenizer

import (
	"encoding/json"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// readVocabulary places the tokens of the model and the added tokens. Their
// ids must be 0 up to their number, each once: the peer gives ids of its own to
// added tokens elsewhere.
func (f *tokenizerJSON) readVocabulary(t *Tokenizer) error {
	vocab := f.model.vocab
	added, err := f.readAdded()
	if err != nil {
		return err
	}
	size := len(vocab)
	for _, a := range added {
		id, ok := vocab[a.content]
		switch {
		case !ok:
			if a.id != int32(size) {
				return exitcode.Dataf("added token %.100q has id %d; the next free id is %d", a.content, a.id, size)
			}
			size++
		case id != a.id:
			return exitcode.Dataf("added token %.100q has id %d, and %d in the vocabulary", a.content, a.id, id)
		}
	}
	t.added = added
	t.pieces = make([]string, size)
	taken := make([]bool, size)
	t.tokens = make(map[string]int32, len(vocab))
	for text, id := range vocab {
		if id < 0 || int(id) >= size || taken[id] {
			return exitcode.Dataf("token %.100q has id %d, which is taken or not below the vocabulary's size of %d", text, id, size)
		}
		taken[id] = true
		piece, ok := fromPrintable(text)
		if !ok || piece == "" {
			// No text reaches a token that is not spelled in the characters
			// that stand for bytes, unless it is an added one.
			t.pieces[id] = text
			continue
		}
		t.pieces[id] = piece
		t.tokens[piece] = id
	}
	for _, a := range added {
		if _, ok := vocab[a.content]; !ok {
			if taken[a.id] {
				return exitcode.Dataf("added token %.100q has id %d, which another token has", a.content, a.id)
			}
			taken[a.id] = true
		}
	}
	for b := range 256 {
		id, ok := vocab[string(byteRunes[b])]
		if !ok {
			return exitcode.Dataf("the vocabulary has no token for byte %#02x", b)
		}
		t.byteID[b] = id
	}
	return nil
}

func (f *tokenizerJSON) readAdded() ([]addedToken, error) {
	seen := map[string]bool{}
	added := make([]addedToken, len(f.added))
	for i, raw := range f.added {
		a, err := parseAdded(raw, "id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")
		if err != nil {
			return nil, exitcode.Dataf("added token %d: %w", i, err)
		}
		if a.content == "" || a.id < 0 || seen[a.content] {
			return nil, exitcode.Dataf("added token %d (%.100q, id %d) has no content, a negative id, or appears twice", i, a.content, a.id)
		}
		seen[a.content] = true
		added[i] = a
	}
	return added, nil
}

func parseAdded(raw json.RawMessage, required ...string) (addedToken, error) {
	var a addedToken
	err := objectFrom(raw, map[string]any{
		"id": &a.id, "content": &a.content, "single_word": &a.singleWord, "lstrip": &a.leftStrip, "rstrip": &a.rightStrip,
		"normalized": &a.normalized, "special": &a.special,
	}, required...)
	return a, err
}

func (f *tokenizerJSON) readMerges(t *Tokenizer) error {
	vocab := f.model.vocab
	t.merges = make([]rule, 0, len(f.model.merges))
	seen := make(map[[2]int32]bool, len(f.model.merges))
	var joined strings.Builder
	for rank, m := range f.model.merges {
		joined.Reset()
		joined.WriteString(m[0])
		joined.WriteString(m[1])
		left, okLeft := vocab[m[0]]
		right, okRight := vocab[m[1]]
		id, okBoth := vocab[joined.String()]
		if !okLeft || !okRight || !okBoth {
			return exitcode.Dataf("merge %d (%.100q with %.100q) uses a token that the vocabulary lacks", rank, m[0], m[1])
		}
		if seen[[2]int32{left, right}] {
			return exitcode.Dataf("merge %d (%.100q with %.100q) appears twice", rank, m[0], m[1])
		}
		seen[[2]int32{left, right}] = true
		t.merges = append(t.merges, rule{left: left, right: right, id: id})
	}
	return nil
}
