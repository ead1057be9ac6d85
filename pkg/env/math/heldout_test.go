package math

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestHeldOutSets: a file may be in two sets, each with prompts and a mapping of
// its own; rows of the tasks make the same environment again.
func TestHeldOutSets(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "quiz.jsonl")
	must.Do(t, os.WriteFile(file, []byte(`{"q": "10+1", "hint": "ten and one", "a": "11"}`+"\n"+`{"q": "5+4", "hint": "five and four", "a": "9"}`), 0o644))
	from := func(question string) Source {
		return Source{Source: dataset.Source{Files: []string{file}, Fields: dataset.Fields{Question: question, Answer: "a", AnswerFrom: "text"}}}
	}
	settings := short()
	settings.PromptsOf = []SetPrompts{{Set: "hints", Prompts: Prompts{System: "think", Initial: "H: {question}"}}}
	data := Data{Train: sums(20), Test: sums(5), HeldOut: []HeldOut{{"plain", from("q")}, {"hints", from("hint")}}}
	e := must.Get(build(settings, data, 1, folder))(t)
	rows := e.Rows()
	again := must.Get(rebuild(settings, rows))(t)
	for _, e := range []*Env{e, again} {
		if len(e.Tasks(env.Train)) != 20 || len(e.Tasks(env.Test)) != 5 {
			t.Errorf("%d and %d tasks, want 20 and 5", len(e.Tasks(env.Train)), len(e.Tasks(env.Test)))
		}
		for set, want := range map[string][][]shard.Message{
			"plain": {{user("Q: 10+1")}, {user("Q: 5+4")}},
			"hints": {{system("think"), user("H: ten and one")}, {system("think"), user("H: five and four")}},
		} {
			var got [][]shard.Message
			for _, task := range e.Tasks(env.Split(set)) {
				messages := must.Get(e.Prompt(task, shard.KindInitial, env.Parent{}))(t)
				got = append(got, messages)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("prompts of %s (-want +got):\n%s", set, diff)
			}
		}
		// What a set does not say is env.prompts'.
		task := e.Tasks("hints")[0]
		messages, err := e.Prompt(task, shard.KindImprove, env.Parent{Messages: []shard.Message{assistant("12")}})
		if want := []shard.Message{system("think"), user("improve [H: ten and one] from [12]")}; err != nil || !cmp.Equal(messages, want) {
			t.Errorf("improve prompt %v, %v; want %v", messages, err, want)
		}
	}
	if len(e.Inputs) != 1 {
		t.Errorf("inputs %v, want the file once", e.Inputs)
	}
}

// TestHeldOutIsApart: what training asks is in no held-out set, unless it is told
// to leave it out there.
func TestHeldOutIsApart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"train.jsonl": `{"question": "1+1", "answer": "2"}`,
		"held.jsonl":  `{"question": "1+1", "answer": "2"}` + "\n" + `{"question": "2+2", "answer": "4"}`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	data := Data{Train: fromFile("train.jsonl"), HeldOut: []HeldOut{{"validation", fromFile("held.jsonl")}}}
	_, err := build(short(), data, 1, folder)
	want := `data.held_out.0 shares 1 question with data.train ("validation/held/1" is "train/1"): remove what they share from one of the two, or set data.held_out.0.skip_repeated`
	if exitcode.Code(err) != exitcode.Data || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	data.HeldOut[0].SkipRepeated = true
	e := must.Get(build(short(), data, 1, folder))(t)
	if tasks := e.Tasks("validation"); len(tasks) != 1 || tasks[0].Question != "2+2" {
		t.Errorf("tasks %v, want 2+2 alone", tasks)
	}
}

func fromFile(name string) Source {
	source := defaultSource()
	source.Files = []string{name}
	return source
}

// What training has too is left out before the limit draws: a file of four problems of which
// training has two gives both others under limit 2, whatever the seed.
func TestLimitAfterRepeated(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) { must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644)) }
	write("train.jsonl", `{"question": "1+1", "answer": "2"}`+"\n"+`{"question": "1+2", "answer": "3"}`+"\n")
	write("held.jsonl", `{"question": "1+1", "answer": "2"}`+"\n"+`{"question": "2+2", "answer": "4"}`+"\n"+`{"question": "1+2", "answer": "3"}`+"\n"+`{"question": "3+3", "answer": "6"}`+"\n")
	for seed := range uint64(8) {
		held := fromFile("held.jsonl")
		held.Limit, held.SkipRepeated = 2, true
		e := must.Get(build(short(), Data{Train: fromFile("train.jsonl"), Test: held}, seed, folder))(t)
		if tasks := e.Tasks(env.Test); len(tasks) != 2 || tasks[0].Question != "2+2" || tasks[1].Question != "3+3" {
			t.Errorf("seed %d: %v, want 2+2 and 3+3", seed, tasks)
		}
	}
}

// data.seed draws the problems of a limit in the place of the run's seed: runs of two
// seeds train on the same ones, and without it these two do not.
func TestDataSeed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var lines strings.Builder
	for i := range 40 {
		fmt.Fprintf(&lines, `{"question": "%d+1", "answer": "%d"}`+"\n", i, i+1)
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "train.jsonl"), []byte(lines.String()), 0o644))
	drawn := func(run uint64, own *uint64) (ids []string) {
		train := fromFile("train.jsonl")
		train.Limit = 5
		for _, task := range must.Get(build(short(), Data{Seed: own, Train: train}, run, folder))(t).Tasks(env.Train) {
			ids = append(ids, task.ID)
		}
		return ids
	}
	own := uint64(1)
	if a, b := drawn(1, &own), drawn(2, &own); !slices.Equal(a, b) || !slices.Equal(a, drawn(1, nil)) || slices.Equal(a, drawn(2, nil)) {
		t.Errorf("with data.seed 1: runs of the seeds 1 and 2 have %v and %v; without it %v and %v", a, b, drawn(1, nil), drawn(2, nil))
	}
}
