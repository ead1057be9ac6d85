package digits

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// By hand: 21 + 93 = 114 is asked as 12+39 and answered 411; a sum without a carry gets a last 0.
func TestProblem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, first, second, question, answer string }{
		{"add", "21", "93", "12+39", "411"},
		{"add", "21", "11", "12+11", "230"},
		{"add", "5", "5", "5+5", "01"},
		{"copy", "120", "999", "120", "120"},
		{"reverse", "120", "999", "120", "021"},
	} {
		if question, answer := problem(c.kind, c.first, c.second); question != c.question || answer != c.answer {
			t.Errorf("%+v: %s is answered %s", c, question, answer)
		}
	}
}

// Over any settings: the problems of a length are as many as asked for and in the order of
// lengths, those held out are none that are trained on, and answers are what arithmetic of
// another kind gives.
func TestLoad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := &Data{
			Kind: rapid.SampledFrom([]string{"add", "copy", "reverse"}).Draw(t, "kind"), Longest: rapid.IntRange(1, 30).Draw(t, "longest"),
			Train: rapid.IntRange(1, 6).Draw(t, "train"), Lengths: []int{40, 2, 1}, Test: 3, TestShare: rapid.SampledFrom([]float64{.2, .5}).Draw(t, "share"),
		}
		tasks, err := load(data, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		trained := map[string]bool{}
		for i, task := range tasks.Tasks(env.Train) {
			trained[task.Question] = true
			if want := 1 + i/data.Train; task.Level != want || task.Kind != fmt.Sprintf("%s-%03d", data.Kind, want) {
				t.Fatalf("task %d is %+v", i, task)
			}
			check(t, data.Kind, task)
			heldOut(t, data, task, false)
		}
		if n := len(tasks.Tasks(env.Train)); n != data.Longest*data.Train {
			t.Fatalf("%d tasks", n)
		}
		for i, task := range tasks.Tasks(env.Test) {
			if trained[task.Question] || task.Level != data.Lengths[i%3] {
				t.Fatalf("held-out task %d: %+v", i, task)
			}
			check(t, data.Kind, task)
			heldOut(t, data, task, true)
		}
	})
}

// heldOut checks that a hash of the question decides the split of a task, but for those of one
// digit, of which a split may have none.
func heldOut(t *rapid.T, data *Data, task env.Task, want bool) {
	if task.Level > 1 && env.HeldOut("lathe/digits/split\n"+task.Question, data.TestShare) != want {
		t.Fatalf("%+v is of the wrong split", task)
	}
}

// check computes an answer in another way: from sums by schoolbook, digit by digit.
func check(t *rapid.T, kind string, task env.Task) {
	first, second, _ := strings.Cut(task.Question, "+")
	want := first
	switch kind {
	case "reverse":
		want = ""
		for _, r := range first {
			want = string(r) + want
		}
	case "add":
		want = ""
		carry := 0
		for i := range first {
			sum := int(first[i]-'0') + int(second[i]-'0') + carry
			want += fmt.Sprint(sum % 10)
			carry = sum / 10
		}
		want += fmt.Sprint(carry)
	}
	if task.Answer != want || len(first) != task.Level || first[0] == '0' && kind != "add" || strings.HasSuffix(first, "0") && kind == "add" {
		t.Fatalf("%+v: want the answer %s", task, want)
	}
	if _, ok := new(big.Int).SetString(want, 10); !ok {
		t.Fatalf("%q is no number", want)
	}
}

