package puzzle

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestQuality by hand; the first lines of each kind are those of its description.
func TestQuality(t *testing.T) {
	t.Parallel()
	const corners = "a00b99c09d90"
	for _, c := range []struct {
		kind, question, answer string
		want                   float64
		valid                  bool
	}{
		{"sort", "cadb", "acbd", 2. / 3, true},
		{"sort", "cadb", "dcba", 0, true}, // worse than what was given
		{"sort", "cadb", "abcd", 1, true},
		{"sort", "cadb", "cadb", 0, true},
		{"sort", "cadb", "abc", 0, false},
		{"sort", "cadb", "abcc", 0, false},
		{"sort", "cadb", "abcde", 0, false},
		{"sort", "cadb", "", 0, false},
		{"colour", "Aabb", "Acbb", 0.5, true},
		{"colour", "Aabb", "Acbc", 1, true},
		{"colour", "Aabb", "Aaaa", 0, true},
		{"colour", "Aabb", "Aabb", 0, true},
		{"colour", "Aabb", "acbc", 0, false}, // what is fixed stays fixed
		{"colour", "Aabb", "Bcbc", 0, false},
		{"colour", "Aabb", "ACbc", 0, false},
		{"colour", "Aabb", "Acb", 0, false},
		{"colour", "Aabb", "Acbd", 0, false},
		{"colour", "Aabb", "Ac\xffb", 0, false},
		{"tour", corners, "abcd", 0, true},
		{"tour", corners, "adcb", 0, true},
		{"tour", corners, "acbd", 1, true},
		{"tour", corners, "bdac", 1, true}, // the same trip from elsewhere
		{"tour", corners, "acb", 0, false},
		{"tour", corners, "acbb", 0, false},
		{"tour", corners, "acbe", 0, false},
		{"tour", corners, "", 0, false},
	} {
		got, why := kinds[c.kind].quality(c.question, c.answer)
		if math.Abs(got-c.want) > 1e-12 || (why == "") != c.valid {
			t.Errorf("%s %s: %q has quality %v (%s), want %v", c.kind, c.question, c.answer, got, why, c.want)
		}
	}
}

// Of any puzzle: what it shows has quality 0, no repair makes an answer worse, many
// repairs make it good, and the shortest trip is what trying all orders finds.
func TestRepairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"sort", "tour", "colour"}).Draw(t, "kind")
		k, d := kinds[name], &draws{stream: rng.New(rapid.Uint64().Draw(t, "seed"), rng.PurposeTest, 0, name, 0)}
		question := ""
		for question == "" {
			question = k.draw(rapid.IntRange(minSize, 6).Draw(t, "size"), d)
		}
		answer := k.given(question)
		before, why := k.quality(question, answer)
		if before != 0 || why != "" {
			t.Fatalf("%q: what is given has quality %v (%s)", question, before, why)
		}
		for range 60 {
			answer = k.repair(question, answer, d)
			after, why := k.quality(question, answer)
			if after < before || why != "" {
				t.Fatalf("%q: %q has quality %v (%s), after %v", question, answer, after, why, before)
			}
			before = after
		}
		if before == 0 || name != "tour" && before != 1 {
			t.Fatalf("%q: sixty repairs come to %q, of quality %v", question, answer, before)
		}
		if name == "tour" {
			least := math.MaxInt
			orders(k.given(question), func(order string) { least = min(least, length(question, order)) })
			if got := shortest(question); got != least {
				t.Fatalf("%q: the shortest trip is %d long, trying all finds %d", question, got, least)
			}
		}
	})
}

// orders calls f with every order of letters that begins with the first.
func orders(letters string, f func(string)) {
	var place func(so, rest string)
	place = func(so, rest string) {
		if rest == "" {
			f(so)
		}
		for i := range len(rest) {
			place(so+rest[i:i+1], rest[:i]+rest[i+1:])
		}
	}
	place(letters[:1], letters[1:])
}

func puzzles(t *testing.T, seed uint64, change func(*Settings, *Data)) *Env {
	t.Helper()
	ofEnv, ofData, err := env.Defaults(Name)
	if err != nil {
		t.Fatal(err)
	}
	settings, data := ofEnv.(*Settings), ofData.(*Data)
	if change != nil {
		change(settings, data)
	}
	tasks, err := load(data, seed)
	if err != nil {
		t.Fatal(err)
	}
	return &Env{tasks, settings.Prompts}
}

