package tokenizer_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// A tokenizer of bytes counts bytes: the ellipsis takes three.
func TestTail(t *testing.T) {
	t.Parallel()
	bytes := must.Get(tokenizer.NewBytes([]string{"<|end|>"}, tokenizer.Roles{}))(t)
	for _, c := range []struct {
		text   string
		tokens int
		want   string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcdef", 5, "…ef"},
		{"abcdef", 3, "…"},
		{"abcdef", 2, ""},
		{"aaüb", 5, "aaüb"},
		{"aaaüb", 5, "…b"}, // the ü has two bytes, of which one would fit
		{strings.Repeat("x", 1<<20) + "end", 6, "…end"},
		{"x<|end|>", 7, "…nd|>"}, // text that names a special token is text
	} {
		if got := bytes.Tail(c.text, c.tokens); got != c.want {
			t.Errorf("the last %d bytes of %.20q: %q, want %q", c.tokens, c.text, got, c.want)
		}
	}
}

// wordTokens knows the words of one message.
func wordTokens(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	words := must.Get(tokenizer.Train([]string{strings.Repeat("ValueError: could not convert string to float: 'New York'\n", 20)}, 400, nil, tokenizer.Roles{}))(t)
	return words
}

// Three tokens are the whole text and not its end without the first letter.
func TestTailOfWordsLeavesWhatFits(t *testing.T) {
	t.Parallel()
	const text = "ValueError: float"
	words := wordTokens(t)
	if whole, end := len(words.EncodeText(text)), len(words.EncodeText(text[1:])); whole != 3 || end <= 3 {
		t.Fatalf("%d tokens, and %d without the first letter: the case needs 3 and more", whole, end)
	}
	if got := words.Tail(text, 3); got != text {
		t.Errorf("%q fits whole, and %q is left", text, got)
	}
}

// The end is one, it fits, and one character more would not have.
func TestTailIsTheLongest(t *testing.T) {
	t.Parallel()
	words := wordTokens(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(ValueError: |could not |\n|float|ü|…|[a-z ]){0,60}`).Draw(t, "text")
		tokens := rapid.IntRange(0, 60).Draw(t, "tokens")
		tail := words.Tail(text, tokens)
		if n := len(words.EncodeText(tail)); n > tokens || !utf8.ValidString(tail) {
			t.Fatalf("%q takes %d tokens", tail, n)
		}
		if len(words.EncodeText(text)) <= tokens {
			if tail != text {
				t.Fatalf("%q fits whole, and %q is left", text, tail)
			}
			return
		}
		end, cut := strings.CutPrefix(tail, "…")
		if !cut && tail != "" || !strings.HasSuffix(text, end) {
			t.Fatalf("%q is no end of %q", tail, text)
		}
		if before := len(text) - len(end); tail != "" && before > 0 {
			_, size := utf8.DecodeLastRuneInString(text[:before])
			if longer := "…" + text[before-size:]; len(words.EncodeText(longer)) <= tokens {
				t.Fatalf("%q fits too, and %q is left", longer, tail)
			}
		}
	})
}
