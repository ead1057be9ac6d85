package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/tokenizer/internal/pattern"
)

// place is where a stretch of text stands, which decides whether a blank is put
// before it.
type place uint8

const (
	inside    place = iota
	beginning       // at the first byte of the text
	continued       // behind what was encoded before, as if it were one text
)

// step is a pre-tokenizer: it changes a piece of text, cuts it, or both.
type step struct {
	change func(piece string, at place) string
	tile   splitter // a pattern that matches everywhere; every match is a piece
	cut    func(piece string, yield func(from, to int))
}

// appendSteps cuts a piece by the steps and encodes what comes out.
func (t *Tokenizer) appendSteps(ids []int32, steps []step, piece string, at place) []int32 {
	for i := range steps {
		s := &steps[i]
		if s.change != nil {
			piece = s.change(piece, at)
		}
		if s.tile != nil {
			return t.appendTiles(ids, s.tile, steps[i+1:], piece, at)
		}
		if s.cut != nil {
			s.cut(piece, func(from, to int) {
				if from < to {
					ids = t.appendSteps(ids, steps[i+1:], piece[from:to], placeAt(at, from))
				}
			})
			return ids
		}
	}
	if piece == "" {
		return ids
	}
	return t.appendPiece(ids, piece)
}

// appendTiles cuts a piece by a pattern that matches everywhere, and goes on with
// the steps behind it.
func (t *Tokenizer) appendTiles(ids []int32, tile splitter, steps []step, piece string, at place) []int32 {
	characters := t.characters
	if len(steps) == 0 {
		for piece != "" {
			n := tile(characters, piece)
			ids = t.appendPiece(ids, piece[:n])
			piece = piece[n:]
		}
		return ids
	}
	for piece != "" {
		n := tile(characters, piece)
		ids = t.appendSteps(ids, steps, piece[:n], at)
		piece, at = piece[n:], inside
	}
	return ids
}

// placeAt is the place of what begins so many bytes into a piece.
func placeAt(at place, from int) place {
	if from > 0 {
		return inside
	}
	return at
}

// finder calls yield with each match of a pattern, in order.
type finder func(text string, yield func(from, to int))

// readPattern reads the pattern of a Split or a Replace.
func readPattern(form map[string]string) (finder, error) {
	literal, isLiteral := form["String"]
	expression, isExpression := form["Regex"]
	switch {
	case len(form) != 1 || !isLiteral && !isExpression:
		return nil, fmt.Errorf(`pattern: want {"String": …} or {"Regex": …}`)
	case isLiteral && literal != "":
		return func(text string, yield func(from, to int)) {
			for at := 0; ; {
				i := strings.Index(text[at:], literal)
				if i < 0 {
					return
				}
				yield(at+i, at+i+len(literal))
				at += i + len(literal)
			}
		}, nil
	}
	// An empty literal matches as an empty expression does.
	compiled, err := pattern.Compile(expression, patternSet)
	if err != nil {
		return nil, fmt.Errorf("pattern %.200q: %w", expression, err)
	}
	return compiled.Each, nil
}

// eachIn finds every single character of a set.
func eachIn(set func(rune) bool) finder {
	return func(text string, yield func(from, to int)) {
		for i, r := range text {
			if !set(r) {
				continue
			}
			_, size := utf8.DecodeRuneInString(text[i:])
			yield(i, i+size)
		}
	}
}

// span is a part of a text that matches a pattern, or one that does not.
type span struct {
	from, to int
	match    bool
}

// cutter cuts a text at the matches of a pattern, in the peer's behaviours.
func cutter(find finder, behavior string, invert bool) (func(string, func(from, to int)), error) {
	switch behavior {
	case "Isolated", "Removed":
		gaps, matches := true, true
		if behavior == "Removed" {
			gaps, matches = !invert, invert
		}
		return func(text string, yield func(from, to int)) {
			done := 0
			find(text, func(from, to int) {
				if gaps {
					yield(done, from)
				}
				if matches {
					yield(from, to)
				}
				done = to
			})
			if gaps {
				yield(done, len(text))
			}
		}, nil
	case "MergedWithPrevious", "MergedWithNext", "Contiguous":
		return func(text string, yield func(from, to int)) {
			for _, s := range merged(spans(text, find, invert), behavior) {
				yield(s.from, s.to)
			}
		}, nil
	}
	return nil, fmt.Errorf("behavior: got %.100q, want Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", behavior)
}

