package math

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// sharedData is the folder of real problem sets, which lies beside the
// repository and is no part of it.
func sharedData(t *testing.T) string {
	t.Helper()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "..", "shared")
	}
	folder := filepath.Join(shared, "data", "math")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no problem sets in %s: set LATHE_SHARED to the folder that holds data/math", folder)
	}
	return folder
}

// GSM8K has 7,473 and 1,319 problems (its README), whose answers are whole
// numbers after "####".
func TestGSM8K(t *testing.T) {
	t.Parallel()
	folder := sharedData(t)
	source := func(file string) Source {
		return Source{Source: dataset.Source{
			Files:  []string{filepath.Join(folder, "gsm8k", file)},
			Fields: dataset.Fields{Question: "question", Answer: "answer", AnswerMarker: "####"},
		}}
	}
	settings := short()
	settings.Answer = answer.Settings{Verifier: answer.VerifierExact, Extract: answer.ExtractLast}
	e := must.Get(build(settings, Data{Train: source("train.jsonl"), Test: source("test.jsonl")}, 1, ""))(t)
	if train, test := len(e.Tasks(env.Train)), len(e.Tasks(env.Test)); train != 7473 || test != 1319 {
		t.Errorf("%d and %d problems, want 7473 and 1319", train, test)
	}
	integer := regexp.MustCompile(`^-?[0-9]+$`)
	for _, split := range []env.Split{env.Train, env.Test} {
		for _, task := range e.Tasks(split) {
			if !integer.MatchString(task.Answer) {
				t.Errorf("%s: the answer %q is no whole number", task.ID, task.Answer)
			}
			v := e.grader.Verify(task.Answer, "First 12 + 3, then $"+task.Answer+" in all.")
			if !v.Equal {
				t.Errorf("%s: %q does not verify: %s", task.ID, task.Answer, v.Why)
			}
		}
	}
	if first, _ := e.Task("test/1"); first.Answer != "18" {
		t.Errorf("the first test problem has the answer %q, want 18", first.Answer)
	}
}

// Every reference answer of DeepMind's arithmetic and comparison modules is
// right in every extraction mode, and a changed one is read as wrong.
func TestDeepMind(t *testing.T) {
	t.Parallel()
	folder := sharedData(t)
	source := func(file string) Source {
		return Source{Source: dataset.Source{
			Files:  []string{filepath.Join(folder, "deepmind_mathematics", file)},
			Fields: dataset.Fields{ID: "id", Question: "problem", Answer: "answer", Kind: "module"},
			Filter: []dataset.Filter{{Field: "module", In: []string{"arithmetic__*", "comparison__*"}}},
		}}
	}
	for _, mode := range []string{answer.ExtractWhole, answer.ExtractLast, answer.ExtractMarked, answer.ExtractBoxed} {
		settings := short()
		settings.Answer = answer.Settings{Verifier: answer.VerifierExact, Extract: mode, Marker: "####"}
		e := must.Get(build(settings, Data{Train: source("train.jsonl"), Test: source("test.jsonl")}, 1, ""))(t)
		// 17 modules of 360 problems; 17 of 20 that interpolate, 9 of 20 that extrapolate.
		if train, test := len(e.Tasks(env.Train)), len(e.Tasks(env.Test)); train != 6120 || test != 520 {
			t.Errorf("%d and %d problems, want 6120 and 520", train, test)
		}
		for _, split := range []env.Split{env.Train, env.Test} {
			for _, task := range e.Tasks(split) {
				if v := e.grader.Verify(task.Answer, e.format(task.Answer)); !v.Equal {
					t.Errorf("%s: %s: %q does not verify: %s", mode, task.ID, task.Answer, v.Why)
				}
				for sample := range 4 {
					wrong := e.wrong(task.Answer, rng.New(1, rng.PurposeTest, 0, task.ID, sample))
					if v := e.grader.Verify(task.Answer, e.format(wrong)); v.Equal || !v.Readable || wrong == task.Answer {
						t.Errorf("%s: %s: %q instead of %q is judged %+v", mode, task.ID, wrong, task.Answer, v)
					}
				}
				if _, ok, _ := e.Demonstration(task, shard.KindImprove, rng.Stream{}); !ok {
					t.Errorf("%s: %s: no demonstration", mode, task.ID)
				}
			}
		}
	}
}

// The other JSONL sets load, with field names alone.
func TestOtherSets(t *testing.T) {
	t.Parallel()
	folder := sharedData(t)
	tests := []struct {
		file   string
		fields dataset.Fields
		want   int
	}{
		{"gsm_hard/gsmhardv2.jsonl", dataset.Fields{Question: "input", Answer: "target"}, 1319},
		{"aqua/test.jsonl", dataset.Fields{Question: "question", Answer: "correct"}, 254},
		{"olymmath/OlymMATH-EN-EASY.jsonl", dataset.Fields{ID: "unique_id", Question: "problem", Answer: "answer", Kind: "subject"}, 100},
		{"tal_scq5k_en/test_2K.jsonl", dataset.Fields{ID: "queId", Question: "problem", Answer: "answer_value", Level: "difficulty"}, 2000},
	}
	verifier := must.Get(answer.NewExact(answer.Settings{Extract: answer.ExtractWhole}))(t)
	for _, test := range tests {
		set := must.Get(dataset.Together([]string{filepath.Join(folder, test.file)}, "data.train"))(t)
		tasks, _, err := set.Read(filepath.Join(folder, test.file), dataset.Source{Fields: test.fields})
		if err != nil || len(tasks) != test.want {
			t.Errorf("%s: %d problems, want %d: %v", test.file, len(tasks), test.want, err)
			continue
		}
		for _, task := range tasks {
			if v := verifier.Verify(task.Answer, task.Answer); !v.Equal {
				t.Errorf("%s: %q does not verify: %s", task.ID, task.Answer, v.Why)
			}
		}
	}
}
