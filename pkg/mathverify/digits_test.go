package mathverify

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Values with many digits, of tables; "-" for what has none, and "-?" where
// more digits may give one.
func TestDigits(t *testing.T) {
	t.Parallel()
	const pi = "3.14159265358979323846264 0"
	for text, want := range map[string]string{
		"1/3": "0.333333333333333333333333 0", `\pi`: pi, "e": "2.71828182845904523536029 0", "i": "0 1", `\infty`: "-", "1,2": "-", `50\%\pi`: "1.57079632679489661923132 0", "1+i": "1 1", "1/0": "-", `1/(\pi-\pi)`: "-?",
		// powers
		`\sqrt2`: "1.41421356237309504880169 0", "2^{-2}": "0.25 0", `\pi^0`: "1 0", `\pi^{10}`: "93648.0474760830209737167 0", `\pi^\pi`: "36.4621596072079117709908 0", "(-4)^{1/2}": "0 2", "(-8)^{1/3}": "1 1.73205080756887729352745", "i^i": "0.207879576350761908546956 0", "i^{1/2}": "0.707106781186547524400844 0.707106781186547524400844",
		`0^\pi`: "0 0", `0^{-\pi}`: "-", "0^i": "-", `(\pi-\pi)^2`: "0 0", `(\pi-\pi)^{-1}`: "-?", `(\pi-\pi)^0`: "-?", `2^{\pi-\pi}`: "1 0", `\pi^{10^{9}}`: "-",
		// logarithms
		"ln 2": "0.693147180559945309417232 0", "ln(-1)": "0 3.14159265358979323846264", "ln(0)": "-", `\ln(\pi-\pi)`: "-?", "ln i": "0 1.57079632679489661923132", `\log_2 3`: "1.58496250072115618145374 0", `\log_1\pi`: "-?", `\log_\pi 1`: "0 0",
		// angles
		"sin 1": "0.841470984807896506652502 0", "cos 1": "0.540302305868139717400937 0", "tan 1": "1.55740772465490223050697 0", "cot 1": "0.64209261593433070300642 0", "sec 1": "1.85081571768092561791175 0", "csc 1": "1.1883951057781212162616 0", "sin i": "-", `\tan\frac\pi2`: "-?", "cot 0": "-?",
		"sin 10^{13}": "-", `\arcsin\frac12`: "0.523598775598298873077107 0", `\arcsin 2`: "-", `\arccos\frac12`: "1.04719755119659774615421 0", `\arccos(-1)`: pi, `\arctan 1`: "0.785398163397448309615661 0", `\arctan(-2)`: "-1.10714871779409050301707 0", "arccot 2": "0.463647609000806116214256 0",
		"arccot 0": "-", "arcsec 2": "1.04719755119659774615421 0", "arccsc 2": "0.523598775598298873077107 0", `\arcsin i`: "-",
		"sinh 1": "1.17520119364380145688238 0", "cosh 1": "1.54308063481524377847791 0", "tanh 1": "0.761594155955764888119458 0", "coth 1": "1.31303528549933130363616 0", "coth 0": "-?", `\cosh(i\frac\pi3)`: "0.5 0", "sgn 2": "-", `f(\pi)`: "-",
		// of real values
		`abs(-\pi)`: pi, "abs(3+4i)": "5 0", `\lfloor\pi\rfloor`: "3 0", `\lceil\pi\rceil`: "4 0", `\lfloor-\pi\rfloor`: "-4 0", `\lceil-\pi\rceil`: "-3 0", `\lfloor\pi-\pi\rfloor`: "-?", `\lfloor i\rfloor`: "-", `\max(\pi,e,1)`: pi, `\min(\pi,4,7/2)`: pi, `\max(\pi,i)`: "-", `\gcd(\pi,2)`: "-",
		`\lfloor 10^{80}\pi\rfloor-10^{80}3`: "1.41592653589793238462643e+79 0", `\lfloor 10^{90}\pi\rfloor`: "-?",
		// infinite sums
		`\sum_{k=1}^\infty\frac1{k^2}`: "1.64493406684822643647242 0", `\sum_{k=0}^\infty\frac1{k!}`: "2.71828182845904523536029 0", `\sum_{k=1}^\infty\frac{(-1)^k}k`: "-0.693147180559945309417232 0", `\sum_{k=1}^\infty\frac1k`: "-", `\sum_{k=1}^\infty(-1)^k`: "-", `\sum_{k=1}^\infty0`: "0 0",
		`\sum_{k=1}^\infty\binom5k`: "31 0", `\sum_{k=1}^\infty\frac{1}{2^k}`: "1 0", `\sum_{k=1}^\infty\frac{i}{2^k}`: "-", `\sum_{k=1}^\infty\sum_{j=1}^\infty\frac1{j^2k^2}`: "-", `\prod_{k=1}^\infty\frac12`: "-", `\sum_{k=1}^\infty f(k)`: "-", `\sum_{k=x}^\infty\frac1{k^2}`: "-",
		// factorials, binomials, products
		"1001!/1000!": "1001 0", `\pi!`: "-", "(-1)!": "-", "(1/2)!": "-", "20000!/20000!": "1 0", "20001!": "-", `\binom\pi2`: "3.36400587374978269018592 0", `\binom\pi0`: "1 0", `\binom\pi\pi`: "-", `\binom\pi{-1}`: "-", `\binom\pi{1/2}`: "-", `\binom{i}{2}`: "-",
		`\binom{10^{18}}{10^{18}-1}\pi`: "3141592653589793238.46264 0", `\binom{5}{7}\pi`: "0 0", `\binom{5}{10^{30}}`: "0 0", `\binom{10^{30}}{10^{30}}\pi`: pi, `\binom{f(2)}{2}`: "-", `\binom{3000}{2000}/\binom{3000}{1000}`: "1 0", `\binom{3000}{1000}/\binom{3000}{999}`: "2.001 0", `\prod_{k=1}^3\pi`: "31.0062766802998201754763 0", `\prod_{k=0}^3k`: "0 0", `\prod_{k=1}^3i`: "-", `\prod_{k=1}^3(\pi-\pi)`: "-", `\prod_{k=1}^3\frac10`: "-", `\sum_{k=1}^3\pi`: "9.42477796076937971538793 0", `\sum_{k=1}^x\pi`: "-",
	} {
		e := &evaluator{budget: &budget{steps: 10 * maxSteps}, mantissa: 320, at: &point{values: map[string]complex128{}}}
		got := "-"
		if x, ok := e.value(formulaOf(t, text)); ok {
			got = x.re.Text('g', 24) + " " + x.im.Text('g', 24)
		} else if e.vague {
			got = "-?"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// The floor of a value is known when no whole number is as near as its error,
// or twice that, and the error is at most 1/256.
func TestWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value float64
		err   int
		want  string
	}{
		{2.5, -8, "2 3"},
		{2.5, -7, "? ?"},
		{-2.5, -8, "-3 -2"},
		{0.5, -20, "0 1"},
		{-0.5, -20, "-1 0"},
		{2 + 0x1p-9, -10, "2 3"},
		{2 + 0x1p-10, -10, "? ?"},
		{3 - 0x1p-9, -10, "2 3"},
		{3 - 0x1p-10, -10, "? ?"},
		{-3 + 0x1p-10, -10, "? ?"},
		{-3 - 0x1p-10, -10, "? ?"},
		{2, -20, "? ?"},
		{0, -20, "? ?"},
		{-2, -20, "? ?"},
	} {
		got := ""
		for _, up := range []bool{false, true} {
			e := &evaluator{budget: &budget{steps: maxSteps}, mantissa: 320}
			x, ok := e.whole(precise{e.of(c.value), e.zero(), c.err}, up)
			if got += " "; ok {
				got += x.re.Text('g', 10)
			} else if e.vague {
				got += "?"
			}
		}
		if got[1:] != c.want {
			t.Errorf("floor and ceiling of %v, known to 2^%d, are%s, want %s", c.value, c.err, got, c.want)
		}
	}
}

// The range of what was added, and the error of a product of many factors: the
// largest share, with a bit for each doubling of their number.
func TestRunning(t *testing.T) {
	t.Parallel()
	e := &evaluator{budget: &budget{steps: maxSteps}, mantissa: 320}
	number := func(x float64, err int) precise { return precise{e.of(x), e.zero(), err} }
	for _, c := range []struct {
		add       float64
		high, low int
	}{{0, 0, 0}, {100, 7, 7}, {1000, 10, 7}, {0.1, 10, -3}, {1, 10, -3}, {0, 10, -3}} {
		if e.saw(number(c.add, -10)); e.high != c.high || e.low != c.low {
			t.Errorf("after %v the exponents are %d to %d, want %d to %d", c.add, e.low, e.high, c.low, c.high)
		}
	}
	for _, c := range []struct {
		factors []precise
		want    string
	}{
		{nil, "1 -317"},
		{[]precise{number(3, -10)}, "3 -6"},                                                  // 2 + share (-10-2+1) + 2 + 1
		{[]precise{number(3, -10), number(5, -20)}, "15 -3"},                                 // 4 + (-11) + 3 + 1
		{[]precise{number(3, -20), number(5, -10)}, "15 -4"},                                 // 4 + (-12) + 3 + 1
		{[]precise{number(3, -20), number(0, -10)}, "-"},                                     // may be zero
		{[]precise{number(3, -20), {e.of(1), e.of(1), -20}}, "-"},                            // not real
		{[]precise{number(3, -20), {e.zero().SetMantExp(e.of(1), 1<<30), e.zero(), 0}}, "-"}, // beyond all bounds
	} {
		r := running{product: e.of(1)}
		got, ok := "-", true
		for _, x := range c.factors {
			ok = ok && r.times(x)
		}
		if ok {
			x := e.result(r)
			got = fmt.Sprint(x.re.Text('g', 10), " ", x.err)
		}
		if got != c.want {
			t.Errorf("the product of %v is %s, want %s", c.factors, got, c.want)
		}
	}
}

// Functions at 320 bits are those at 1024, but for the last two bits.
func TestPrecision(t *testing.T) {
	t.Parallel()
	agree := func(t interface{ Errorf(string, ...any) }, name string, x float64, f func(m mantissa) *big.Float) {
		short, long := f(320), f(1024)
		if d := new(big.Float).Sub(long, short); d.Sign() != 0 && d.MantExp(nil) > long.MantExp(nil)-318 {
			t.Errorf("%s of %v differs from its longer value in %d of 320 bits", name, x, d.MantExp(nil)-long.MantExp(nil)+320)
		}
	}
	first := func(v *big.Float, ok bool) *big.Float {
		if !ok {
			t.Error("no value")
		}
		return v
	}
	agree(t, "pi", 0, mantissa.pi)
	agree(t, "ln 2", 0, mantissa.ln2)
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-50, 50).Draw(t, "x")
		y := rapid.Float64Range(-1, 1).Draw(t, "y")
		agree(t, "exp", x, func(m mantissa) *big.Float { return first(m.exp(m.of(x))) })
		agree(t, "sin", x, func(m mantissa) *big.Float { s, _, ok := m.sinCos(m.of(x)); return first(s, ok) })
		agree(t, "cos", x, func(m mantissa) *big.Float { _, c, ok := m.sinCos(m.of(x)); return first(c, ok) })
		agree(t, "log", x*x+1e-3, func(m mantissa) *big.Float { return first(m.log(m.of(x*x + 1e-3))) })
		agree(t, "angle", x, func(m mantissa) *big.Float { return first(m.angle(m.of(x), m.of(y))) })
	})
	const m = mantissa(320)
	tiny := m.zero().SetMantExp(m.of(1), -2000)
	for _, c := range []struct {
		re, im *big.Float
		want   string
	}{
		{m.of(1), m.of(0), "0"},
		{m.of(-1), m.of(0), "3.141592654"},
		{m.of(0), m.of(2), "1.570796327"},
		{m.of(0), m.of(-2), "-1.570796327"},
		{m.of(3), m.of(3), "0.7853981634"},
		{m.of(-3), m.of(3), "2.35619449"},
		{m.of(-3), m.of(-3), "-2.35619449"},
		{m.of(1), tiny, tiny.Text('g', 10)},
		{m.of(-1), tiny, "3.141592654"},
		{m.of(1), new(big.Float).Neg(tiny), "-" + tiny.Text('g', 10)},
		{tiny, m.of(1), "1.570796327"},
		{tiny, tiny, "0.7853981634"},
	} {
		if got := first(m.angle(c.re, c.im)).Text('g', 10); got != c.want {
			t.Errorf("the angle of (%.3g, %.3g) is %s, want %s", c.re, c.im, got, c.want)
		}
	}
	// 2^29·ln 2 is 372130558.8; angles go up to 10^12.
	for x, want := range map[float64]bool{372130558: true, 372130559: false, -372130558: true, -372130559: false} {
		if _, ok := m.exp(m.of(x)); ok != want {
			t.Errorf("e^%v is computed: %v", x, ok)
		}
	}
	for x, want := range map[float64]bool{1e12: true, 1e12 + 1: false, -1e12: true, -1e12 - 1: false} {
		if _, _, ok := m.sinCos(m.of(x)); ok != want {
			t.Errorf("the sine of %v is computed: %v", x, ok)
		}
	}
	for m, want := range map[mantissa]bool{4096: true, 8192: false} { // the largest for what is no algebraic number
		e := &evaluator{budget: &budget{steps: maxSteps}, mantissa: m, at: &point{}}
		if _, ok := e.value(formulaOf(t, "sin 1")); ok != want {
			t.Errorf("sin 1 is computed with %d bits: %v", m, ok)
		}
	}
}

