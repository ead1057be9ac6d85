package tokenizer

import (
	"errors"
	"io/fs"
	"path/filepath"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// The files of a tokenizer inside a model folder.
const (
	TokenizerFile = "tokenizer.json"
	ConfigFile    = "tokenizer_config.json"
	SpecialsFile  = "special_tokens_map.json"
	ChatFile      = "lathe_chat.json" // a ChatFormat
)

// maxFileBytes bounds what is read: the largest tokenizer.json of the families
// that are implemented has 17 MB.
const maxFileBytes = 256 << 20

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

// decodedForm is what a token's name decodes to: its bytes or, where a
// character stands for none, the name as it is.
func decodedForm(name string) string {
	if raw, ok := fromPrintable(name); ok {
		return raw
	}
	return name
}

// Load reads the tokenizer of a model folder: tokenizer.json and, where they
// are there, what the files beside it say about special tokens and how many
// ids config.json allows. A tokenizer that is not implemented exactly, or is
// damaged, is a data error that names the file.
//
// Settings of truncation and padding are passed over, as transformers does
// when it encodes one text; so is clean_up_tokenization_spaces, which it does
// not apply to BPE.
func Load(folder string) (*Tokenizer, error) {
	path := filepath.Join(folder, TokenizerFile)
	raw, err := plainfile.Read(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exitcode.WithHint(err, "save the tokenizer as tokenizer.json: transformers' save_pretrained does")
	}
	if err != nil {
		return nil, err
	}
	t, err := Parse(raw)
	if err != nil {
		return nil, exitcode.Dataf("reading %q: %w", path, err)
	}
	if err := t.applyFolder(folder); err != nil {
		return nil, err
	}
	return t, nil
}
