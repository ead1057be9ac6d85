package generate

import (
	"bytes"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/env/math/generate/deepmind"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// verifier reads a response as a whole, and numbers exactly.
func verifier(t testing.TB) answer.Exact {
	t.Helper()
	v := must.Get(answer.NewExact(answer.Settings{Extract: answer.ExtractWhole}))(t)
	return v
}

func tasks(t testing.TB, g Settings, split env.Split, seed uint64) []env.Task {
	t.Helper()
	tasks := must.Get(Tasks(g, split, seed))(t)
	return tasks
}

// The bytes of generated problems are a contract: a run that is made again
// must train on the same ones.
func TestGenerateGolden(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	g := Settings{Kinds: Kinds(), Levels: []int{1, 2, 5, 9}, Count: 4 * len(Kinds()), TestShare: 0.25}
	for _, split := range []env.Split{env.Train, env.Test} {
		must.Do(t, dataset.Write(&got, tasks(t, g, split, 7)))
	}
	golden.Check(t, "testdata/generated.golden.jsonl", got.Bytes())
}

// Written problems are read back as they were, but for the file's name in
// front of the ids.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	g := Settings{Kinds: Kinds(), Levels: []int{1, 3}, Count: 100, TestShare: 0.1}
	want := tasks(t, g, env.Train, 1)
	path := filepath.Join(t.TempDir(), "made.jsonl")
	var written bytes.Buffer
	must.Do(t, dataset.Write(&written, want))
	must.Do(t, os.WriteFile(path, written.Bytes(), 0o600))
	source := dataset.Source{Fields: dataset.Fields{ID: "id", Question: "question", Answer: "answer", Kind: "kind", Level: "level"}}
	set := must.Get(dataset.Together([]string{path}, "data.train"))(t)
	got, _ := must.Get2(set.Read(path, source))(t)
	for i := range got {
		got[i].ID = strings.TrimPrefix(got[i].ID, "made/")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// counted lists the kinds of this package; those of package deepmind are
// tested there.
func counted() []string { return Kinds()[:len(kinds)] }

// Every answer is what an independent reading of the question gives, and
// verifies; every question has the digits that its level promises.
func TestGenerateAnswers(t *testing.T) {
	t.Parallel()
	whole := verifier(t)
	easy := Settings{Kinds: counted(), Levels: []int{1}, Count: 500, TestShare: 0.2}
	rest := Settings{Kinds: counted(), Levels: []int{2, 3, 4, 5, 6, 7, 8, 9}, Count: 8000, TestShare: 0.2}
	for _, task := range append(tasks(t, easy, env.Train, 3), tasks(t, rest, env.Train, 3)...) {
		want := evaluate(t, task.Question)
		if task.Answer != want {
			t.Errorf("%s: answer %q, want %q", task.ID, task.Answer, want)
		}
		if v := whole.Verify(task.Answer, want); !v.Equal {
			t.Errorf("%s: %q does not verify", task.ID, want)
		}
	}
}

// evaluate answers a question by reading it with a parser of its own.
func evaluate(t *testing.T, question string) string {
	t.Helper()
	parse := func(s string) *big.Rat {
		p := &expression{text: s}
		value := p.sum()
		if p.text != "" {
			t.Fatalf("question %q: cannot read %q", question, p.text)
		}
		return value
	}
	show := func(value *big.Rat) string {
		if strings.Contains(question, ".") && !value.IsInt() {
			places, _ := value.FloatPrec()
			return value.FloatString(places)
		}
		return value.RatString()
	}
	if name, arguments, ok := strings.Cut(strings.TrimSuffix(question, ")"), "("); ok {
		left, right, _ := strings.Cut(arguments, ",")
		a, b := parse(left), parse(right)
		if (a.Cmp(b) > 0) == (name == "max") {
			return show(a)
		}
		return show(b)
	}
	if left, right, ok := strings.Cut(question, "<"); ok {
		return map[bool]string{true: "True", false: "False"}[parse(left).Cmp(parse(right)) < 0]
	}
	if left, right, ok := strings.Cut(question, " mod "); ok {
		return new(big.Int).Mod(parse(left).Num(), parse(right).Num()).String()
	}
	if left, right, ok := strings.Cut(question, "="); ok {
		slope, offset, _ := strings.Cut(left, "*x")
		rest := new(big.Rat).Sub(parse(right), parse("0"+offset))
		return show(rest.Quo(rest, parse(slope)))
	}
	return show(parse(question))
}

// expression reads sums of products of numbers, left to right.
type expression struct{ text string }

func (e *expression) sum() *big.Rat {
	value := e.product()
	for len(e.text) > 0 && strings.ContainsRune("+-", rune(e.text[0])) {
		operator := e.text[0]
		e.text = e.text[1:]
		term := e.product()
		if operator == '-' {
			term.Neg(term)
		}
		value.Add(value, term)
	}
	return value
}

func (e *expression) product() *big.Rat {
	value := e.number()
	for len(e.text) > 0 && strings.ContainsRune("*/", rune(e.text[0])) {
		operator := e.text[0]
		e.text = e.text[1:]
		factor := e.number()
		if operator == '/' {
			factor.Inv(factor)
		}
		value.Mul(value, factor)
	}
	return value
}

func (e *expression) number() *big.Rat {
	n := 0
	for n < len(e.text) && (e.text[n] == '-' && n == 0 || strings.ContainsRune(".0123456789", rune(e.text[n]))) {
		n++
	}
	value, ok := new(big.Rat).SetString(e.text[:n])
	if !ok {
		return new(big.Rat)
	}
	e.text = e.text[n:]
	return value
}

// The splits share no question, whatever they are made with, and no split has
// a question twice.
func TestGenerateDisjoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Settings {
			levels := rapid.SliceOfNDistinct(rapid.IntRange(1, 2), 1, 2, rapid.ID[int]).Draw(t, name+" levels")
			names := rapid.SliceOfNDistinct(rapid.SampledFrom(Kinds()), 1, 3, rapid.ID[string]).Draw(t, name+" kinds")
			return Settings{Kinds: names, Levels: levels, Count: rapid.IntRange(1, 60).Draw(t, name+" count"), TestShare: 0.5}
		}
		train, errTrain := Tasks(draw("train"), env.Train, rapid.Uint64().Draw(t, "train seed"))
		test, errTest := Tasks(draw("test"), env.Test, rapid.Uint64().Draw(t, "test seed"))
		if errTrain != nil && exitcode.Code(errTrain) != exitcode.Usage || errTest != nil && exitcode.Code(errTest) != exitcode.Usage {
			t.Fatal(errTrain, errTest)
		}
		seen := map[string]env.Split{}
		for split, tasks := range map[env.Split][]env.Task{env.Train: train, env.Test: test} {
			for _, task := range tasks {
				if other, ok := seen[task.Question]; ok {
					t.Fatalf("%q is in %s and %s", task.Question, other, split)
				}
				seen[task.Question] = split
			}
		}
	})
}

