package warm_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// With words for tokens, a common word is one token and no digit shares its
// token; with numbers, up to three digits are one, alone; and texts come back
// as they were.
func TestTokensOfNewPolicies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tokenizer, size  string
		digits           int // of the longest token with a digit, which has nothing else
		initializerRange string
	}{
		{"words", "400", 1, "0.02"},
		{"numbers", "1500", 3, "0.0625"},
	} {
		t.Run(test.tokenizer, func(t *testing.T) {
			r := stagetest.New(t, "policy.new.tokenizer="+test.tokenizer, "policy.new.vocab_size="+test.size,
				"policy.new.max_position_embeddings=512", "policy.new.initializer_range="+test.initializerRange,
				"data.train.generate.kinds=[comparison__closest]", "data.train.generate.levels=[5]", "data.train.generate.count=500")
			folder := r.Path("policy")
			r.Check(os.Mkdir(folder, 0o755))
			r.Check(warm.InitPolicy(warm.SettingsOf(r.Recipe), r.Env, folder))
			config, err := checkpoint.LoadConfig(folder)
			r.Check(err)
			if got := fmt.Sprint(config.InitializerRange); got != test.initializerRange {
				t.Errorf("initializer_range is %s", got)
			}
			tok, err := tokenizer.Load(folder)
			r.Check(err)
			whole, digits := false, 0
			for _, task := range r.Env.Set().Tasks(env.Train) {
				ids := tok.EncodeText(task.Question)
				if text := tok.DecodeText(ids); text != task.Question {
					t.Fatalf("%q comes back as %q", task.Question, text)
				}
				for _, id := range ids {
					piece := tok.DecodeText([]int32{id})
					whole = whole || piece == " closest"
					if !strings.ContainsAny(piece, "0123456789") {
						continue
					}
					if digits = max(digits, len(piece)); strings.Trim(piece, "0123456789") != "" {
						t.Fatalf("%q has the token %q", task.Question, piece)
					}
				}
			}
			if !whole {
				t.Error(`" closest" is never one token`)
			}
			if digits != test.digits {
				t.Errorf("the longest number that is a token has %d digits, want %d", digits, test.digits)
			}
		})
	}
}
