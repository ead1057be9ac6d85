package math

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/env/math/generate"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// short are the templates of the tests.
func short() Settings {
	return Settings{
		MaxTurns: 1,
		Prompts: Prompts{
			Initial: "Q: {question}",
			Refine:  "again {question} not {previous_response}",
			Improve: "improve [{instruction}] from [{previous_response}]",
			Diverge: "differ [{instruction}] from [{previous_response}]",
		},
		Answer: answer.Settings{Verifier: answer.VerifierExact, Extract: answer.ExtractWhole},
	}
}

func sums(count int) Source {
	return Source{Generate: &generate.Settings{Kinds: []string{"add"}, Levels: []int{2}, Count: count, TestShare: 0.2}}
}

func newEnv(t testing.TB, settings Settings) *Env {
	t.Helper()
	e := must.Get(build(settings, Data{Train: sums(20), Test: sums(5)}, 1, ""))(t)
	return e
}

func user(text string) shard.Message      { return shard.Message{Role: "user", Content: text} }
func assistant(text string) shard.Message { return shard.Message{Role: "assistant", Content: text} }
func system(text string) shard.Message    { return shard.Message{Role: "system", Content: text} }

var task = env.Task{ID: "t", Question: "1+1", Answer: "2"}

func TestTasks(t *testing.T) {
	t.Parallel()
	e := newEnv(t, short())
	if len(e.Tasks(env.Train)) != 20 || len(e.Tasks(env.Test)) != 5 || e.Name() != "math" {
		t.Fatalf("%d and %d tasks, want 20 and 5", len(e.Tasks(env.Train)), len(e.Tasks(env.Test)))
	}
	for _, split := range []env.Split{env.Train, env.Test} {
		for _, task := range e.Tasks(split) {
			if found, ok := e.Task(task.ID); !ok || !cmp.Equal(found, task) {
				t.Errorf("Task(%q) is %+v", task.ID, found)
			}
		}
	}
	if _, ok := e.Task("absent"); ok {
		t.Error("a task that is not there was found")
	}
}

func TestNewErrors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	write("a.jsonl", `{"question": "1+1", "answer": "2"}`)
	write("b.jsonl", `{"question": "1+2", "answer": "3"}`+"\n"+`{"question": "1+1", "answer": "2"}`)
	must.Do(t, os.Mkdir(filepath.Join(folder, "sub"), 0o755))
	write("sub/a.jsonl", `{"question": "3+1", "answer": "4"}`)
	files := func(names ...string) Source {
		source := Source{Source: dataset.Source{Fields: dataset.Fields{Question: "question", Answer: "answer"}}}
		source.Files = names
		return source
	}
	negative := sums(3)
	negative.Limit = -1
	otherShare := sums(3)
	otherShare.Generate.TestShare = 0.5
	tests := []struct {
		name   string
		change func(*Settings, *Data)
		code   int
		want   string
	}{
		{"no source", func(_ *Settings, d *Data) { d.Train = Source{} }, exitcode.Usage, `data.train names no problems: give generate or files, or both`},
		{"limit", func(_ *Settings, d *Data) { d.Train = negative }, exitcode.Usage, `data.train.limit is -1: it must be 0 (all) or more`},
		{"shares", func(_ *Settings, d *Data) { d.Test = otherShare }, exitcode.Usage, `data.train.generate.test_share is 0.2 and data.test.generate.test_share is 0.5: they must be equal, or the splits overlap`},
		{"variable", func(_ *Settings, d *Data) { d.Train = files("$LATHE_ABSENT_VARIABLE/a.jsonl") }, exitcode.Usage, `data.train.files: the recipe's path "$LATHE_ABSENT_VARIABLE/a.jsonl" needs the environment variable LATHE_ABSENT_VARIABLE, which is not set`},
		{"twice", func(_ *Settings, d *Data) { d.Train = files("a.jsonl", "sub/a.jsonl") }, exitcode.Data, `data.train: two problems have the id "a/1" ("1+1" and "3+1"): an id starts with its file's name, so rename one of the files, or list it once`},
		{"shared question", func(_ *Settings, d *Data) { d.Train, d.Test = files("a.jsonl"), files("b.jsonl") }, exitcode.Data, `data.test shares 1 question with data.train ("b/2" is "a/1"): remove what they share from one of the two, or set data.test.skip_repeated`},
		{"initial", func(e *Settings, _ *Data) { e.Prompts.Initial = "Q" }, exitcode.Usage, `env.prompts.initial is "Q": it must contain {question}`},
		{"turns", func(e *Settings, _ *Data) { e.MaxTurns = 0 }, exitcode.Usage, `env.max_turns is 0: it must be 1 or more`},
		{"refine", func(e *Settings, _ *Data) { e.MaxTurns, e.Prompts.Refine = 2, " " }, exitcode.Usage, `env.prompts.refine is empty: env.max_turns 2 needs it`},
		{"answer", func(e *Settings, _ *Data) { e.Answer.Extract = "" }, exitcode.Usage, `env.answer.extract is "": it must be whole, last, marked or boxed`},
	}
	for _, test := range tests {
		settings, data := short(), Data{Train: sums(3), Test: sums(3)}
		test.change(&settings, &data)
		_, err := build(settings, data, 1, folder)
		if err == nil || err.Error() != test.want || exitcode.Code(err) != test.code {
			t.Errorf("%s: %v (code %d), want %s (code %d)", test.name, err, exitcode.Code(err), test.want, test.code)
		}
	}
}

