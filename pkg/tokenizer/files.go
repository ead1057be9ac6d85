package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exit"
)

// The files of a tokenizer inside a model folder.
const (
	TokenizerFile = "tokenizer.json"
	ConfigFile    = "tokenizer_config.json"
	SpecialsFile  = "special_tokens_map.json"
	ChatFile      = "lathe_chat.json" // a ChatFormat
)

// byteRunes is GPT-2's map from bytes to printable characters (openai/gpt-2,
// src/encoder.py, bytes_to_unicode): a printable Latin-1 byte stands for
// itself, the others for U+0100 onwards in ascending order.
var byteRunes, runeBytes = func() (forward [256]rune, back map[rune]byte) {
	back = map[rune]byte{}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		forward[b], back[r] = r, byte(b)
	}
	return forward, back
}()

func toPrintable(piece string) string {
	runes := make([]rune, len(piece))
	for i := range runes {
		runes[i] = byteRunes[piece[i]]
	}
	return string(runes)
}

func fromPrintable(text string) (string, bool) {
	raw := make([]byte, 0, len(text))
	for _, r := range text {
		b, ok := runeBytes[r]
		if !ok {
			return "", false
		}
		raw = append(raw, b)
	}
	return string(raw), utf8.ValidString(text)
}

// The part of tokenizer.json (huggingface/tokenizers, version "1.0") that is
// implemented. Unknown fields are refused.
type tokenizerJSON struct {
	Version       string          `json:"version"`
	Truncation    any             `json:"truncation"`
	Padding       any             `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  *byteLevelJSON  `json:"pre_tokenizer"`
	PostProcessor *byteLevelJSON  `json:"post_processor"`
	Decoder       *byteLevelJSON  `json:"decoder"`
	Model         bpeJSON         `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LeftStrip  bool   `json:"lstrip"`
	RightStrip bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type byteLevelJSON struct {
	Type           string `json:"type"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	TrimOffsets    bool   `json:"trim_offsets"`
	UseRegex       bool   `json:"use_regex"`
}

type bpeJSON struct {
	Type                    string           `json:"type"`
	Dropout                 *float64         `json:"dropout"`
	UnknownToken            *string          `json:"unk_token"`
	ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
	FuseUnknown             bool             `json:"fuse_unk"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int32 `json:"vocab"`
	Merges                  []mergeJSON      `json:"merges"`
}

// mergeJSON is a pair of pieces: ["a","b"], or "a b" in older files.
type mergeJSON [2]string

func (m *mergeJSON) UnmarshalJSON(raw []byte) error {
	var pieces []string
	if raw[0] == '"' {
		var joined string
		if err := json.Unmarshal(raw, &joined); err != nil {
			return err
		}
		left, right, _ := bytes.Cut([]byte(joined), []byte(" "))
		pieces = []string{string(left), string(right)}
	} else if err := json.Unmarshal(raw, &pieces); err != nil {
		return err
	}
	if len(pieces) != 2 || pieces[0] == "" || pieces[1] == "" {
		return fmt.Errorf("merge %s is not a pair", raw)
	}
	*m = mergeJSON(pieces)
	return nil
}

// Load reads tokenizer.json, and the roles of special tokens from
// tokenizer_config.json, from a model folder. A tokenizer that is not
// implemented exactly is a data error.
func Load(folder string) (*Tokenizer, error) {
	path := filepath.Join(folder, TokenizerFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := Parse(raw)
	if err != nil {
		return nil, exit.Dataf("reading %q: %w", path, err)
	}
	path = filepath.Join(folder, ConfigFile)
	raw, err = os.ReadFile(path)
	if os.IsNotExist(err) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.parseRoles(raw); err != nil {
		return nil, exit.Dataf("reading %q: %w", path, err)
	}
	return t, nil
}

// Parse reads the bytes of a tokenizer.json.
func Parse(raw []byte) (*Tokenizer, error) {
	var file tokenizerJSON
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, exit.Dataf("this tokenizer is not implemented (byte-level BPE with the GPT-2 split is): %w", err)
	}
	if reason := file.unsupported(); reason != "" {
		return nil, exit.Dataf("this tokenizer is not implemented (byte-level BPE with the GPT-2 split is): %s", reason)
	}
	return file.tokenizer()
}

// unsupported names the first setting that Encode or Decode would not honour.
func (f *tokenizerJSON) unsupported() string {
	empty := func(s *string) bool { return s == nil || *s == "" }
	switch m := f.Model; {
	case f.Version != "1.0":
		return fmt.Sprintf("version is %q", f.Version)
	case f.Truncation != nil || f.Padding != nil:
		return "truncation or padding is set"
	case len(f.Normalizer) > 0 && string(f.Normalizer) != "null":
		return "a normalizer is set"
	case f.PreTokenizer == nil || f.PreTokenizer.Type != "ByteLevel" || f.PreTokenizer.AddPrefixSpace:
		return "the pre_tokenizer is not ByteLevel without add_prefix_space"
	case f.PostProcessor != nil && f.PostProcessor.Type != "ByteLevel":
		return "the post_processor is not ByteLevel"
	case f.Decoder == nil || f.Decoder.Type != "ByteLevel":
		return "the decoder is not ByteLevel"
	case m.Type != "BPE":
		return fmt.Sprintf("the model is %q", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return "dropout is set"
	case m.UnknownToken != nil:
		return "unk_token is set"
	case !empty(m.ContinuingSubwordPrefix) || !empty(m.EndOfWordSuffix):
		return "a subword prefix or suffix is set"
	case m.ByteFallback || m.IgnoreMerges:
		return "byte_fallback or ignore_merges is set"
	}
	for _, a := range f.AddedTokens {
		if a.SingleWord || a.LeftStrip || a.RightStrip || !a.Special {
			return fmt.Sprintf("added token %q is not a plain special token", a.Content)
		}
	}
	return ""
}

func (f *tokenizerJSON) tokenizer() (*Tokenizer, error) {
	t := &Tokenizer{merges: map[uint64]merge{}, split: f.PreTokenizer.UseRegex}
	ids := f.Model.Vocab
	size := len(ids)
	for _, a := range f.AddedTokens {
		if id, ok := ids[a.Content]; !ok {
			size++
		} else if id != a.ID {
			return nil, exit.Dataf("added token %q has ids %d and %d", a.Content, id, a.ID)
		}
	}
	t.pieces = make([]string, size)
	place := func(id int32, piece string) error {
		if id < 0 || int(id) >= size || t.pieces[id] != "" || piece == "" {
			return exit.Dataf("token %q has id %d, which is taken or not below the vocabulary size %d", piece, id, size)
		}
		t.pieces[id] = piece
		return nil
	}
	seen := map[string]bool{}
	for _, a := range f.AddedTokens {
		if seen[a.Content] {
			return nil, exit.Dataf("added token %q appears twice", a.Content)
		}
		seen[a.Content] = true
		if err := place(a.ID, a.Content); err != nil {
			return nil, err
		}
		t.specials = append(t.specials, Special{Content: a.Content, ID: a.ID})
	}
	sort.Slice(t.specials, func(i, j int) bool { return t.specials[i].ID < t.specials[j].ID })
	for text, id := range ids {
		if seen[text] {
			continue
		}
		piece, ok := fromPrintable(text)
		if !ok {
			return nil, exit.Dataf("vocabulary entry %q is not in the byte-level alphabet", text)
		}
		if err := place(id, piece); err != nil {
			return nil, err
		}
	}
	for b := range 256 {
		id, ok := ids[string(byteRunes[b])]
		if !ok {
			return nil, exit.Dataf("the vocabulary has no token for byte %#02x", b)
		}
		t.byteID[b] = id
	}
	for rank, m := range f.Model.Merges {
		left, okLeft := ids[m[0]]
		right, okRight := ids[m[1]]
		id, okBoth := ids[m[0]+m[1]]
		if !okLeft || !okRight || !okBoth {
			return nil, exit.Dataf("merge %d (%q with %q) uses a token that the vocabulary lacks", rank, m[0], m[1])
		}
		if _, twice := t.merges[pairKey(left, right)]; twice {
			return nil, exit.Dataf("merge %d (%q with %q) appears twice", rank, m[0], m[1])
		}
		t.merges[pairKey(left, right)] = merge{rank: int32(rank), id: id}
	}
	return t, nil
}

// parseRoles reads bos_token, eos_token and pad_token, each a string, null, or
// an object with a content.
func (t *Tokenizer) parseRoles(raw []byte) error {
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	var roles Roles
	for key, role := range map[string]*string{"bos_token": &roles.BOS, "eos_token": &roles.EOS, "pad_token": &roles.Pad} {
		value, ok := config[key]
		if !ok {
			continue
		}
		var object struct {
			Content string `json:"content"`
		}
		if err := json.Unmarshal(value, role); err != nil {
			if err := json.Unmarshal(value, &object); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			*role = object.Content
		}
	}
	return t.setRoles(roles)
}
