package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// stage is a decoder of the peer that takes tokens as they come. What it
// returns, put together, is what the peer's decoder makes of all of them at
// once: last says that no more follow.
type stage interface {
	write(tokens []string, last bool) []string
}

// stageKind makes stages of one decoder of a file. fused says that a decoder
// before it has made one token of all of them, whose parts the stage then gets;
// form says what is wanted.
type stageKind func(fused bool, form decodedAs) stage

// decodedAs is how tokens are decoded.
type decodedAs struct {
	raw    bool // bytes that are no character as they are
	middle bool // as they stand behind others
}

// newStages makes the stages of a tokenizer's decoder.
func (t *Tokenizer) newStages(form decodedAs) []stage {
	var stages []stage
	fused := false
	for _, kind := range t.decoders {
		s := kind.stage(fused, form)
		fused = fused || kind.fuses
		stages = append(stages, s)
	}
	return stages
}

// runStages sends tokens through stages and returns the text that comes out.
func runStages(stages []stage, tokens []string, last bool) string {
	for _, s := range stages {
		tokens = s.write(tokens, last)
	}
	return strings.Join(tokens, "")
}

// decoderKind is a decoder of a file.
type decoderKind struct {
	stage stageKind
	fuses bool
}

// readDecoder reads the component of that name. A tokenizer without one puts
// blanks between its tokens.
func (f *tokenizerJSON) readDecoder(t *Tokenizer) error {
	members, err := parts(f.decode, "decoders")
	if err != nil {
		return refused("decoder: %w", err)
	}
	if isNull(f.decode) {
		t.decoders = []decoderKind{{stage: func(_ bool, form decodedAs) stage { return &spaced{behind: form.middle} }}}
		return nil
	}
	kinds := make([]string, len(members))
	for i, raw := range members {
		if kinds[i], err = kindOf(raw); err != nil {
			return refused("decoder: %w", err)
		}
		kind, err := readStage(kinds[i], raw)
		if err != nil {
			return refused("decoder %.100s: %w", kinds[i], err)
		}
		t.decoders = append(t.decoders, kind)
	}
	switch {
	case len(kinds) == 0:
		t.decoders = []decoderKind{{stage: func(bool, decodedAs) stage { return pass{} }}}
	case slices.Equal(kinds, []string{"ByteLevel"}):
		t.decoders = nil // the bytes of a token are then known without the others
	}
	return nil
}

func readStage(kind string, raw json.RawMessage) (decoderKind, error) {
	switch kind {
	case "ByteLevel":
		_, err := readByteLevel(raw)
		return decoderKind{fuses: true, stage: func(_ bool, form decodedAs) stage { return &byteLevelStage{raw: form.raw} }}, err
	case "Fuse":
		return decoderKind{fuses: true, stage: func(bool, decodedAs) stage { return pass{} }}, objectFrom(raw, map[string]any{"type": &kind})
	case "ByteFallback":
		newStage := func(fused bool, form decodedAs) stage {
			if fused {
				return &held{one: func(text string) string {
					return runStages([]stage{&byteFallback{raw: form.raw}}, []string{text}, true)
				}}
			}
			return &byteFallback{raw: form.raw}
		}
		return decoderKind{stage: newStage}, objectFrom(raw, map[string]any{"type": &kind})
	case "Replace":
		replace, err := readReplace(raw)
		newStage := func(fused bool, _ decodedAs) stage {
			if fused {
				return &held{one: replace.apply}
			}
			return each(replace.apply)
		}
		return decoderKind{stage: newStage}, err
	case "Metaspace":
		m, err := readMetaspace(raw)
		newStage := func(fused bool, form decodedAs) stage {
			return &metaspaceStage{mark: m.replacement, first: m.scheme != "never" && !form.middle, fused: fused}
		}
		return decoderKind{stage: newStage}, err
	case "Strip":
		var content string
		var start, stop int
		err := objectFrom(raw, map[string]any{"type": &kind, "content": &content, "start": &start, "stop": &stop}, "content", "start", "stop")
		if err == nil && (utf8.RuneCountInString(content) != 1 || start < 0 || stop < 0) {
			err = fmt.Errorf("content, start and stop: got %.100q, %d and %d, want one character and no negative numbers", content, start, stop)
		}
		newStage := func(fused bool, form decodedAs) stage {
			s := &stripStage{content: content, start: start, stop: stop}
			if !fused {
				return each(func(token string) string {
					alone := *s
					return strings.Join(alone.write([]string{token}, true), "")
				})
			}
			if form.middle {
				s.start = 0
			}
			return s
		}
		return decoderKind{stage: newStage}, err
	}
	return decoderKind{}, fmt.Errorf("it is not supported; ByteLevel, Metaspace, ByteFallback, Fuse, Strip and Replace are")
}