// Files and generated problems make one set, files first. What a file of
// either split asks is not generated, and counted; nor does a generated
// problem of one split stand in for a file's of the other.
func TestFilesAndGenerate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	every := generate.Settings{Kinds: []string{"add"}, Levels: []int{1}, Count: 77, TestShare: 0.2} // every train problem there is
	generated := must.Get(generate.Tasks(every, env.Train, 1))(t)
	write := func(name string, tasks ...env.Task) Source {
		var text bytes.Buffer
		must.Do(t, dataset.Write(&text, tasks))
		must.Do(t, os.WriteFile(filepath.Join(folder, name), text.Bytes(), 0o644))
		source := Source{Source: dataset.Source{Fields: dataset.Fields{Question: "question", Answer: "answer"}}}
		source.Files = []string{name}
		return source
	}
	train, test := write("own.jsonl", generated[:2]...), write("held.jsonl", generated[2:7]...)
	train.Generate = &every
	e := must.Get(build(short(), Data{Train: train, Test: test}, 1, folder))(t)
	if left := e.LeftOut; left != 7 {
		t.Errorf("%d problems are left out, want 7: two of the train file, five of the test file", left)
	}
	want := []string{"own/1", "own/2"}
	for _, task := range generated[7:] {
		want = append(want, task.ID)
	}
	var got []string
	for _, task := range e.Tasks(env.Train) {
		got = append(got, task.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("train problems (-want +got):\n%s", diff)
	}
	if n := len(e.Tasks(env.Test)); n != 5 {
		t.Errorf("%d test problems, want 5", n)
	}
}

