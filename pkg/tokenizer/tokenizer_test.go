package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

var testSpecials = []string{"<|end|>", "<|user|>", "<|user|>x", "<|pad|>"}

var testRoles = Roles{EOS: "<|end|>", Pad: "<|pad|>"}

// corpus is the text that the test BPE is trained on.
var corpus = []string{
	"the cat sat on the mat, the cat sat on the hat; it's the cat's hat",
	"12 + 34 = 46\n 56 - 7 = 49\n\n  12 * 12 = 144",
	"naïve café — déjà vu, 東京タワー 東京 🙂🙂",
}

func newBytes(t testing.TB) *Tokenizer {
	tok := must.Get(NewBytes(testSpecials, testRoles))(t)
	return tok
}

func newBPE(t testing.TB) *Tokenizer {
	tok := must.Get(Train(corpus, 320, testSpecials, testRoles))(t)
	return tok
}

func newNumbers(t testing.TB) *Tokenizer {
	tok := must.Get(TrainNumbers(corpus, 256+digitGroups+60, testSpecials, testRoles))(t)
	return tok
}

// Groups of digits are cut from the left, whatever the ranks of their merges;
// what is no number is merged as it was.
func TestNumbers(t *testing.T) {
	t.Parallel()
	tok := newNumbers(t)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"7", []string{"7"}},
		{"07", []string{"07"}},
		{"543", []string{"543"}},
		{"-48355", []string{"-", "483", "55"}},
		{"1000000", []string{"100", "000", "0"}},
		{"3.14159/2", []string{"3", ".", "141", "59", "/", "2"}},
		{" 12", []string{" ", "12"}},
		{"the 12 cats", []string{"the", " ", "12", " cat", "s"}},
	} {
		var got []string
		for _, id := range tok.EncodeText(c.text) {
			got = append(got, tok.Decode([]int32{id}))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q:\n%s", c.text, diff)
		}
	}
	for number := range 1000 {
		for _, format := range []string{"%d", "%02d", "%03d"} {
			if text := fmt.Sprintf(format, number); len(tok.EncodeText(text)) != 1 {
				t.Errorf("%q is %v", text, tok.EncodeText(text))
			}
		}
	}
	if _, err := TrainNumbers(corpus, 256+digitGroups+len(testSpecials)-1, testSpecials, testRoles); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a vocabulary too small for the groups: %v", err)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	tok := newBytes(t)
	if tok.Size() != 260 {
		t.Errorf("size %d, want 260", tok.Size())
	}
	// The longest special token at the leftmost place wins.
	want := []int32{'a', 258, 'y', 257, 256, 0xff}
	if diff := cmp.Diff(want, tok.Encode("a<|user|>xy<|user|><|end|>\xff")); diff != "" {
		t.Error(diff)
	}
	if got := tok.Decode(append(want, 260, -1)); got != "a<|user|>xy<|user|><|end|>\xff" {
		t.Errorf("decoded %q", got)
	}
	if got := tok.DecodeText(want); got != "ay\uFFFD" {
		t.Errorf("decoded text %q", got)
	}
	if got := tok.EncodeText("<|end|>"); len(got) != 7 {
		t.Errorf("a special token in text became %v", got)
	}
}

// The example of Sennrich et al. 2016, Figure 1, without end-of-word marks and
// as single words: counts low 5, lowest 2, newer 6, widest 3. Pairs: (e,r) 6;
// (w,e) 2+6 = 8; (e,s) 5; (s,t) 5; (l,o) 7; (o,w) 7; (n,e) 6; (e,w) 6. The best
// is (w,e); then (e,w) and (e,r) are broken up, and (l,o), (o,w) have 7 and
// 5 (lowest's w is gone): (l,o). Then (we,r) 6, (n,e) 6, (e,we) 6: the lowest
// left id is e (101): (e,we). Then (n,ewe) 6 and (ewe,r) 6: n is lower.
func TestTrain(t *testing.T) {
	t.Parallel()
	var texts []string
	for word, n := range map[string]int{"low": 5, "lowest": 2, "newer": 6, "widest": 3} {
		texts = append(texts, strings.TrimSpace(strings.Repeat(word+"\n", n)))
	}
	tok := must.Get(Train(texts, 260, nil, Roles{}))(t)
	if diff := cmp.Diff([]string{"we", "lo", "ewe", "newe"}, tok.pieces[256:]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int32{257, 256, 's', 't'}, tok.EncodeText("lowest")); diff != "" {
		t.Error(diff)
	}
	if _, err := Train(nil, 256, []string{"<s>"}, Roles{}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("too small a vocabulary: %v", err)
	}
	tiny, err := Train([]string{"ab"}, 300, []string{"<s>"}, Roles{})
	if err != nil || tiny.Size() != 258 {
		t.Errorf("exhausted pairs: size %d, %v; want 258", tiny.Size(), err)
	}
}

