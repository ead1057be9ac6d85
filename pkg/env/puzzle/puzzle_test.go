package puzzle

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
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

// TestRepairsByHand: all that one repair can make of an answer, and nothing else: a pass over half of the letters, any
// stretch of the trip that makes it shorter, any colour of one cell that leaves fewer conflicts.
func TestRepairsByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, question, answer, want string }{
		{"sort", "dcba", "dcba", "cdba dbca dcab"},
		{"sort", "edcba", "edcba", "dceba ecbda edbac"},
		{"sort", "cadb", "abcd", "abcd"},
		{"colour", "Aabb", "Aabb", "Aabc Aacb Acbb"},
		{"colour", "Aabb", "Acbc", "Acbc"},
		{"colour", "abBb", "bbBa", "baBa bcBa cbBa"},
		{"tour", "a00b99c09d90", "abcd", "acbd"},
		{"tour", "a00b99c09d90", "acbd", "acbd"},
		{"tour", "a00b03c01d04e02", "abcde", "abdce abedc acbde bacde"},
	} {
		got := map[string]bool{}
		for i := range 400 {
			got[kinds[c.kind].repair(c.question, c.answer, &draws{stream: rng.New(uint64(i), rng.PurposeTest, 0, "", 0)})] = true
		}
		if all := strings.Join(slices.Sorted(maps.Keys(got)), " "); all != c.want {
			t.Errorf("%s %s: repairs of %s are %s, want %s", c.kind, c.question, c.answer, all, c.want)
		}
	}
}

