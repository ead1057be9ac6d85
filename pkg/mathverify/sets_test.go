package mathverify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func newComparer() *comparer {
	return &comparer{budget: &budget{steps: maxSteps}, options: DefaultOptions()}
}

// Sets of real numbers as segments from left to right, by hand; "-" for what is
// no such set.
func TestRealSets(t *testing.T) {
	t.Parallel()
	numbers := func(from, to int) string {
		var all []string
		for i := from; i <= to; i++ {
			all = append(all, strconv.Itoa(i))
		}
		return `\{` + strings.Join(all, ",") + `\}`
	}
	for text, want := range map[string]string{
		`\mathbb{R}`: "(-Inf,+Inf)", `\emptyset`: "", `\mathbb{R}^+`: "(0,+Inf)", `\mathbb{Z}`: "-", `\mathbb{N}\cup(1,2)`: "-", `(1,2)\cup\mathbb{Z}`: "-", "5": "-",
		`\{3,1,1\}`: "[1,1] [3,3]", `\{1,x\}`: "-", `\{1,\infty\}`: "-", `\{1,-\infty\}`: "-", `\{1,(1,2)\}`: "-", `\{1,i\}`: "-", `\{1/0\}`: "-",
		"(1,2)": "(1,2)", "[1,2)": "[1,2)", "(1,2]": "(1,2]", "[1,1]": "[1,1]", "(2,1)": "-", "(1,2,3)": "-", "(1,x)": "-", "(x,1)": "-", "(i,2)": "-", `[-\infty,\infty]`: "(-Inf,+Inf)", `(-2\infty,1)`: "(-Inf,1)",
		// unions
		`(1,2)\cup(2,3)`: "(1,2) (2,3)", `(1,2]\cup(2,3)`: "(1,3)", `(1,2)\cup[2,3)`: "(1,3)", `(1,3)\cup(2,5)`: "(1,5)", `(1,5)\cup(2,3)`: "(1,5)", `(1,5)\cup(2,5]`: "(1,5]", `(1,5]\cup(2,5)`: "(1,5]",
		`[1,2]\cup(1,3)`: "[1,3)", `(1,3)\cup[1,2]`: "[1,3)", `(3,4)\cup(1,2)`: "(1,2) (3,4)", `(1,1)\cup(2,3)`: "(2,3)", `(1,1)\cup\{1\}`: "[1,1]", `[1,1)\cup\{2\}`: "[2,2]", `\{1\}\cup(1,2)`: "[1,2)", `(1,2)\cup\{2\}`: "(1,2]",
		// intersections
		`(1,3)\cap[2,5]`: "[2,3)", `[2,5]\cap(1,3)`: "[2,3)", `[1,3]\cap[3,4]`: "[3,3]", `[1,3)\cap[3,4]`: "", `(1,3)\cap(1,3]`: "(1,3)", `[1,3]\cap(1,3)`: "(1,3)", `(1,2)\cap(3,4)`: "", `((1,2)\cup(3,4))\cap(0,5)`: "(1,2) (3,4)",
		// differences
		`[0,5]\setminus(1,2)`: "[0,1] [2,5]", `[0,5]\setminus[1,2]`: "[0,1) (2,5]", `[0,5]\setminus\{1\}`: "[0,1) (1,5]", `\mathbb{R}\setminus\mathbb{R}`: "", `\mathbb{R}\setminus(-\infty,1]`: "(1,+Inf)", `\mathbb{R}\setminus[1,\infty)`: "(-Inf,1)",
		`\mathbb{R}\setminus\emptyset`: "(-Inf,+Inf)", `[0,5]\setminus[0,5]`: "", `(0,1)\setminus(0,1)`: "", `\mathbb{R}\setminus((0,1)\cup(1,2))`: "(-Inf,0] [1,1] [2,+Inf)", `\mathbb{R}\setminus(0,\infty)`: "(-Inf,0]",
		// at most 64 segments
		numbers(1, 32) + `\cap` + numbers(1, 32): segments(1, 32), numbers(1, 33) + `\cap` + numbers(1, 32): "-",
		// conditions
		`\{x:x<2\}`: "(-Inf,2)", `\{x:2\le x\}`: "[2,+Inf)", `\{x:x\ne1\}`: "(-Inf,1) (1,+Inf)", `\{x:x=1\}`: "[1,1]", `\{x:x\in[1,2]\}`: "[1,2]", `\{x:2x=1\}`: "-", `\{x\in[0,3]:x>1\}`: "(1,3]", `\{x:1<x<2\}`: "(1,2)", `\{x:1<x>0\}`: "(1,+Inf)",
		`\{x:2x+1>2\}`: "(0.5,+Inf)", `\{x:-x\le2\}`: "[-2,+Inf)", `\{x:3-2x<1\}`: "(1,+Inf)", `\{x:\frac{x}{2}+\frac13<1\}`: "(-Inf,1.333)", `\{x:\frac{2x+1}{-2}\ge1\}`: "(-Inf,-1.5]", `\{x:0<x-1<1\}`: "(1,2)",
		`\{x:x\le\infty\}`: "(-Inf,+Inf)", `\{x:x\ge-\infty\}`: "(-Inf,+Inf)", `\{x:x<x\}`: "-", `\{x:x^2>1\}`: "-", `\{x:x+x^2>1\}`: "-", `\{x:x+x^2+1>0\}`: "-", `\{x:1/x>1\}`: "-", `\{x:\frac{x}{x+1}>1\}`: "-", `\{x:\sqrt x>1\}`: "-", `\{x:0x<1\}`: "-", `\{x:x>i\}`: "-",
		`\{x:|x|<2\}`: "(-2,2)", `\{x:|x|\le2\}`: "[-2,2]", `\{x:|x|>1\}`: "(-Inf,-1) (1,+Inf)", `\{x:|x|\ge1\}`: "(-Inf,-1] [1,+Inf)", `\{x:|x|\ge0\}`: "(-Inf,+Inf)", `\{x:|x|>0\}`: "(-Inf,0) (0,+Inf)", `\{x:|x|\le0\}`: "[0,0]", `\{x:|x|<0\}`: "", `\{x:1\le|x|<2\}`: "(-2,-1] [1,2)",
		`\{x:|x|\ne2\}`: "(-Inf,-2) (-2,2) (2,+Inf)", `\{x:|x+1|<2\}`: "-",
	} {
		got := "-"
		if set, ok := newComparer().realSet(formulaOf(t, text)); ok {
			got = written(set)
		}
		if got != want {
			t.Errorf("%.60s is %s, want %s", text, got, want)
		}
	}
	// The unknown of a condition, with its solutions.
	for text, want := range map[string]string{
		"x=1": "x [1,1]", "1>f(x)": "f (-Inf,1)", "x<1": "x (-Inf,1)", "x<y": "-", "x<1<y": "-", "x=y=1": "-", "1<x=2": "-", "1<2": "-", "5": "-", `1\le2y+1\le3`: "y [0,1]",
	} {
		got := "-"
		if set, unknown, ok := newComparer().solutions(formulaOf(t, text)); ok {
			got = strings.Trim(unknown[:min(3, len(unknown))], "(CDi") + " " + written(set)
		}
		if got != want {
			t.Errorf("%s has the solutions %s, want %s", text, got, want)
		}
	}
}