// Words may ask what a counted kind asks too: "4+2" of both.
func TestGenerateOverlap(t *testing.T) {
	t.Parallel()
	g := Settings{Kinds: []string{"arithmetic__add_or_sub", "add"}, Levels: []int{1}, Count: 17, TestShare: 0.5}
	for seed := range uint64(0x130) {
		seen := map[string]bool{}
		for _, task := range tasks(t, g, env.Test, seed) {
			if seen[task.Question] {
				t.Fatalf("seed %d asks %q twice", seed, task.Question)
			}
			seen[task.Question] = true
		}
	}
}

// Kinds and levels come in turn, and the first ones get the rest.
func TestGenerateSpread(t *testing.T) {
	t.Parallel()
	g := Settings{Kinds: []string{"add", "mul"}, Levels: []int{2, 3}, Count: 10, TestShare: 0.5}
	var got []string
	for _, task := range tasks(t, g, env.Test, 1) {
		got = append(got, fmt.Sprint(task.Kind, task.Level))
	}
	want := strings.Fields("add2 add3 mul2 mul3 add2 add3 mul2 mul3 add2 add3")
	if !slices.Equal(got, want) {
		t.Errorf("kinds and levels %q, want %q", got, want)
	}
}

// All problems of a small space can be had, each once; one more cannot.
func TestGenerateWholeSpace(t *testing.T) {
	t.Parallel()
	g := Settings{Kinds: []string{"add"}, Levels: []int{1}, TestShare: 0.3}
	questions := map[string]bool{}
	for _, split := range []env.Split{env.Train, env.Test} {
		g.Count = 101
		_, err := Tasks(g, split, 1)
		if exitcode.Code(err) != exitcode.Usage {
			t.Fatalf("%s: 101 problems of 100: %v", split, err)
		}
		var level, exist int
		rest := err.Error()[strings.Index(err.Error(), "add level"):]
		if _, scanErr := fmt.Sscanf(rest, "add level %d has %d", &level, &exist); scanErr != nil {
			t.Fatal(scanErr, err)
		}
		g.Count = exist
		for _, task := range tasks(t, g, split, 1) {
			questions[task.Question] = true
		}
		g.Count = exist + 1
		if _, err := Tasks(g, split, 1); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%s: %d problems of %d: %v", split, exist+1, exist, err)
		}
	}
	if len(questions) != 100 {
		t.Errorf("both splits together have %d problems, want the 100 sums of two digits", len(questions))
	}
}

