package learn_test

import (
	"os"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// With words for tokens, a common word is one token and no digit shares its
// token, and texts come back as they were.
func TestWordsForTokens(t *testing.T) {
	r := stagetest.New(t, "policy.new.tokenizer=words", "policy.new.vocab_size=400", "policy.new.max_position_embeddings=512",
		"data.train.generate.kinds=[comparison__closest]", "data.train.generate.levels=[5]", "data.train.generate.count=500")
	folder := r.Path("policy")
	r.Check(os.Mkdir(folder, 0o755))
	r.Check(learn.InitPolicy(r.Job.Recipe, r.World, folder))
	tok, err := tokenizer.Load(folder)
	r.Check(err)
	whole := false
	for _, task := range r.World.Tasks(env.Train) {
		ids := tok.EncodeText(task.Question)
		if text := tok.DecodeText(ids); text != task.Question {
			t.Fatalf("%q comes back as %q", task.Question, text)
		}
		for _, id := range ids {
			piece := tok.DecodeText([]int32{id})
			whole = whole || piece == " closest"
			if len(piece) > 1 && strings.ContainsAny(piece, "0123456789") {
				t.Fatalf("%q has the token %q", task.Question, piece)
			}
		}
	}
	if !whole {
		t.Error(`" closest" is never one token`)
	}
}