// pass changes nothing.
type pass struct{}

func (pass) write(tokens []string, _ bool) []string { return tokens }

// each changes every token by itself.
type each func(token string) string

func (e each) write(tokens []string, _ bool) []string {
	changed := make([]string, len(tokens))
	for i, token := range tokens {
		changed[i] = e(token)
	}
	return changed
}

// held changes one text when all of it has come.
type held struct {
	text strings.Builder
	one  func(text string) string
}

func (h *held) write(tokens []string, last bool) []string {
	for _, token := range tokens {
		h.text.WriteString(token)
	}
	if !last {
		return nil
	}
	text := h.text.String()
	h.text.Reset()
	return []string{h.one(text)}
}

// spaced puts blanks between tokens.
type spaced struct{ behind bool }

func (s *spaced) write(tokens []string, _ bool) []string {
	out := make([]string, len(tokens))
	for i, token := range tokens {
		if s.behind {
			token = " " + token
		}
		out[i], s.behind = token, true
	}
	return out
}

// byteLevelStage makes bytes of the characters that stand for them, and one
// text of all bytes.
type byteLevelStage struct {
	raw  bool
	tail []byte // the beginning of a character
}

func (s *byteLevelStage) write(tokens []string, last bool) []string {
	var out strings.Builder
	for _, token := range tokens {
		if s.raw {
			out.WriteString(decodedForm(token))
			continue
		}
		s.tail = append(s.tail, decodedForm(token)...)
	}
	s.tail = append(s.tail[:0], s.tail[appendValid(&out, s.tail):]...)
	if last && len(s.tail) > 0 {
		s.tail = s.tail[:0]
		out.WriteRune(utf8.RuneError)
	}
	return []string{out.String()}
}

// byteFallback makes text of tokens such as <0x0A>. A run of them that is not
// UTF-8 is one U+FFFD for each, which shows when the run has ended.
type byteFallback struct {
	raw bool
	run []byte
}

func (s *byteFallback) write(tokens []string, last bool) []string {
	var out []string
	for _, token := range tokens {
		b, ok := fallbackByte(token)
		switch {
		case ok && s.raw:
			out = append(out, string([]byte{b}))
		case ok:
			s.run = append(s.run, b)
		default:
			out = append(s.end(out), token)
		}
	}
	if last {
		out = s.end(out)
	}
	return out
}

func (s *byteFallback) end(out []string) []string {
	if utf8.Valid(s.run) {
		if len(s.run) > 0 {
			out = append(out, string(s.run))
		}
	} else {
		for range s.run {
			out = append(out, string(utf8.RuneError))
		}
	}
	s.run = s.run[:0]
	return out
}

// fallbackByte returns the byte that a token such as <0x0A> stands for.
func fallbackByte(token string) (byte, bool) {
	if len(token) != len("<0x00>") || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	value, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(value), err == nil
}

// metaspaceStage makes blanks of the marks that stand for them, and nothing of
// those of the first token.
type metaspaceStage struct {
	mark         string
	first, fused bool
}

func (s *metaspaceStage) write(tokens []string, _ bool) []string {
	out := make([]string, len(tokens))
	for i, token := range tokens {
		blank := " "
		if s.first {
			blank = ""
		}
		out[i] = strings.ReplaceAll(token, s.mark, blank)
		s.first = s.first && s.fused
	}
	return out
}

// stripStage takes up to start of a character off the beginning of a text, and
// up to stop off its end.
type stripStage struct {
	content     string
	start, stop int
	begun       bool
	tail        int // how many of the character were held back
}

func (s *stripStage) write(tokens []string, last bool) []string {
	text := strings.Join(tokens, "")
	for !s.begun && s.start > 0 && strings.HasPrefix(text, s.content) {
		text = text[len(s.content):]
		s.start--
	}
	s.begun = s.begun || text != "" || s.start == 0
	text = strings.Repeat(s.content, s.tail) + text
	s.tail = 0
	for s.tail < s.stop && strings.HasSuffix(text, s.content) {
		text = text[:len(text)-len(s.content)]
		s.tail++
	}
	return []string{text}
}
