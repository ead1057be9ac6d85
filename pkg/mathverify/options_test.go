package mathverify

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func preset(t *testing.T, name string) Options {
	t.Helper()
	options, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return options
}

func TestOptions(t *testing.T) {
	t.Parallel()
	with := func(change func(*Options)) Options {
		options := DefaultOptions()
		change(&options)
		return options
	}
	withSets := with(func(o *Options) { o.SetForRelation = true })
	split := with(func(o *Options) { o.SplitImaginary = true })
	anchored := with(func(o *Options) { o.Anchored = true })
	coarse := with(func(o *Options) { o.DecimalPlaces = 2 })
	formulas := with(func(o *Options) { o.Targets = TargetLaTeX })
	plain := with(func(o *Options) { o.Targets = TargetExpression })
	first := with(func(o *Options) { o.Match = MatchFirst })
	anyone := with(func(o *Options) { o.Match = MatchAny })
	among := with(func(o *Options) { o.Boxed = BoxedAmong })
	off := with(func(o *Options) { o.Boxed = BoxedOff })
	best := with(func(o *Options) { o.OnlyBest = true })
	renaming := with(func(o *Options) { o.RenameSymbols = true })
	tolerant := with(func(o *Options) { o.Tolerance = 0.04 })
	early := preset(t, "math-verify-0.7")
	for _, c := range []struct {
		name           string
		options        Options
		gold, response string
		equal          bool
	}{
		{"SetForRelation", withSets, "$(1,2)$", "$1<x<2$", true},
		{"SplitImaginary", split, "$6+9i$", `$\boxed{9 i + 6}$`, false},
		{"SplitImaginary", split, "$6+9i$", `$\boxed{9i+6}$`, true},
		{"Anchored", anchored, "5", "5", false},
		{"Anchored", anchored, "5", "The answer is 5", true},
		{"DecimalPlaces", coarse, `$\frac13$`, "0.33", true},
		{"Targets", formulas, "5", "The answer is 5.", false},
		{"Targets", formulas, "5", "The answer is $5$.", true},
		{"Targets", formulas, "C", "The answer is C.", false},
		{"Targets", plain, "5", "The answer is 5, not $6$.", true},
		{"MatchFirst", first, "3", "I have 3 and then 4", true},
		{"MatchFirst", first, "4", "I have 3 and then 4", false},
		{"MatchFirst", first, "3", `\boxed{3}, or else \boxed{4}`, true},
		{"MatchFirst", first, "4", `3 and 5 and \boxed{4}`, true},
		{"MatchAny", anyone, "3", "It is 2 or 3 or 4", true},
		{"MatchAny", anyone, "5", "It is 2 or 3 or 4", false},
		{"MatchAny", anyone, "3", `\boxed{2} \boxed{3} \boxed{4}`, true},
		{"MatchAny", anyone, "2", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", true},
		{"MatchAny", anyone, "1", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", false},
		{"MatchAny", anyone, "2", `\boxed{^} \boxed{2} \boxed{3}`, true},
		{"OnlyBest", best, "5", "It is 5.", true},
		{"OnlyBest", best, "even", "even", true},
		{"SplitImaginary", split, "$6+9i$", `$\boxed{9 i + 7}$`, false},
		{"SplitImaginary", split, `$\sin x$`, `$x = i$`, false},
		{"SplitImaginary", split, "$2 i$", `$\boxed{2 i}$`, true},
		{"BoxedAmong", among, "5", `\boxed{7}. The final answer is $5$.`, true},
		{"BoxedAmong", DefaultOptions(), "5", `\boxed{7}. The final answer is $5$.`, false},
		{"BoxedOff", off, "5", `\boxed{7} and 5`, true},
		{"BoxedOff", off, "7", `$\boxed{7}$`, true},
		{"OnlyBest", best, "5", `It is 5. \boxed{^}`, false},
		{"OnlyBest", DefaultOptions(), "5", `It is 5. \boxed{^}`, true},
		{"two boxes of one value", DefaultOptions(), "0.33", `\boxed{0.33} = \boxed{1/3}`, true},
		{"two boxes of one value", DefaultOptions(), "0.34", `\boxed{0.34} = \boxed{1/3}`, false},
		{"two boxes of one value", DefaultOptions(), "$1/3$", `\boxed{1/3}, about \boxed{0.33}`, true},
		{"two boxes of one value", DefaultOptions(), "$1/3$", `\boxed{1/3}, about \boxed{0.34}`, true}, // the exact one is the answer
		{"RenameSymbols", renaming, "$2x+1$", "$2t+1$", true},
		{"RenameSymbols", renaming, "$x-y$", "$b-a$", false},
		{"RenameSymbols", renaming, "$x-y$", "$a-b$", true},
		{"RenameSymbols", renaming, "$x+y$", "$2a$", false},
		{"Tolerance", tolerant, "100", "96.5", true},
		{"Tolerance", tolerant, "100", "95.5", false},
		{"Tolerance", tolerant, `$\{1, 10\}$`, `\boxed{1.01, 10.3}`, true},
		{"Tolerance", tolerant, "0", "0.001", false},
		{"DecimalsOfNumbers", early, `$\sqrt{2}$`, "1.41421356", false},
		{"DecimalsOfNumbers", early, `$\frac{1}{3}$`, "0.333333", true},
		{"DecimalsOfNumbers", DefaultOptions(), `$\sqrt{2}$`, "1.41421356", true},
		{"boxed", preset(t, "boxed"), "5", "The answer is 5", false},
		{"boxed", preset(t, "boxed"), "5", `\boxed{5}`, true},
	} {
		if got := Verify(c.gold, c.response, c.options).Equal; got != c.equal {
			t.Errorf("%s: gold %q, response %q: %v", c.name, c.gold, c.response, got)
		}
	}
}

func TestNamesOfOptions(t *testing.T) {
	t.Parallel()
	for _, name := range Presets() {
		if _, err := Preset(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := Preset("math-verify"); err == nil || !strings.Contains(err.Error(), "math-verify-0.8") {
		t.Errorf("an unknown preset: %v", err)
	}
	if targets, err := ParseTargets([]string{"words", "latex"}); err != nil || targets != TargetLaTeX|TargetWords {
		t.Errorf("targets %b, %v", targets, err)
	}
	if boxed, err := ParseBoxed("off"); err != nil || boxed != BoxedOff {
		t.Errorf("boxed %v, %v", boxed, err)
	}
	if match, err := ParseMatch("any"); err != nil || match != MatchAny {
		t.Errorf("match %v, %v", match, err)
	}
	for want, err := range map[string]error{
		"no targets": second(ParseTargets(nil)), `"Latex"`: second(ParseTargets([]string{"Latex"})),
		`""`: second(ParseBoxed("")), `"best"`: second(ParseMatch("best")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an unknown name gives %v, want %s in it", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gold, response string
		want           []string
	}{
		{`$\frac{1}{2}$`, `So x is \boxed{0.5}.`, []string{
			`reference "\\frac{1}{2}": rational (1/2)`,
			`response: one candidate`,
			`taken from boxed, bytes 8 to 19: "0.5": decimal 0.5`,
			`to 6 decimal places: (1/2) = 0.5`,
		}},
		{`$\{1, x+1\}$`, `The answer is $\{x+2, 1\}$ or $)$`, []string{
			`reference "\\{1, x+1\\}": set {1, (x + 1)}`,
			`response: 2 candidates, best first`,
			`taken from after “answer”, bytes 14 to 26: "\\{x+2, 1\\}": set {(x + 2), 1}`,
			`residues modulo two primes: 1 ≠ (x + 2)`,
			`residues modulo two primes: 1 ≠ (x + 1)`,
			`residues modulo two primes: (x + 2) ≠ 1`,
			`residues modulo two primes: 1 ≠ (x + 2)`,
			`the same form: 1 = 1`,
			`residues modulo two primes: (x + 1) ≠ (x + 2)`,
			`collections: {1, (x + 1)} ≠ {(x + 2), 1}`,
		}},
		{"5", "nothing", []string{`reference "5": integer 5`, `response: nothing that could be the answer`}},
		{"5", `\boxed{^}`, []string{`reference "5": integer 5`, `response: one candidate`, `taken from boxed, bytes 0 to 9: "^": cannot be read`}},
	} {
		reference := NewReference(c.gold)
		got := reference.Explain(c.response, DefaultOptions())
		if got.Result != reference.Verify(c.response, DefaultOptions()) {
			t.Errorf("%q: the explanation comes to another verdict", c.response)
		}
		if diff := cmp.Diff(c.want, got.Steps); diff != "" {
			t.Errorf("%q against %q (-want +got):\n%s", c.response, c.gold, diff)
		}
	}
	for _, c := range []struct{ gold, answer, want string }{
		{" ", "5", "there is no reference"},
		{"$5", "5", `reference "5": integer 5`},
		{`\int x`, "5", `reference "\\int x": compared as text`},
		{"5", strings.Repeat("(", 70), `taken from the whole text, bytes 0 to 70: "` + strings.Repeat("(", 70) + `": beyond the budget`},
		{"$" + strings.Repeat("1,", 40) + "2$", strings.Repeat("3,", 40) + "1", "and more steps, left out"},
	} {
		steps := NewReference(c.gold).ExplainAnswer(c.answer, DefaultOptions()).Steps
		if len(steps) > maxTraceSteps+1 || !slices.Contains(steps, c.want) {
			t.Errorf("%.20q against %.20q has %d steps, and not %q: %q", c.answer, c.gold, len(steps), c.want, steps)
		}
	}
	whole := NewReference("x=5").ExplainAnswer("5", DefaultOptions())
	if !whole.Equal || len(whole.Steps) != 3 || !strings.HasPrefix(whole.Steps[1], "taken from the whole text") {
		t.Errorf("the steps of a whole answer are %q", whole.Steps)
	}
}

// What a record keeps of an answer, and why an answer is not equal.
func TestRecords(t *testing.T) {
	t.Parallel()
	a := func(n int) string { return strings.Repeat("a", n) }
	for text, want := range map[string]string{
		a(256): a(256), a(257): a(256), a(254) + "é": a(254) + "é", a(255) + "é": a(255), a(254) + "€": a(254), a(253) + "😀": a(253), "\xff": "\uFFFD", strings.Repeat("\x80", 300): "\uFFFD", "": "",
	} {
		if got := Clip(text); got != want {
			t.Errorf("%q is clipped to %q, want %q", text, got, want)
		}
	}
	same := func(blanks int) string { return `\int x` + strings.Repeat(" ", blanks) + "y" }
	for _, c := range []struct {
		gold, answer string
		want         Reason
	}{
		{"5", "5", ReasonEqual},
		{"5", "6", ReasonUnequal},
		{"5", "", ReasonNoAnswer},
		{" ", "5", ReasonNoReference},
		{"5", "^", ReasonUnreadable},
		{"5", strings.Repeat("(", 70), ReasonBudget},
		{`\int x`, `\INT  X.`, ReasonSameText},
		{`\int x`, `\int y`, ReasonUnreadable},
		{`\int x`, "5", ReasonUnequal},
		{"^", "^", ReasonSameText},
		{"0.5", `\infty`, ReasonUnequal},
		{"0.5", `\frac10`, ReasonUnequal},
		{`\sqrt2`, `\infty`, ReasonUnequal},
		{`-\infty`, `\infty`, ReasonUnequal},
		{`\infty`, `2\infty`, ReasonEqual},
		{`-\infty`, `-2\infty`, ReasonEqual},
		{`\sqrt2`, `\frac{\sqrt2}0`, ReasonBudget},
		{same(1), same(4089), ReasonSameText},
		{same(1), same(4090), ReasonBudget},
		{"9^{9^{9^9}}", "9^{9^{9^8}}", ReasonBudget},
	} {
		r := NewReference(c.gold).VerifyAnswer(c.answer, DefaultOptions())
		if r.Reason != c.want || r.Equal != (c.want == ReasonEqual || c.want == ReasonSameText) || r.Explain() == "" {
			t.Errorf("%.40q against %.40q: %s, want %s", c.answer, c.gold, r.Reason, c.want)
		}
	}
	for gold, want := range map[string]string{
		"5": "integer", "1/2": "rational", "0.5": "decimal", `\frac{1+1}{2}`: "integer", `\frac{1+1}{3}`: "rational", `\sqrt2`: "constant", "x": "text", "x+1": "expression", "x=1": "equation", "x<1": "inequality", "(1,2)": "interval", "(1,2,3)": "tuple", "((1,2),3)": "tuple",
		"(1,(2,3))": "tuple", `\pm1`: "set", `\{x:x>1\}`: "set", "1,2": "set", `\begin{pmatrix}1\end{pmatrix}`: "matrix", "5%": "percent", `\int`: "text", "So $x$ is $2$, $3$.": "set", `The box \boxed{0.5}`: "decimal", "1, so 2\nand $\\frac12$": "rational",
	} {
		if got := NewReference(gold).Kind(); got != want {
			t.Errorf("%q is a reference of the kind %s, want %s", gold, got, want)
		}
	}
}
