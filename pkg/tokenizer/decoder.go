package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decoder decodes token ids as they come. What it returns is always valid
// UTF-8 and, put together, equals what transformers' decode gives for all ids
// at once: a character whose bytes are spread over tokens comes out with the
// last of them, and U+FFFD stands for each maximal stretch of bytes that no
// character can begin with (The Unicode Standard, section 3.9, table 3-8). Where
// tokens such as <0x0A> stand for bytes, a character comes out when another
// token follows, because U+FFFD stands for each byte of a run that is not UTF-8.
//
// A Decoder is for one sequence and not for concurrent use.
type Decoder struct {
	// SkipSpecial leaves special tokens out.
	SkipSpecial bool

	tokenizer *Tokenizer
	form      decodedAs
	held      []byte  // the beginning of a character, at most 3 bytes
	stages    []stage // of a tokenizer with more than bytes, once a sequence has begun
}

// NewDecoder returns a decoder at the start of a sequence.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{tokenizer: t} }

// NewByteDecoder returns a decoder whose text, put together, equals what Decode
// gives: bytes that are no character come out as they are, and at once.
func (t *Tokenizer) NewByteDecoder() *Decoder {
	return &Decoder{tokenizer: t, form: decodedAs{raw: true}}
}

// Write takes the next ids and returns the text that is complete with them.
func (d *Decoder) Write(ids ...int32) string {
	var b strings.Builder
	if d.tokenizer.decoders != nil {
		d.begin()
		return runStages(d.stages, d.names(ids), false)
	}
	for _, id := range ids {
		if d.SkipSpecial && d.tokenizer.skipped(id) {
			continue
		}
		if d.form.raw {
			b.WriteString(d.tokenizer.Piece(id))
			continue
		}
		d.held = append(d.held, d.tokenizer.Piece(id)...)
		n := appendValid(&b, d.held)
		d.held = append(d.held[:0], d.held[n:]...)
	}
	return b.String()
}

func (d *Decoder) begin() {
	if d.stages == nil {
		d.stages = d.tokenizer.newStages(d.form)
	}
}

// names lists the tokens as the decoders of the file know them.
func (d *Decoder) names(ids []int32) []string {
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		if name := d.tokenizer.name(id); name != "" && !(d.SkipSpecial && d.tokenizer.skipped(id)) {
			names = append(names, name)
		}
	}
	return names
}

// Flush ends the sequence: it returns what was held back, and U+FFFD if a
// character was left incomplete. The decoder can then take another sequence.
func (d *Decoder) Flush() string {
	if d.tokenizer.decoders != nil {
		d.begin()
		rest := runStages(d.stages, nil, true)
		d.stages = nil
		return rest
	}
	if len(d.held) == 0 {
		return ""
	}
	d.held = d.held[:0]
	return string(utf8.RuneError)
}

// ValidText is a decoded text as transformers shows it: with U+FFFD for each
// maximal stretch of bytes that no character can begin with, so that it can be
// kept where text must be UTF-8.
func ValidText(decoded string) string {
	if utf8.ValidString(decoded) {
		return decoded
	}
	var b strings.Builder
	if raw := []byte(decoded); appendValid(&b, raw) < len(raw) {
		b.WriteRune(utf8.RuneError)
	}
	return b.String()
}

// appendValid writes raw as valid UTF-8, up to a character that is not yet
// complete, and returns how many bytes it took.
func appendValid(b *strings.Builder, raw []byte) int {
	n := 0
	for n < len(raw) {
		r, size := utf8.DecodeRune(raw[n:])
		if r != utf8.RuneError || size != 1 {
			b.Write(raw[n : n+size])
			n += size
			continue
		}
		if !utf8.FullRune(raw[n:]) {
			return n
		}
		b.WriteRune(utf8.RuneError)
		n += subpart(raw[n:])
	}
	return n
}

// subpart is the length of the maximal subpart of an ill-formed sequence: the
// longest beginning that some character has, or one byte.
func subpart(raw []byte) int {
	n := 1
	for n < len(raw) && !utf8.FullRune(raw[:n]) {
		n++
	}
	// FullRune says true as soon as the bytes cannot begin a character: the
	// last byte broke it off.
	return max(1, n-1)
}