func segments(from, to int) string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf("[%d,%d]", i, i))
	}
	return strings.Join(all, " ")
}

func written(set realSet) string {
	var all []string
	for _, s := range set {
		left, right := "(", ")"
		if s.lowClosed {
			left = "["
		}
		if s.highClosed {
			right = "]"
		}
		all = append(all, fmt.Sprintf("%s%.4g,%.4g%s", left, s.lowValue+0, s.highValue+0, right)) // -0 is 0
	}
	return strings.Join(all, " ")
}

// What collections, relations, names and words are compared as.
func TestComparisons(t *testing.T) {
	t.Parallel()
	judge(t, DefaultOptions(), []judged{
		// tuples, intervals, lists
		{"$(2,2)$", "$[2,2]$", true},
		{"$(1,2,3)$", "$[1,2,3]$", true},
		{"$(1,2)$", `\boxed{(1,2]}`, false},
		{"$(a,b)$", "$[a,b]$", false},
		{"$1,2$", "$(1,2)$", true},
		{"$(a,b)$", `\boxed{a,b}`, true},
		{"$((1,2),3)$", `\boxed{(1,2),3}`, true},
		{"$1,2$", "$[1,2]$", false},
		{"$1,2,3$", "$[1,2,3]$", true},
		{"$1,1$", "$(1,1)$", false},
		{"$1,1$", `\boxed{1}`, true},
		{"$1$", `\boxed{1,1}`, true},
		{"$1$", `\boxed{1,2}`, false},
		{`$\{1\}$`, `\boxed{1}`, true},
		{"$1,2,2$", `\boxed{2,1,1}`, true},
		{"$1,2,3$", `\boxed{1,2,4}`, false},
		{`$\emptyset$`, `\boxed{\{\}}`, true},
		{`$\{\}$`, `\boxed{\{1\}}`, false},
		{`$\mathbb{Q}$`, `\boxed{\mathbb{Q}}`, true},
		{"$(1,2),(3,4)$", "$(3,4),(1,2)$", true},
		{"$(1,2),(3,4)$", `$(1,2)\cup(3,4)$`, false},
		// An imaginary part counts from 10^-12 of the value on: a pair is no list.
		{`$(1+\frac{12}{10^{13}}i,2)$`, `$1+\frac{12}{10^{13}}i,2$`, false},
		{`$(1+\frac{9}{10^{13}}i,2)$`, `$1+\frac{9}{10^{13}}i,2$`, true},
		{`$(1000+\frac{9}{10^{10}}i,2)$`, `$1000+\frac{9}{10^{10}}i,2$`, true},
		{"$((1,2),3)$", "$(1,2),3$", true},
		// names and chains
		{"$x=5$", "$5$", true},
		{"$a=b=5$", "$5$", true},
		{"$5$", "$a=2+2=5$", true},
		{"$5$", "$a<b=5$", false},
		{`$x\in(1,2)$`, "$(1,2)$", true},
		{"$x^2=5$", "$5$", false},
		{"$2x=5$", "$5$", false},
		{"$f(2)=5$", "$5$", true},
		{"$x+y=5$", "$5$", false},
		{"$xy=5$", "$5$", true},
		{"$(x,y)=(1,2)$", "$(1,2)$", true},
		{"$(x,y+1)=(1,2)$", "$(1,2)$", false},
		{`$\angle A=30$`, "$30$", true},
		{`$x=\pm2$`, "$x=2,-2$", true},
		{`$x=\pm2$`, `\boxed{x=\{2,-2\}}`, true},
		{`$\pm2$`, `$x=\pm2$`, true},
		{`$\pm1,\pm2$`, "$1,-1,2,-2$", true},
		{`$\pm1,\pm2$`, "$1,-1,2,-3$", false},
		{`$(\pm1,2)$`, `$(\pm1,2)$`, true},
		{"$5$", "$2+3=5=5$", true},
		{`$\{1,2\}$`, `$x=\{1,2\}$`, true},
		{`$\{\text{red},\text{blue}\}$`, `$x=\{\text{red},\text{blue}\}$`, false},
		{`$\{\text{red},\text{blue}\}$`, `$\{\text{blue},\text{red}\}$`, true},
		{"$5$", "$x=5, y=5$", false},
		// words and letters
		{`$\text{odd}$`, `\boxed{odd}`, true},
		{"$ABC$", `\boxed{\text{abc}}`, true},
		{"$AB$", `\boxed{\text{abc}}`, false},
		{`$\text{a}$`, `\boxed{2}`, false},
		{`$A2$`, `\boxed{\text{A2}}`, true},
		// equations
		{"$x=y$", "$2x=2y$", true},
		{"$|x-2|=x-2$", "$2|x-2|=2x-4$", true},
		{"$|x-2|=x-2$", "$|x-2|=2x-4$", false},
		{"$x=y$", "$y-x=0$", true},
		{"$x=y$", "$x+y=0$", false},
		{"$x=y+1$", "$x=y+2$", false},
		{"$x+y=1$", "$x+z=1$", false},
		{"$x=5$", "$5=x$", true},
		{"$5=x$", "$x-5=0$", false},
		{"$2x=10$", "$x=5$", true},
		{`$x\in\{1,2\}$`, `$x=1,2$`, true},
		{`$x\in\{1,2\}$`, `\boxed{x=\{1,2\}}`, true},
		{`$x=\{1,2\}$`, `$x\in\{2,1\}$`, true},
		{`$x\in\{1,2\}$`, `$y\in\{1,2\}$`, false},
		{`$x\in\{1,2\}$`, `$x\ne\{1,2\}$`, false},
		{`$f(x)=2x$`, "$2f(x)=4x$", false},
		{`$f(x)=2x$`, "$-f(x)=-2x$", true},
		{`$\frac{a}{b}=\frac23$`, "$3a=2b$", true},
		{`$\frac{a}{b}=\frac23$`, "$3a=3b$", false},
		{`$\frac{a}{b}=\frac23$`, "$3a=2b+1$", false},
		{`$\frac{f(x)}{2}=x$`, "$f(x)=2x$", false},
		{`$y=\frac{1}{x}$`, "$xy=1$", true},
		{`$x=\text{red}$`, `$\text{red}=x$`, true},
		{`$x=\text{red}$`, `$x=\text{blue}$`, false},
		{`$A=\begin{pmatrix}1\\2\end{pmatrix}$`, `$\begin{pmatrix}1\\2\end{pmatrix}=A$`, true},
		{"$x-x=0$", "$y-y=0$", true},
		// inequalities
		{"$x>y$", "$y<x$", true},
		{"$x>y$", "$2x>2y$", true},
		{"$x>y$", "$-x>-y$", false},
		{"$x>y$", "$-x<-y$", true},
		{"$x>y$", `$x\ge y$`, false},
		{"$x<y<z$", "$z>y>x$", true},
		{"$x<y<z$", "$z<y<x$", false},
		{`$x\ne y$`, `$y\ne x$`, true},
		{`$x\ne y$`, `$x-y\ne0$`, true},
		{"$1<x<3$", "$2<2x<6$", true},
		{"$1<x<3$", "$1<y<3$", false},
		// decimals
		{"$0.1234565$", "$0.1234574$", true},
		{"$0.1234565$", "$0.1234576$", false},
		{"$-0.1234565$", "$-0.1234574$", true},
		{"$0.5x$", `$\frac{x}{2}$`, true},
		{"$0.5x$", `$\frac{x}{3}$`, false},
		{"$0.5$", "$0.5x$", false},
		{"$0.5i$", `$\frac i2$`, true},
		{"$0.5i$", `$\frac12$`, false},
		{`$0.5\sqrt x$`, `$\frac{\sqrt x}{2}$`, true},
		{`$0.5$`, `$\binom{1/2}{1}$`, true},
		{`$0.5\sin 2x$`, `$\sin x\cos x$`, true},
		{`$0.5\sin 2x$`, `$\sin x$`, false},
		// restated boxes: a rounded one belongs to the exact one before it
		{`$\frac13$`, `\boxed{\frac13} \approx \boxed{0.33}`, true},
		{"$0.33$", `\boxed{\frac13} \approx \boxed{0.33}`, true},
		{"$0.34$", `\boxed{\frac13} \approx \boxed{0.34}`, false},
		{`$\frac12$`, `\boxed{\frac24} = \boxed{\frac12}`, true},
		{"$5$", `\boxed{5} \approx \boxed{^}`, true},
		{"$6$", `\boxed{5} \approx \boxed{^}`, false},
		{"$6$", `\boxed{5} \approx \boxed{6.0}`, false},
		{"$2$", `\boxed{1} = \boxed{2}`, true},
		{"$1$", `\boxed{1} = \boxed{2}`, false},
		// small angles, whose sines are known to as many digits: sin 2x = 2·sin x·cos x
		{`$\sin\frac{2}{1427247692705959881058285969449495136382746624}$`, `$2\sin\frac{1}{1427247692705959881058285969449495136382746624}\cos\frac{1}{1427247692705959881058285969449495136382746624}$`, true},
		{`$\sin\frac{2}{1427247692705959881058285969449495136382746624}$`, `$2\sin\frac{1}{1427247692705959881058285969449495136382746624}$`, false},
		// remainders
		{`$10\pmod7$`, `$3\pmod7$`, true},
		{`$10\pmod7$`, `$3\pmod8$`, false},
		{`$3$`, `$10\pmod7$`, true},
		{`x\equiv 3 \pmod{7}`, `$x \equiv 10\pmod 7$`, true},
		{`x\equiv 3 \pmod{7}`, `$x \equiv 3\pmod 8$`, false},
		{`x\equiv 3 \pmod{7}`, `$7$`, false},
		{`$\emptyset$`, `\boxed{}`, false},
		{`2\text{ hours }30\text{ minutes}`, `\boxed{2\text{ hours } 30\text{ minutes}}`, true},
		{`2\text{ hours }30\text{ minutes}`, "60", false},
	})
	renaming := DefaultOptions()
	renaming.RenameSymbols = true
	judge(t, renaming, []judged{
		{`$\sum_{k=1}^n k a$`, `$\sum_{j=1}^m j b$`, true},
		{`$\sum_{k=1}^n k a$`, `$\sum_{k=1}^b k c$`, false},
		{"$x+2y$", "$a+2b$", true},
		{"$x+2y$", "$b+2a$", false},
	})
}

