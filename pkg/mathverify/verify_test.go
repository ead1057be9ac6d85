package mathverify

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The rules, each with the part of Math-Verify's behaviour that it follows
// (README and tests of Math-Verify 0.8.0; section numbers of its grader), or
// plain mathematics.
func TestVerify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule           string
		gold, response string
		equal          bool
	}{
		{"whole numbers", "5", "The answer is 5.", true},
		{"whole numbers", "5", "The answer is 6.", false},
		{"rationals are exact", `\frac12`, "0.5", true},
		{"decimals to six places", `$\frac{1}{3}$`, "0.333333", true},
		{"decimals to six places", `$\frac{1}{3}$`, "0.33", false},
		{"decimals to six places", `$12\pi$`, "37.699112", true},
		{"decimals to six places", `$12\pi$`, "37.6991", false},
		{"thousands", "1,000,000", "1000000", true},
		{"thousands", `$1{,}000$`, "1 000", true},
		{"thousands", `$12,\!650$`, `\boxed{12650.00}`, true},
		{"mixed numbers", `$1\frac12$`, "3/2", true},
		{"mixed numbers", `$-2\frac{3}{4}$`, `\boxed{-\frac{11}{4}}`, true},
		{"repeating decimals", `$0.\overline{3}$`, `$\frac13$`, true},
		{"percent", `$50\%$`, `$\frac12$`, true},
		{"percent", `$50\%$`, "50 percent", true},
		{"percent is not the number", "50", `$50\%$`, false},
		{"degrees change no value", `$27^\circ$`, "Hence $x = 27$", true},
		{"units", `$3 \text{ cm}^2$`, "3", true},
		{"units", "3 cm", `\boxed{3}`, true},
		{"signs", "$x-3$", "$x + -3$", true},
		{"signs", "$1-2i$", "$1+-2i$", true},
		{"signs", "$x-3$", "$x + -4$", false},
		{"units outside of formulas", "56", `Therefore it is 56^\circ.`, true},
		{"units outside of formulas", "56", `Therefore it is 56^{\circ}`, true},
		{"units outside of formulas", "$1$", `Final answer: 1\text{ cm}`, true},
		{"units outside of formulas", "$12.5$", `The answer is 12.5\,\mathrm{cm}^2`, true},
		{"what is no unit makes a formula", "5", `The answer is 5^2`, false},
		{"what is no unit makes a formula", "5", `The answer is 5\pi`, false},
		{"thousands", `1\,234`, `\boxed{1 234}`, true},
		{"thousands", "1 234 567", `\boxed{1\ 234~567}`, true},
		{"thousands", "234", `\boxed{1\,234}`, false},
		{"thousands", "$(1,234)$", `$(1, 234)$`, true},
		{"mixed numbers", "3/2", "It takes 1 1/2 hours.", true},
		{"mixed numbers", "-1 1/2", `\boxed{-1.5}`, true},
		{"mixed numbers", "1 3/4", `The answer is 1¾.`, true},
		{"mixed numbers", "1/2", "It takes 1 1/2 hours.", false},
		{"small figures", "$10^{-3}$", "The answer is 1×10⁻³.", true},
		{"small figures", `$3\cdot10^{23}$`, "3 × 10²³ atoms", true},
		{"small figures", "$x^{12}$", `\boxed{x¹²}`, true},
		{"small figures", "2/3", "⅔", true},
		{"small figures", "10", "The answer is 10⁸", false},
		{"a minus that is no hyphen", "-5", "The answer is −5.", true},
		{"a minus that is no hyphen", "-5", "x = –5", true},
		{"a minus that is no hyphen", `$-\frac12$`, `Hence −\frac{1}{2}`, true},
		{"a minus that is no hyphen", "5", "The answer is −5.", false},
		{"a minus that is no hyphen", "5", "pages 3–5", true},
		{"a sign before a currency's", "-5", "The balance is -$5.", true},
		{"a sign before a currency's", "5", "The balance is −$5.", false},
		{"thinking is no answer", "3", `<think>\boxed{4}</think>\boxed{3}`, true},
		{"thinking is no answer", "3", "so 4</think>3", true},
		{"thinking is no answer", "3", `<think>\boxed{3}</think>The answer is 4.`, false},
		{"thinking is no answer", "3", "<think><answer>4</answer></think><answer>3</answer>", true},
		{"thinking that nothing follows", "3", `<think>\boxed{3}</think><|im_end|>`, true},
		{"units with exponents", "9.8", `\boxed{9.8\,\mathrm{m/s^2}}`, true},
		{"units with exponents", "12", `$12\ \text{kg}\cdot \text{m}^2$`, true},
		{"units with exponents", "12", `\boxed{12\,\mathrm{kg\cdot m^{2}\,s^{-2}}}`, true},
		{"units with exponents", "12", `\boxed{12\,\text{µN/cm^2}}`, true},
		{"units with exponents", "12", `\boxed{12\,\mathrm{k\Omega}}`, true},
		{"units with exponents", "12", `\boxed{12\,km}`, true},
		{"units with exponents", "12", `\boxed{12\,\mathrm{x^2}}`, false},
		{"spellings of TeX", `{3\over4}`, `\boxed{\nicefrac{3}{4}}`, true},
		{"spellings of TeX", "(0.5,1)", `\boxed{\left\langle\frac12,1\right\rangle}`, true},
		{"spellings of TeX", "[2,5)", `\boxed{\lbrack 2,5)}`, true},
		{"spellings of TeX", `$\begin{pmatrix}3\\2\end{pmatrix}$`, `$\begin{pmatrix}3\\[4pt]2\end{pmatrix}$`, true},
		{"a formula that cannot be read is compared as text", `\begin{cases} x=1 \\ y=2 \end{cases}`, "2", false},
		{"a formula that cannot be read is compared as text", `\begin{cases} x=1 \\ y=2 \end{cases}`, `$\begin{cases}x=1\\ y=2\end{cases}$`, true},
		{"what is counted", "72 clips", "She sold 72 clips.", true},
		{"what is counted", "72", `\boxed{\text{72 km}}`, true},
		{"what is counted", "72", `\boxed{72 clips}`, true},
		{"what is counted", "5", `\boxed{\text{5 million}}`, false},
		{"formulas in tags", `$\frac{270}7$`, `<answer>\frac{270}7\text{ degrees}</answer>`, true},
		{"formulas in tags", `$\begin{pmatrix}1\\ \frac12\end{pmatrix}$`, `<answer>\begin{pmatrix} 1 \\ \frac{1}{2} \end{pmatrix}</answer>`, true},
		{"formulas in tags", "12500", `<answer>\$12{,}500</answer>`, true},
		{"formulas in tags", "5", `<answer>The area is 5 \text{ cm}</answer>`, true},
		{"exponents outside of formulas", "0.00001", "The answer is 1 × 10^{-5}.", true},
		{"exponents outside of formulas", "5", "The answer is 5^{2}.", false},
		{"differences of sets", `$\mathbb{R}\setminus\{0\}$`, `$\mathbb{R} - \{0\}$`, true},
		{"differences of sets", `$\mathbb{R}\setminus\{0\}$`, `$\mathbb{R} - \{1\}$`, false},
		{"currency", `\$1,234`, `\boxed{1234}`, true},
		{"currency", `\$18.90`, `\boxed{18.9}`, true},
		{"currency", `\$18.90`, `\boxed{\$19}`, false},
		{"currency", "12", `\boxed{€12}`, true},
		{"currency", "£12", `12`, true},
		{"currency", `$\$18.90$`, `\boxed{18.9}`, true},
		{"an escaped dollar outside of formulas is text", `$8.64$`, `It costs \$8.64.`, false},
		{"powers", `$2^{100}$`, "1267650600228229401496703205376", true},
		{"powers", "3*10^8", `$3\cdot 10^{8}$`, true},
		{"factorials", "$10!$", "3628800", true},
		{"binomials", `$\binom{10}{3}$`, "120", true},
		{"logarithms", `$\log_2 8$`, "3", true},
		{"logarithms", `$\ln 2$`, "0.693147", true},
		{"roots", `$\sqrt{8}$`, `$2\sqrt2$`, true},
		{"roots", `$\sqrt[3]{27}$`, "3", true},
		{"surds", `$\frac{1}{\sqrt{2}}$`, `$\frac{\sqrt{2}}{2}$`, true},
		{"surds", `$\sqrt{3}+\sqrt{2}$`, `$\sqrt{5+2\sqrt{6}}$`, true},
		{"surds that almost agree", `$\sqrt{2}$`, `$\frac{665857}{470832}$`, false},
		{"close calls", "$x$", "$x+10^{-15}$", false},
		{"close calls", `$\pi$`, `$\frac{245850922}{78256779}$`, false},
		{"expressions", "$x^2-1$", "$(x-1)(x+1)$", true},
		{"expressions", `$\frac{x^2-1}{x-1}$`, "$x+1$", true},
		{"expressions", "$x^2-1$", "$(x-1)(x-1)$", false},
		{"expressions with decimals", "$0$", "$(y-y)(0.25+1)$", true},
		{"names count", "$2x$", "$2y$", false},
		{"case of names does not", "$2X$", "$2x$", true},
		{"subscripts", "$x_1+x_2$", "$x_{2}+x_{1}$", true},
		{"trigonometry", `$\sin^2 x + \cos^2 x$`, "$1$", true},
		{"trigonometry", `$\sin 2x$`, `$2 \sin x \cos x$`, true},
		{"trigonometry", `$\tan^{-1} x$`, `$\arctan(x)$`, true},
		{"absolute value", "$|x|$", `$\sqrt{x^2}$`, true},
		{"roots of squares keep their sign", "$x$", `$\sqrt{x^2}$`, false},
		{"the imaginary unit", "$i^2$", "-1", true},
		{"the imaginary unit", "$6+9i$", `$\boxed{9 i + 6}$`, true},
		{"complex exponentials", `$e^{i\pi}$`, "$-1$", true},
		{"unknown functions", "$f(x)=x+1$", "$1+x = f(x)$", true},
		{"unknown functions", "$f(4-x)$", `$\boxed{f \left(4 - x\right)}$`, true},
		{"sums with bounds", `$\sum_{i=1}^{10} i$`, "55", true},

		{"lists have no order", `$\{1,2,3\}$`, `$\{3,2,1\}$`, true},
		{"lists have no order", "$1, 2$", "$2$ and $1$", true},
		{"lists are complete", "$1, 2$", "$1$", false},
		{"repeated items count once", "$-1,3,3$", `$\{3,-1\}$`, true},
		{"plus or minus", `$1 \pm \sqrt{19}$`, `$1+\sqrt{19}, 1-\sqrt{19}$`, true},
		{"tuples have order", "$(2,1)$", "$(1,2)$", false},
		{"tuples have order", "$(1,-2,8)$", `\left(1, -2, 8\right)`, false}, // not a formula of the response
		{"tuples have order", "$(1,-2,8)$", `\boxed{\left(1, -2, 8\right)}`, true},
		{"a list against a tuple counts as written", "$(6,2)$", "$6$ and $2$", true},
		{"a list against a tuple counts as written", "$(6,2)$", `$\{2,6\}$`, false},
		{"halves of brackets are no formulas", `$\left( 4, -\frac{1}{2} \right)$`, `$\left( 4$ and $-\frac{1}{2} \right)$`, false},
		{"intervals have brackets", "$(1,2)$", "$[1,2]$", false},
		{"intervals have brackets", `$[1,\infty)$`, `$\left[1,\infty\right)$`, true},
		{"unions", `$(-\infty,3)\cup(3,\infty)$`, `$\mathbb{R}\setminus\{3\}$`, true},
		{"unions", `$(-1,1)\cup[3,\infty)$`, `$[3,\infty)\cup(-1,1)$`, true},
		{"unions that overlap", `$[0,2]\cup[1,3]$`, "$[0,3]$", true},
		{"named sets", `$\mathbb{Z}$`, `$\mathbb{R}$`, false},

		{"a condition for a set, of the reference", "$1 < x < 2$", "$(1,2)$", true},
		{"a condition for a set, of the response", "$(1,2)$", "$1<x<2$", false},
		{"inequalities", `$x\geq 3$`, `$[3,\infty)$`, true},
		{"inequalities", `$x\geq 3$`, `$3 \le x$`, true},
		{"inequalities", "$x<3$", "$x>3$", false},
		{"inequalities", `$x \ne 3$`, `$(-\infty,3)\cup(3,\infty)$`, true},
		{"membership", `$x \in [1,2]$`, `$1\le x\le 2$`, true},
		{"names of values", "$x=5$", `\boxed{5}`, true},
		{"names of values", "$5$", "Hence $x = 5$.", true},
		{"names are not dropped from words", `$\text{ellipse}$`, `Hence $x = \text{ellipse}$.`, false},
		{"an equation is no value", "$1$", "$2x+z=1$", false},
		{"equations", "$y=2x+1$", "$2x-y+1=0$", true},
		{"equations", `$x^2/4+y^2/3=1$`, `$x^2/16+y^2/12=1/4$`, true},
		{"equations", "$y=2x+1$", "$y=2x+2$", false},
		{"equations of large numbers", "$x=1000000$", "$x=1000001$", false},
		{"equations of large numbers", "$x=2024000$", "$x=2025000$", false},
		{"equations of large numbers", "$y=2x+10^{10}$", `$y=2x+2\cdot 10^{10}$`, false},
		{"equations of large numbers", "$y=2x+10^{10}$", `$2y=4x+2\cdot 10^{10}$`, true},
		{"equations of large numbers", `$\arcsin y+x=10^6$`, `$\arcsin y+x=10^6+1$`, false},
		{"inequalities of large numbers", `$x\ge 430249172$`, `$x\ge 530249172$`, false},
		{"inequalities of large numbers", "$x<1000000$", "$x<1000001$", false},
		{"an equation is solved when the reference is", "$x=5$", "$2x=10$", false},
		{"several equations", "$x=2, y=3$", "$y=3$ and $x=2$", true},
		{"points", "$(x,y)=(1,2)$", "$(1,2)$", true},
		{"chains", `$-80\leq g(x)\leq 82$`, `\boxed{82 \geq g(x) \geq -80}`, true},
		{"assignments in a chain", "$5$", "$x = 2+3 = 5$", true},

		{"pairs that are not real are no lists", "$3i,-3i$", `\boxed{(3i, -3i)}`, false},
		{"pairs that are not real are no lists", "$(3i,-3i)$", `\boxed{(3i, -3i)}`, true},
		{"functions are given by values", "$P(x)=x-4$", `\boxed{2P(x)=2x-8}`, false},
		{"functions are given by values", "$P(x)=x-4$", `\boxed{P(x)-x=-4}`, true},
		{"functions are given by values", "$P(x)$", `\boxed{Px}`, false},
		{"letters before sums are factors", "$x(y+1)$", `\boxed{xy+x}`, true},
		{"pieces of formulas are no answers", `$\lfloor\varphi n\rfloor$, where $\varphi = \frac{\sqrt{5}+1}{2}`, `\boxed{\frac{1+\sqrt5}{2}}`, false},
		{"bare fractions", `$\frac{10}{7}$`, `It costs \$\frac{10}{7}.`, true},

		{"matrices", `$\begin{pmatrix}1\\2\end{pmatrix}$`, `$\begin{bmatrix}1\\2\end{bmatrix}$`, true},
		{"matrices", `$\begin{pmatrix}1&2\end{pmatrix}$`, `$\begin{pmatrix}1\\2\end{pmatrix}$`, false},
		{"matrices", `$\begin{pmatrix}2\\4\end{pmatrix}$`, `$2\begin{pmatrix}1\\2\end{pmatrix}$`, true},

		{"words", `$\text{even}$`, "The answer is even.", true},
		{"words", `$\text{even}$`, "odd", false},
		{"choices", "C", "The answer is (C).", true},
		{"choices", `$\text{(B)}$`, `\boxed{B}`, true},
		{"choices", "C", `\boxed{D}`, false},
		{"text that is no formula", `$\{x : x > 1, x \text{ odd}\}$`, `$\{ x : x>1, x \text{ odd} \}$`, true},

		{"the last box", "3", `\boxed{2} is a step. After a long further derivation without any conjunctions at all in between we get \boxed{3}`, true},
		{"boxes side by side", "$2,3$", `\boxed{2}, \boxed{3}`, true},
		{"a box goes before what follows", "5", `\boxed{5} which is 10 times too small`, true},
		{"announced answers go before others", "5", "the final answer is $5$ because $7$ is prime", true},
		{"the last number goes first", "4", "I have 3 and then 4", true},
		{"nothing", "4", "I do not know", false},
		{"no reference", " ", "4", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := Verify(c.gold, c.response, DefaultOptions())
			if r.Equal != c.equal {
				t.Errorf("gold %q, response %q: equal %v (%s, read %q); want %v", c.gold, c.response, r.Equal, r.Explain(), r.Extracted, c.equal)
			}
		})
	}
}

