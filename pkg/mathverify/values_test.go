package mathverify

import (
	"fmt"
	"math"
	"math/big"
	"math/cmplx"
	"strings"
	"testing"
)

// Values as float64 has them, from tables of functions; NaN for what has none.
func TestValues(t *testing.T) {
	t.Parallel()
	matrix := func(rows string) string { return `\begin{vmatrix}` + rows + `\end{vmatrix}` }
	// unit is the identity with a 2 in its first cell.
	unit := func(size int) string {
		var rows []string
		for i := range size {
			row := strings.Split(strings.Repeat("0&", size-1)+"0", "&")
			row[i] = "1"
			rows = append(rows, strings.Join(row, "&"))
		}
		return matrix("2" + strings.Join(rows, `\\`)[1:])
	}
	nan := math.NaN()
	for text, want := range map[string]complex128{
		"2+3-1": 4, "2*3*4": 24, "1/4": 0.25, "1/0": complex(nan, 0), `50\%`: 0.5, `\pi`: math.Pi, "e": math.E, "i": 1i, `\infty`: complex(nan, 0), "2^{10}": 1024, "0^0": 1, "0^{-1}": complex(nan, 0), "0^2": 0, "(-2)^3": -8, "(-2)^{-1}": -0.5, "0^i": complex(nan, 0),
		"(-4)^{1/2}": 2i, "i^2": -1, `(1,2)`: complex(nan, 0), "e^{i}": complex(0.5403023058681398, 0.8414709848078965),
		"sin(1)": 0.8414709848078965, "cos(1)": 0.5403023058681398, "tan(1)": 1.5574077246549023, "cot(1)": 0.6420926159343306, "sec(1)": 1.8508157176809255, "csc(1)": 1.1883951057781212,
		"arcsin(1/2)": math.Pi / 6, "arccos(1/2)": math.Pi / 3, "arctan(1)": math.Pi / 4, "arccot(2)": 0.4636476090008061, "arcsec(2)": math.Pi / 3, "arccsc(2)": math.Pi / 6, "arccot(0)": complex(nan, 0), "csc(0)": complex(nan, 0),
		"sinh(1)": 1.1752011936438014, "cosh(1)": 1.5430806348152437, "tanh(1)": 0.7615941559557649, "coth(1)": 1.3130352854993315, "ln(2)": math.Ln2, "ln(0)": complex(nan, 0), "abs(3+4i)": 5, "abs(-2)": 2, `\log_2 8`: 3, `\log 1000`: 3, `\log_1 2`: complex(nan, 0),
		"floor(-3/2)": -2, "ceil(-3/2)": -1, "sgn(-2)": -1, "sgn(3)": 1, "(5/2)!": 3.323350970447843, "4!": 24, `\binom{5/2}2`: 1.875, `\binom{5}2`: 10, "max(1,3,2)": 3, "min(2,1,3)": 1, `\frac{15}2\bmod 2`: 1.5, `(-1)\bmod 3`: 2, "floor(i)": complex(nan, 0),
		"floor(1,2)": complex(nan, 0), "ceil(1,2)": complex(nan, 0), "sgn(1,2)": complex(nan, 0), "sin(1,2)": complex(nan, 0), "max(1/0,2)": complex(nan, 0), "gcd(1,2,3)": complex(nan, 0), "floor(1/0)": complex(nan, 0),
		`\sum_{k=1}^3k`: 6, `\prod_{k=1}^4k`: 24, `\sum_{k=1}^{200}1`: 200, `\sum_{k=1}^{201}1`: complex(nan, 0), "det(2)": complex(nan, 0),
		matrix(`1&2\\3&4`): -2, matrix(`0&1\\1&0`): -1, matrix(`0&2&0\\0&0&3\\4&0&0`): 24, matrix(`1&2\\2&4`): 0, matrix(`1&2`): complex(nan, 0), matrix(`2&1&1\\4&-6&0\\-2&7&2`): -16, matrix(`1&2\\-3&4`): 10, unit(6): 2, unit(7): complex(nan, 0),
		// by the rules of hashUnit and unknownFunction in Python
		"f(1,2)": -0.6456078181960089, "g(1)": 1.2950949011336563, "gcd(3/2,5/2)": -0.6254740121373141, "gcd(5/2,3/2)": -0.6254740121373141,
	} {
		got := (&budget{steps: maxSteps}).evaluate(formulaOf(t, text), &point{})
		if cmplx.IsNaN(want) != cmplx.IsNaN(got) || cmplx.Abs(got-want) > 1e-14*max(1, cmplx.Abs(want)) {
			t.Errorf("%s has the value %v, want %v", text, got, want)
		}
	}
	// FNV-1a and SplitMix64, and the places of x, in Python
	if a, b := hashBits("x", 0), hashBits("xy", 3); a != 0x338262d8f096398f || b != 0x9a1ab43db6c54d3d {
		t.Errorf("hashes %x and %x", a, b)
	}
	for number, want := range map[int]float64{0: 0.7426582255557977, 5: 2.046425937375833, 6: 1.1421488395682133, 11: -2.4695664763539793} {
		at := &point{number: number, values: map[string]complex128{}}
		if got := real(at.value("x")); got != want || at.values["x"] != complex(want, 0) {
			t.Errorf("x is %v at place %d, want %v", got, number, want)
		}
	}
	infinity := cmplx.Inf()
	for _, c := range []struct {
		a, b complex128
		want bool
	}{
		{1, 1, true}, {1, 1 + 0.9e-9, true}, {1, 1 + 1.2e-9, false}, {2, 2 + 1.8e-9, true}, {0, 0.9e-12, true}, {0, 1.2e-12, false}, {1, 1 + 0.9e-9i, true}, {1, 1 + 1.2e-9i, false}, {infinity, 1, false}, {1, infinity, false},
	} {
		if got := near(c.a, c.b); got != c.want {
			t.Errorf("%v is near %v: %v", c.a, c.b, got)
		}
	}
	// What only float64 computes is equal to 10^-11: sgn has no digits beyond.
	one := formulaOf(t, "sgn(2)")
	for difference, want := range map[float64]bool{0.9e-11: true, 1.2e-11: false} {
		if got := (&budget{steps: maxSteps}).close(one, one, &point{}, 1, complex(1+difference, 0)); got != want {
			t.Errorf("values that differ by %g are equal: %v", difference, got)
		}
	}
}