// TestDraws: an order of three is each of six about as often, and a puzzle is as its description says.
func TestDraws(t *testing.T) {
	t.Parallel()
	orders, d := map[string]int{}, &draws{stream: rng.New(1, rng.PurposeTest, 0, "", 0)}
	for range 6000 {
		orders[fmt.Sprint(d.permutation(3))]++
	}
	for order, n := range orders { // 1000, and a standard deviation of 29
		if n < 880 || n > 1120 || len(orders) != 6 {
			t.Errorf("%s is drawn %d times of 6000", order, n)
		}
	}
	sums, none := map[string]int{}, map[string]int{}
	for range 2000 {
		for name, k := range kinds {
			question := k.draw(minSize, d)
			if question == "" {
				none[name]++
				continue
			}
			switch name {
			case "sort":
				if text := sorted(question); len(text) != minSize || len(slices.Compact([]byte(text))) != minSize || inversions(question) == 0 {
					t.Fatalf("sort %q", question)
				}
			case "tour":
				places := map[string]bool{}
				for i := 0; i < len(question); i += 3 {
					places[question[i+1:i+3]] = true
				}
				if k.given(question) != "abcd" || len(places) != minSize {
					t.Fatalf("tour %q", question)
				}
			case "colour":
				for i := range len(question) {
					sums[question[i:i+1]]++
					if fixed(question[i]) && fixed(question[(i+1)%len(question)]) || conflicts(question) < 2 || len(question) != minSize {
						t.Fatalf("colour %q", question)
					}
				}
			}
		}
	}
	// A ring of four cells has fewer than two conflicts in 18 of 81 colourings with none and none with one: 22 %.
	if none["sort"] < 40 || none["sort"] > 130 || none["colour"] < 300 || none["colour"] > 1300 {
		t.Errorf("no puzzle: %v", none)
	}
	if cells := len(sums); cells != 6 {
		t.Errorf("cells are %v", sums)
	}
	held := 0
	for i := range 2000 { // 400, and a standard deviation of 18
		if env.HeldOut(fmt.Sprint(i), 0.2) {
			held++
		}
	}
	if held < 320 || held > 480 {
		t.Errorf("of 2000 %d are held out, for a share of 0.2", held)
	}
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
	ofEnv, ofData := must.Get2(env.Defaults(Name))(t)
	settings, data := ofEnv.(*Settings), ofData.(*Data)
	if change != nil {
		change(settings, data)
	}
	tasks := must.Get(load(data, seed))(t)
	e := must.Get(fromTasks(settings, tasks))(t)
	return e.(*Env)
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
	first := ""
	for _, split := range []env.Split{env.Train, env.Test} {
		for _, task := range e.Tasks(split)[:3] {
			first += " " + task.Question + "=" + task.Answer
		}
	}
	if want := " egpkjvxw=egjkpvwx a30b80c50d73e52f43g59h48= ccaaaBbc= rjqfylmw=fjlmqrwy a18b58c91d77e02f46g17h50= aCcaBacc="; first != want { // what a seed draws stays: runs of this seed are compared
		t.Errorf("seed 1 draws %s", first)
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
		reason := map[shard.Outcome]string{shard.OutcomeOK: "best", shard.OutcomeWrong: "valid", shard.OutcomeInvalid: "invalid"}[want]
		if err != nil || v.Outcome != want || len(v.Turns) != 1 || v.Reward != v.NormalizedScore || v.Reason != reason || len(v.Parts) != 1 || v.Parts[0].Value != v.Reward || (v.Extracted == "") != (want == shard.OutcomeInvalid) {
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

// TestSettings: what no recipe can mean is refused, field by field, and the limits of what it can are not.
func TestSettings(t *testing.T) {
	t.Parallel()
	type recipe struct {
		Env        *Settings `yaml:"env"`
		Data       *Data     `yaml:"data"`
		Evaluation struct {
			Problems int `yaml:"problems"`
		} `yaml:"evaluation"`
	}
	for field, change := range map[string]func(*recipe){
		"":                                    func(r *recipe) { r.Data.Kinds, r.Data.Size, r.Data.Train = []string{"sort", "tour"}, 10, 1 },
		" ":                                   func(r *recipe) { r.Data.Size, r.Data.Test, r.Data.TestShare, r.Evaluation.Problems = 16, 0, 0.99, 0 },
		"  ":                                  func(r *recipe) { r.Data.Size, r.Evaluation.Problems = 4, 200 },
		"data.kinds: is empty":                func(r *recipe) { r.Data.Kinds = nil },
		"data.kinds.1: must be one of":        func(r *recipe) { r.Data.Kinds = []string{"sort", "chess"} },
		"data.size: must be from 4 to 10":     func(r *recipe) { r.Data.Kinds, r.Data.Size = []string{"tour"}, 11 },
		"data.size: must be from 4 to 16":     func(r *recipe) { r.Data.Size = 17 },
		"data.size: must be from 4 to 16 (3)": func(r *recipe) { r.Data.Size = 3 },
		"data.train: must be 1":               func(r *recipe) { r.Data.Train = 0 },
		"data.test: must be 0":                func(r *recipe) { r.Data.Test, r.Evaluation.Problems = -1, -1 },
		"data.test_share: must":               func(r *recipe) { r.Data.TestShare = 0 },
		"data.test_share: must be above":      func(r *recipe) { r.Data.TestShare = 1 },
		"evaluation.problems: must not be":    func(r *recipe) { r.Evaluation.Problems = 201 },
		"env.prompts":                         func(r *recipe) { r.Env.Prompts.Improve = "{prevous_response}" },
	} {
		settings, data := must.Get2(env.Defaults(Name))(t)
		r := recipe{Env: settings.(*Settings), Data: data.(*Data)}
		change(&r)
		c := config.NewChecker(&r)
		validate(c, r.Env, r.Data)
		if err := c.Err("the recipe"); (err == nil) != (strings.TrimSpace(field) == "") || err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

// TestPrompts: a first answer, a better one, another one; and no other kind. A demonstration is one repair.
func TestPrompts(t *testing.T) {
	t.Parallel()
	e := puzzles(t, 1, func(s *Settings, _ *Data) {
		s.Prompts = Prompts{"{question}=", "{previous_response};", "{previous_response}!"}
	})
	task := e.Tasks(env.Train)[0]
	history := []shard.Message{{Role: "assistant", Content: "a"}, {Role: "user", Content: "b"}, {Role: "assistant", Content: "c"}, {Role: "user", Content: "d"}}
	for kind, want := range map[shard.Kind]string{shard.KindInitial: task.Question + "=", shard.KindImprove: "c;", shard.KindDebug: "c;", shard.KindRefine: "c;", shard.KindDiverge: "c!", "other": ""} {
		got, err := e.Prompt(task, kind, env.Parent{Messages: history})
		if (err == nil) != (want != "") || err == nil && !slices.Equal(got, []shard.Message{{Role: "user", Content: want}}) {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
	for seed := range uint64(20) {
		said, ok, err := e.Demonstration(task, shard.KindInitial, rng.New(seed, rng.PurposeTest, 0, "", 0))
		repaired := sorting{}.repair("", task.Question, &draws{stream: rng.New(seed, rng.PurposeTest, 0, "", 0)})
		if err != nil || !ok || said[1] != (shard.Message{Role: "assistant", Content: repaired}) {
			t.Errorf("%v, %v, want %s", said, err, repaired)
		}
		said, _, err = e.Demonstration(task, shard.KindDiverge, rng.New(seed, rng.PurposeTest, 0, "", 0))
		d := &draws{stream: rng.New(seed, rng.PurposeTest, 0, "", 0)}
		current := task.Question
		for range d.intN(8) {
			current = sorting{}.repair("", current, d)
		}
		if want := (sorting{}).repair("", current, d); err != nil || said[0].Content != current+"!" || said[1].Content != want {
			t.Errorf("%v, %v, want %s", said, err, want)
		}
	}
	task.Kind = "chess"
	if _, _, err := e.Demonstration(task, shard.KindInitial, rng.Stream{}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("of no kind: %v", err)
	}
	if _, err := e.Score(t.Context(), env.Attempt{Task: task, Own: []int{0}, Messages: history[:1]}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("of no kind: %v", err)
	}
}
