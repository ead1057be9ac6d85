package recipe_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
)

const mixedRecipe = `policy: {path: p}
env:
  - name: math
    as: sums
    weight: 2
    prompts: {initial: "{question}="}
    answer: {verifier: exact, extract: whole}
    data:
      train: {generate: {kinds: [add], levels: [1], count: 20, test_share: 0.25}}
      test: {generate: {kinds: [add], levels: [1], count: 8, test_share: 0.25}}
  - {name: puzzle, as: sort, data: {size: 4, train: 20, test: 5}}
evaluation: {problems: 6, sets: [{name: sort, problems: 5}]}
`

// TestMixed: the environments of a list have their own tasks, prompts and scores, whether
// they are made from data or from rows.
func TestMixed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mixed.yaml")
	if err := os.WriteFile(path, []byte(mixedRecipe), 0o600); err != nil {
		t.Fatal(err)
	}
	resolved, err := recipe.Load(path, []string{"env.of.1.weight=1"})
	if err != nil {
		t.Fatal(err)
	}
	r := resolved.Recipe
	if got := r.Env.String(); got != "mixed [sums: math × 2, sort: puzzle × 1]" {
		t.Error(got)
	}
	loaded, err := r.NewEnv("")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Evaluation.CheckTasks(loaded); err != nil {
		t.Error(err)
	}
	var of []string
	for _, task := range loaded.Set().Tasks(env.Test) {
		of = append(of, loaded.Set().Environment(task.ID))
	}
	// 2 to 1, until one of the two has no problems left: eight sums and four puzzles.
	if want := strings.TrimSpace(strings.Repeat("sums sums sort ", 4)); strings.Join(of[:12], " ") != want {
		t.Errorf("the test split is of %v", of)
	}
	rows := loaded.Set().Rows()
	again, err := r.EnvFromRows("", rows)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, again.Set().Rows()); diff != "" {
		t.Errorf("rows (-loaded +read): %s", diff)
	}
	for _, split := range []env.Split{env.Train, "sums", "sort"} {
		for _, task := range loaded.Set().Tasks(split) {
			name := loaded.Set().Environment(task.ID)
			if !strings.HasPrefix(task.ID, name+"/") || !strings.HasPrefix(task.Kind, name+"/") {
				t.Fatalf("task %+v of %s", task, name)
			}
			if got := env.TraitsOf(loaded, task.ID).Turns; got != 1 {
				t.Errorf("%d turns", got)
			}
			for _, e := range []env.Env{loaded, again} {
				prompt, err := e.Prompt(task, shard.KindInitial, env.Parent{})
				if err != nil || prompt[0].Content != task.Question+"=" {
					t.Fatalf("%s: %v, %v", task.ID, prompt, err)
				}
				answer := task.Answer
				if name == "sort" {
					letters := []byte(task.Question)
					slices.Sort(letters)
					answer = string(letters)
				}
				said, end := env.Answer(prompt, len(prompt), answer)
				v, err := e.Score(context.Background(), env.Attempt{Task: task, Kind: shard.KindInitial, Messages: said, Own: []int{end}, Finish: "stop"})
				if err != nil || v.Reward != 1 {
					t.Fatalf("%s: reward %v, %v", task.ID, v.Reward, err)
				}
			}
		}
	}
	apart, shares := loaded.Set().Apart(loaded.Set().Tasks(env.Train))
	if got := fmt.Sprint(len(apart[0]), len(apart[1]), shares); got != "20 20 [2 1]" {
		t.Error(got)
	}
	some := slices.DeleteFunc(slices.Clone(rows), func(row shard.TaskRow) bool { return row.Env == "sums" })
	if part, err := r.EnvFromRows("", some); err != nil || len(part.Set().Tasks(env.Train)) != 20 {
		t.Errorf("from the rows of one environment: %v", err)
	}
}

// TestSelectOfEnvironments: an entry may have a select of its own, and one that has none
// leaves what the recipe learns by as it was.
func TestSelectOfEnvironments(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mixed.yaml")
	must.Do(t, os.WriteFile(path, []byte(mixedRecipe), 0o600))
	plain := must.Get(recipe.Load(path, nil))(t)
	if own := plain.Recipe.CreditSpec().SelectOf; len(own) > 0 {
		t.Errorf("no entry has a select, and these have: %v", own)
	}
	chosen := must.Get(recipe.Load(path, []string{"env.of.0.select=[]", "env.of.1.select=[overlong, {min_group: {responses: 4}}]"}))(t)
	want := map[string]credit.Selection{"sums": nil, "sort": credit.Named(credit.ReasonOverlong).With(credit.ReasonMinGroup, &credit.MinGroup{Responses: 4})}
	back := must.Get(recipe.Parse(chosen.YAML))(t)
	for _, r := range []*recipe.Recipe{&chosen.Recipe, back} {
		if diff := cmp.Diff(want, r.CreditSpec().SelectOf); diff != "" {
			t.Errorf("select of the entries (-want +got):\n%s", diff)
		}
	}
	if plain.Recipe.Fingerprint() == back.Fingerprint() {
		t.Error("a select of an entry changes nothing of the fingerprint")
	}
	for _, c := range must.Get(back.Method())(t) {
		if want := back.Select.String() + "; sort: [overlong, {min_group: {responses: 4}}]; sums: []"; c.Axis == "select" && c.Text != want {
			t.Errorf("composed as %s, want %s", c.Text, want)
		}
	}
	for setting, want := range map[string]string{
		"env.of.1.select=[overlon]":                         `env.of.1.select.0: there is no choice "overlon"; did you mean "overlong"?`,
		"env.of.1.select=[{min_group: {responses: 9}}]":     "env.of.1.select.min_group.responses: must not be above rollout.group 8, or every group is dropped (9)",
		"env.of.1.select=[{min_advantage: {magnitude: 0}}]": "env.of.1.select.min_advantage.magnitude: must be above 0 (0)",
		"env.of.1.select=overlong":                          "want a list such as [NAME, {NAME: {SETTING: VALUE}}]",
	} {
		if _, err := recipe.Load(path, []string{setting}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
}
