package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// refused is the data error for a file that is damaged or asks for something
// that is not implemented exactly.
func refused(format string, args ...any) error {
	return exitcode.Dataf("this tokenizer cannot be used (byte-level BPE as of GPT-2, Llama 3 and Qwen2 can): %w", fmt.Errorf(format, args...))
}

// tokenizerJSON is a tokenizer.json (huggingface/tokenizers, version "1.0")
// before its parts are looked at.
type tokenizerJSON struct {
	version                                         string
	added                                           []json.RawMessage
	normalizer, preTokenizer, postProcessor, decode json.RawMessage
	model                                           modelJSON
}

type modelJSON struct {
	kind                 string // empty in files older than the field
	dropout              *float64
	prefix, suffix       *string
	byteFallback, ignore bool
	vocab                map[string]int32
	merges               []mergeJSON
}

// mergeJSON is a pair of pieces: ["a","b"], or "a b" in older files.
type mergeJSON [2]string

func (m *mergeJSON) UnmarshalJSON(raw []byte) error {
	pieces, err := mergePieces(raw)
	if err != nil {
		return err
	}
	if len(pieces) != 2 || pieces[0] == "" || pieces[1] == "" {
		return fmt.Errorf("merge %.100s is not a pair", raw)
	}
	*m = mergeJSON(pieces)
	return nil
}

func mergePieces(raw []byte) (pieces []string, err error) {
	joined := raw[0] == '"'
	if bytes.IndexByte(raw, '\\') < 0 {
		// Without escapes, which is nearly always, the quotes are where the
		// strings are: a file has hundreds of thousands of merges.
		quoted := strings.Split(string(raw), `"`)
		if joined {
			return strings.Split(quoted[1], " "), nil
		}
		if len(quoted) == 5 && strings.TrimSpace(quoted[0]) == "[" && strings.TrimSpace(quoted[2]) == "," {
			return []string{quoted[1], quoted[3]}, nil
		}
	}
	if !joined {
		err = json.Unmarshal(raw, &pieces)
		return pieces, err
	}
	var text string
	err = json.Unmarshal(raw, &text)
	return strings.Split(text, " "), err
}