// ± written out, and the sign of what is infinite.
func TestSigns(t *testing.T) {
	t.Parallel()
	signs := func(n int) string { return strings.Repeat(`\pm1,`, n-1) + `\pm1` }
	for text, want := range map[string]string{
		"1": "1", `\pm1`: "{1, -1}", `3\mp1`: "{(3 + -1), (3 + 1)}", `\mp1`: "{-1, 1}", `\pm1,2`: "{1, -1, 2}", `2(1\pm x)`: "{(2*(1 + x)), (2*(1 + (-1*x)))}", `x=\pm1`: "x = {1, -1}", `\pm x=1`: "±x = 1", `1<x<\pm2`: "1 < x < ±2",
		`(\pm1,2)`: "(±1, 2)", `\pm1\mp2`: "{(1 + -2), (-1 + 2)}",
	} {
		if got := show(expandSigns(formulaOf(t, text))); got != want {
			t.Errorf("%s is written out as %s, want %s", text, got, want)
		}
	}
	for n, want := range map[int]int{32: 64, 33: 33} { // a list has up to 64 items
		if got := len(expandSigns(formulaOf(t, signs(n))).args); got != want {
			t.Errorf("%d signs make %d items, want %d", n, got, want)
		}
	}
	for text, want := range map[string]int{`\infty`: 1, `-\infty`: -1, `-2\infty`: -1, `0\infty`: 0, `x\infty`: 0, "5": 0, "2x": 0, `\pi\infty`: 0, `2\cdot3\infty`: 0, `1+\infty`: 0} {
		if got := infinite(formulaOf(t, text)); got != want {
			t.Errorf("%s has the infinite sign %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]bool{"x<1": true, "x=1": true, `x\in(1,2)`: false, "1<x=2": true} {
		if got := mirrored(formulaOf(t, text)) != nil; got != want {
			t.Errorf("%s can be read from the right: %v", text, got)
		}
	}
}

// Expressions are equal if they are where both are defined, at 4 of 12 places
// at least. √(x-a) is real, which a floor needs, where x is a or more.
func TestDefinedPlaces(t *testing.T) {
	t.Parallel()
	var places []float64
	for number := range points {
		places = append(places, real((&point{number: number, values: map[string]complex128{}}).value("x")))
	}
	slices.Sort(places)
	for defined, want := range map[int]bool{points: true, 4: true, 3: false} {
		a := -3.0
		if defined < points {
			a = (places[points-defined-1] + places[points-defined]) / 2
		}
		root := fmt.Sprintf(`\sqrt{x-\frac{%d}{1000000}}`, int(a*1e6))
		r := Verify(`$\lfloor`+root+`\rfloor+1$`, `\boxed{\lfloor`+root+`+1\rfloor}`, DefaultOptions())
		if r.Equal != want {
			t.Errorf("defined at %d places: equal %v (%s), want %v", defined, r.Equal, r.Reason, want)
		}
	}
}
