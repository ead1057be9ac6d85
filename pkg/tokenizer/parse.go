package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// refused is the data error for a file that is damaged or asks for something
// that is not implemented exactly.
func refused(format string, args ...any) error {
	return exitcode.Dataf("this tokenizer cannot be used: %w", fmt.Errorf(format, args...))
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
	kind                       string // empty in files older than the field
	dropout                    *float64
	unknown, prefix, suffix    *string
	fuse, byteFallback, ignore bool
	vocab                      map[string]int32
	merges                     []mergeJSON
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
				"type": &model.kind, "dropout": &model.dropout, "unk_token": &model.unknown, "fuse_unk": &model.fuse,
				"continuing_subword_prefix": &model.prefix, "end_of_word_suffix": &model.suffix,
				"byte_fallback": &model.byteFallback, "ignore_merges": &model.ignore,
				"vocab": &model.vocab, "merges": &model.merges,
			}, "vocab", "merges")
		},
	}, "version", "added_tokens", "model")
	if err == nil && d.More() {
		err = fmt.Errorf("more follows the end")
	}
	if err != nil {
		return nil, refused("%w", err)
	}
	if file.version != "1.0" {
		return nil, refused("version: got %.100q, want 1.0", file.version)
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

// check refuses settings of the model that Encode would not honour.
func (m *modelJSON) check(t *Tokenizer) error {
	empty := func(s *string) bool { return s == nil || *s == "" }
	switch {
	case m.kind != "" && m.kind != "BPE":
		return refused("model.type: got %.100q, want BPE", m.kind)
	case m.dropout != nil && *m.dropout != 0:
		return refused("model.dropout: got %v, want null (the same text must always have the same tokens)", *m.dropout)
	case !empty(m.prefix):
		return refused("model.continuing_subword_prefix: got %.100q, want none", *m.prefix)
	case !empty(m.suffix):
		return refused("model.end_of_word_suffix: got %.100q, want none", *m.suffix)
	}
	t.ignoreMerges, t.fuseUnknown = m.ignore, m.fuse
	return nil
}

// parts lists the members of a component that is a Sequence, and of the
// sequences in it, or the component itself. A component that is null has no
// parts.
func parts(raw json.RawMessage, list string) ([]json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	kind, err := kindOf(raw)
	if err != nil || kind != "Sequence" {
		return []json.RawMessage{raw}, err
	}
	var members, all []json.RawMessage
	if err := objectFrom(raw, map[string]any{"type": &kind, list: &members}, list); err != nil {
		return nil, err
	}
	for _, member := range members {
		inner, err := parts(member, list)
		if err != nil {
			return nil, err
		}
		all = append(all, inner...)
	}
	return all, nil
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
		return "", fmt.Errorf("want an object with a type")
	}
	return kind, nil
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

// readPostProcessor takes ByteLevel, which only moves offsets, and at most one
// that puts special tokens around a text.
func (f *tokenizerJSON) readPostProcessor(t *Tokenizer) error {
	members, err := parts(f.postProcessor, "processors")
	if err != nil {
		return refused("post_processor: %w", err)
	}
	for _, raw := range members {
		kind, err := kindOf(raw)
		if err != nil {
			return refused("post_processor: %w", err)
		}
		switch {
		case kind == "ByteLevel":
			_, err = readByteLevel(raw)
		case t.before != nil:
			err = fmt.Errorf("more than one that puts tokens around a text is not supported")
		case kind == "TemplateProcessing":
			err = t.readTemplate(raw)
		case kind == "RobertaProcessing":
			err = t.readRoberta(raw)
		default:
			err = fmt.Errorf("it is not supported; ByteLevel, TemplateProcessing and RobertaProcessing are")
		}
		if err != nil {
			return refused("post_processor %.100s: %w", kind, err)
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
		kind          string
		pair, ignored any
		single        []struct{ Sequence, SpecialToken *reference }
		tokens        map[string]struct {
			ID     string   `json:"id"`
			IDs    []int32  `json:"ids"`
			Tokens []string `json:"tokens"`
		}
	)
	err := objectFrom(raw, map[string]any{
		"type": &kind, "single": &single, "pair": &pair, "special_tokens": &tokens,
		// Left behind by those who made a file out of another one; the peer passes over them.
		"add_prefix_space": &ignored, "trim_offsets": &ignored, "use_regex": &ignored,
	}, "single", "special_tokens")
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

// readRoberta takes the tokens that stand around every text.
func (t *Tokenizer) readRoberta(raw json.RawMessage) error {
	var kind string
	var trim, prefix bool
	var around [2][2]json.RawMessage // cls and sep, each a name and an id
	err := objectFrom(raw, map[string]any{
		"type": &kind, "cls": &around[0], "sep": &around[1], "trim_offsets": &trim, "add_prefix_space": &prefix,
	}, "cls", "sep")
	var ids [2]int32
	for i := range around {
		if err == nil {
			err = json.Unmarshal(around[i][1], &ids[i])
		}
		if err == nil && (ids[i] < 0 || int(ids[i]) >= len(t.pieces)) {
			err = fmt.Errorf("a token has id %d of %d", ids[i], len(t.pieces))
		}
	}
	t.before, t.after = ids[:1:1], ids[1:]
	return err
}