// Problems in words are as many as are asked for, and where there are fewer
// (no two names, few digits) the message says how many were found.
func TestGeneratePhrased(t *testing.T) {
	t.Parallel()
	g := Settings{Kinds: []string{"comparison__pair"}, Levels: []int{3, 8}, Count: 3000, TestShare: 0.2}
	whole := verifier(t)
	seen := map[string]bool{}
	for _, task := range tasks(t, g, env.Train, 2) {
		if seen[task.Question] || splitOf(task.Question, g.TestShare) != env.Train {
			t.Errorf("%s comes twice or belongs to the test split", task.ID)
		}
		seen[task.Question] = true
		if v := whole.Verify(task.Answer, task.Answer); !v.Equal {
			t.Errorf("%s: %q does not verify", task.ID, task.Answer)
		}
	}
	if len(seen) != g.Count {
		t.Errorf("%d problems, want %d", len(seen), g.Count)
	}
	g.Kinds, g.Levels, g.Count = []string{"arithmetic__nearest_integer_root"}, []int{1}, 3000
	if _, err := Tasks(g, env.Train, 2); err == nil || !strings.Contains(err.Error(), "arithmetic__nearest_integer_root level 1 has ") {
		t.Errorf("3000 roots of numbers below 100: %v", err)
	}
}

// The held-out share is what the recipe says, within chance: 4 standard
// deviations of a binomial of 10,000 are 0.018.
func TestGenerateShare(t *testing.T) {
	t.Parallel()
	g := Settings{Kinds: []string{"add"}, Levels: []int{2}, Count: 10000, TestShare: 0.3}
	held := 0
	for a := range 100 {
		for b := range 100 {
			if splitOf(fmt.Sprintf("%d+%d", a, b), g.TestShare) == env.Test {
				held++
			}
		}
	}
	if held < 2820 || held > 3180 {
		t.Errorf("%d of 10000 sums are held out, want about 3000", held)
	}
}

func TestGenerateSettings(t *testing.T) {
	t.Parallel()
	modules := strings.Join(deepmind.Modules(), ", ")
	good := Settings{Kinds: []string{"add"}, Levels: []int{1}, Count: 10, TestShare: 0.2}
	tests := []struct {
		change func(*Settings)
		split  env.Split
		want   string
	}{
		{func(g *Settings) { g.Kinds = nil }, env.Train, `data.train.generate needs kinds and levels: the kinds are add, sub, mul, div, compare, mod, chain, linear, fraction, decimal, ` + modules},
		{func(g *Settings) { g.Levels = nil }, env.Test, `data.test.generate needs kinds and levels: the kinds are add, sub, mul, div, compare, mod, chain, linear, fraction, decimal, ` + modules},
		{func(g *Settings) { g.Kinds = []string{"plus"} }, env.Train, `data.train.generate.kinds has "plus": the kinds are add, sub, mul, div, compare, mod, chain, linear, fraction, decimal, ` + modules},
		{func(g *Settings) { g.Kinds = []string{"add", "add"} }, env.Train, `data.train.generate.kinds has "add" twice`},
		{func(g *Settings) { g.Levels = []int{0} }, env.Train, `data.train.generate.levels has 0: levels are 1 to 9`},
		{func(g *Settings) { g.Levels = []int{2, 10} }, env.Train, `data.train.generate.levels has 10: levels are 1 to 9`},
		{func(g *Settings) { g.Levels = []int{2, 2} }, env.Train, `data.train.generate.levels has 2 twice`},
		{func(g *Settings) { g.Count = 0 }, env.Train, `data.train.generate.count is 0: it must be 1 or more`},
		{func(g *Settings) { g.TestShare = -0.1 }, env.Train, `data.train.generate.test_share is -0.1: it must be in [0, 1]`},
		{func(g *Settings) { g.TestShare = 0 }, env.Test, `data.test.generate.test_share is 0: it leaves no test problems`},
		{func(g *Settings) { g.TestShare = 1 }, env.Train, `data.train.generate.test_share is 1: it leaves no train problems`},
		{func(g *Settings) { g.Levels, g.Count, g.TestShare = []int{9}, 100, 1e-9 }, env.Test, `data.test.generate: count 100 with test_share 1e-09 is too large for add level 9: change the share or lower the count`},
		{func(g *Settings) { g.Levels, g.Count = []int{1, 2}, 400 }, env.Train, `data.train.generate: count 400 asks for up to 200 train problems of each kind and level, but add level 1 has 77: lower the count, or add levels or kinds`},
	}
	for _, test := range tests {
		g := good
		test.change(&g)
		_, err := Tasks(g, test.split, 1)
		if err == nil || err.Error() != test.want || exitcode.Code(err) != exitcode.Usage {
			t.Errorf("Tasks(%+v) is %v (code %d), want %s", g, err, exitcode.Code(err), test.want)
		}
	}
}

// Two levels of a kind in words may ask the same question: "1 divided by 5" was
// once in a split twice.
func TestGenerateLevelsOverlap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		g := Settings{Kinds: []string{"arithmetic__div"}, Levels: []int{1, 2}, Count: 40, TestShare: 0.5}
		tasks := must.Get(Tasks(g, env.Train, seed))(t)
		seen := map[string]bool{}
		for _, task := range tasks {
			if seen[task.Question] {
				t.Errorf("seed %d: %q is asked twice", seed, task.Question)
			}
			seen[task.Question] = true
		}
	}
}