// readObject reads a JSON object whose keys are those of fields, each at most
// once, into what fields point to; a func reads its value itself. Keys in
// required must be there. Nothing else is let through: a key that is not known
// may change what the tokenizer does.
func readObject(d *json.Decoder, fields map[string]any, required ...string) error {
	if err := expect(d, json.Delim('{')); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		into, known := fields[key]
		if !known || seen[key] {
			return fmt.Errorf("field %.100q is not known here or given twice", key)
		}
		seen[key] = true
		if read, ok := into.(func(*json.Decoder) error); ok {
			err = read(d)
		} else {
			err = d.Decode(into)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := expect(d, json.Delim('}')); err != nil {
		return err
	}
	for _, key := range required {
		if !seen[key] {
			return fmt.Errorf("field %q is missing", key)
		}
	}
	return nil
}

func expect(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && token != want {
		err = fmt.Errorf("found %.100v where %v should be", token, want)
	}
	return err
}

func objectFrom(raw json.RawMessage, fields map[string]any, required ...string) error {
	return readObject(json.NewDecoder(bytes.NewReader(raw)), fields, required...)
}

// Parse reads the bytes of a tokenizer.json.
func Parse(raw []byte) (*Tokenizer, error) {
	if !utf8.Valid(raw) {
		return nil, refused("the file is not UTF-8")
	}
	var (
		file    tokenizerJSON
		ignored any
		model   = &file.model
		d       = json.NewDecoder(bytes.NewReader(raw))
	)
	err := readObject(d, map[string]any{
		"version": &file.version, "truncation": &ignored, "padding": &ignored, "added_tokens": &file.added,
		"normalizer": &file.normalizer, "pre_tokenizer": &file.preTokenizer, "post_processor": &file.postProcessor,
		"decoder": &file.decode,
		"model": func(d *json.Decoder) error {
			return readObject(d, map[string]any{
				"type": &model.kind, "dropout": &model.dropout, "unk_token": &ignored, "fuse_unk": &ignored,
				"continuing_subword_prefix": &model.prefix, "end_of_word_suffix": &model.suffix,
				"byte_fallback": &model.byteFallback, "ignore_merges": &model.ignore,
				"vocab": &model.vocab, "merges": &model.merges,
			}, "vocab", "merges")
		},
	}, "version", "added_tokens", "pre_tokenizer", "decoder", "model")
	if err == nil && d.More() {
		err = fmt.Errorf("more follows the end")
	}
	if err != nil {
		return nil, refused("%w", err)
	}
	t := &Tokenizer{}
	for _, step := range []func(*Tokenizer) error{
		file.model.check, file.readNormalizer, file.readPreTokenizer, file.readDecoder,
		file.readVocabulary, file.readMerges, file.readPostProcessor, (*Tokenizer).finish,
	} {
		if err := step(t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// check refuses settings of the model that Encode would not honour. unk_token
// and fuse_unk mean nothing where every byte has a token.
func (m *modelJSON) check(t *Tokenizer) error {
	empty := func(s *string) bool { return s == nil || *s == "" }
	switch {
	case m.kind != "" && m.kind != "BPE":
		return refused("the model is %.100q", m.kind)
	case m.dropout != nil && *m.dropout != 0:
		return refused("dropout is set")
	case !empty(m.prefix) || !empty(m.suffix):
		return refused("a subword prefix or suffix is set")
	case m.byteFallback:
		return refused("byte_fallback is set")
	}
	t.ignoreMerges = m.ignore
	return nil
}

// parts lists the members of a component that is a Sequence, or the component
// itself. A component that is null has no parts.
func parts(raw json.RawMessage, list string) ([]json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	kind, err := kindOf(raw)
	if err != nil || kind != "Sequence" {
		return []json.RawMessage{raw}, err
	}
	var members []json.RawMessage
	return members, objectFrom(raw, map[string]any{"type": &kind, list: &members}, list)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func kindOf(raw json.RawMessage) (string, error) {
	var object map[string]json.RawMessage
	var kind string
	err := json.Unmarshal(raw, &object)
	if err == nil {
		err = json.Unmarshal(object["type"], &kind)
	}
	if err != nil {
		return "", refused("a component is not an object with a type")
	}
	return kind, nil
}

func (f *tokenizerJSON) readNormalizer(t *Tokenizer) error {
	if f.version != "1.0" {
		return refused("version is %.100q", f.version)
	}
	members, err := parts(f.normalizer, "normalizers")
	if err != nil {
		return refused("normalizer: %w", err)
	}
	for _, raw := range members {
		kind, err := kindOf(raw)
		if err != nil {
			return err
		}
		if kind != "NFC" || objectFrom(raw, map[string]any{"type": &kind}) != nil {
			return refused("the normalizer %.100q is not NFC", kind)
		}
		t.composed = true
	}
	return nil
}

// byteLevelJSON is a ByteLevel pre-tokenizer, post-processor or decoder.
type byteLevelJSON struct{ addPrefixSpace, trimOffsets, useRegex bool }

func readByteLevel(raw json.RawMessage) (byteLevelJSON, error) {
	b := byteLevelJSON{useRegex: true} // so in files older than the field
	var kind string
	err := objectFrom(raw, map[string]any{
		"type": &kind, "add_prefix_space": &b.addPrefixSpace, "trim_offsets": &b.trimOffsets, "use_regex": &b.useRegex,
	}, "add_prefix_space", "trim_offsets")
	return b, err
}

// readPreTokenizer takes a split by a pattern that is known, if there is one,
// and then ByteLevel.
func (f *tokenizerJSON) readPreTokenizer(t *Tokenizer) error {
	members, err := parts(f.preTokenizer, "pretokenizers")
	if err != nil {
		return refused("pre_tokenizer: %w", err)
	}
	kinds := make([]string, len(members))
	for i, raw := range members {
		if kinds[i], err = kindOf(raw); err != nil {
			return err
		}
	}
	if len(kinds) == 2 && kinds[0] == "Split" {
		if err := t.readSplit(members[0]); err != nil {
			return err
		}
		kinds, members = kinds[1:], members[1:]
	}
	if !slices.Equal(kinds, []string{"ByteLevel"}) {
		return refused("the pre_tokenizer is not ByteLevel, or a Split followed by ByteLevel")
	}
	b, err := readByteLevel(members[0])
	if err != nil {
		return refused("pre_tokenizer: %w", err)
	}
	t.prefixSpace, t.gpt2 = b.addPrefixSpace, b.useRegex
	return nil
}

func (t *Tokenizer) readSplit(raw json.RawMessage) error {
	var (
		kind, behavior string
		pattern        map[string]string
		invert         bool
	)
	err := objectFrom(raw, map[string]any{
		"type": &kind, "pattern": &pattern, "behavior": &behavior, "invert": &invert,
	}, "pattern", "behavior", "invert")
	if err != nil {
		return refused("the Split of the pre_tokenizer: %w", err)
	}
	expression := pattern["Regex"]
	split, known := splitters[expression]
	if !known || len(pattern) != 1 {
		return refused("the split pattern %.300q is not one of GPT-2, Llama 3 and Qwen2", expression)
	}
	if behavior != "Isolated" || invert {
		return refused("the Split of the pre_tokenizer is %.100q, inverted: %v; Isolated is implemented", behavior, invert)
	}
	t.pattern, t.split = expression, split
	return nil
}

func (f *tokenizerJSON) readDecoder(*Tokenizer) error {
	members, err := parts(f.decode, "decoders")
	if err != nil {
		return refused("decoder: %w", err)
	}
	if len(members) == 1 {
		kind, err := kindOf(members[0])
		if err != nil {
			return err
		}
		if kind == "ByteLevel" {
			if _, err := readByteLevel(members[0]); err != nil {
				return refused("decoder: %w", err)
			}
			return nil
		}
	}
	return refused("the decoder is not ByteLevel")
}

// readPostProcessor takes ByteLevel, which only moves offsets, and at most one
// TemplateProcessing.
func (f *tokenizerJSON) readPostProcessor(t *Tokenizer) error {
	members, err := parts(f.postProcessor, "processors")
	if err != nil {
		return refused("post_processor: %w", err)
	}
	for _, raw := range members {
		kind, err := kindOf(raw)
		if err != nil {
			return err
		}
		switch {
		case kind == "ByteLevel":
			_, err = readByteLevel(raw)
		case kind == "TemplateProcessing" && t.before == nil && t.after == nil:
			err = t.readTemplate(raw)
		default:
			err = fmt.Errorf("%.100q is not ByteLevel or one TemplateProcessing", kind)
		}
		if err != nil {
			return refused("post_processor: %w", err)
		}
	}
	return nil
}

// readTemplate takes what stands around the one sequence of a template for
// single texts.
func (t *Tokenizer) readTemplate(raw json.RawMessage) error {
	type reference struct {
		ID     string `json:"id"`
		TypeID int32  `json:"type_id"`
	}
	var (
		kind   string
		pair   any
		single []struct{ Sequence, SpecialToken *reference }
		tokens map[string]struct {
			ID     string   `json:"id"`
			IDs    []int32  `json:"ids"`
			Tokens []string `json:"tokens"`
		}
	)
	err := objectFrom(raw, map[string]any{"type": &kind, "single": &single, "pair": &pair, "special_tokens": &tokens},
		"single", "special_tokens")
	if err != nil {
		return err
	}
	sequences := 0
	t.before, t.after = []int32{}, []int32{}
	for _, piece := range single {
		switch {
		case piece.Sequence != nil && piece.SpecialToken == nil && piece.Sequence.ID == "A":
			sequences++
		case piece.SpecialToken != nil && piece.Sequence == nil:
			token, ok := tokens[piece.SpecialToken.ID]
			if !ok {
				return fmt.Errorf("the template uses %.100q, which its special_tokens lack", piece.SpecialToken.ID)
			}
			for _, id := range token.IDs {
				if id < 0 || int(id) >= len(t.pieces) {
					return fmt.Errorf("the template's token %.100q has id %d of %d", piece.SpecialToken.ID, id, len(t.pieces))
				}
			}
			if sequences == 0 {
				t.before = append(t.before, token.IDs...)
			} else {
				t.after = append(t.after, token.IDs...)
			}
		default:
			return fmt.Errorf("the template has a piece that is neither the sequence A nor a special token")
		}
	}
	if sequences != 1 {
		return fmt.Errorf("the template has the sequence A %d times, not once", sequences)
	}
	return nil
}
