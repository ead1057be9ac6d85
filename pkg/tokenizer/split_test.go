package tokenizer

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The pieces follow from reading the patterns.
func TestSplit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, text string
		want          []string
	}{
		{patternGPT2, "Hello world", []string{"Hello", " world"}},
		{patternGPT2, "it's we'll 'x", []string{"it", "'s", " we", "'ll", " '", "x"}},
		{patternGPT2, "a  b", []string{"a", " ", " b"}},
		{patternGPT2, "a \n b", []string{"a", " \n", " b"}},
		{patternGPT2, "a\n\nb", []string{"a", "\n", "\n", "b"}},
		{patternGPT2, "end  ", []string{"end", "  "}},
		{patternGPT2, "12+345=x2", []string{"12", "+", "345", "=", "x", "2"}},
		{patternGPT2, " !? 7", []string{" !?", " 7"}},
		{patternGPT2, "é٣\u00a0z", []string{"é", "٣", "\u00a0", "z"}},
		{patternGPT2, "a\xff\xfeb", []string{"a", "\xff\xfe", "b"}},
		{patternGPT2, " ", []string{" "}},
		{patternGPT2, "'", []string{"'"}},
		{patternGPT2, " 's", []string{" '", "s"}},
		{patternGPT2, "I'M", []string{"I", "'", "M"}},
		{patternLlama3, "I'M he'LL they'Re", []string{"I", "'M", " he", "'LL", " they", "'Re"}},
		{patternLlama3, "a'\u017f b'\u212a", []string{"a", "'\u017f", " b", "'\u212a"}},
		{patternLlama3, "'sword 'x", []string{"'s", "word", " '", "x"}},
		{patternLlama3, "12345678", []string{"123", "456", "78"}},
		{patternQwen2, "123", []string{"1", "2", "3"}},
		{patternLlama3, "a 12", []string{"a", " ", "12"}},
		{patternLlama3, "(word) .word\tx", []string{"(word", ")", " .", "word", "\tx"}},
		{patternLlama3, "x;\r\n\ny", []string{"x", ";\r\n\n", "y"}},
		{patternLlama3, " \n \n  y", []string{" \n \n", " ", " y"}},
		{patternLlama3, "\u3000x\u0085y", []string{"\u3000x", "\u0085y"}},
		{patternLlama3, "x   ", []string{"x", "   "}},
		{patternLlama3, "\xff\xfeb", []string{"\xff\xfe", "b"}},
		{patternLlama3, "\xffb", []string{"\xffb"}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, pieces(test.pattern, test.text)); diff != "" {
			t.Errorf("%q: %s", test.text, diff)
		}
	}
}

func pieces(pattern, text string) []string {
	var got []string
	for text != "" {
		n := splitters[pattern](unicodeTables(), text)
		got = append(got, text[:n])
		text = text[n:]
	}
	return got
}

// The counts are those that make_unicode.py found; 25 code points have
// White_Space since Unicode 6.3, and Unicode 9.0 has 2060 code points with a
// canonical decomposition beside the syllables of Hangul.
func TestUnicodeTables(t *testing.T) {
	t.Parallel()
	c := unicodeTables()
	count := map[class]int{}
	for r := rune(0); r <= 0x10ffff; r++ {
		if r < 0xd800 || r >= 0xe000 {
			count[c.at(r)&classMask]++
		}
	}
	if count[space] != 25 || count[letter] != 141028 || count[number] != 1911 {
		t.Errorf("counted %v", count)
	}
	if len(c.norm.pair) != 940 || len(c.norm.full) != 2060 {
		t.Errorf("%d compositions, %d decompositions", len(c.norm.pair), len(c.norm.full))
	}
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	n := &unicodeTables().norm
	tests := []struct{ text, want string }{
		{"", ""},
		{"plain", "plain"},
		{"cafe\u0301", "café"},
		{"\u0301a", "\u0301a"},
		{"\u212b\u2126", "ÅΩ"},
		{"a\u0302\u0323", "ậ"},                     // ordered, then composed
		{"a\u0315\u0300\u05aeb", "à\u05ae\u0315b"}, // NormalizationTest.txt, part 2
		{"\u1112\u1161\u11ab", "한"},
		{"\uac00\u11a8", "각"},
		{"\uac01\u11a8", "각\u11a8"},
		{"\u0958", "\u0915\u093c"}, // composition exclusion
		{"e\xff\u0301", "e\xff\u0301"},
		{"\xffe\u0301\xc3", "\xffé\xc3"},
		{"\U00011935\U00011930", "\U00011935\U00011930"}, // composes since Unicode 13
	}
	for _, test := range tests {
		if got := n.nfc(test.text); got != test.want {
			t.Errorf("%+q: got %+q, want %+q", test.text, got, test.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ae\u0301\u0323\u0302\u0315\u1100\u1161\u11a8\uac00\u0344\u09c7\u09be "))).Draw(t, "text")
		once := n.nfc(text)
		if twice := n.nfc(once); twice != once {
			t.Fatalf("%+q became %+q and then %+q", text, once, twice)
		}
	})
}

// TestConcurrent encodes the same texts from many goroutines, in different
// orders, so that they fill and replace the cache's slots beside each other.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	tok := peerTokenizer(t, "qwen2")
	texts := peerTexts(t)[:2000]
	want := make([][]int32, len(texts))
	for i, text := range texts {
		want[i] = encodeUncached(tok, text)
	}
	var group sync.WaitGroup
	for start := range 4 {
		group.Go(func() {
			for i := range texts {
				at := (i*7 + start*499) % len(texts)
				if got := tok.Encode(texts[at]); !slices.Equal(got, want[at]) {
					t.Errorf("%q: got %v, want %v", texts[at], got, want[at])
				}
			}
		})
	}
	group.Wait()
}

// encodeUncached encodes with an empty cache.
func encodeUncached(t *Tokenizer, text string) []int32 {
	fresh := *t
	fresh.cache = newPieceCache()
	return fresh.Encode(text)
}