// A limit keeps a choice of the seed in the file's order; names may use
// environment variables; inputs are on record.
func TestFilesAndLimit(t *testing.T) {
	folder := t.TempDir()
	var text strings.Builder
	for i := range 100 {
		text.WriteString(`{"question": "` + strings.Repeat("1+", i) + `1", "answer": "` + strconv.Itoa(i+1) + `"}` + "\n")
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "ones.jsonl"), []byte(text.String()), 0o644))
	t.Setenv("LATHE_TEST_FOLDER", folder)
	source := Source{Source: dataset.Source{Fields: dataset.Fields{Question: "question", Answer: "answer"}}}
	source.Files, source.Limit = []string{"$LATHE_TEST_FOLDER/ones.jsonl"}, 10
	choice := func(seed uint64) []string {
		e := must.Get(build(short(), Data{Train: source}, seed, "elsewhere"))(t)
		if inputs := e.Inputs; len(inputs) != 1 || len(inputs[0].SHA256) != 64 {
			t.Errorf("inputs %+v", inputs)
		}
		var ids []string
		last := 0
		for _, task := range e.Tasks(env.Train) {
			ids = append(ids, task.ID)
			if terms := strings.Count(task.Question, "1"); terms <= last {
				t.Errorf("%s is out of order", task.ID)
			} else {
				last = terms
			}
		}
		return ids
	}
	first, again, other := choice(1), choice(1), choice(2)
	if len(first) != 10 || !cmp.Equal(first, again) || cmp.Equal(first, other) {
		t.Errorf("limits keep %q, %q again, %q with another seed", first, again, other)
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		system  string
		kind    shard.Kind
		history []shard.Message
		want    []shard.Message
	}{
		{"initial", "", shard.KindInitial, nil, []shard.Message{user("Q: 1+1")}},
		{"initial with system", "S", shard.KindInitial, nil, []shard.Message{system("S"), user("Q: 1+1")}},
		{"improve", "S", shard.KindImprove, []shard.Message{system("S"), user("Q: 1+1"), assistant("3")}, []shard.Message{system("S"), user("improve [Q: 1+1] from [3]")}},
		{"diverge", "", shard.KindDiverge, []shard.Message{user("Q: 1+1"), assistant("3")}, []shard.Message{user("differ [Q: 1+1] from [3]")}},
		{"improve on an improvement", "", shard.KindImprove, []shard.Message{user("improve [Q: 1+1] from [3]"), assistant("4")}, []shard.Message{user("improve [Q: 1+1] from [4]")}},
		{"improve the second turn", "", shard.KindImprove, []shard.Message{user("differ [Q: 1+1] from [9]"), assistant("3"), user("again 1+1 not 3"), assistant("4")}, []shard.Message{user("Q: 1+1"), assistant("3"), user("improve [Q: 1+1] from [4]")}},
		{"refine", "", shard.KindRefine, []shard.Message{user("Q: 1+1"), assistant("3")}, []shard.Message{user("Q: 1+1"), assistant("3"), user("again 1+1 not 3")}},
		{"a response cannot fill the template", "", shard.KindImprove, []shard.Message{user("Q: 1+1"), assistant("{instruction} {question} {previous_response}")}, []shard.Message{user("improve [Q: 1+1] from [{instruction} {question} {previous_response}]")}},
	}
	for _, test := range tests {
		settings := short()
		settings.Prompts.System = test.system
		got, err := newEnv(t, settings).Prompt(task, test.kind, env.Parent{Messages: test.history})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	injected := env.Task{ID: "i", Question: "{instruction}{previous_response}", Answer: "1"}
	got, err := newEnv(t, short()).Prompt(injected, shard.KindImprove, env.Parent{Messages: []shard.Message{user("x"), assistant("y")}})
	want := []shard.Message{user("improve [Q: {instruction}{previous_response}] from [y]")}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("a question cannot fill the template: %v (-want +got):\n%s", err, diff)
	}
}

func TestPromptErrors(t *testing.T) {
	t.Parallel()
	settings := short()
	settings.Prompts.Diverge = ""
	e := newEnv(t, settings)
	answered := []shard.Message{user("Q: 1+1"), assistant("3")}
	tests := []struct {
		kind    shard.Kind
		history []shard.Message
		code    int
		want    string
	}{
		{shard.KindDiverge, answered, exitcode.Usage, `env.prompts.diverge is empty: the run asks for diverge steps`},
		{shard.KindImprove, nil, exitcode.Bug, `prompting "t": improve needs an earlier response, and the history has none`},
		{shard.KindInitial, answered, exitcode.Bug, `prompting "t": an initial prompt has no history, and was given 1 responses`},
		{shard.Kind("mend"), answered, exitcode.Bug, `prompting "t": the math environment has no instances of kind "mend"`},
	}
	for _, test := range tests {
		_, err := e.Prompt(task, test.kind, env.Parent{Messages: test.history})
		if err == nil || err.Error() != test.want || exitcode.Code(err) != test.code {
			t.Errorf("%s: %v (code %d), want %s (code %d)", test.kind, err, exitcode.Code(err), test.want, test.code)
		}
	}
}

