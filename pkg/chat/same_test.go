package chat

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func TestSameTokens(t *testing.T) {
	t.Parallel()
	of := func(end string, specials ...string) Chat {
		tokens := must.Get(tokenizer.NewBytes(specials, tokenizer.Roles{}))(t)
		return House(must.Get(tokenizer.NewChat(tokens, tokenizer.ChatFormat{UserPrefix: "U", AssistantPrefix: "A", AssistantSuffix: end}))(t))
	}
	first := of("<end>", "<end>", "<stop>")
	for _, test := range []struct {
		name  string
		other Chat
		want  string // of the error; empty for none
	}{
		{"the same", of("<end>", "<end>", "<stop>"), ""},
		{"another end", of("<stop>", "<end>", "<stop>"), `its end tokens are 257 "<stop>", and the policy's are 256 "<end>"`},
		{"another order", of("<end>", "<stop>", "<end>"), `(the policy's first, 258 and 258 of them): id 256 is "<end>" and "<stop>"; id 257 is "<stop>" and "<end>"; a teacher`},
		{"one more", of("<end>", "<end>", "<stop>", "<more>"), `258 and 259 of them): id 258 is "" and "<more>"`},
		{"many more", of("<end>", "<end>", "<stop>", "<1>", "<2>", "<3>", "<4>"), `id 260 is "" and "<3>"; …;`},
	} {
		err := SameTokens(first, test.other)
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		case err != nil && exitcode.Code(err) != exitcode.Usage:
			t.Errorf("%s: exit code %d", test.name, exitcode.Code(err))
		}
	}
}