// spans lists the matches of a pattern and what is between them.
func spans(text string, find finder, invert bool) []span {
	var all []span
	done := 0
	find(text, func(from, to int) {
		if done != from {
			all = append(all, span{done, from, invert})
		}
		all = append(all, span{from, to, !invert})
		done = to
	})
	if done != len(text) {
		all = append(all, span{done, len(text), invert})
	}
	return all
}

// merged joins spans: a match with the span before or behind it, unless that is
// a match, too; or all neighbours of a kind.
func merged(all []span, behavior string) []span {
	backward := behavior == "MergedWithNext"
	if backward {
		slices.Reverse(all)
	}
	var kept []span
	previous := false
	for _, s := range all {
		join := s.match && !previous
		if behavior == "Contiguous" {
			join = s.match == previous
		}
		if last := len(kept) - 1; join && last >= 0 {
			kept[last].from, kept[last].to = min(kept[last].from, s.from), max(kept[last].to, s.to)
		} else {
			kept = append(kept, s)
		}
		previous = s.match
	}
	if backward {
		slices.Reverse(kept)
	}
	return kept
}

// readPreTokenizer reads the component of that name.
func (f *tokenizerJSON) readPreTokenizer(t *Tokenizer) error {
	members, err := parts(f.preTokenizer, "pretokenizers")
	if err != nil {
		return refused("pre_tokenizer: %w", err)
	}
	byteLevels := 0
	for i, raw := range members {
		kind, err := kindOf(raw)
		if err != nil {
			return refused("pre_tokenizer: %w", err)
		}
		if kind == "ByteLevel" {
			byteLevels++
			// The model takes bytes for the characters that stand for them,
			// where nothing else comes between.
			t.bytes = i == len(members)-1 && byteLevels == 1 && !t.byteNormalizer
		}
		if err := t.readStep(kind, raw); err != nil {
			return refused("pre_tokenizer %.100s: %w", kind, err)
		}
	}
	return nil
}

func (t *Tokenizer) readStep(kind string, raw json.RawMessage) error {
	switch kind {
	case "ByteLevel":
		return t.readByteLevelStep(raw)
	case "Split":
		return t.readSplit(raw)
	case "Metaspace":
		return t.readMetaspaceStep(raw)
	case "Digits":
		var individual bool
		err := objectFrom(raw, map[string]any{"type": &kind, "individual_digits": &individual}, "individual_digits")
		behavior := "Contiguous"
		if individual {
			behavior = "Isolated"
		}
		return t.addCut(eachIn(unicodeProperties().contains("numeric")), behavior, false, err)
	case "Punctuation":
		behavior := "Isolated"
		err := objectFrom(raw, map[string]any{"type": &kind, "behavior": &behavior})
		return t.addCut(eachIn(unicodeProperties().contains("punctuation")), behavior, false, err)
	case "Whitespace":
		return t.addCut(wordsAndMarks, "Removed", true, objectFrom(raw, map[string]any{"type": &kind}))
	case "WhitespaceSplit":
		return t.addCut(eachIn(unicode.IsSpace), "Removed", false, objectFrom(raw, map[string]any{"type": &kind}))
	}
	return fmt.Errorf("it is not supported; ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace and WhitespaceSplit are")
}

// addCut adds a step that cuts, unless there was an error before.
func (t *Tokenizer) addCut(find finder, behavior string, invert bool, err error) error {
	if err != nil {
		return err
	}
	cut, err := cutter(find, behavior, invert)
	t.steps = append(t.steps, step{cut: cut})
	return err
}