// An episode of three turns, and one that goes on from an improved turn 2.
func TestTurns(t *testing.T) {
	t.Parallel()
	settings := short()
	settings.MaxTurns = 3
	e := newEnv(t, settings)
	conversation := must.Get(e.Prompt(task, shard.KindInitial, env.Parent{}))(t)
	var requests []string
	for turn := 1; turn < 10; turn++ {
		conversation = append(conversation, assistant(strconv.Itoa(turn)))
		next := must.Get(e.nextTurn(task, conversation))(t)
		if len(next) == 0 {
			break
		}
		requests = append(requests, next[0].Content)
		conversation = append(conversation, next...)
	}
	if want := []string{"again 1+1 not 1", "again 1+1 not 2"}; !cmp.Equal(requests, want) {
		t.Errorf("requests %q, want %q", requests, want)
	}

	improved := must.Get(e.Prompt(task, shard.KindImprove, env.Parent{Messages: conversation[:4]}))(t)
	episode := must.Get(e.Begin(t.Context(), task, improved))(t)
	next, err := episode.Next(t.Context(), append(improved, assistant("7")), nil)
	if err != nil || len(next.Messages) != 1 || next.Messages[0].Content != "again 1+1 not 7" {
		t.Errorf("after an improved turn 2: %v, %v", next, err)
	}
	if _, err := episode.Next(t.Context(), improved, nil); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a conversation that ends with a request: %v", err)
	}
	if err := episode.Close(); err != nil {
		t.Error(err)
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	parts := func(correct, format float64) []shard.RewardPart {
		return []shard.RewardPart{{Name: "correct", Value: correct}, {Name: "format", Value: format}}
	}
	tests := []struct {
		response, finish string
		want             env.TurnVerdict
	}{
		{"2", "stop", env.TurnVerdict{Outcome: shard.OutcomeOK, RawScore: 1, NormalizedScore: 1, Reward: 1, Parts: parts(1, 0), Extracted: "2", Feedback: "the answer is right"}},
		{"2", "length", env.TurnVerdict{Outcome: shard.OutcomeOK, RawScore: 1, NormalizedScore: 1, Reward: 1, Parts: parts(1, 0), Extracted: "2", Feedback: "the answer is right"}},
		{"3", "stop", env.TurnVerdict{Outcome: shard.OutcomeWrong, Reward: 0.25, Parts: parts(0, 0.25), Extracted: "3", Feedback: "the answer is wrong"}},
		{"two", "stop", env.TurnVerdict{Outcome: shard.OutcomeInvalid, Parts: parts(0, 0), Extracted: "two", Feedback: "the answer cannot be read: not a number"}},
		{"", "length", env.TurnVerdict{Outcome: shard.OutcomeInvalid, Parts: parts(0, 0), Feedback: "the response is empty; the response was cut by the length limit"}},
	}
	settings := short()
	settings.Answer.FormatReward = 0.25
	e := newEnv(t, settings)
	for _, test := range tests {
		// An earlier right answer does not count.
		conversation := []shard.Message{user("Q: 1+1"), assistant("2"), user("again"), assistant(test.response)}
		got, err := e.Score(context.Background(), env.Attempt{Task: task, Messages: conversation, Own: env.Said(conversation, 0), Finish: test.finish})
		if diff := cmp.Diff(test.want, got.TurnVerdict); err != nil || diff != "" {
			t.Errorf("%q, %s: %v (-want +got):\n%s", test.response, test.finish, err, diff)
		}
		// Each response has a score of its own: the first was right.
		if len(got.Turns) != 2 || got.Turns[0].Outcome != shard.OutcomeOK || !cmp.Equal(got.Turns[1], got.TurnVerdict) {
			t.Errorf("%q: verdicts on the turns: %+v", test.response, got.Turns)
		}
	}
	if _, err := e.Score(context.Background(), env.Attempt{Task: task, Messages: []shard.Message{user("Q")}, Own: env.Said([]shard.Message{user("Q")}, 0), Finish: "stop"}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a conversation without a response: %v", err)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Score(stopped, env.Attempt{Task: task, Messages: []shard.Message{assistant("2")}, Own: env.Said([]shard.Message{assistant("2")}, 0), Finish: "stop"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
}

// A demonstration ends with a correct response to its prompt; about half of
// the earlier responses are right, and the others are read as wrong.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	var modes []answer.Settings
	for _, verifier := range []string{answer.VerifierExact, answer.VerifierMath} {
		modes = append(modes, answer.Settings{Verifier: verifier, Extract: answer.ExtractWhole}, answer.Settings{Verifier: verifier, Extract: answer.ExtractLast},
			answer.Settings{Verifier: verifier, Extract: answer.ExtractMarked, Marker: "####"}, answer.Settings{Verifier: verifier, Extract: answer.ExtractBoxed})
	}
	last := map[string]string{answer.ExtractWhole: "2", answer.ExtractLast: "2", answer.ExtractMarked: "#### 2", answer.ExtractBoxed: `\boxed{2}`}
	for _, mode := range modes {
		settings := short()
		settings.Answer = mode
		e := newEnv(t, settings)
		for _, kind := range []shard.Kind{shard.KindInitial, shard.KindRefine, shard.KindImprove, shard.KindDiverge} {
			got, ok, _ := e.Demonstration(task, kind, rng.New(1, rng.PurposeTest, 0, "demonstration", 0))
			if !ok || got[len(got)-1] != assistant(last[mode.Extract]) {
				t.Fatalf("%s: demonstration %+v", mode.Extract, got)
			}
		}
		answers := []string{"46", "-3/17", "0.5", "True", "b", "-3, 4", "7*sqrt(3)", "-13c", "0"}
		for _, answer := range answers {
			task := env.Task{ID: "t", Question: "q", Answer: answer}
			kept := 0
			const samples = 400
			for sample := range samples {
				stream := rng.New(1, rng.PurposeTest, 0, answer, sample)
				messages, ok, _ := e.Demonstration(task, shard.KindImprove, stream)
				if !ok || len(messages) != 2 {
					t.Fatalf("%s: no demonstration for %q", mode.Extract, answer)
				}
				_, rest, _ := strings.Cut(messages[0].Content, "] from [")
				v := e.grader.Verify(answer, strings.TrimSuffix(rest, "]"))
				if !v.Readable {
					t.Fatalf("%s: %q is an unreadable earlier response for %q", mode.Extract, rest, answer)
				}
				if v.Equal {
					kept++
				}
			}
			// Five standard deviations of a binomial of 400 are 50.
			if kept < samples/2-50 || kept > samples/2+50 {
				t.Errorf("%s: %d of %d earlier responses for %q are right", mode.Extract, kept, samples, answer)
			}
		}
	}
}