// mergeNaively is the definition: apply the lowest rank, leftmost, until none
// applies.
func mergeNaively(t *Tokenizer, piece string) []int32 {
	var ids []int32
	for i := range len(piece) {
		ids = append(ids, t.byteID[piece[i]])
	}
	for {
		best, at := len(t.merges), -1
		for i := range len(ids) - 1 {
			rank := slices.IndexFunc(t.merges, func(r rule) bool { return r.left == ids[i] && r.right == ids[i+1] })
			if rank >= 0 && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return ids
		}
		ids = append(ids[:at], append([]int32{t.merges[best].id}, ids[at+2:]...)...)
	}
}

func TestMergeAgainstDefinition(t *testing.T) {
	t.Parallel()
	tok := must.Get(Train([]string{strings.Repeat("abababaaabbbab aab ", 20), "ccabcabccc"}, 290, nil, Roles{}))(t)
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringMatching(`[abc ]{1,100}`).Draw(t, "piece")
		want := mergeNaively(tok, piece)
		if diff := cmp.Diff(want, tok.appendLong(nil, &longMerge{start: tok.appendSymbols(nil, piece)})); diff != "" {
			t.Fatalf("long: %s", diff)
		}
		if len(piece) <= shortPiece {
			if diff := cmp.Diff(want, tok.appendShort(nil, tok.appendSymbols(nil, piece))); diff != "" {
				t.Fatalf("short: %s", diff)
			}
		}
		if diff := cmp.Diff(want, tok.appendPiece(nil, piece)); diff != "" {
			t.Fatalf("with whole tokens and cache: %s", diff)
		}
	})
}