// More problems leave those that there were as they are, and another seed has others.
func TestDrawsStay(t *testing.T) {
	t.Parallel()
	data := Data{Kind: "add", Longest: 9, Train: 2, Lengths: []int{9}, Test: 2, TestShare: .2}
	questions := func(d Data, seed uint64) (all []string) {
		for _, task := range must.Get(load(&d, seed))(t).All() {
			if task.Level == 9 {
				all = append(all, task.Question)
			}
		}
		return all
	}
	few := questions(data, 1)
	more := data
	more.Longest, more.Train, more.Test = 12, 3, 4
	many := questions(more, 1)
	if diff := cmp.Diff(few, []string{many[0], many[1], many[3], many[4]}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"221691505+984814526", "633295293+225297626", "323618554+011503467", "654100599+638189157"}, few); diff != "" {
		t.Errorf("what a seed draws is drawn in every run with it (-want +got):\n%s", diff)
	}
	if cmp.Equal(few, questions(data, 2)) {
		t.Error("two seeds draw the same")
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	e := &Env{env.NewTaskSet(Name), "{question}="}
	task := env.Task{ID: "add-002/train/0", Question: "12+39", Answer: "411"}
	for answer, want := range map[string]shard.Outcome{
		"411": shard.OutcomeOK, " 411\n": shard.OutcomeOK, "41": shard.OutcomeWrong, "4110": shard.OutcomeWrong, "0411": shard.OutcomeWrong, "": shard.OutcomeInvalid,
	} {
		prompt := must.Get(e.Prompt(task, shard.KindInitial, env.Parent{}))(t)
		v, err := e.Score(t.Context(), env.Attempt{Task: task, Messages: append(prompt, shard.Message{Role: "assistant", Content: answer}), Own: []int{1}})
		if right := want == shard.OutcomeOK; err != nil || v.Outcome != want || (v.Reward == 1) != right || v.Extracted != strings.TrimSpace(answer) {
			t.Errorf("%q: %+v, %v", answer, v, err)
		}
	}
	if _, err := e.Score(t.Context(), env.Attempt{Task: task}); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("no response: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Score(over, env.Attempt{Task: task}); err == nil {
		t.Error("scored after the end")
	}
	if _, err := e.Prompt(task, shard.KindImprove, env.Parent{}); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a prompt to improve: %v", err)
	}
}

func TestDemonstration(t *testing.T) {
	t.Parallel()
	e := &Env{env.NewTaskSet(Name), "{question}="}
	task := env.Task{Question: "12+39", Answer: "411"}
	got, ok, err := e.Demonstration(task, shard.KindInitial, rng.Stream{})
	want := []shard.Message{{Role: "user", Content: "12+39="}, {Role: "assistant", Content: "411"}}
	if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
		t.Errorf("%v, %v\n%s", ok, err, diff)
	}
	if _, ok, err := e.Demonstration(task, shard.KindImprove, rng.Stream{}); ok || err != nil {
		t.Errorf("to improve: %v, %v", ok, err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want  string // the field that is refused; empty for none
		spoil func(*Settings, *Data)
	}{
		{"", func(*Settings, *Data) {}},
		{"", func(_ *Settings, d *Data) { d.Longest, d.Train, d.Test, d.Lengths = 1, 1, 0, []int{1, 999} }},
		{"", func(_ *Settings, d *Data) { d.Longest = 999 }},
		{"env.prompt", func(s *Settings, _ *Data) { s.Prompt = "=" }},
		{"data.kind", func(_ *Settings, d *Data) { d.Kind = "multiply" }},
		{"data.longest", func(_ *Settings, d *Data) { d.Longest = 1000 }},
		{"data.longest", func(_ *Settings, d *Data) { d.Longest = 0 }},
		{"data.train", func(_ *Settings, d *Data) { d.Train = 0 }},
		{"data.test", func(_ *Settings, d *Data) { d.Test = -1 }},
		{"data.lengths.1", func(_ *Settings, d *Data) { d.Lengths = []int{3, 0} }},
		{"data.lengths.0", func(_ *Settings, d *Data) { d.Lengths = []int{1000} }},
		{"data.test_share", func(_ *Settings, d *Data) { d.TestShare = 1 }},
		{"data.test_share", func(_ *Settings, d *Data) { d.TestShare = 0 }},
	} {
		settings, data, err := env.Defaults(Name)
		if err != nil {
			t.Fatal(err)
		}
		c.spoil(settings.(*Settings), data.(*Data))
		checker := config.NewChecker(data)
		validate(checker, settings.(*Settings), data.(*Data))
		if err := checker.Err("recipe"); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want+":") {
			t.Errorf("%q: %v", c.want, err)
		}
	}
	// As many problems are measured as are held out, 2 of 3 lengths each, and no more.
	for problems, fits := range map[int]bool{6: true, 7: false} {
		var recipe struct {
			Evaluation struct {
				Problems int `yaml:"problems"`
			} `yaml:"evaluation"`
		}
		recipe.Evaluation.Problems = problems
		checker := config.NewChecker(&recipe)
		validate(checker, &Settings{"{question}="}, &Data{Kind: "add", Longest: 1, Train: 1, Lengths: []int{1, 2, 3}, Test: 2, TestShare: .2})
		if err := checker.Err("recipe"); (err == nil) != fits {
			t.Errorf("%d problems of evaluation: %v", problems, err)
		}
	}
	if _, err := load(&Data{Kind: "copy", Longest: 1, Train: 1, Lengths: []int{2, 2}, Test: 1, TestShare: .5}, 1); exitcode.Code(err) != exitcode.Usage {
		t.Errorf("a length twice: %v", err)
	}
}