// Constant real values, rounded to six digits, "-" for others. e^5678 is
// 2^8191.6, and e^5679 is 2^8193.1: exponents go up to 8192.
func TestRealValues(t *testing.T) {
	t.Parallel()
	large := `10^{2000}10^{2000}10^{2000}\sqrt2` // more digits than are computed
	for text, want := range map[string]string{
		"1/3": "0.333333", `\sqrt2`: "1.414214", "x": "-", "i": "-", "(-4)^{1/2}": "-", "i^2": "-1.000000", "f(2)": "-0.735883", "sgn(-2)": "-1.000000", "1,2": "-", "1/0": "-", "sin(0)": "0.000000", `\pi-\pi`: "0.000000",
		"e^{5678}/e^{5678}": "1.000000", "e^{5678}-e^{5678}+1": "1.000000", `(10^{100}+\pi)-10^{100}`: "3.141593", `(10^{100}+\pi)-10^{100}-\pi`: "0.000000", "e^{5679}": "-", "e^{-5678}": "0.000000", "e^{-5679}": "-", "e^{-5677}": "0.000000", `\infty`: "-", large + "-" + large: "-",
	} {
		got := "-"
		if v, ok := newComparer().realValue(formulaOf(t, text)); ok {
			got = v.FloatString(6)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	if _, ok := newComparer().realValue(formulaOf(t, "e^{5678}")); !ok {
		t.Error("e^5678 has no value")
	}
	for _, c := range []struct {
		v     *big.Rat
		scale int64
		want  int64
	}{
		{big.NewRat(1, 2), 1, 1}, {big.NewRat(-1, 2), 1, -1}, {big.NewRat(2, 5), 1, 0}, {big.NewRat(-2, 5), 1, 0}, {big.NewRat(3, 2), 1, 2}, {big.NewRat(-3, 2), 1, -2}, {big.NewRat(1, 3), 100, 33}, {big.NewRat(2, 3), 100, 67}, {new(big.Rat), 10, 0},
	} {
		if got := roundedRat(c.v, big.NewRat(c.scale, 1)); got.Int64() != c.want {
			t.Errorf("%v in units of 1/%d is %v, want %d", c.v, c.scale, got, c.want)
		}
	}
	for _, c := range []struct { // a tenth of the first number
		a, b int64
		want bool
	}{{100, 110, true}, {100, 90, true}, {100, 111, false}, {100, 89, false}, {-100, -110, true}, {-100, -111, false}, {0, 0, true}, {0, 1, false}, {110, 100, true}, {111, 100, true}, {112, 100, false}} {
		if got := closeBy(big.NewRat(c.a, 1), big.NewRat(c.b, 1), big.NewRat(1, 10)); got != c.want {
			t.Errorf("%d is within a tenth of %d: %v", c.b, c.a, got)
		}
	}
}

// The form of rational functions: the terms above and below, and whether there
// are atoms that are no symbols; "-" for what has none or is too large.
func TestRationalForms(t *testing.T) {
	t.Parallel()
	names := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("x_{%d}", i))
		}
		return strings.Join(all, "+")
	}
	for text, want := range map[string]string{
		"5": "1/1", "0": "0/1", "x": "1/1", "x+1": "2/1", "x-x": "0/1", "x/(y+1)": "1/2", "1/x+1/y": "2/1", "(x+1)(x-1)": "2/1", "(x+1)^2": "3/1", "(x+1)^{-2}": "1/3", "(x+1)^0": "1/1", "(x-x)^{-1}": "-", "1/(x-x)": "-", `x\%`: "1/1", "x^{32}": "1/1", "x^{-32}": "1/1",
		"x^{33}": "1/1 opaque", "x^{-33}": "1/1 opaque", "x^{1/2}": "1/1 opaque", "x^y": "1/1 opaque", `\pi`: "1/1 opaque", `1+\sqrt2`: "2/1 opaque", `(\pi+1)^2`: "3/1 opaque", `x/\pi`: "1/1 opaque", "4^{1/2}": "1/1", `\binom52+x`: "2/1", `(1/0)+x`: "-",
		"1/(" + names(64) + ")+1/(" + names(64) + ")": "-", "(" + names(64) + ")/y+z/(" + names(65) + ")": "-", "z/(" + names(65) + ")+(" + names(64) + ")/y": "-", "1/(" + names(64) + ")+1/(y+z)": "66/128",
		"(1-x)(1+x+x^2+x^3+x^4+x^5+x^6+x^7+x^8+x^9)": "2/1", names(256): "256/1", names(257): "-", "(x+y)^{31}(x+y)": "33/1",
	} {
		got := "-"
		if f, ok := (&budget{steps: maxSteps}).rational(formulaOf(t, text)); ok {
			if got = fmt.Sprintf("%d/%d", len(f.top), len(f.bottom)); f.opaque {
				got += " opaque"
			}
		}
		if got != want {
			t.Errorf("%.40s has the form %s, want %s", text, got, want)
		}
	}
	if _, ok := (&budget{steps: 3}).rational(formulaOf(t, `\pi+x`)); ok {
		t.Error("a form without a budget")
	}
	// sum is 1 + a + a² + … of n terms, scaled.
	sum := func(atom string, n int, scale *big.Rat) polynomial {
		p := constantPolynomial(scale)
		for i := 1; i < n; i++ {
			p[fmt.Sprint(atom, exponentSeparator, i)] = scale
		}
		return p
	}
	power := func(bits uint) *big.Rat { return new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), bits)) }
	inverse := func(bits uint) *big.Rat { return new(big.Rat).Inv(power(bits)) }
	third := big.NewRat(1, 3)
	for name, c := range map[string]struct {
		x, y polynomial
		want int // terms of the product; 0 for none
	}{
		"64·64 = 4096 products": {sum("x", 64, one), sum("x", 64, one), 127}, "64·65 products": {sum("x", 64, one), sum("x", 65, one), 0},
		"256 terms": {sum("x", 16, one), sum("y", 16, one), 256}, "272 terms": {sum("x", 16, one), sum("y", 17, one), 0},
		"8192 bits": {sum("x", 1, power(4095)), sum("x", 1, power(4095)), 1}, "8193 bits": {sum("x", 1, power(4095)), sum("x", 1, power(4096)), 0},
		"4096 bits over 4096": {sum("x", 1, new(big.Rat).Mul(third, power(4095))), sum("x", 1, one), 1}, "8192 bits below": {sum("x", 1, inverse(4095)), sum("x", 1, inverse(4095)), 1}, "8193 bits below": {sum("x", 1, inverse(4096)), sum("x", 1, inverse(4095)), 0},
		"nothing": {polynomial{}, sum("x", 3, one), 0},
	} {
		p, ok := (&budget{steps: maxSteps}).multiply(c.x, c.y)
		if len(p) != c.want && ok || ok != (c.want > 0 || name == "nothing") {
			t.Errorf("%s: %d terms, %v; want %d", name, len(p), ok, c.want)
		}
	}
}

