package learn_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// With words for tokens, a common word is one token and no digit shares its
// token; with numbers, up to three digits are one, alone; and texts come back
// as they were.
func TestTokensOfNewPolicies(t *testing.T) {
	for _, test := range []struct {
		tokenizer, size  string
		numbers          *regexp.Regexp // what a token with a digit looks like
		initializerRange string
	}{
		{"words", "400", regexp.MustCompile(`^[0-9]$`), "0.02"},
		{"numbers", "1500", regexp.MustCompile(`^[0-9]{1,3}$`), "0.0625"},
	} {
		t.Run(test.tokenizer, func(t *testing.T) {
			r := stagetest.New(t, "policy.new.tokenizer="+test.tokenizer, "policy.new.vocab_size="+test.size,
				"policy.new.max_position_embeddings=512", "policy.new.initializer_range="+test.initializerRange,
				"data.train.generate.kinds=[comparison__closest]", "data.train.generate.levels=[5]", "data.train.generate.count=500")
			folder := r.Path("policy")
			r.Check(os.Mkdir(folder, 0o755))
			r.Check(learn.InitPolicy(r.Job.Recipe, r.World, folder))
			config, err := policy.LoadConfig(folder)
			r.Check(err)
			if got := strconv.FormatFloat(config.InitializerRange, 'g', -1, 64); got != test.initializerRange {
				t.Errorf("initializer_range is %s", got)
			}
			tok, err := tokenizer.Load(folder)
			r.Check(err)
			whole := map[string]bool{}
			for _, task := range r.World.Tasks(env.Train) {
				ids := tok.EncodeText(task.Question)
				if text := tok.DecodeText(ids); text != task.Question {
					t.Fatalf("%q comes back as %q", task.Question, text)
				}
				for _, id := range ids {
					piece := tok.DecodeText([]int32{id})
					whole[piece] = true
					if strings.ContainsAny(piece, "0123456789") && !test.numbers.MatchString(piece) {
						t.Fatalf("%q has the token %q", task.Question, piece)
					}
				}
			}
			if !whole[" closest"] {
				t.Error(`" closest" is never one token`)
			}
			if test.tokenizer == "numbers" && !slices.ContainsFunc(slices.Collect(maps.Keys(whole)), threeDigits.MatchString) {
				t.Error("no token is three digits")
			}
		})
	}
}

var threeDigits = regexp.MustCompile(`^[0-9]{3}$`)
