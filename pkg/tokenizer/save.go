package tokenizer

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// Files returns the contents of the files of a tokenizer that NewBytes, Train
// or TrainNumbers made in a model folder, by name. The same tokenizer and
// format give the same bytes. maxTokens is the longest sequence of the model
// that the tokenizer serves.
func (t *Tokenizer) Files(format ChatFormat, maxTokens int) (map[string][]byte, error) {
	if t.own == nil {
		return nil, exitcode.Bugf("the files of a tokenizer that Lathe did not create are copied, not written")
	}
	if _, err := NewChat(t, format); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, value := range map[string]any{
		TokenizerFile: t.tokenizerJSON(),
		ConfigFile:    t.configJSON(format, maxTokens),
		SpecialsFile:  t.specialsJSON(),
		ChatFile:      format,
	} {
		content, err := plainjson.Document(value)
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	return files, nil
}

// Save writes the tokenizer's files into an existing folder.
func (t *Tokenizer) Save(folder string, format ChatFormat, maxTokens int) error {
	files, err := t.Files(format, maxTokens)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(folder, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// The tokenizer.json that is written (huggingface/tokenizers, version "1.0").
type (
	writtenTokenizer struct {
		Version       string            `json:"version"`
		Truncation    any               `json:"truncation"`
		Padding       any               `json:"padding"`
		AddedTokens   []writtenAdded    `json:"added_tokens"`
		Normalizer    any               `json:"normalizer"`
		PreTokenizer  any               `json:"pre_tokenizer"`
		PostProcessor any               `json:"post_processor"`
		Decoder       *writtenByteLevel `json:"decoder"`
		Model         writtenBPE        `json:"model"`
	}
	writtenAdded struct {
		ID         int32  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LeftStrip  bool   `json:"lstrip"`
		RightStrip bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	writtenByteLevel struct {
		Type           string `json:"type"`
		AddPrefixSpace bool   `json:"add_prefix_space"`
		TrimOffsets    bool   `json:"trim_offsets"`
		UseRegex       bool   `json:"use_regex"`
	}
	writtenSequence struct {
		Type          string `json:"type"`
		Pretokenizers []any  `json:"pretokenizers"`
	}
	writtenSplit struct {
		Type     string            `json:"type"`
		Pattern  map[string]string `json:"pattern"`
		Behavior string            `json:"behavior"`
		Invert   bool              `json:"invert"`
	}
	writtenBPE struct {
		Type                    string           `json:"type"`
		Dropout                 any              `json:"dropout"`
		UnknownToken            any              `json:"unk_token"`
		ContinuingSubwordPrefix string           `json:"continuing_subword_prefix"`
		EndOfWordSuffix         string           `json:"end_of_word_suffix"`
		FuseUnknown             bool             `json:"fuse_unk"`
		ByteFallback            bool             `json:"byte_fallback"`
		IgnoreMerges            bool             `json:"ignore_merges"`
		Vocab                   map[string]int32 `json:"vocab"`
		Merges                  [][2]string      `json:"merges"`
	}
)

func (t *Tokenizer) tokenizerJSON() *writtenTokenizer {
	byteLevel := func(useRegex bool) *writtenByteLevel {
		return &writtenByteLevel{Type: "ByteLevel", TrimOffsets: true, UseRegex: useRegex}
	}
	file := &writtenTokenizer{
		Version:      "1.0",
		AddedTokens:  []writtenAdded{},
		PreTokenizer: byteLevel(t.own.gpt2),
		Decoder:      byteLevel(true),
		Model:        writtenBPE{Type: "BPE", Vocab: map[string]int32{}, Merges: make([][2]string, len(t.merges))},
	}
	if t.own.pattern != "" {
		split := &writtenSplit{Type: "Split", Pattern: map[string]string{"Regex": t.own.pattern}, Behavior: "Isolated"}
		file.PreTokenizer = &writtenSequence{Type: "Sequence", Pretokenizers: []any{split, byteLevel(t.own.gpt2)}}
	}
	for _, a := range t.added {
		file.AddedTokens = append(file.AddedTokens, writtenAdded{ID: a.id, Content: a.content, Special: true})
	}
	printable := make([]string, len(t.pieces))
	for piece, id := range t.tokens {
		printable[id] = toPrintable(piece)
		file.Model.Vocab[printable[id]] = id
	}
	for rank, r := range t.merges {
		file.Model.Merges[rank] = [2]string{printable[r.left], printable[r.right]}
	}
	return file
}

// optional is a JSON null for the empty string.
func optional(content string) any {
	if content == "" {
		return nil
	}
	return content
}

func (t *Tokenizer) configJSON(format ChatFormat, maxTokens int) any {
	return map[string]any{
		"tokenizer_class":              "PreTrainedTokenizerFast",
		"model_max_length":             maxTokens,
		"add_prefix_space":             false,
		"clean_up_tokenization_spaces": false,
		"bos_token":                    optional(t.roles.BOS),
		"eos_token":                    optional(t.roles.EOS),
		"pad_token":                    optional(t.roles.Pad),
		"unk_token":                    nil,
		"chat_template":                format.Jinja(),
	}
}

func (t *Tokenizer) specialsJSON() any {
	file := map[string]any{}
	others := []string{}
	for _, s := range t.Specials() {
		switch s.Content {
		case t.roles.BOS, t.roles.EOS, t.roles.Pad:
		default:
			others = append(others, s.Content)
		}
	}
	for key, content := range map[string]string{"bos_token": t.roles.BOS, "eos_token": t.roles.EOS, "pad_token": t.roles.Pad} {
		if content != "" {
			file[key] = content
		}
	}
	if len(others) > 0 {
		file["additional_special_tokens"] = others
	}
	return file
}
