package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// pipeline is a tokenizer.json whose vocabulary is a list of names.
func pipeline(t testing.TB, model, components string, names ...string) *Tokenizer {
	t.Helper()
	vocab := map[string]int{}
	for id, name := range names {
		vocab[name] = id
	}
	raw := must.Get(json.Marshal(vocab))(t)
	return must.Get(Parse(fmt.Appendf(nil, `{"version":"1.0","added_tokens":[]%s,"model":{"type":"BPE","vocab":%s,"merges":[]%s}}`, components, raw, model)))(t)
}

// What has no token falls back on its bytes if all have one, and else on the
// token for what is unknown, which waits for the next character that is known.
func TestCharactersWithoutToken(t *testing.T) {
	t.Parallel()
	names := []string{"a", "<unk>", "<0xC3>", "<0xA9>", "é"}
	for _, c := range []struct {
		model, text string
		want        []int32
	}{
		{``, "axa", []int32{0, 0}},
		{`,"unk_token":"<unk>"`, "axxa", []int32{0, 1, 1, 0}},
		{`,"unk_token":"<unk>","fuse_unk":true`, "axxax", []int32{0, 1, 0, 1}},
		{`,"byte_fallback":true`, "aãaé", []int32{0, 0, 4}},
		{`,"unk_token":"<unk>","byte_fallback":true`, "ãa", []int32{1, 0}},
		{`,"unk_token":"<unk>","byte_fallback":true`, "x\xc3\xa9a", []int32{1, 4, 0}},
		{`,"byte_fallback":true`, "\xc3a\xff", []int32{2, 0}}, // bytes that are no character
	} {
		if diff := cmp.Diff(c.want, pipeline(t, c.model, "", names...).Encode(c.text)); diff != "" {
			t.Errorf("%s %q: %s", c.model, c.text, diff)
		}
	}
	// The bytes of é have tokens; x waits behind them, as for the peer.
	waiting := pipeline(t, `,"unk_token":"<unk>","byte_fallback":true`, "", "a", "<unk>", "<0xC3>", "<0xA9>")
	if diff := cmp.Diff([]int32{2, 3, 1, 0}, waiting.Encode("xéa")); diff != "" {
		t.Error(diff)
	}
}

// Llama 2 puts ▁ before a text, and before what follows an added token, but not
// before what continues a text; the first blank is not decoded.
func TestBlankBeforeText(t *testing.T) {
	t.Parallel()
	llama := `,"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}`
	tok := pipeline(t, "", llama, "▁", "a", "b", "<s>", "<0xE2>", "<0x82>", "<0xAC>")
	tok.added = []addedToken{{id: 3, content: "<s>", special: true}}
	must.Do(t, tok.setAdded())
	if diff := cmp.Diff([]int32{0, 1, 0, 2, 3, 0, 1}, tok.Encode("a b<s>a")); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		before []int32
		want   []int32
	}{
		{nil, []int32{0, 1}}, {[]int32{2}, []int32{1}}, {[]int32{3}, []int32{0, 1}}, {[]int32{-1}, []int32{1}},
	} {
		if diff := cmp.Diff(c.want, tok.Continue(slices.Clone(c.before), "a", false)[len(c.before):]); diff != "" {
			t.Errorf("behind %v: %s", c.before, diff)
		}
	}
	if got := tok.Piece(0) + tok.Piece(1) + tok.Piece(9); got != " a" {
		t.Errorf("pieces %q", got)
	}
	d := tok.NewDecoder()
	var parts []string
	for _, id := range []int32{0, 0, 1, 4, 5, 6, 4, 2, 4, 5} {
		parts = append(parts, d.Write(id))
	}
	parts = append(parts, d.Flush())
	// € comes out when its run of bytes ends, and is none: a fourth byte begins another one.
	if diff := cmp.Diff([]string{"", " ", "a", "", "", "", "", "\ufffd\ufffd\ufffd\ufffdb", "", "", "\ufffd\ufffd"}, parts); diff != "" {
		t.Error(diff)
	}
	if got := tok.Decode([]int32{0, 4, 5, 6, 4}); got != "€\xe2" {
		t.Errorf("bytes %q", got)
	}
}