// By Raabe, terms 1/k^p have a sum for p > 1, here from 1.02 on; by Leibniz,
// terms of alternating sign that fall do.
func TestConverges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		term func(k float64) float64
		want bool
	}{
		"1/k": {func(k float64) float64 { return 1 / k }, false}, "1/k^1.01": {func(k float64) float64 { return math.Pow(k, -1.01) }, false}, "1/k^1.03": {func(k float64) float64 { return math.Pow(k, -1.03) }, true}, "1/k^2": {func(k float64) float64 { return 1 / k / k }, true},
		"2^-k": {func(k float64) float64 { return math.Pow(2, -k) }, true}, "2^k": {func(k float64) float64 { return math.Pow(2, k) }, false}, "(-1)^k": {func(k float64) float64 { return math.Cos(math.Pi * k) }, false}, "(-1)^k/k": {func(k float64) float64 { return math.Cos(math.Pi*k) / k }, true},
		"(-1)^k·k": {func(k float64) float64 { return math.Cos(math.Pi*k) * k }, false}, "1 at last": {func(k float64) float64 {
			if k == infiniteTerms {
				return 1
			}
			return 1 / k / k
		}, false}, "one term, sixteen ratios before the end": {func(k float64) float64 {
			if k == infiniteTerms-17 {
				return 1e-9
			}
			return 1 / k / k
		}, true},
	} {
		var terms []*big.Float
		for k := range infiniteTerms {
			terms = append(terms, big.NewFloat(c.term(float64(k+1))))
		}
		if got := converges(terms); got != c.want {
			t.Errorf("the sum of %s converges: %v", name, got)
		}
	}
}
