package mathverify

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// answers draws mathematics of all forms.
func answers() *rapid.Generator[string] {
	var expression func(depth int) *rapid.Generator[string]
	expression = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			if depth == 0 {
				return rapid.SampledFrom([]string{"1", "2", "7", "x", "y", `\pi`, "0.25", "12", "n_1", `\sqrt{3}`}).Draw(t, "atom")
			}
			a, b := expression(depth-1).Draw(t, "a"), expression(depth-1).Draw(t, "b")
			switch rapid.IntRange(0, 6).Draw(t, "operation") {
			case 0:
				return a + " + " + b
			case 1:
				return a + " - (" + b + ")"
			case 2:
				return "(" + a + ")(" + b + ")"
			case 3:
				return `\frac{` + a + "}{" + b + "}"
			case 4:
				return "(" + a + ")^{2}"
			case 5:
				return `\sqrt{` + a + "}"
			}
			return a
		})
	}
	return expression(2)
}

// Properties that hold for every answer.
func TestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, properties)
}

func properties(t *rapid.T) {
	verify := func(a, b string) Result { return Verify("$"+a+"$", `\boxed{`+b+"}", DefaultOptions()) }
	a, b := answers().Draw(t, "a"), answers().Draw(t, "b")
	self := verify(a, a)
	if !self.Equal {
		if self.Readable && !strings.Contains(a, "frac") && !strings.Contains(a, "sqrt") {
			t.Fatalf("%q is not equal to itself: %s", a, self.Explain())
		}
		return // undefined, as a fraction with denominator zero
	}
	if verify(a, b).Equal != verify(b, a).Equal {
		t.Fatalf("equality of %q and %q depends on their order", a, b)
	}
	loose := strings.NewReplacer("+", ` \, + `, "(", `\left(`, ")", `\right)`).Replace(a)
	if !verify(a, loose).Equal {
		t.Fatalf("%q is not equal to itself with other spacing, %q", a, loose)
	}
	zero := verify("0", a).Equal || verify("0.0", a).Equal
	if !zero && verify(a, "-("+a+")").Equal {
		t.Fatalf("%q is equal to its negative", a)
	}
	if verify(a, "("+a+") + 1").Equal && !zero {
		t.Fatalf("%q is equal to itself and one", a)
	}
	again := verify(a, b)
	if again != verify(a, b) {
		t.Fatal("two verdicts on the same answer differ")
	}
}

// FuzzProperties draws the answers from the fuzzer's bytes.
func FuzzProperties(f *testing.F) { f.Fuzz(rapid.MakeFuzz(properties)) }

func FuzzVerify(f *testing.F) {
	f.Add("5", "The answer is 5.")
	f.Add(`$\frac{1}{2}$`, `\boxed{0.5}`)
	f.Add(`$(1,2)\cup[3,\infty)$`, `$x \in (1,2)$ or $x \ge 3$`)
	f.Add("$y=2x+1$", `\[ 2x-y+1=0 \]`)
	f.Add(`$\begin{pmatrix}1&2\\3&4\end{pmatrix}$`, `$$\begin{bmatrix}1&2\\3&4\end{bmatrix}$$`)
	f.Add(`\text{(B)}`, "final answer is B. I hope it is correct.")
	f.Fuzz(func(t *testing.T, gold, response string) {
		if len(gold) > 4096 || len(response) > 1<<16 {
			return
		}
		r := Verify(gold, response, DefaultOptions())
		if r != Verify(gold, response, DefaultOptions()) {
			t.Fatal("two verdicts on the same response differ")
		}
		if r.Equal && r.Reason != ReasonEqual && r.Reason != ReasonSameText {
			t.Fatalf("equal for the reason %q", r.Reason)
		}
	})
}

// everyOption has each option away from its default once.
func everyOption() []Options {
	all := []Options{DefaultOptions()}
	for _, change := range []func(*Options){
		func(o *Options) { o.Targets = TargetLaTeX },
		func(o *Options) { o.Targets = TargetExpression | TargetWords },
		func(o *Options) { o.Boxed, o.OnlyBest = BoxedAmong, true },
		func(o *Options) { o.Boxed, o.Match = BoxedOff, MatchFirst },
		func(o *Options) { o.Match, o.SetForRelation, o.RenameSymbols = MatchAny, true, true },
		func(o *Options) { o.Match, o.Anchored, o.SplitImaginary = MatchFirst, true, true },
		func(o *Options) { o.Tolerance, o.DecimalPlaces = 0.01, 0 },
		func(o *Options) { o.DecimalsOfNumbers = true },
	} {
		options := DefaultOptions()
		change(&options)
		all = append(all, options)
	}
	return all
}

