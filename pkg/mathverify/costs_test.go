package mathverify

import (
	"errors"
	"math/cmplx"
	"testing"
)

// What work takes of the budget, which decides the same everywhere: summed by
// hand from the cost of each node and operation. With less there is no result.
func TestCosts(t *testing.T) {
	t.Parallel()
	exact := func(b *budget, n *node) bool { _, ok := b.exact(n); return ok }
	rational := func(b *budget, n *node) bool { _, ok := b.rational(n); return ok }
	modulo := func(b *budget, n *node) bool { _, ok := b.residue(n); return ok }
	float := func(b *budget, n *node) bool {
		return !cmplx.IsNaN(b.evaluate(n, &point{values: map[string]complex128{}}))
	}
	digits := func(m mantissa) func(b *budget, n *node) bool {
		return func(b *budget, n *node) bool {
			_, ok := (&evaluator{budget: b, mantissa: m, at: &point{values: map[string]complex128{}}}).value(n)
			return ok
		}
	}
	set := func(b *budget, n *node) bool { _, ok := (&comparer{budget: b}).realSet(n); return ok }
	same := func(b *budget, n *node) bool { return (&comparer{budget: b, options: DefaultOptions()}).equal(n, n) }
	matrix := func(b *budget, n *node) bool { return (&comparer{budget: b}).matrix(n) != nil }
	for _, c := range []struct {
		name string
		work func(b *budget, n *node) bool
		text string
		want int
	}{
		// 2 a node
		{"exact", exact, "5", 2},
		{"exact", exact, "1+2", 6},
		{"exact", exact, `50\%`, 4},
		{"exact", exact, "1/2", 6},
		{"exact", exact, "2^3", 6},
		{"exact", exact, "2^{4096}", 6 + 4098/256},
		{"exact", exact, "(2^{4096})^{1/2}", 2 + 22 + 6 + 4097/8 + 2050/256},
		{"exact", exact, "5!", 4 + 50},
		{"exact", exact, `\binom{10}{8}`, 6 + 50 + 2*2},
		{"exact", exact, `7\bmod3`, 6},
		{"exact", exact, `(2+5)\bmod3`, 4 + 2*(2+4)},
		{"exact", exact, `2^5\bmod3`, 4 + 2 + 1 + 2},
		{"exact", exact, `\sum_{k=1}^3k`, 6 + 0 + 2 + 3*2},
		{"exact", exact, `\sum_{k=1}^8k`, 6 + 8/4 + 2 + 8*2},
		// 2 a node; 1 for each of three products and the sum, when they are short
		{"rational form", rational, "5", 2},
		{"rational form", rational, "x+1", 2 + 2*(2+4)},
		{"rational form", rational, "x y", 2 + 2*(2+2)},
		{"rational form", rational, "x/y", 2 + 2*2 + 2},
		{"rational form", rational, "x^2", 2 + 2 + 2 + 2*2},
		{"rational form", rational, `x\%`, 2 + 2 + 2},
		// 1 a node
		{"residues", modulo, "x+1", 3},
		{"residues", modulo, "x/2", 3 + 8},
		{"residues", modulo, "x^2", 1 + 2 + 1 + 1},
		{"residues", modulo, "x^{1000}", 1 + 2 + 1 + 1 + 10/8},
		{"residues", modulo, "5!", 1 + 2 + 1},
		{"residues", modulo, "20!", 1 + 2 + 19/8 + 1},
		{"values", float, "x+1", 3},
		{"values", float, `\sin x`, 2},
		// 4 a node, times 1 + words²/16 for words of 320 bits
		{"320 bits", digits(320), "x+1", 12},
		{"4096 bits", digits(4096), "x+1", 12 * (1 + 144/16)},
		{"16384 bits", digits(16384), "x+1", 12 * (1 + 51*51/16)},
		{"320 bits", digits(320), `\sin 1`, 8 + 200},
		{"320 bits", digits(320), `\sqrt2`, 12 + 8},
		{"320 bits", digits(320), "x^5", 12 + 2*3},
		{"320 bits", digits(320), "abs(i)", 8 + 8},
		{"sets", set, `(1,2)\cup[3,4]`, 3*2 + 4},
		{"sets", set, `\{1,2\}`, 2 + 2},
		{"equality", same, "1,2", 1 + 2*1},
		{"matrices", matrix, `\begin{pmatrix}1&2\end{pmatrix}`, 2},
		{"matrices", matrix, `2\begin{pmatrix}1&2\end{pmatrix}`, 2 + 2 + 2*(6+0)},
	} {
		b, n := &budget{steps: maxSteps}, formulaOf(t, c.text)
		if !c.work(b, n) || maxSteps-b.steps != c.want {
			t.Errorf("%s of %s takes %d steps, want %d", c.name, c.text, maxSteps-b.steps, c.want)
		}
		for steps := range c.want {
			if c.work(&budget{steps: steps}, n) {
				t.Errorf("%s of %s is there with %d steps of %d", c.name, c.text, steps, c.want)
			}
		}
	}
	for text, want := range map[string]int{"x": 7, "xy": 7 + 2, "x+y": 7 + 3, "{x}": 7 + 7, `\frac12`: 7 + 2} { // list, relation, set, sum, term, factor, primary
		b := &budget{steps: maxSteps}
		if _, err := parse(text, b); err != nil || maxSteps-b.steps != want {
			t.Errorf("reading %s takes %d steps, want %d", text, maxSteps-b.steps, want)
		}
	}
	b := &budget{steps: 2}
	if !b.spend(2) || b.exhausted() || b.spend(1) || !b.exhausted() {
		t.Errorf("of 2 steps %d are left after 3", b.steps)
	}
}