// A text that is cut anywhere into pieces is all there, whatever the behaviour
// is, unless matches are removed.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	find := must.Get(readPattern(map[string]string{"Regex": "a+|,"}))(t)
	for _, c := range []struct {
		behavior string
		invert   bool
		want     string
	}{
		{"Isolated", false, "b|aa|,|c|a"},
		{"Removed", false, "b|c"},
		{"Removed", true, "aa|,|a"},
		{"MergedWithPrevious", false, "baa|,|ca"},
		{"MergedWithNext", false, "b|aa|,c|a"},
		{"Contiguous", false, "b|aa,|c|a"},
		{"MergedWithPrevious", true, "b|aa|,c|a"},
		{"MergedWithNext", true, "baa|,|ca"},
	} {
		cut := must.Get(cutter(find, c.behavior, c.invert))(t)
		var got []string
		text := "baa,ca"
		cut(text, func(from, to int) {
			if from < to {
				got = append(got, text[from:to])
			}
		})
		if joined := strings.Join(got, "|"); joined != c.want {
			t.Errorf("%s, inverted %v: got %q, want %q", c.behavior, c.invert, joined, c.want)
		}
	}
}

func kinds(t testing.TB) map[string]*Tokenizer {
	t.Helper()
	var golden struct {
		Kinds map[string]struct{ Tokenizer json.RawMessage }
	}
	must.Do(t, json.Unmarshal(unpacked(t, "kinds.json.gz"), &golden))
	all := map[string]*Tokenizer{}
	for name, kind := range golden.Kinds {
		all[name] = must.Get(Parse(kind.Tokenizer))(t)
	}
	return all
}

// Any ids, decoded one by one, give what they give at once.
func TestStreamsOfEveryKind(t *testing.T) {
	t.Parallel()
	all := kinds(t)
	names := slices.Sorted(maps.Keys(all))
	rapid.Check(t, func(t *rapid.T) {
		tok := all[rapid.SampledFrom(names).Draw(t, "kind")]
		ids := rapid.SliceOfN(rapid.Int32Range(-1, int32(tok.Size())), 0, 40).Draw(t, "ids")
		checkStream(t, tok, ids)
		bytes := tok.NewByteDecoder()
		var got strings.Builder
		for _, id := range ids {
			got.WriteString(bytes.Write(id))
		}
		got.WriteString(bytes.Flush())
		if want := tok.Decode(ids); got.String() != want {
			t.Fatalf("one by one %q, at once %q", got.String(), want)
		}
	})
}

// Each would take hours if anything were quadratic in the length of a text.
func TestWorstTextsOfEveryKind(t *testing.T) {
	t.Parallel()
	for name, tok := range kinds(t) {
		for kind, text := range worstTexts(1 << 15) {
			ids := tok.Encode(text)
			if slices.ContainsFunc(ids, func(id int32) bool { return id < 0 || int(id) >= tok.Size() }) {
				t.Errorf("%s, %s: an id that is none", name, kind)
			}
			tok.DecodeText(ids)
		}
	}
}

func TestProperties(t *testing.T) {
	t.Parallel()
	p := unicodeProperties()
	// Rust's numeric characters are those of Nd, Nl and No, of a newer version.
	for name, want := range map[string]string{"numeric": "0²Ⅷ٣", "punctuation": "!_。$", "mark": "\u0301", "Lu": "AÉ", "P": "!_。", "Han": "東", "word": "a_é3", "space": " \u3000\n"} {
		set := p.contains(name)
		for _, r := range want {
			if !set(r) {
				t.Errorf("%q is not in %s", r, name)
			}
		}
		if set('\u0378') {
			t.Errorf("a code point without a character is in %s", name)
		}
	}
	if patternSet("mark") != nil || patternSet("Cypriot") != nil {
		t.Error("a pattern can name a set that Oniguruma has otherwise")
	}
	for _, c := range []struct{ kind, text, want string }{
		{"NFKC", "ﬁ①\uff21\u1e9b\u0323", "fi1Aṩ"},
		{"NFKD", "é½", "e\u03011\u20442"},
		{"NFD", "é\xff가a\u0315\u0300", "e\u0301\xff\u1100\u1161a\u0300\u0315"},
		{"Lowercase", "AÉİ\xffΣ", "aéi\u0307\xffσ"},
		{"StripAccents", "e\u0301\xff", "e\xff"},
		{"Nmt", "a\tb\u200b\x01\xff", "a b \xff"},
	} {
		n := must.Get(readNormalizer(c.kind, fmt.Appendf(nil, `{"type":%q}`, c.kind)))(t)
		if got := n.apply(c.text); got != c.want {
			t.Errorf("%s of %+q: got %+q, want %+q", c.kind, c.text, got, c.want)
		}
	}
}
