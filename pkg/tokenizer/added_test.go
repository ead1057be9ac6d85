package tokenizer

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// The results are those of tokenizers 0.23.3; the last two make it panic.
func TestAddedTokensAmongBlanks(t *testing.T) {
	t.Parallel()
	tokens := []addedToken{
		{content: "[R]", rightStrip: true},
		{content: "[L]", leftStrip: true},
		{content: "\t", leftStrip: true, rightStrip: true},
		{content: "\n"},
		{content: "\v", leftStrip: true},
	}
	forms := make([]string, len(tokens))
	for i, token := range tokens {
		forms[i] = token.content
	}
	m := must.Get(newMatcher(tokens, forms))(t)
	tests := []struct{ text, want string }{
		{"x [L] y", "x|<[L]>| y"},
		{"x [R] y", "x |<[R]>|y"},
		{" \t y", "<\t>|y"},
		{"\t\t\t\t a", "<\t>|a"},
		{"[R]\tx", "<[R]>|x"},
		{"[R]\n\nx", "<[R]>|<\n>|<\n>|x"},
		{"[R]  [L]", "<[R]>|<[L]>"},
		{"[R]\v\vx", "<[R]>|x"},
		{"[R]\v\v", "<[R]>"},
	}
	for _, test := range tests {
		var got []string
		m.split(unicodeTables(), test.text, false, func(token *addedToken, text string) {
			if token != nil {
				text = "<" + token.content + ">" // and not the blanks that it takes
			}
			got = append(got, text)
		})
		if joined := strings.Join(got, "|"); joined != test.want {
			t.Errorf("%q: got %q, want %q", test.text, joined, test.want)
		}
	}
}