// Training on few letters makes pairs that spell the same token.
func TestTrainSavesWhatItMakes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,60}`), 1, 8).Draw(t, "texts")
		tok := must.Get(Train(texts, 300, testSpecials, testRoles))(t)
		files := must.Get(tok.Files(testFormat, 77))(t)
		back := must.Get(Parse(files[TokenizerFile]))(t)
		if !slices.Equal(tok.merges, back.merges) || !slices.Equal(tok.pieces, back.pieces) {
			t.Fatal("read back as another tokenizer")
		}
	})
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, tok := range map[string]*Tokenizer{
		"bytes": newBytes(t), "bpe": newBPE(t), "numbers": newNumbers(t), "gpt2": peerTokenizer(t, "gpt2"), "llama3": peerTokenizer(t, "llama3"), "qwen2": peerTokenizer(t, "qwen2"),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
				for _, ids := range [][]int32{tok.Encode(text), tok.EncodeText(text)} {
					if got, want := tok.Decode(ids), tok.normalize(text, beginning); got != want {
						t.Fatalf("%q came back as %q", want, got)
					}
					checkStream(t, tok, ids)
				}
			})
		})
	}
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	for name, tok := range map[string]*Tokenizer{"bytes": newBytes(t), "bpe": newBPE(t), "numbers": newNumbers(t)} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			must.Do(t, tok.Save(folder, testFormat, 77))
			chat := must.Get(LoadChat(folder))(t)
			if diff := cmp.Diff(testFormat, chat.Format()); diff != "" {
				t.Error(diff)
			}
			back := chat.Tokenizer()
			if !slices.Equal(tok.merges, back.merges) {
				t.Errorf("merges %v, read back as %v", tok.merges, back.merges)
			}
			for _, pair := range []struct{ made, read any }{
				{tok.pieces, back.pieces},
				{tok.byteID, back.byteID},
				{tok.Specials(), back.Specials()},
				{tok.Roles(), back.Roles()},
				{len(tok.steps), len(back.steps)},
				{tok.complete, back.complete},
				{tok.whole, back.whole},
			} {
				if diff := cmp.Diff(pair.made, pair.read); diff != "" {
					t.Error(diff)
				}
			}
			got := must.Get(os.ReadFile(filepath.Join(folder, TokenizerFile)))(t)
			// What testdata/make_golden.py reads: run it after -update.
			golden.Check(t, filepath.Join("testdata", name+".tokenizer.json"), got)
		})
	}
}

// The golden ids were computed by Hugging Face tokenizers from the golden
// tokenizer.json files (testdata/make_golden.py names the version).
func TestAgainstHuggingFace(t *testing.T) {
	t.Parallel()
	raw := must.Get(os.ReadFile(filepath.Join("testdata", "golden.json")))(t)
	var golden struct {
		Cases []struct {
			Tokenizer, Text string
			IDs             []int32
		}
	}
	must.Do(t, json.Unmarshal(raw, &golden))
	if len(golden.Cases) < 100 {
		t.Fatalf("%d cases", len(golden.Cases))
	}
	tokenizers := map[string]*Tokenizer{"bytes": newBytes(t), "bpe": newBPE(t), "numbers": newNumbers(t)}
	for _, c := range golden.Cases {
		if got := tokenizers[c.Tokenizer].Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%s %q: got %v, want %v", c.Tokenizer, c.Text, got, c.IDs)
		}
	}
}

func TestPrintableBytes(t *testing.T) {
	t.Parallel()
	// openai/gpt-2, bytes_to_unicode: space is Ġ, newline Ċ, and 0xad, the
	// soft hyphen, the last of the moved bytes, is U+0143.
	for b, want := range map[byte]rune{' ': 'Ġ', '\n': 'Ċ', 'a': 'a', 0x00: 'Ā', 0xad: 'Ń', 0xff: 'ÿ'} {
		if byteRunes[b] != want {
			t.Errorf("byte %#x is %q, want %q", b, byteRunes[b], want)
		}
	}
	for b := range 256 {
		if got, ok := fromPrintable(toPrintable(string([]byte{byte(b)}))); !ok || got != string([]byte{byte(b)}) {
			t.Errorf("byte %#x came back as %q", b, got)
		}
	}
}

// onlyTiles reports whether no step of the pre-tokenizer takes text away.
func onlyTiles(tok *Tokenizer) bool {
	return !slices.ContainsFunc(tok.steps, func(s step) bool { return s.tile == nil })
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"bytes", "bpe", "numbers"} {
		raw := must.Get(os.ReadFile(filepath.Join("testdata", name+".tokenizer.json")))(f)
		f.Add(raw, []byte(`{"eos_token":"<|end|>"}`), "the cat's 12 + 34 \xff<|end|>")
	}
	f.Add([]byte(hostileTokenizer()), []byte(`{"added_tokens_decoder":{"258":{"content":"<|end|>","lstrip":true}},"pad_token":"ab"}`), "a \t<|end|>cafe\u0301 \r\n")
	f.Add(unpacked(f, "flags1.json.gz"), []byte(`{}`), "[WORD]whole [LEFT]\t\t [RIGHT]\u212b<|x y|>")
	for _, components := range []string{
		`"normalizer":{"type":"Prepend","prepend":"a"},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a+(?!b)|\\s"},"behavior":"MergedWithNext","invert":false},"decoder":{"type":"Metaspace","replacement":"a"}`,
		`"normalizer":{"type":"Replace","pattern":{"String":""},"content":"a"},"pre_tokenizer":{"type":"Metaspace","replacement":"a","prepend_scheme":"first"},"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":"a","start":1,"stop":2}]}`,
	} {
		f.Add([]byte(`{"version":"1.0","added_tokens":[],`+components+`,"model":{"type":"BPE","unk_token":"b","byte_fallback":true,"vocab":{"a":0,"b":1,"aa":2,"<0xC3>":3},"merges":[["a","a"]]}}`), []byte(`{}`), "aab é\xffa")
	}
	f.Fuzz(func(t *testing.T, raw, config []byte, text string) {
		folder := t.TempDir()
		for name, content := range map[string][]byte{TokenizerFile: raw, ConfigFile: config} {
			must.Do(t, os.WriteFile(filepath.Join(folder, name), content, 0o666))
		}
		tok, err := Load(folder)
		if err != nil {
			if exitcode.Code(err) != exitcode.Data || !utf8.ValidString(err.Error()) || !strings.Contains(err.Error(), folder) {
				t.Fatalf("code %d for %v", exitcode.Code(err), err)
			}
			return
		}
		ids := tok.WithSpecial(tok.Encode(text))
		for _, id := range ids {
			if id < 0 || int(id) >= tok.Size() {
				t.Fatalf("id %d of %d", id, tok.Size())
			}
		}
		checkStream(t, tok, ids)
		if len(tok.added)+len(tok.normalizers) == 0 && !tok.prefixes && tok.complete && tok.decoders == nil && onlyTiles(tok) {
			if got := tok.Decode(tok.EncodeText(text)); got != text {
				t.Fatalf("%q came back as %q", text, got)
			}
		}
	})
}