// wordsAndMarks matches \w+|[^\w\s]+.
func wordsAndMarks(text string, yield func(from, to int)) {
	characters := unicodeTables()
	kind := func(r rune) int {
		switch {
		case characters.isWord(r):
			return 1
		case unicode.IsSpace(r):
			return 0
		}
		return 2
	}
	from, last := 0, 0
	for i, r := range text {
		if now := kind(r); now != last {
			if last > 0 {
				yield(from, i)
			}
			from, last = i, now
		}
	}
	if last > 0 {
		yield(from, len(text))
	}
}

func (t *Tokenizer) readByteLevelStep(raw json.RawMessage) error {
	b, err := readByteLevel(raw)
	if err != nil {
		return err
	}
	if b.addPrefixSpace {
		t.prefixes = true
		t.steps = append(t.steps, step{change: func(piece string, at place) string {
			if at == continued || strings.HasPrefix(piece, " ") {
				return piece
			}
			return " " + piece
		}})
	}
	if b.useRegex {
		t.steps = append(t.steps, step{tile: splitGPT2})
	}
	if !t.bytes {
		t.steps = append(t.steps, step{change: func(piece string, _ place) string { return toPrintable(piece) }})
	}
	return nil
}

func (t *Tokenizer) readSplit(raw json.RawMessage) error {
	var (
		kind, behavior string
		form           map[string]string
		invert         bool
	)
	err := objectFrom(raw, map[string]any{
		"type": &kind, "pattern": &form, "behavior": &behavior, "invert": &invert,
	}, "pattern", "behavior", "invert")
	if err != nil {
		return err
	}
	// Where a pattern matches everywhere, there is nothing else to remove.
	if tile := splitters[form["Regex"]]; tile != nil && len(form) == 1 && (behavior == "Isolated" || behavior == "Removed" && invert) {
		t.steps = append(t.steps, step{tile: tile})
		return nil
	}
	find, err := readPattern(form)
	return t.addCut(find, behavior, invert, err)
}

// metaspaceJSON is a Metaspace pre-tokenizer or decoder.
type metaspaceJSON struct {
	replacement string
	scheme      string
	split       bool
}

func readMetaspace(raw json.RawMessage) (metaspaceJSON, error) {
	m := metaspaceJSON{scheme: "always", split: true} // so in files older than the fields
	var kind, ignored string
	var addPrefixSpace *bool
	err := objectFrom(raw, map[string]any{
		"type": &kind, "replacement": &m.replacement, "prepend_scheme": &m.scheme, "split": &m.split,
		"add_prefix_space": &addPrefixSpace, "str_rep": &ignored,
	}, "replacement")
	if err != nil {
		return m, err
	}
	if addPrefixSpace != nil && !*addPrefixSpace {
		m.scheme = "never"
	}
	switch {
	case utf8.RuneCountInString(m.replacement) != 1:
		return m, fmt.Errorf("replacement: got %.100q, want one character", m.replacement)
	case m.scheme != "always" && m.scheme != "first" && m.scheme != "never":
		return m, fmt.Errorf("prepend_scheme: got %.100q, want always, first or never", m.scheme)
	}
	return m, nil
}

func (t *Tokenizer) readMetaspaceStep(raw json.RawMessage) error {
	m, err := readMetaspace(raw)
	if err != nil {
		return err
	}
	if m.scheme == "first" && slices.ContainsFunc(t.normalizers, func(n normalizer) bool { return n.cuts }) {
		return fmt.Errorf(`prepend_scheme "first" behind a normalizer that can take the beginning of a text away is not supported`)
	}
	t.prefixes = t.prefixes || m.scheme != "never"
	t.steps = append(t.steps, step{change: func(piece string, at place) string {
		piece = strings.ReplaceAll(piece, " ", m.replacement)
		wanted := m.scheme == "always" && at != continued || m.scheme == "first" && at == beginning
		if wanted && piece != "" && !strings.HasPrefix(piece, m.replacement) {
			return m.replacement + piece
		}
		return piece
	}})
	if !m.split {
		return nil
	}
	find, err := readPattern(map[string]string{"String": m.replacement})
	return t.addCut(find, "MergedWithNext", false, err)
}
