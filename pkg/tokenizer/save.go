package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
)

// Files returns the contents of the tokenizer's files in a model folder by
// name. The same tokenizer and format give the same bytes. maxTokens is the
// longest sequence of the model that the tokenizer serves.
func (t *Tokenizer) Files(format ChatFormat, maxTokens int) (map[string][]byte, error) {
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
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			return nil, err
		}
		files[name] = b.Bytes()
	}
	return files, nil
}

// Save writes the tokenizer's files into an existing folder.
func (t *Tokenizer) Save(folder string, format ChatFormat, maxTokens int) error {
	files, err := t.Files(format, maxTokens)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(folder, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tokenizer) tokenizerJSON() *tokenizerJSON {
	empty := ""
	byteLevel := func(useRegex bool) *byteLevelJSON {
		return &byteLevelJSON{Type: "ByteLevel", TrimOffsets: true, UseRegex: useRegex}
	}
	file := &tokenizerJSON{
		Version:      "1.0",
		AddedTokens:  []addedToken{},
		PreTokenizer: byteLevel(t.split),
		Decoder:      byteLevel(true),
		Model: bpeJSON{
			Type:                    "BPE",
			ContinuingSubwordPrefix: &empty,
			EndOfWordSuffix:         &empty,
			Vocab:                   map[string]int32{},
			Merges:                  make([]mergeJSON, len(t.merges)),
		},
	}
	for _, s := range t.specials {
		file.AddedTokens = append(file.AddedTokens, addedToken{ID: s.ID, Content: s.Content, Special: true})
	}
	printable := make([]string, len(t.pieces))
	for id, piece := range t.pieces {
		if t.IsSpecial(int32(id)) {
			continue
		}
		printable[id] = toPrintable(piece)
		file.Model.Vocab[printable[id]] = int32(id)
	}
	for key, m := range t.merges {
		file.Model.Merges[m.rank] = mergeJSON{printable[int32(key>>32)], printable[int32(uint32(key))]}
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
	for _, s := range t.specials {
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
