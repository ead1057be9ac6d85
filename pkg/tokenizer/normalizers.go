package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// normalizer changes a stretch of text before it is split.
type normalizer struct {
	apply func(text string) string
	// prepend is put before a stretch that is not empty, unless it continues
	// what was encoded before. A normalizer has one of the two.
	prepend string
	// cuts says that the beginning of a text may be taken away.
	cuts bool
}

// normalize brings a stretch of text into the form that the model knows.
func (t *Tokenizer) normalize(text string, at place) string {
	for i := range t.normalizers {
		n := &t.normalizers[i]
		switch {
		case n.apply != nil:
			text = n.apply(text)
		case text != "" && at != continued:
			text = n.prepend + text
		}
	}
	return text
}

// readNormalizer reads the component of that name.
func (f *tokenizerJSON) readNormalizer(t *Tokenizer) error {
	members, err := parts(f.normalizer, "normalizers")
	if err != nil {
		return refused("normalizer: %w", err)
	}
	for _, raw := range members {
		kind, err := kindOf(raw)
		if err != nil {
			return refused("normalizer: %w", err)
		}
		n, err := readNormalizer(kind, raw)
		if err != nil {
			return refused("normalizer %.100s: %w", kind, err)
		}
		t.normalizers = append(t.normalizers, n)
		t.byteNormalizer = t.byteNormalizer || kind == "ByteLevel"
		t.prefixes = t.prefixes || n.prepend != ""
	}
	return nil
}

func readNormalizer(kind string, raw json.RawMessage) (n normalizer, err error) {
	norm := &unicodeTables().norm
	switch kind {
	case "NFC":
		n.apply = norm.nfc
	case "NFD":
		n.apply = norm.decompose
	case "NFKC":
		n.apply = compatibility().nfc
	case "NFKD":
		n.apply = compatibility().decompose
	case "Lowercase":
		n.apply = lowercase
	case "StripAccents":
		mark := unicodeProperties().contains("mark")
		n.apply, n.cuts = func(text string) string { return remove(text, mark) }, true
	case "Nmt":
		n.apply, n.cuts = nmt, true
	case "ByteLevel":
		n.apply = toPrintable
	case "Strip":
		var left, right bool
		err = objectFrom(raw, map[string]any{"type": &kind, "strip_left": &left, "strip_right": &right}, "strip_left", "strip_right")
		n.apply, n.cuts = func(text string) string { return stripBlanks(text, left, right) }, left
		return n, err
	case "Prepend":
		err = objectFrom(raw, map[string]any{"type": &kind, "prepend": &n.prepend}, "prepend")
		return n, err
	case "Replace":
		return readReplace(raw)
	default:
		return n, fmt.Errorf("it is not supported; NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Nmt, ByteLevel, Prepend and Replace are")
	}
	return n, objectFrom(raw, map[string]any{"type": &kind})
}

// readReplace reads a Replace, which is a normalizer and a decoder.
func readReplace(raw json.RawMessage) (normalizer, error) {
	var kind, content string
	var form map[string]string
	err := objectFrom(raw, map[string]any{"type": &kind, "pattern": &form, "content": &content}, "pattern", "content")
	if err != nil {
		return normalizer{}, err
	}
	find, err := readPattern(form)
	if err != nil {
		return normalizer{}, err
	}
	replace := func(text string) string {
		var out strings.Builder
		done := 0
		find(text, func(from, to int) {
			out.WriteString(text[done:from])
			out.WriteString(content)
			done = to
		})
		if done == 0 && out.Len() == 0 {
			return text
		}
		out.WriteString(text[done:])
		return out.String()
	}
	literal, isLiteral := form["String"]
	if isLiteral && literal != "" {
		replace = func(text string) string { return strings.ReplaceAll(text, literal, content) }
	}
	// A character in place of another one begins where that one began.
	cuts := !isLiteral || utf8.RuneCountInString(literal) != 1 || content == ""
	return normalizer{apply: replace, cuts: cuts}, nil
}

func lowercase(text string) string {
	lower := unicodeProperties().lower
	var out strings.Builder
	done := 0
	for i, r := range text {
		if into, ok := lower[r]; ok {
			out.WriteString(text[done:i])
			out.WriteString(into)
			done = i + utf8.RuneLen(r)
		}
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// remove takes all characters of a set out of a text.
func remove(text string, set func(rune) bool) string {
	if strings.IndexFunc(text, set) < 0 {
		return text
	}
	var out strings.Builder
	done := 0
	for i, r := range text {
		if set(r) {
			out.WriteString(text[done:i])
			done = i + utf8.RuneLen(r)
		}
	}
	out.WriteString(text[done:])
	return out.String()
}

func stripBlanks(text string, left, right bool) string {
	if left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text
}

// nmt is the normalizer Nmt: it takes control characters out, and makes spaces
// of some others.
func nmt(text string) string {
	text = remove(text, func(r rune) bool {
		return r >= 0x01 && r <= 0x08 || r == 0x0b || r >= 0x0e && r <= 0x1f || r == 0x7f || r == 0x8f || r == 0x9f
	})
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case size == 1 && r == utf8.RuneError:
			out = append(out, text[0])
		case r == '\t' || r == '\n' || r == '\f' || r == '\r' || r == 0x1680 || r >= 0x200b && r <= 0x200f ||
			r == 0x2028 || r == 0x2029 || r == 0x2581 || r == 0xfeff || r == 0xfffd:
			out = append(out, ' ')
		default:
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return string(out)
}
