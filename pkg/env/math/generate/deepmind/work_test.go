package deepmind

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// Hand-worked steps of each form.
func TestWork(t *testing.T) {
	t.Parallel()
	tests := []struct{ question, steps, answer string }{
		{"What is 8 + -6 - ((15 - 28 - -27) + -11)?", "8 -6=2 -15=-13 +28=15 -27=-12 +11=-1", "-1"},
		{"Evaluate -4 + (-4 - 15 - -68).", "-4 -4=-8 -15=-23 +68=45", "45"},
		{"What is the value of (-2)/(-4)*-3 + -(1 - 2)?", "1/2 -3/2 -1 1 -1/2", "-1/2"},
		{"What is the second biggest value in 3, 1/5, 5?", "5, 3", "3"},
		{"Which is the fourth smallest value?  (a) 1387  (b) -0.317  (c) 2/21  (d) -0.7", "d -0.7, b -0.317, c 2/21, a 1387", "a"},
		{"Which is the nearest to 0.3?  (a) 4  (b) 2/13  (c) -1", "2/13=0.153; a:3.7, b:0.146, c:1.3", "b"},
		{"What is the closest to -2/71 in 2/7, 46.5?", "-2/71=-0.028, 2/7=0.285; 2/7:0.313, 46.5:46.52", "2/7"},
		{"Sort -5, 534, -2/3 in decreasing order.", "", "534, -2/3, -5"},
		{"Sort 4, -5.", "", "-5, 4"},
		{"Which is smaller: -2745 or -85089/31?", "<", "-2745"},
		{"Is 6651 at most as big as 7083?", "<", "True"},
		{"Do 0.5 and 1/2 have different values?", "=", "False"},
		{"Let j = -534 - -2672/5. Let o = -1 + -1. Which is the closest to 0?  (a) j  (b) o", "j=-2672/5 2/5=0.4, o=-1 -1=-2; a:0.4, b:2", "a"},
		{"Let w = 1 - 3. Suppose 9*q + 84 = 21. Is w > q?", "w=1 -3=-2, 9q=-63, q=-7; >", "True"},
		{"Let f(x) = x**2 - 3. Let y be f(4). Sort 2, y.", "y=1 4 13", "2, y"},
		{"Let k = 6 + 9.9. Let o = k + -19. Sort o, -3.", "k=6 +9.9=15.9, o=15.9 -19=-3.1", "o, -3"},
		// 1·b + 2·a = 8 and 3·b - 2·a = 0: a = 24/8 by determinants in the order a, b.
		{"Suppose b + 2*a = 8, 3*b = 2*a. Is a < 4?", "2a 1b=8, -2a 3b=0, a=24/8=3; <", "True"},
	}
	for _, test := range tests {
		steps, answer, ok := Work(test.question)
		if steps != test.steps || answer != test.answer || !ok {
			t.Errorf("%s: %q, %q, %v, want %q, %q", test.question, steps, answer, ok, test.steps, test.answer)
		}
	}
}

// Of the modules that have steps, nearly every problem, real or generated, is
// worked out, and always to the reference answer.
func TestWorkAnswers(t *testing.T) {
	t.Parallel()
	steps := map[string]bool{}
	for _, m := range Modules() {
		steps[m] = strings.HasPrefix(m, "comparison__")
	}
	for _, m := range []string{"add_sub_multiple", "mixed", "mul_div_multiple"} {
		steps["arithmetic__"+m] = true
	}
	worked, all := map[string]int{}, map[string]int{}
	check := func(module, question, answer string) {
		all[module]++
		_, got, ok := Work(question)
		if ok && got != answer {
			t.Errorf("%s: %s: %q, want %q", module, question, got, answer)
		}
		if ok {
			worked[module]++
		}
	}
	for module := range steps {
		for level := 1; level <= 9; level++ {
			for sample := range 100 {
				p := Make(module, level, rng.New(6, rng.PurposeTest, level, module, sample))
				check(module, p.Question, p.Answer)
			}
		}
	}
	for module, known := range steps {
		if known && worked[module] != all[module] || !known && worked[module] > 0 {
			t.Errorf("%s: %d of %d generated problems are worked out", module, worked[module], all[module])
		}
	}
	clear(worked)
	clear(all)
	for _, r := range realProblems(t) {
		if steps[r.Module] {
			check(r.Module, r.Problem, r.Answer)
		}
	}
	for module, known := range steps {
		if known && (all[module] != 380 || worked[module]*100 < all[module]*95) {
			t.Errorf("%s: %d of %d real problems are worked out", module, worked[module], all[module])
		}
	}
}

// Whatever a file asks, the steps end, and only with an answer.
func FuzzWork(f *testing.F) {
	for _, module := range Modules() {
		for sample := range 3 {
			f.Add(Make(module, 8, rng.New(7, rng.PurposeTest, 0, module, sample)).Question)
		}
	}
	for _, question := range []string{
		"Let ", "Suppose . ", "Let a be a. Sort a, 1.", "Let a = 1/0. Sort a, 1.", "Suppose 0 = 0. Is 1 < 2?", "Suppose a*a = 1. Is a < 2?",
		"Let f(x) = y. Let a be f(1). Is a < 2?", "Let a be g(1). Is a < 2?", "What is 2**9**9**9 + 1?", "Sort 1/0, --2, ..", "Which is smaller: 1 or 1?",
		"What is the tenth biggest value in 1, 2?", "Which is the nearest to 1?  ", "((((((((1))))))))", "1 + ((((((9**9)**9)**9)**9)**9)**9)", "Let f(x) = (((x**9)**9)**9)**9. Let a be f(2). Sort a, 1.",
		"Let e = 1. Suppose e*x = 0*x. Sort x, 1.",
	} {
		f.Add(question)
	}
	f.Fuzz(func(t *testing.T, question string) {
		if _, answer, ok := Work(question); ok && answer == "" {
			t.Errorf("%q is worked out to nothing", question)
		}
	})
}