// Whether two expressions are equal by their values modulo two primes.
func TestResidues(t *testing.T) {
	t.Parallel()
	// A is 2^16382, and with it an exponent may have 32768 bits.
	const a = `(2^{4096}2^{4096}2^{4096}2^{4094})`
	const yes, no, open = "equal", "unequal", "unknown"
	for _, c := range [][3]string{
		{"x+x", "2x", yes},
		{"x+x", "3x", no},
		{`x\%`, "x/100", yes},
		{"x/(y-y)", "1", open},
		{"x^{-2}", "1/x^2", yes},
		{"(x-x)^2", "0", yes},
		{"(x-x)^{-2}", "0", open},
		{"(x-x)^0", "1", open},
		{"i^2", "-1", yes},
		{`\pi+1`, `1+\pi`, yes},
		{`\pi`, "e", no},
		{`\infty`, `\infty`, open},
		{`\sqrt x`, `\sqrt x`, open},
		{"x^y", "x^y", open},
		{"f(x)", "f(x)", open},
		{`x^{\frac{` + a + "}{1/" + a + `}/(1/8)}`, "x", no},
		{`x^{\frac{` + a + "}{1/" + a + `}/(1/16)}`, "x", open},
		// factorials up to 100000 are computed, those above only beside others
		{"100000!", "100000 99999!", yes},
		{"100001!", "100001 100000!", no},
		{"1000000!/999999!", "1000000", yes},
		{"999999!/1000000!", "1/1000000", yes},
		{"1020000!/1000000!", "1020000!/1000000!", yes},
		{"1020001!/1000000!", "1020001!/1000000!", open},
		{"1000000!/1020000!", "1000000!/1020000!", yes},
		{"1000000!/1020001!", "1000000!/1020001!", open},
		{"x!", "x!", open},
		{"(-1)!", "(-1)!", open},
		{"(1/2)!", "(1/2)!", open},
		// binomials
		{`\binom{x}{3}`, "x(x-1)(x-2)/6", yes},
		{`\binom{x}{0}`, "1", yes},
		{`\binom{5}{7}`, "0", yes},
		{`\binom{2000}{1000}`, "2000!/(1000!)^2", yes},
		{`\binom{10^{18}}{2}`, `10^{18}(10^{18}-1)/2`, yes},
		{`\binom{10^{18}}{10^{18}-2}`, `10^{18}(10^{18}-1)/2`, yes},
		{`\binom{x}{y}`, `\binom{x}{y}`, open},
		{`\binom{x}{-1}`, "0", open},
		{`\binom{x}{66}`, `\binom{x}{65}\frac{x-65}{66}`, yes},
		{`\binom{x}{20000}`, `\binom{x}{19999}\frac{x-19999}{20000}`, yes},
		{`\binom{x}{20001}`, `\binom{x}{20001}`, open},
		{`\binom{10^{30}}{30000}`, `\binom{10^{30}}{30000}`, open},
		{`(10^{40})!\binom{150000}{75000}`, "(10^{40})!", open},
		{`\binom{150000}{75000}`, `\binom{149999}{74999}2`, yes},
		{`\sum_{k=1}^{n}k\cdot k^2`, "(n(n+1)/2)^2", yes},
		{`\sum_{k=1}^{n}(k+k^2)`, "n(n+1)(n+2)/3", yes},
		{`\binom{10^{30}}{5\cdot10^{29}}`, `\binom{10^{30}}{5\cdot10^{29}}`, open},
		{`\sum_{k=1}^{\pi-\pi+2}k`, "3", yes},
		{`\sum_{k=1}^{\pi}k`, `\pi(\pi+1)/2`, yes},
		// sums of polynomials of degree 24 or less are interpolated
		{`\sum_{k=1}^{30000}k`, "15000 30001", yes},
		{`\sum_{k=1}^{30000}k^{24}`, `\sum_{k=1}^{30000}k^{24}`, yes},
		{`\sum_{k=1}^{30000}k^{25}`, `\sum_{k=1}^{30000}k^{25}`, open},
		{`\sum_{k=1}^{20000}\frac1{k(k+1)}`, "20000/20001", yes},
		{`\sum_{k=1}^{20001}\frac1{k(k+1)}`, "20001/20002", yes},
		{`\sum_{k=1}^{20002}\frac1{k(k+1)}`, "20002/20003", open},
		{`\sum_{k=5}^{4}\frac1k`, "0", yes},
		{`\prod_{k=5}^{4}\frac1k`, "1", yes},
		{`\prod_{k=1}^{5}k`, "120", yes},
		{`\prod_{k=1}^{20001}2`, "2^{20001}", yes},
		{`\prod_{k=1}^{20002}2`, "2^{20002}", open},
		{`\sum_{k=1}^{7/2}k`, "6", open},
		{`\sum_{k=1/2}^{3}k`, "6", open},
		{`\sum_{k=5}^{30000}k`, "15000 30001-10", yes},
		{`\sum_{k=-5}^{30000}k`, "15000 30001-15", yes},
		{`\sum_{k=1}^{n}k`, "n(n+1)/2", yes},
		{`\sum_{k=1}^{n}k`, "n(n-1)/2", no},
		{`\sum_{k=1}^{n}(2k+y)`, "n(n+1)+ny", yes},
		{`\sum_{k=1}^{n}\frac{k}{y}`, "n(n+1)/(2y)", yes},
		{`\sum_{k=1}^{n}k\%`, "n(n+1)/200", yes},
		{`\prod_{k=1}^{n}2`, "2^n", yes},
		{`\sum_{k=1}^{n}2^{k}`, "2^{n+1}-2", yes},
	} {
		got := map[verdict]string{equal: yes, unequal: no, unknown: open}[(&budget{steps: 10 * maxSteps}).compareResidues(formulaOf(t, c[0]), formulaOf(t, c[1]))]
		if got != c[2] {
			t.Errorf("%.60s and %.60s are %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// The degree of a polynomial in k; -1 for what is none.
func TestDegrees(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"5": 0, "k": 1, "y": 0, `\sin y`: 0, "k+k^2": 2, "k^2+k": 2, "k k^2": 3, "(k^2+1)^3": 6, "k/2": 1, "k^2/y": 2, "2/k": -1, "k/k": -1, `k\%`: 1, "k^{24}": 24, "k^{25}": -1, "k^{-1}": -1, "k^{1/2}": -1, "k^y": -1, "2^k": -1, `\sin k`: -1, `k+\sin k`: -1, `k\sin k`: -1, `(\sin k)^2`: -1, "k^0": 0,
	} {
		degree, ok := degreeIn(formulaOf(t, text), "k")
		if !ok {
			degree = -1
		}
		if degree != want {
			t.Errorf("%s has the degree %d, want %d", text, degree, want)
		}
	}
}
