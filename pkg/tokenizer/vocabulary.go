package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// maxTokens bounds ids: the largest vocabulary of a published policy has some
// 260,000.
const maxTokens = 1 << 22

// readVocabulary places the tokens of the model and the added tokens. An id
// that nothing has stands for no text. Added tokens beside the vocabulary must
// have the ids that the peer gives them: behind it, in their order.
func (f *tokenizerJSON) readVocabulary(t *Tokenizer) error {
	vocab := f.model.vocab
	added, err := f.readAdded()
	if err != nil {
		return err
	}
	size, next := 0, int32(len(vocab))
	taken := make(map[int32]string, len(vocab)+len(added))
	take := func(content string, id int32) error {
		if id < 0 || id >= maxTokens {
			return exitcode.Dataf("token %.100q has id %d; ids from 0 to %d are supported", content, id, maxTokens-1)
		}
		if other, ok := taken[id]; ok {
			return exitcode.Dataf("token %.100q has id %d, which %.100q has, too", content, id, other)
		}
		taken[id] = content
		size = max(size, int(id)+1)
		return nil
	}
	for content, id := range vocab {
		if err := take(content, id); err != nil {
			return err
		}
	}
	for _, a := range added {
		if id, ok := vocab[a.content]; ok && id != a.id {
			return exitcode.Dataf("added token %.100q has id %d, and %d in the vocabulary", a.content, a.id, id)
		} else if !ok {
			if a.id != next {
				return exitcode.Dataf("added token %.100q has id %d; the next free id is %d", a.content, a.id, next)
			}
			if err := take(a.content, a.id); err != nil {
				return err
			}
			next++
		}
	}
	t.added, t.free = added, next
	if int(next) != size {
		t.free = -1 // there are gaps, where the peer would give an id twice
	}
	t.pieces = make([]string, size)
	if t.decoders != nil {
		t.names = make([]string, size)
	}
	t.tokens = make(map[string]int32, len(vocab))
	for name, id := range vocab {
		t.setPiece(id, name)
		if key, ok := t.key(name); ok {
			t.tokens[key] = id
		}
	}
	return f.readAlphabet(t)
}

// setPiece says what a token is called, and with it what it stands for.
func (t *Tokenizer) setPiece(id int32, name string) {
	if t.decoders == nil {
		t.pieces[id] = decodedForm(name)
		return
	}
	t.names[id] = name
	if t.middle == nil {
		t.middle = t.newStages(decodedAs{raw: true, middle: true})
	}
	t.pieces[id] = runStages(t.middle, []string{name}, true)
}

// key is the text that becomes the token of a name. No text becomes a token
// that is not spelled in the characters that stand for bytes, where the model
// works on these.
func (t *Tokenizer) key(name string) (string, bool) {
	if !t.bytes {
		return name, name != ""
	}
	key, ok := fromPrintable(name)
	return key, ok && key != ""
}

// readAlphabet finds the tokens of single characters, and what is done with
// characters that have none.
func (f *tokenizerJSON) readAlphabet(t *Tokenizer) error {
	vocab := f.model.vocab
	t.complete, t.unknown = t.bytes, -1
	t.runeID = map[rune]int32{}
	for b := range 256 {
		t.byteID[b], t.fallback[b] = -1, -1
		if t.bytes {
			if id, ok := vocab[string(byteRunes[b])]; ok {
				t.byteID[b] = id
			} else {
				t.complete = false
			}
		}
		if id, ok := vocab[fmt.Sprintf("<0x%02X>", b)]; ok && f.model.byteFallback {
			t.fallback[b] = id
		}
	}
	if !t.bytes {
		for name, id := range vocab {
			if r, size := utf8.DecodeRuneInString(name); size == len(name) && size > 0 {
				t.runeID[r] = id
			}
		}
	}
	if name := f.model.unknown; name != nil && !t.complete {
		id, ok := vocab[*name]
		if !ok {
			return exitcode.Dataf("model.unk_token: the vocabulary has no token %.100q, and none for some characters", *name)
		}
		t.unknown = id
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