// Splits share nothing, whatever seeds they are drawn with, and the rows make the
// same environment.
func TestSplits(t *testing.T) {
	t.Parallel()
	all := func(_ *Settings, d *Data) { d.Kinds, d.Train, d.Test = []string{"sort", "tour", "colour"}, 600, 300 }
	e := puzzles(t, 1, all)
	trained := map[string]bool{}
	byKind := map[string]int{}
	for _, task := range e.Tasks(env.Train) {
		trained[task.Question] = true
		byKind[task.Kind]++
	}
	if len(trained) != 600 || byKind["sort"] != 200 || byKind["tour"] != 200 || byKind["colour"] != 200 {
		t.Errorf("%d different puzzles to train on: %v", len(trained), byKind)
	}
	other := puzzles(t, 2, all)
	for _, task := range other.Tasks(env.Test) {
		if trained[task.Question] {
			t.Errorf("%q is trained on and held out", task.Question)
		}
	}
	rows := e.Rows()
	again := env.TasksOf(Name, rows)
	for _, split := range []env.Split{env.Train, env.Test} {
		for i, task := range again.Tasks(split) {
			if task.ID != e.Tasks(split)[i].ID || task.Question != e.Tasks(split)[i].Question || task.Kind != e.Tasks(split)[i].Kind {
				t.Fatalf("task %d of %s came back as %+v", i, split, task)
			}
		}
	}
	_, err := load(&Data{Kinds: []string{"colour"}, Size: 4, Train: 100_000, TestShare: 0.2}, 1)
	if exitcode.Code(err) != exitcode.Usage {
		t.Errorf("more puzzles than there are: %v", err)
	}
}

// Demonstrations are scored as anybody's answers are: valid, one step better than
// what they start from, and no more.
func TestDemonstrations(t *testing.T) {
	t.Parallel()
	e := puzzles(t, 1, func(_ *Settings, d *Data) { d.Kinds, d.Train, d.Test = []string{"sort", "tour", "colour"}, 300, 0 })
	sum := map[shard.Kind]float64{}
	for i, task := range e.Tasks(env.Train) {
		for _, kind := range []shard.Kind{shard.KindInitial, shard.KindImprove, shard.KindDiverge} {
			said, ok, err := e.Demonstration(task, kind, rng.New(1, rng.PurposeTest, i, string(kind), 0))
			if err != nil || !ok || len(said) != 2 {
				t.Fatalf("%s of %s: %v, %d messages: %v", kind, task.ID, ok, len(said), err)
			}
			v, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: said, Own: []int{1}})
			if err != nil || v.Outcome == shard.OutcomeInvalid {
				t.Fatalf("%s of %s: %+v: %v", kind, task.ID, v, err)
			}
			sum[kind] += v.NormalizedScore / 300
		}
	}
	if first, second := sum[shard.KindInitial], sum[shard.KindImprove]; first < 0.1 || first > 0.6 || second < first+0.1 {
		t.Errorf("first answers come to %v, improvements to %v", first, second)
	}
}

// What is said of an attempt, and what cannot be asked for.
func TestScore(t *testing.T) {
	t.Parallel()
	e := puzzles(t, 1, nil)
	task := e.Tasks(env.Train)[0]
	for answer, want := range map[string]shard.Outcome{sorted(task.Question): shard.OutcomeOK, " " + task.Question + "\n": shard.OutcomeWrong, "none": shard.OutcomeInvalid} {
		v, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: []shard.Message{{Role: "user"}, {Role: "assistant", Content: answer}}, Own: []int{1}})
		if err != nil || v.Outcome != want || len(v.Turns) != 1 || v.Reward != v.NormalizedScore {
			t.Errorf("%q: %+v: %v", answer, v, err)
		}
	}
	if _, err := e.Score(t.Context(), env.Attempt{Task: task}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("nothing to judge: %v", err)
	}
	if _, err := e.Prompt(task, shard.KindImprove, env.Parent{}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("nothing to improve on: %v", err)
	}
	improve, err := e.Prompt(task, shard.KindImprove, env.Parent{Messages: []shard.Message{{Role: "assistant", Content: "{question}"}}})
	if err != nil || improve[0].Content != "{question};"+task.Question+"=" {
		t.Errorf("to improve on braces: %v, %v", improve, err)
	}
}

// No text of a policy is worth more than 1, or stops us.
func FuzzQuality(f *testing.F) {
	questions := map[string]string{"sort": "cadb", "colour": "Aabb", "tour": "a00b99c09d90"}
	f.Add("abcd")
	f.Add("Acbc")
	f.Add("acbd")
	f.Fuzz(func(t *testing.T, answer string) {
		for kind, question := range questions {
			if q, why := kinds[kind].quality(question, answer); !(q >= 0 && q <= 1) || why != "" && q != 0 {
				t.Errorf("%s: %q has quality %v (%s)", kind, answer, q, why)
			}
		}
	})
}

// A row of a kind that there is not is refused when the rows are read, by name.
func TestUnknownKind(t *testing.T) {
	t.Parallel()
	_, err := fromTasks(&Settings{}, env.TasksOf(Name, []shard.TaskRow{{TaskID: "a", Split: "test", Kind: "chess"}}))
	if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), `task "a": there are no puzzles of kind "chess"`) {
		t.Errorf("error %v", err)
	}
}
