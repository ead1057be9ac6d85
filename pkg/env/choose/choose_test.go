package choose

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

func TestNew(t *testing.T) {
	r := &recipe.Recipe{Env: recipe.Env{
		Name:     "math",
		MaxTurns: 1,
		Prompts:  recipe.Prompts{Initial: "{question}"},
		Answer:   recipe.Answer{Verifier: "exact", Extract: "whole"},
	}}
	r.Data.Train.Generate = &recipe.Generate{Kinds: []string{"add"}, Levels: []int{1}, Count: 3, TestShare: 0.5}
	made, err := New(r, "")
	if err != nil || made.Name() != "math" || len(made.Tasks(env.Train)) != 3 {
		t.Errorf("New is %v, %v", made, err)
	}

	r.Env.Answer.Extract = ""
	if made, err := New(r, ""); made != nil || exitcode.Code(err) != exitcode.Usage {
		t.Errorf("New with a bad answer setting is %v, %v", made, err)
	}

	r.Env.Name = "chess"
	want := `env.name is "chess": the environments are math and tooluse`
	if _, err := New(r, ""); err == nil || err.Error() != want || exitcode.Code(err) != exitcode.Usage {
		t.Errorf("New is %v, want %s", err, want)
	}
}