// Candidates are pieces of the response in the order of their ranks, and an
// explanation comes to the result that it explains.
func FuzzExtract(f *testing.F) {
	for _, response := range []string{
		"The answer is 5.", `\boxed{2}, \boxed{3} and 4`, `The final answer is $x=\frac{1}{2}$. I hope it is correct.`, "answer: $1$, $2$ or $3$ = 1,234.5 %",
		`\[ x \in [1, 2) \] [ y ] \(z\) -\frac{1}{2}`, "Answer:\n**even**", "$$\\boxed{\n5", "1 000 km/h and \\$5 or $5", "\xff\\fbox{\xf0}",
	} {
		f.Add(response)
	}
	references := []*Reference{NewReference("5"), NewReference(`$\{1, 2\}$`), NewReference(`\text{even}`), NewReference("$y=2x+1$")}
	f.Fuzz(func(t *testing.T, response string) {
		if len(response) > 1<<16 {
			return
		}
		for _, options := range everyOption() {
			before := priorityWhole
			for _, c := range extract(response, options) {
				if c.start < 0 || c.end < c.start || c.end > len(response) || c.priority < before {
					t.Fatalf("%+v: candidate %+v of %d bytes, after rank %d", options, c, len(response), before)
				}
				before = c.priority
			}
			for _, r := range references {
				e := r.Explain(response, options)
				if e.Result != r.Verify(response, options) {
					t.Fatalf("%+v: the explanation of %+v comes to another verdict", options, e)
				}
				if len(e.Extracted) > MaxExtracted+utf8.UTFMax*MaxExtracted || !utf8.ValidString(e.Extracted) {
					t.Fatalf("extracted %q", e.Extracted)
				}
			}
		}
	})
}

// FuzzParse reads any text as an answer. What can be read and has no decimals
// is equal to itself but for the budget; values are equal in both directions;
// blanks around an answer change nothing.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`\frac12`, `1\frac{3}{4}`, `x^2-1=0`, `[1,\infty)\cup\{-1\}`, `\begin{pmatrix}1&2\\3&4\end{pmatrix}`, `P(x)=x-4`, `1 < x \le 2`, `\pm\sqrt{2}`, `50\%`,
		`\text{even}`, `\sum_{i=1}^{n} i^2`, `\log_2 8!`, `|x-1|`, `e^{i\pi}`, `0.\overline{3}`, `2^{2^{2}}`, `\mathbb{R}\setminus\{0\}`,
	} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > maxAnswerBytes || strings.TrimSpace(a) == "" {
			return
		}
		budgetA := &budget{steps: maxSteps}
		x, errX := parse(a, budgetA)
		if errX != nil {
			return
		}
		reference := NewReference(a)
		if reference.parsed == nil || reference.parsed.key() != x.key() {
			return // a text with formulas inside of signs
		}
		if show(x) == "" && x.kind != kindText && x.kind != kindConstant {
			t.Errorf("%q is shown as nothing", a)
		}
		self := reference.VerifyAnswer(a, DefaultOptions())
		if !x.hasDecimal() && !self.Equal && self.Reason != ReasonBudget && !x.contains(kindRelation) {
			t.Errorf("%q is not equal to itself: %s", a, self.Reason)
		}
		if blanks := reference.VerifyAnswer("  "+a+" ", DefaultOptions()); blanks.Equal != self.Equal {
			t.Errorf("%q: blanks around it change the verdict from %v", a, self.Equal)
		}
		y, errY := parse(b, &budget{steps: maxSteps})
		if errY != nil || x.isSet() || y.isSet() || x.contains(kindRelation) || y.contains(kindRelation) || strings.ContainsAny(a+b, "$") {
			return
		}
		there := reference.VerifyAnswer(b, DefaultOptions())
		other := NewReference(b)
		if other.parsed == nil || other.parsed.key() != y.key() {
			return
		}
		back := other.VerifyAnswer(a, DefaultOptions())
		if there.Equal != back.Equal && there.Reason != ReasonBudget && back.Reason != ReasonBudget {
			t.Errorf("%q against %q is %v, in the other direction %v", a, b, there.Equal, back.Equal)
		}
	})
}