// pair is a line of the oracle's file.
type pair struct {
	ID         string
	Gold       string
	Prediction string
	Expected   bool
	GoldKind   string `json:"gold_kind"`
}

func oracle(t testing.TB) []pair {
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(shared, "data", "math_verify", "oracle_dev.jsonl")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the labelled pairs are not here: %v (LATHE_SHARED names the folder that holds data/math_verify)", err)
	}
	return readPairs(t, path)
}

func readPairs(t testing.TB, path string) []pair {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var pairs []pair
	s := bufio.NewScanner(f)
	for s.Scan() {
		var p pair
		if err := json.Unmarshal(s.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, p)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return pairs
}

// agreement logs the pairs that are checked other than labelled, and returns
// the shares that agree, and that are accepted against the label.
func agreement(t *testing.T, name string, pairs []pair, options Options) (agree, falseAccepts float64) {
	t.Helper()
	wrong := map[string]int{}
	accepted, missed := 0, 0
	for _, p := range pairs {
		r := Verify(p.Gold, p.Prediction, options)
		if r.Equal == p.Expected {
			continue
		}
		missed++
		wrong[p.GoldKind]++
		if r.Equal {
			accepted++
		}
		t.Logf("%s: expected %v, %s: %q against %q", p.ID, p.Expected, r.Explain(), p.Gold, p.Prediction)
	}
	n := float64(len(pairs))
	agree, falseAccepts = 1-float64(missed)/n, float64(accepted)/n
	t.Logf("%s: agreement %.2f %%, false accepts %.2f %% of %d pairs; wrong by kind %v", name, 100*agree, 100*falseAccepts, len(pairs), wrong)
	return agree, falseAccepts
}

// The labels are Math-Verify's own results. Of what the default accepts and
// they do not, all is right as mathematics: the i of 2 i + 1, numbers with a
// full stop behind, thousands in a fraction, units and boldface that the
// library could not read, a multiple of an equation.
func TestOracle(t *testing.T) {
	t.Parallel()
	pairs := oracle(t)
	split := DefaultOptions()
	split.SplitImaginary = true
	halves := map[bool][]pair{} // by reference answer: none is in both
	for _, p := range pairs {
		half := hashUnit(p.Gold, 0) < 0.5
		halves[half] = append(halves[half], p)
	}
	for _, c := range []struct {
		name         string
		pairs        []pair
		options      Options
		agreement    float64
		falseAccepts float64
	}{
		{"default", pairs, DefaultOptions(), 0.985, 0.005},
		{"default, one half", halves[false], DefaultOptions(), 0.98, 0.0075},
		{"default, the other", halves[true], DefaultOptions(), 0.98, 0.0075},
		{"an i that stands apart is another symbol", pairs, split, 0.985, 0.004},
	} {
		share, accepted := agreement(t, c.name, c.pairs, c.options)
		if share < c.agreement || accepted > c.falseAccepts {
			t.Errorf("%s: agreement %.4f, false accepts %.4f; at least %g and at most %g are wanted", c.name, share, accepted, c.agreement, c.falseAccepts)
		}
	}
}

// Pairs of references that the verifier was written without (make_pairs.py in
// testdata), at the bounds that are asked of unseen ones.
func TestUnseenPairs(t *testing.T) {
	t.Parallel()
	share, accepted := agreement(t, "unseen", readPairs(t, filepath.Join("testdata", "pairs.jsonl")), DefaultOptions())
	if share < 0.97 || accepted > 0.01 {
		t.Errorf("agreement %.4f, false accepts %.4f; at least 0.97 and at most 0.01 are wanted", share, accepted)
	}
}

func BenchmarkOracle(b *testing.B) {
	pairs := oracle(b)
	for b.Loop() {
		for _, p := range pairs {
			Verify(p.Gold, p.Prediction, DefaultOptions())
		}
	}
	b.ReportMetric(float64(len(pairs)*b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// hostile are responses that are made to take long, to take memory, or to be
// accepted without being right.
func hostile() map[string]string {
	const million = 1 << 20
	nest := func(open, inner, closing string, depth int) string {
		return strings.Repeat(open, depth) + inner + strings.Repeat(closing, depth)
	}
	all := map[string]string{}
	for _, unit := range []string{
		"{", "}", "(", ")", "[", "]", "$", `\(`, `\[`, `\]`, `\boxed{`, `\boxed`, `\frac{`, `\frac`, `\frac{1}{`, `\sqrt{`, `\sqrt`, "^", "_", "^{", "-", "+", "1", "9", "0.", ",", " ",
		"answer ", "answer is ", "final answer is ", "the answer: ", "1,", "1 ", "1/", "1^", "a", "x+", `\pm`, `\pi`, "!", "|", "%", `\%`, "\n", `\\`, "&", `\text{`, `\text{and}`, " and ",
		`\left(`, `\cup`, `\begin{pmatrix}`, `\begin{`, "ﬀ", "\x00", "\xff", "$$", "$1$ and ", "\\$", "sin ", "e^", "∞", "²",
	} {
		all["1 MB of "+unit] = strings.Repeat(unit, million/len(unit))
		all["4 kB boxed of "+unit] = `\boxed{` + strings.Repeat(unit, 4000/len(unit)) + "}"
		all["300 boxed of "+unit] = `\boxed{1` + strings.Repeat(unit, 300/len(unit)) + "}"
	}
	for name, answer := range map[string]string{
		"tower of powers":        "9^{9^{9}}",
		"tower of powers, high":  nest("9^{", "9", "}", 60),
		"tower of powers, deep":  nest("9^{", "9", "}", 900),
		"large power":            "2^{100000000}",
		"large base":             strings.Repeat("9", 3000) + "^{3000}",
		"negative power":         "7^{-99999999999}",
		"roots of roots":         nest(`\sqrt{`, "2", "}", 60),
		"roots in sums":          nest(`\sqrt{1+`, "2", "}", 60),
		"fractions in fractions": nest(`\frac{1}{1+`, "x", "}", 60),
		"product of sums":        strings.Repeat("(x+y+z+w+a+b+c)", 40),
		"power of a sum":         "(x+y+z+w+a+b+c)^{32}",
		"power of a power":       nest("(x+y)^{", "9", "}", 30),
		"factorial":              "1000000!",
		"factorials":             "9!!!!!!!!!!",
		"factorial of a power":   "(10^{10})!",
		"binomial":               `\binom{1000000}{500000}`,
		"many terms":             strings.Repeat("x+", 1400) + "x",
		"many names":             strings.Repeat("x_{1}y_{2}z_{3}+", 200) + "1",
		"sum with far bounds":    `\sum_{i=1}^{1000000000} i`,
		"sums in sums":           nest(`\sum_{i=1}^{199} (`, "i", ")", 20),
		"long sum":               `\sum_{k=1}^{20000}\frac{1}{k^{k}}`,
		"long product":           `\prod_{k=1}^{20000}(1+\frac{1}{k!})`,
		"binomials in a sum":     `\sum_{k=0}^{9999}\binom{9999}{k}\sqrt{k}`,
		"infinite sums":          `\sum_{j=1}^{\infty}\sum_{k=1}^{\infty}\frac{1}{j^2k^2}`,
		"infinite sum of sums":   `\sum_{j=1}^{\infty}\frac{1}{\sum_{k=1}^{199}k^j}`,
		"far binomial":           `\binom{10^{18}}{20000}\pi`,
		"far factorials":         `\frac{(10^{18})!\pi}{(10^{18}-20000)!}`,
		"roots of large numbers": strings.Repeat(`\sqrt{10^{2000}+1}-`, 60) + "1",
		"large exponentials":     strings.Repeat(`e^{2000}+\ln 3+`, 60) + "1",
		"roots of cancellations": nest(`\sqrt{(10^{300}+1)-10^{300}+`, "2", "}", 30),
		"scientific":             "1e999999999999",
		"scientific, small":      "5+1e-99999",
		"large modulus":          `9^{9^{2000}}\bmod 10^{300}`,
		"brackets of numbers":    strings.Repeat("(1+", 1300),
		"list":                   strings.Repeat("1,", 2000) + "1",
		"list of lists":          nest("(1,", "2", ")", 60),
		"plus or minus":          strings.Repeat(`1 \pm `, 60) + "1",
		"lists of signs":         strings.Repeat(`\pm 1,`, 63) + `\pm 1`,
		"union":                  strings.Repeat(`(1,2)\cup `, 400) + "(1,2)",
		"differences":            strings.Repeat(`\mathbb{R}\setminus\{1\} \cup `, 50) + `\{1\}`,
		"matrix":                 `\begin{pmatrix}` + strings.Repeat("1&", 2000) + `1\end{pmatrix}`,
		"matrices":               strings.Repeat(`\begin{pmatrix}1\end{pmatrix}`, 100),
		"matrix of symbols":      `\begin{pmatrix}` + strings.Repeat(strings.Repeat("x+y&", 7)+`z\\`, 8) + `\end{pmatrix}^{16}`,
		"products of matrices":   strings.Repeat(`\begin{pmatrix}x&y\\z&x\end{pmatrix}`, 60),
		"transposes":             `\begin{pmatrix}1\\2\end{pmatrix}` + strings.Repeat("^T", 601),
		"powers of a matrix":     `\begin{pmatrix}9&7\\5&3\end{pmatrix}` + strings.Repeat("^{16}", 300),
		"conditions":             `\{x : ` + strings.Repeat("|x| < ", 500) + `5\}`,
		"sets of conditions":     nest(`\{x : x \in `, "R", `\}`, 60),
		"semicolons":             strings.Repeat("1,2;", 900) + "3",
		"ratios":                 strings.Repeat("x:y:", 900) + "3",
		"approximations":         strings.Repeat(`5 \approx `, 400) + "5.1",
		"digits":                 strings.Repeat("7", 4000),
		"decimals":               "0." + strings.Repeat("7", 4000),
		"period":                 `0.\overline{` + strings.Repeat("7", 4000) + "}",
		"logarithms":             nest(`\log(`, "10", ")", 60),
		"logarithm of a power":   `\log_{2}{2^{8000}}`,
		"sines":                  nest(`\sin(`, "1", ")", 60),
		"exponentials":           nest(`e^{`, "1", "}", 60),
		"chain":                  strings.Repeat("x<", 1400) + "x",
		"equations":              strings.Repeat("x=", 1400) + "5",
		"moduli":                 strings.Repeat(`7 \mod `, 700) + "3",
		"bars":                   strings.Repeat("|x", 700) + strings.Repeat("|", 700),
		"signs":                  strings.Repeat("-", 4000) + "5",
		"subtexts":               nest(`\text{1 `, "5", "}", 100),
		"determinant":            `\begin{vmatrix}` + strings.Repeat(strings.Repeat("1&", 7)+`1\\`, 8) + `\end{vmatrix}`,
		"continued":              nest("1+1/(", "1", ")", 60),
		"greatest divisor":       `\gcd(10^{2000}, 6^{2000})`,
		"maximum":                `\max(` + strings.Repeat("1,", 60) + "1)",
		"subscripts":             nest("x_{", "1", "}", 900),
		"units":                  "5 " + strings.Repeat("cm ", 1000),
		"right to left":          "\u202e5\u202c",
		"full width":             "５",
	} {
		all[name] = `\boxed{` + answer + "}"
	}
	all["announced links"] = strings.Repeat("answer ", 4000) + strings.Repeat("$1$ = ", 6000)
	all["units of units"] = "5" + strings.Repeat("cm/", 20_000)
	all["many units"] = strings.Repeat("6cm ", 15_000)
	all["open brackets"] = strings.Repeat("(1+2*", 13_000)
	all["tags"] = strings.Repeat("<answer>", 8000)
	all["end marks"] = strings.Repeat("<|", 32_000)
	all["open boxes"] = strings.Repeat(`\boxed 1`, 8000)
	all["rejected boxes"] = strings.Repeat(`not \boxed{1} `, 4500)
	all["endless series"] = `\boxed{\sum_{n=0}^\infty\frac{x^n}{(900-n)!}+\sum_{n=0}^\infty\sin(x)^n\frac{x^{2n+1}}{(2n+1)!}}`
	all["names"] = strings.Repeat("sqrt(", 13_000)
	all["percents"] = strings.Repeat("6 percent ", 6000)
	return all
}

// processorTime is what the process has used, which other programs on the
// machine change little.
func processorTime(t *testing.T) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano())
}

// Every result comes within the bound, whatever the response, and nothing
// that is made to break the verifier is accepted.
func TestHostile(t *testing.T) {
	corpus := hostile()
	if len(corpus) < 200 {
		t.Fatalf("%d hostile responses; at least 200 are wanted", len(corpus))
	}
	golds := []string{"5", `$\sqrt{10^{200}+1}$`, "$e^{2000}$", `$x^2+\sqrt{2}$`, "$(1,2)$", `$\{1,2,3\}$`, "$y=2x+1$", `$\begin{pmatrix}1\\2\end{pmatrix}$`, `$[1,2)\cup(3,\infty)$`}
	const bound = 50 * time.Millisecond
	var slowest time.Duration
	var slowestName string
	for name, response := range corpus {
		for _, gold := range golds {
			best := time.Hour
			for range 10 { // neighbours on the machine slow the caches down
				start := processorTime(t)
				if Verify(gold, response, DefaultOptions()).Equal && !slices.Contains([]string{"units", "signs", "subtexts", "approximations"}, name) && !strings.HasPrefix(name, "300 boxed of") {
					t.Errorf("%s: accepted for %q", name, gold)
				}
				if best = min(best, processorTime(t)-start); best < bound/2 {
					break
				}
			}
			if best > slowest {
				slowest, slowestName = best, name
			}
			if best > bound {
				t.Errorf("%s against %q took %v; the bound is %v", name, gold, best, bound)
			}
		}
	}
	t.Logf("%d responses; slowest %v: %s", len(corpus), slowest, slowestName)
	for name, response := range corpus { // as reference answers
		Verify(response, "5", DefaultOptions())
		Verify(response, response, DefaultOptions())
		_ = name
	}
}
