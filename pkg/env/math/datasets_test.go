package math

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/recipe"

	_ "github.com/lathe-rl/lathe/pkg/curriculum/uniform" // every recipe has a curriculum
)

// loadOverlay loads an overlay of jobs/datasets beneath a recipe that generates
// its training problems where the overlay has none.
func loadOverlay(t *testing.T, name string) *Env {
	t.Helper()
	overlay := must.Get(filepath.Abs(filepath.Join("..", "..", "..", "jobs", "datasets", name+".yaml")))(t)
	text := must.Get(os.ReadFile(overlay))(t)
	folder := t.TempDir()
	own := "description: a test\npolicy: {new: {hidden_size: 64}}\nbase: " + overlay + "\n"
	if !strings.Contains(string(text), "train:") {
		own += "data: {train: {generate: {count: 8}}}\n"
	}
	path := filepath.Join(folder, "test.yaml")
	must.Do(t, os.WriteFile(path, []byte(own), 0o600))
	resolved := must.Get(recipe.Load(path, nil))(t)
	e := must.Get(build(*resolved.Recipe.Env.Settings.(*Settings), *resolved.Recipe.Data.Settings.(*Data), 1, folder))(t)
	return e
}

// Of every real set, all rows become problems, each reference answer is right
// against itself, boxed and announced, and other answers are not.
func TestDatasets(t *testing.T) {
	shared := filepath.Dir(filepath.Dir(sharedData(t)))
	absolute := must.Get(filepath.Abs(shared))(t)
	t.Setenv("LATHE_SHARED", absolute)
	for _, test := range []struct {
		name        string
		train, test int // problems of files
	}{
		{"gsm8k", 7473, 1319},
		{"gsm-hard", 8, 1319},
		{"svamp", 8, 1000},
		{"aqua", 254, 254},
		{"tal-scq5k", 3000, 1985},
		{"olymmath", 8, 200},
		{"imo-answerbench", 8, 399},
		{"theoremqa", 8, 747},
		{"deepmind-mathematics", 20160, 1420},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := loadOverlay(t, test.name)
			if train, tests := len(e.Tasks(env.Train)), len(e.Tasks(env.Test)); train != test.train || tests != test.test {
				t.Errorf("%d and %d problems, want %d and %d", train, tests, test.train, test.test)
			}
			for _, split := range []env.Split{env.Train, env.Test} {
				for i, task := range e.Tasks(split) {
					checkReference(t, e, task, i%5 == 0)
				}
			}
		})
	}
}

// checkReference scores the reference answer of a problem, and of some also
// an announced one and a wrong one.
func checkReference(t *testing.T, e *Env, task env.Task, more bool) {
	t.Helper()
	wrong := "1+(" + task.Answer + ")"
	switch {
	case len(task.Choices) > 0:
		wrong = answer.Letter((int(task.Answer[0]-'A') + 1) % len(task.Choices))
		if v := e.grader.Grade(task, "So I choose\n("+task.Answer+")"); !v.Equal {
			t.Errorf("%s: (%s) is not right: %s", task.ID, task.Answer, v.Why)
		}
	case task.Form == answer.FormBool:
		wrong = map[string]string{"True": "no", "False": "yes"}[task.Answer]
	case task.Form == answer.FormFloat:
		wrong = "2*(" + task.Answer + ")+0.37"
	case task.Form == answer.FormOption, task.Form == answer.FormList:
		wrong = `\text{none}`
	}
	for _, text := range []string{`\boxed{` + task.Answer + "}", "The final answer is $" + task.Answer + "$."} {
		if v := e.grader.Grade(task, text); !v.Equal {
			t.Errorf("%s: the reference %q is not right in %q: %s", task.ID, task.Answer, text, v.Why)
		}
		if !more || strings.Contains(task.Answer, "$") {
			return
		}
	}
	if v := e.grader.Grade(task, `\boxed{`+wrong+"}"); v.Equal {
		t.Errorf("%s: %q is right, the reference is %q", task.ID, wrong, task.Answer)
	}
}