// With any budget too small for the whole, an answer is not equal, for the
// reason "budget", and nothing is read.
func TestSmallBudgets(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{`\frac{x^2-1}{x+1}`, "x-1"},
		{`\sum_{k=1}^{5}\frac1k`, "137/60"},
		{`\sum_{k=1}^n k`, "n(n+1)/2"},
		{`\binom{x}{3}`, "x(x-1)(x-2)/6"},
		{"30!/28!", "870"},
		{`(1,2)\cup[2,4)`, "(1,4)"},
		{`\{1,2,x\}`, `\{x,2,1\}`},
		{`\{x : 1<2x+1\}`, `(0,\infty)`},
		{`1\pm\sqrt2`, `\{1-\sqrt2,1+\sqrt2\}`},
		{"y=2x+1", "2y=4x+2"},
		{"x<y", "2y>2x"},
		{`\begin{pmatrix}1&2\\3&4\end{pmatrix}^2`, `\begin{pmatrix}7&10\\15&22\end{pmatrix}`},
		{`\sin 1+\arcsin\frac12`, `\frac\pi6+\sin 1`},
		{`\log_2\pi`, `\frac{\ln\pi}{\ln2}`},
		{`\sinh i`, `i\sin 1`},
		{`\lfloor\pi\rfloor`, "3"},
		{`\sum_{k=1}^\infty\frac{1}{k^2}`, `\frac{\pi^2}{6}`},
		{"|x|+f(x,2)", `f(x,2)+\sqrt{x^2}`},
		{"0.5x", "x/2"},
		{`\binom{\pi}{2}`, `\pi(\pi-1)/2`},
		{`2^{100}\bmod 7`, "2"},
		{`e^{i\pi}`, "-1"},
		{`\begin{vmatrix}1&x\\3&4\end{vmatrix}`, "4-3x"},
		{`\frac ab=\frac23`, "3a=2b"},
	} {
		n, other := formulaOf(t, pair[0]), formulaOf(t, pair[1])
		full := &comparer{budget: &budget{steps: maxSteps}, options: DefaultOptions()}
		if !full.equal(n, other) {
			t.Errorf("%s is not %s", pair[0], pair[1])
		}
		compared := maxSteps - full.steps
		for steps := 0; steps < compared; steps += 1 + compared/50 {
			c := &comparer{budget: &budget{steps: steps}, options: DefaultOptions()}
			if c.equal(n, other) {
				t.Errorf("%s is %s with %d steps of %d", pair[0], pair[1], steps, compared)
			}
		}
		reading := &budget{steps: maxSteps}
		if _, err := parse(pair[0], reading); err != nil {
			t.Fatal(err)
		}
		for steps := range maxSteps - reading.steps {
			if _, err := parse(pair[0], &budget{steps: steps}); !errors.Is(err, errBudget) {
				t.Errorf("%s with %d steps: %v", pair[0], steps, err)
			}
		}
	}
}
