package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// checkStream feeds ids one by one: each answer is valid UTF-8, and together
// they are what all ids give at once.
func checkStream(t interface{ Fatalf(string, ...any) }, tok *Tokenizer, ids []int32) {
	d := tok.NewDecoder()
	d.SkipSpecial = true
	var b strings.Builder
	for _, id := range ids {
		text := d.Write(id)
		if !utf8.ValidString(text) {
			t.Fatalf("id %d gave %q", id, text)
		}
		b.WriteString(text)
	}
	b.WriteString(d.Flush())
	if got, want := b.String(), tok.DecodeText(ids); got != want {
		t.Fatalf("one by one %q, at once %q", got, want)
	}
}

// The rows are those of The Unicode Standard 15.0, section 3.9, tables 3-8 to 3-11 (U+FFFD Substitution of Maximal Subparts), and texts that end early.
func TestDecoderReplaces(t *testing.T) {
	t.Parallel()
	tok := newBytes(t)
	tests := []struct{ raw, want string }{
		{"a\xf1\x80\x80\xe1\x80\xc2b\x80c\x80\xbfd", "a\ufffd\ufffd\ufffdb\ufffdc\ufffd\ufffdd"},
		{"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82A", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA"},
		{"\xed\xa0\x80\xed\xbf\xbf\xed\xafA", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA"},
		{"\xf4\x91\x92\x93\xffA\x80\xbfB", "\ufffd\ufffd\ufffd\ufffd\ufffdA\ufffd\ufffdB"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA", "\ufffd\ufffd\ufffd\ufffdA"},
		{"\xf0\x9f\x99\x82\xf0\x9f\x99", "🙂\ufffd"},
		{"\xef\xbf\xbd", "\ufffd"},
		{"", ""},
	}
	for _, test := range tests {
		ids := tok.EncodeText(test.raw)
		if got := ValidText(test.raw); got != test.want {
			t.Errorf("%q is shown as %q, want %q", test.raw, got, test.want)
		}
		if got := tok.DecodeText(ids); got != test.want {
			t.Errorf("%q: got %q, want %q", test.raw, got, test.want)
		}
		checkStream(t, tok, ids)
	}
}

// A character that takes three tokens comes out with the third.
func TestDecoderHoldsBack(t *testing.T) {
	t.Parallel()
	tok := newBytes(t)
	d := tok.NewDecoder()
	var got []string
	for _, id := range append(tok.EncodeText("a€"), 256, 300) {
		got = append(got, d.Write(id))
	}
	if joined := strings.Join(got, ","); joined != "a,,,€,<|end|>," {
		t.Errorf("got %q", joined)
	}
	if d.Write(0xe2) != "" || d.Flush() != "\ufffd" || d.Flush() != "" || d.Write('b') != "b" {
		t.Error("the decoder does not start anew")
	}
}

func TestDecoderOfAnyBytes(t *testing.T) {
	t.Parallel()
	tok := newBytes(t)
	rapid.Check(t, func(t *rapid.T) {
		ids := tok.EncodeText(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		checkStream(t, tok, ids)
		text := tok.DecodeText(ids)
		if back := tok.DecodeText(tok.EncodeText(text)); back != text {
			t.Fatalf("%q came back as %q", text, back)
		}
	})
}
