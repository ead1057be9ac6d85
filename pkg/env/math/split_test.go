package math

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestSplit holds a share of one file out: the same questions whatever the run's seed, the
// order of the lines and other lines are, and others with another seed of the split.
func TestSplit(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name string, numbers ...int) string {
		var text strings.Builder
		for _, n := range numbers {
			fmt.Fprintf(&text, `{"question": "%d+1", "answer": "%d"}`+"\n", n, n+1)
		}
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text.String()), 0o600))
		return name
	}
	const n = 200
	numbers, backwards := make([]int, n), make([]int, n/2)
	for i := range n {
		numbers[i] = i
	}
	for i := range backwards {
		backwards[i] = n - 1 - i
	}
	held := func(file string, share float64, splitSeed, seed uint64) (map[string]bool, int) {
		train := Source{Source: dataset.DefaultSource()}
		train.Files, train.TestShare, train.SplitSeed = []string{file}, share, splitSeed
		e := must.Get(build(short(), Data{Train: train}, seed, folder))(t)
		questions := map[string]bool{}
		for _, task := range e.Tasks(env.Test) {
			questions[task.Question] = true
		}
		return questions, len(e.Tasks(env.Train))
	}
	all := write("all.jsonl", numbers...)
	first, trained := held(all, 0.25, 0, 1)
	if len(first)+trained != n || len(first) < 35 || len(first) > 65 { // 50 ± 2.5 standard deviations
		t.Errorf("%d are held out and %d trained on", len(first), trained)
	}
	if again, _ := held(all, 0.25, 0, 2); cmp.Diff(first, again) != "" {
		t.Error("the run's seed changes what is held out")
	}
	if other, _ := held(all, 0.25, 1, 1); cmp.Diff(first, other) == "" {
		t.Error("another seed of the split holds the same out")
	}
	if more, _ := held(all, 0.5, 0, 1); len(more) <= len(first) {
		t.Errorf("%d are held out of a half", len(more))
	}
	fewer, _ := held(write("half.jsonl", backwards...), 0.25, 0, 1)
	for question := range fewer {
		if !first[question] {
			t.Errorf("%q is held out of half of the file, and not of all", question)
		}
	}
	train := Source{Source: dataset.DefaultSource()}
	train.Files, train.TestShare = []string{write("one.jsonl", 1)}, 0.01
	if _, err := build(short(), Data{Train: train}, 1, folder); err == nil || exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "data.train.test_share 0.01 leaves 1 problem to train on and 0") {
		t.Errorf("one problem: %v", err)
	}
}

// TestSplitSettings checks what a recipe may say of the split.
func TestSplitSettings(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Data){
		"":                      func(d *Data) { d.Train.TestShare = 0.1 },
		"data.train.test_share": func(d *Data) { d.Train.TestShare = 1 },
		"data.test.test_share":  func(d *Data) { d.Train.TestShare, d.Test.TestShare = 0.1, 0.1 },
		"data.test.split_seed":  func(d *Data) { d.Train.TestShare, d.Test.SplitSeed = 0.1, 1 },
		"data.test":             func(*Data) {},
	} {
		recipe := struct {
			Data Data `yaml:"data"`
		}{Data{Train: defaultSource(), Test: defaultSource()}}
		d := &recipe.Data
		d.Train.Files = []string{"all.jsonl"}
		change(d)
		c := config.NewChecker(&recipe)
		d.validate(c)
		found := c.Err("a.yaml")
		if (found == nil) != (want == "") || (found != nil && !strings.Contains(found.Error(), want)) {
			t.Errorf("%s: %v", want, found)
		}
	}
}