// With env.answer.worked, steps come before the answer where they are known
// and lead to the reference answer, and before the wrong answer of an earlier
// response too.
func TestDemonstrationWorked(t *testing.T) {
	t.Parallel()
	settings := short()
	settings.Answer = answer.Settings{Verifier: answer.VerifierExact, Extract: answer.ExtractMarked, Marker: "#", Worked: []string{"arithmetic__*"}}
	e := newEnv(t, settings)
	tests := []struct{ kind, question, answer, want string }{
		{"arithmetic__add_sub_multiple", "What is 1 + (2 - 5)?", "-2", "1 +2=3 -5=-2# -2"},
		{"arithmetic__add_sub_multiple", "What is 1 + (2 - 5)?", "-3", "# -3"}, // whatever the reference means, it is not this
		{"arithmetic__nearest_integer_root", "What is the cube root of 9 to the nearest integer?", "2", "# 2"},
		{"comparison__pair", "Is 2 < 1?", "False", "# False"},
	}
	for _, test := range tests {
		task := env.Task{ID: "t", Kind: test.kind, Question: test.question, Answer: test.answer}
		got, ok, _ := e.Demonstration(task, shard.KindInitial, rng.Stream{})
		if !ok || got[len(got)-1] != assistant(test.want) {
			t.Errorf("%s: demonstration %+v, want %q", test.question, got, test.want)
		}
		for sample := range 20 {
			got, ok, _ := e.Demonstration(task, shard.KindImprove, rng.New(1, rng.PurposeTest, 0, test.question, sample))
			steps, _, _ := strings.Cut(test.want, "#")
			if !ok || !strings.Contains(got[0].Content, "["+steps+"# ") {
				t.Errorf("%s: improves on %+v, want the steps %q", test.question, got, steps)
			}
		}
	}
}

func TestDemonstrationTurns(t *testing.T) {
	t.Parallel()
	settings := short()
	settings.MaxTurns = 2
	e := newEnv(t, settings)
	turns := map[int]int{}
	for sample := range 200 {
		messages, ok, _ := e.Demonstration(task, shard.KindInitial, rng.New(1, rng.PurposeTest, 0, "turns", sample))
		if !ok {
			t.Fatal("no demonstration")
		}
		responses := responsesOf(messages)
		for _, response := range responses {
			if response != "2" {
				t.Errorf("initial demonstration has the response %q", response)
			}
		}
		turns[len(responses)]++
	}
	if turns[1]+turns[2] != 200 || turns[1] < 60 || turns[2] < 60 {
		t.Errorf("turns %v, want about as many of one and of two", turns)
	}
	if _, ok, _ := e.Demonstration(env.Task{Question: "q"}, shard.KindInitial, rng.Stream{}); ok {
		t.Error("a task without an answer was demonstrated")
	}
	if _, ok, _ := e.Demonstration(task, shard.Kind("draft"), rng.Stream{}); ok {
		t.Error("a kind that is not ours was demonstrated")
	}
}
