package tokenizer

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// normalization holds the canonical normalization data of the peer (Unicode
// 9.0), or those with compatibility decompositions. golang.org/x/text/unicode/norm is not used for two reasons: it knows
// later compositions and combining classes, which the peer does not apply, and
// it follows the stream-safe format, which inserts U+034F after 30 combining
// marks.
type normalization struct {
	class map[rune]uint8   // canonical combining classes that are not 0
	full  map[rune][]rune  // full decompositions but those of Hangul
	pair  map[[2]rune]rune // primary composites by their two parts
	// stirs has a bit for each code point that NFC can change or move, or that
	// can compose with what stands before it. A text without any is in NFC.
	stirs []uint64
}

// Hangul syllables compose by arithmetic (The Unicode Standard, section 3.12).
const (
	hangulFirst, leadFirst, vowelFirst, trailFirst = 0xac00, 0x1100, 0x1161, 0x11a7
	leads, vowels, trails                          = 19, 21, 28
	syllables                                      = leads * vowels * trails
)

func (n *normalization) finish() {
	n.stirs = make([]uint64, (utf8.MaxRune+64)/64)
	set := func(r rune) { n.stirs[r/64] |= 1 << (r % 64) }
	for r := range n.class {
		set(r)
	}
	for parts := range n.pair {
		set(parts[1])
	}
	for r := rune(vowelFirst); r < vowelFirst+vowels; r++ {
		set(r)
	}
	for r := rune(trailFirst + 1); r < trailFirst+trails; r++ {
		set(r)
	}
	stable := make(map[rune]bool, len(n.pair))
	for _, composed := range n.pair {
		stable[composed] = true
	}
	for r, parts := range n.full {
		if !stable[r] || n.stir(parts[0]) {
			set(r)
		}
	}
}

// compatibility is the normalization with compatibility decompositions.
var compatibility = sync.OnceValue(func() *normalization {
	canonical := &unicodeTables().norm
	n := &normalization{class: canonical.class, full: maps.Clone(canonical.full), pair: canonical.pair}
	maps.Copy(n.full, unicodeProperties().compatible)
	n.finish()
	for r := range unicodeProperties().compatible {
		n.stirs[r/64] |= 1 << (r % 64)
	}
	return n
})

// decompose returns the decomposition (Unicode Standard Annex 15, form D).
// Bytes that are not UTF-8 stay as they are.
func (n *normalization) decompose(text string) string {
	var out strings.Builder
	out.Grow(len(text) + 16)
	var segment composer
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if size == 1 {
			// ASCII and what is not UTF-8 neither moves nor changes.
			segment.write(&out)
			out.WriteByte(text[0])
		} else {
			segment.add(n, r)
		}
		text = text[size:]
	}
	segment.write(&out)
	return out.String()
}

// write writes the decomposed form, and takes another stretch.
func (c *composer) write(out *strings.Builder) {
	c.sortMarks()
	for _, r := range c.runes {
		out.WriteRune(r)
	}
	c.reset()
}

// nfc returns the canonical composition (Unicode Standard Annex 15, form C).
// Bytes that are not UTF-8 stay as they are and compose with nothing.
func (n *normalization) nfc(text string) string {
	start := n.calm(text)
	if start == len(text) {
		return text
	}
	var out strings.Builder
	out.Grow(len(text) + 16)
	var segment composer
	for text != "" {
		// Up to the last character before the first one that stirs nothing
		// can change: it is copied. That last one may compose with it.
		calm := n.calm(text)
		if calm < len(text) && calm > 0 {
			_, size := utf8.DecodeLastRuneInString(text[:calm])
			calm -= size
		}
		out.WriteString(text[:calm])
		text = text[calm:]
		segment.reset()
		for first := true; text != ""; first = false {
			r, size := utf8.DecodeRuneInString(text)
			invalid := r == utf8.RuneError && size == 1
			if !first && (invalid || !n.stir(r)) {
				break
			}
			if invalid {
				out.WriteByte(text[0])
				text = text[1:]
				break
			}
			segment.add(n, r)
			text = text[size:]
		}
		segment.compose(n, &out)
	}
	return out.String()
}

func (n *normalization) stir(r rune) bool { return n.stirs[r/64]>>(r%64)&1 != 0 }

// calm is the length of the longest prefix without a character that stirs.
func (n *normalization) calm(text string) int {
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if n.stir(r) {
			return i
		}
		i += size
	}
	return len(text)
}

// composer holds one stretch of text in decomposed form.
type composer struct {
	runes   []rune
	classes []uint8
}

func (c *composer) reset() { c.runes, c.classes = c.runes[:0], c.classes[:0] }

func (c *composer) add(n *normalization, r rune) {
	if s := r - hangulFirst; s >= 0 && s < syllables {
		c.push(n, leadFirst+s/(vowels*trails))
		c.push(n, vowelFirst+s/trails%vowels)
		if s%trails != 0 {
			c.push(n, trailFirst+s%trails)
		}
		return
	}
	parts, ok := n.full[r]
	if !ok {
		c.push(n, r)
	}
	for _, part := range parts {
		c.push(n, part)
	}
}

func (c *composer) push(n *normalization, r rune) {
	c.runes = append(c.runes, r)
	c.classes = append(c.classes, n.class[r])
}

// compose orders each run of marks by class, keeping equals in their order,
// composes, and writes the result.
func (c *composer) compose(n *normalization, out *strings.Builder) {
	c.sortMarks()
	starter := -1 // where the last starter is, once written over
	last := -1    // class of the character kept before this one, -1 after the starter
	kept := c.runes[:0]
	for i, r := range c.runes {
		class := int(c.classes[i])
		if starter >= 0 && last < class {
			if composed, ok := n.composePair(kept[starter], r); ok {
				kept[starter] = composed
				continue
			}
		}
		kept = append(kept, r)
		last = class
		if class == 0 {
			starter, last = len(kept)-1, -1
		}
	}
	for _, r := range kept {
		out.WriteRune(r)
	}
}

func (c *composer) sortMarks() {
	for from := 0; from < len(c.classes); {
		to := from
		for to < len(c.classes) && c.classes[to] != 0 {
			to++
		}
		if to-from > 1 && !slices.IsSorted(c.classes[from:to]) {
			c.countingSort(from, to)
		}
		from = to + 1
	}
}

// countingSort keeps a run of a million marks linear.
func (c *composer) countingSort(from, to int) {
	var starts [257]int
	for _, class := range c.classes[from:to] {
		starts[int(class)+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	runes, classes := slices.Clone(c.runes[from:to]), slices.Clone(c.classes[from:to])
	for i, class := range classes {
		at := from + starts[class]
		starts[class]++
		c.runes[at], c.classes[at] = runes[i], class
	}
}

func (n *normalization) composePair(a, b rune) (rune, bool) {
	if l, v := a-leadFirst, b-vowelFirst; l >= 0 && l < leads && v >= 0 && v < vowels {
		return hangulFirst + (l*vowels+v)*trails, true
	}
	if s, t := a-hangulFirst, b-trailFirst; s >= 0 && s < syllables && s%trails == 0 && t > 0 && t < trails {
		return a + t, true
	}
	composed, ok := n.pair[[2]rune{a, b}]
	return composed, ok
}
