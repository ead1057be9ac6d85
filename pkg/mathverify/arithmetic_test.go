package mathverify

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
)

func formulaOf(t *testing.T, text string) *node {
	t.Helper()
	n, err := parse(text, &budget{steps: maxSteps})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}

// Rational values; long ones by the bits of their numerators, "-" for what has
// no such value or is beyond the bounds.
func TestExactValues(t *testing.T) {
	t.Parallel()
	// A logarithm is searched for up to 8192 bits of a power: B has 2326 + 2326
	// of them, its square 9303.
	base := `\frac{10^{700}}{10^{700}+1}`
	for text, want := range map[string]string{
		"1+2/3": "5/3", `50\%`: "1/2", "1/0": "-", "x": "-", "1+x": "-", `x\%`: "-", "f(2)": "-", `\pi`: "-", "1/x": "-", "x/1": "-",
		// A product may have 16384 bits of numerator and denominator together.
		`2^{4096}2^{4096}2^{4096}2^{4094}`: "16383 bits", `2^{4096}2^{4096}2^{4096}2^{4095}`: "-",
		"0^0": "-", "0^{-1}": "-", "0^2": "0", "1^{1/64}": "1", "1^{1/65}": "-", "(-8)^{1/3}": "-", "8^{2/3}": "4", `(\frac49)^{-1/2}`: "3/2", "2^{1/2}": "-", `(\frac{4}{3})^{1/2}`: "-", "2^{-3}": "1/8", "2^x": "-", "x^2": "-",
		"2^{4096}": "4097 bits", "2^{4097}": "-", `(\frac12)^{4096}`: "1 bits", `(\frac12)^{4097}`: "-", "1^{8192}": "1", "1^{8193}": "-", "2^{10^{30}}": "-", "1^{1/10^{30}}": "-",
		// Roots of numbers up to 8192 bits: 27·2^8187 = (3·2^2729)³ has 5 + 8187
		// bits, 343·2^8184 = (7·2^2728)³ has 9 + 8184.
		"1^{1/3}": "1", "2197^{1/3}": "13", "2196^{1/3}": "-", "(27 2^{4096}2^{4091})^{1/3}": "2731 bits", "(343 2^{4096}2^{4088})^{1/3}": "-",
		"abs(-3/2)": "3/2", "abs(1,2)": "-", "floor(-1/2)": "-1", "floor(3)": "3", "floor(1,2)": "-", "ceil(-1/2)": "0", "ceil(1/2)": "1", "ceil(3)": "3", "max(1,3,2)": "3", "min(2,1,3)": "1", "sgn(2)": "-",
		"0!": "1", "1!": "1", "5!": "120", "1000!": "8530 bits", "1001!": "-", "(-1)!": "-", "(1/2)!": "-",
		`\binom57`: "0", `\binom55`: "1", `\binom50`: "1", `\binom00`: "1", `\binom{2000}{1999}`: "2000", `\binom{-1}2`: "-", `\binom2{-1}`: "-", `\binom{1/2}2`: "-",
		// 682·12 = 8184 and 683·12 = 8196, as 3000 has 12 bits
		`\binom{3000}{682}/\binom{3000}{682}`: "1", `\binom{3000}{683}`: "-", `\binom{3000}{2318}/\binom{3000}{682}`: "1", `\binom{2^{62}}{8000}`: "-",
		"gcd(12,18)": "6", "gcd(-12,18)": "6", "lcm(4,6)": "12", "lcm(-4,6)": "12", "gcd(0,4)": "4", "lcm(0,4)": "0", "gcd(4,0)": "-", "gcd(1/2,3)": "-", "gcd(3,1/2)": "-", "gcd(1,2,3)": "-", "gcd(4)": "-",
		// 10^6 = 1 (mod 7); a modulus may have 1024 bits.
		`7\bmod -2`: "1", `7\bmod 0`: "-", `-7\bmod 3`: "2", `1-7\bmod 3`: "0", `(10^{3000}+5)\bmod 7`: "6", `3\cdot10^{3000}\bmod 7`: "3", `(10^{3000}+x)\bmod 7`: "-", `(1/2)\bmod 3`: "-", `7\bmod \frac32`: "-", `2^{-1}\bmod 7`: "-", `7^0\bmod 7`: "1",
		`0^0\bmod 7`: "-", `7^{100000}\bmod 7`: "0", `x^{2}\bmod 7`: "-", `2^{x}\bmod 7`: "-", `2^{1/2}\bmod 7`: "-", `(2^{1023}+1)^{10000}\bmod 2^{1023}`: "1", `(2^{1024}+1)^{10000}\bmod 2^{1024}`: "-", `10^{3000}\bmod 1`: "0",
		`\log_2 8`: "3", `\log_2\frac18`: "-3", `\log_{\frac12}8`: "-3", `\log_2 1`: "0", `\log_1 1`: "-", `\log_0 1`: "-", `\log_2 0`: "-", `\log_{-2} 4`: "-", `\log_2(2^{64})`: "64", `\log_2(2^{65})`: "-", `\log_2(2^{-64})`: "-64", `\log_2 3`: "-",
		`\log_{10^{1000}}(10^{2000}10^{1000})`: "3", `\log_{10^{1000}}(10^{2000}10^{2000})`: "-", `\log_{` + base + `}(` + base + base + ")": "2", `\log_{` + base + `}(` + strings.Repeat(base, 3) + ")": "-",
		`\sum_{k=1}^{200}1`: "200", `\sum_{k=0}^{200}1`: "-", `\sum_{k=3}^3 k`: "3", `\sum_{k=3}^2 k`: "-", `\sum_{k=1/2}^3k`: "-", `\sum_{k=1}^{7/2}k`: "-", `\sum_{k=x}^3k`: "-", `\sum_{k=1}^xk`: "-", `\sum_{k=10^{30}}^{10^{30}}k`: "-", `\sum_{k=1}^{10^{30}}k`: "-",
		`\prod_{k=2}^4k`: "24", `\sum_{k=1}^{3}\sum_{j=1}^{k}j`: "10", `\sum_{k=1}^3 x`: "-",
	} {
		v, ok := (&budget{steps: maxSteps}).exact(formulaOf(t, text))
		got := "-"
		if ok {
			if got = v.RatString(); len(got) > 40 {
				got = fmt.Sprint(v.Num().BitLen(), " bits")
			}
		}
		if got != want {
			t.Errorf("%.60s is %s, want %s", text, got, want)
		}
	}
	if _, ok := (&budget{steps: maxSteps}).exact(function("max")); ok {
		t.Error("the largest of no numbers has a value")
	}
}

// Numbers with a bound on their error, at 320 bits. A number's exponent is that
// of the power of two above it: 2 for 3, 3 for 5, 7 for 81; what is exact has
// an error of 2^(exponent-319) by its rounding. The errors are sums of
//
//	x+y  the larger error, doubled
//	x·y  the larger of error·2^top, top being exponent+1; 2 bits for the sum of both and the rounding
//	x/y  the larger of x's error and 2^top(x)·(share of y's error), over 2^exponent(y); 3 bits
//	x^n  the share of x's error, 2 bits for each of n's and 2 more, times 2^exponent
//	√x   the root of what may be there when x may be zero, else the share of the error, 2 bits
//	e^x  the error as a share of the value, 3 bits
//	ln x the share of x's error, 3 bits
//	sin  the error, or that of rounding an angle of its size, 2 bits
//	arc  of a point (re, im): each error times the other part's top, over the
//	     square of the distance, 3 bits; re of arcsin is √(1-x²)
func TestErrorBounds(t *testing.T) {
	t.Parallel()
	const m = mantissa(320)
	e := &evaluator{budget: &budget{steps: maxSteps}, mantissa: m}
	at := func(re, im float64, err int) precise { return precise{m.of(re), m.of(im), err} }
	exact := func(re float64) precise { return m.real(m.of(re)) }
	power := func(x precise, n int64) func() (precise, bool) {
		return func() (precise, bool) { return m.integerPower(x, n) }
	}
	div := func(x, y precise) func() (precise, bool) { return func() (precise, bool) { return m.div(x, y) } }
	is := func(x precise) func() (precise, bool) { return func() (precise, bool) { return x, true } }
	for name, c := range map[string]struct {
		of   func() (precise, bool)
		want string
	}{
		"a number":                         {is(exact(3)), "3 0 -317"},
		"zero":                             {is(exact(0)), fmt.Sprint("0 0 ", exactly)},
		"a part at its error":              {is(m.known(m.of(3), m.of(0.5), 0)), "3 0 0"},
		"a part above its error":           {is(m.known(m.of(3), m.of(0.5), -1)), "3 0.5 -1"},
		"a part as large as the error":     {is(m.known(m.of(3), m.of(0), 2)), "0 0 2"},
		"a part twice the error":           {is(m.known(m.of(3), m.of(0), 1)), "3 0 1"},
		"nothing":                          {is(m.known(m.of(0), m.of(0), -400)), "0 0 -400"},
		"an error below the rounding":      {is(m.known(m.of(3), m.of(5), -400)), "3 5 -316"},
		"sum":                              {is(m.add(at(3, 0, -10), at(5, 1, -12))), "8 1 -9"},
		"negative":                         {is(at(3, -2, -10).neg()), "-3 2 -10"},
		"product":                          {is(m.mul(at(3, 0, -10), at(5, 0, -12))), "15 0 -4"},
		"product, the error of the second": {is(m.mul(at(3, 0, -20), at(5, 0, -12))), "15 0 -7"},
		"product with what may be zero":    {is(m.mul(at(3, 0, -20), at(0, 0, -12))), "0 0 -7"},
		"product of complex numbers":       {is(m.mul(at(1, 2, -10), at(3, 4, -10))), "-5 10 -4"},
		"quotient":                         {div(at(15, 0, -10), at(5, 0, -12)), "3 0 -9"},
		"quotient, the error of the first": {div(at(15, 0, -5), at(5, 0, -12)), "3 0 -5"},
		"quotient of complex numbers":      {div(at(-5, 10, -10), at(3, 4, -10)), "1 2 -7"},
		"quotient by an imaginary number":  {div(at(6, 0, -10), at(0, 2, -10)), "0 -3 -6"},
		"quotient by what may be zero":     {div(at(6, 0, -10), at(0, 0, -10)), "-"},
		"power":                            {power(at(3, 0, -10), 4), "81 0 4"},
		"power of an exact number":         {power(exact(3), 4), "81 0 -303"},
		"power, complex":                   {power(at(1, 1, -10), 3), "-2 2 -2"},
		"power, negative":                  {power(exact(2), -2), "0.25 0 -309"},
		"power of nothing":                 {power(exact(3), 0), "1 0 -315"},
		"power of what may be zero":        {power(at(0, 0, -5), 3), "0 0 -5"},
		"power of what may be above one":   {power(at(0, 0, 1), 3), "-"},
		"itself":                           {power(at(0, 0, 1), 1), "0 0 1"},
		"power of one or less":             {power(at(0, 0, 0), 3), "0 0 0"},
		"zeroth power of what may be zero": {power(at(0, 0, -5), 0), "-"},
		"power of zero":                    {power(exact(0), 3), fmt.Sprint("0 0 ", exactly/2)},
		"power of zero, large":             {power(exact(0), 1<<41), fmt.Sprint("0 0 ", exactly/2)},
		"root":                             {is(m.squareRoot(m.of(4), -10)), "2 0 -9"},
		"root of what may be zero":         {is(m.squareRoot(m.of(0), -10)), "0 0 -4"},
		"root of what may be zero, odd":    {is(m.squareRoot(m.of(0), -9)), "0 0 -3"},
		"exponential":                      {func() (precise, bool) { return m.complexExp(at(0, 0, -10)) }, "1 0 -6"},
		"exponential, exact":               {func() (precise, bool) { return m.complexExp(exact(0)) }, "1 0 -316"},
		"exponential, an error of one":     {func() (precise, bool) { return m.complexExp(at(0, 0, 0)) }, "0 0 4"},
		"exponential, a larger error":      {func() (precise, bool) { return m.complexExp(at(0, 0, 1)) }, "-"},
		"logarithm":                        {func() (precise, bool) { return m.complexLog(at(1, 0, -10)) }, "0 0 -7"},
		"logarithm of a negative number":   {func() (precise, bool) { return m.complexLog(at(-1, 0, -10)) }, "0 3.141592654 -7"},
		"sine":                             {func() (precise, bool) { return e.trigonometric("sin", at(1, 0, -10)) }, "0.8414709848 0 -8"},
		"cosecant":                         {func() (precise, bool) { return e.trigonometric("csc", at(1, 0, -10)) }, "1.188395106 0 -2"},
		"sine, of a large angle":           {func() (precise, bool) { return e.trigonometric("sin", exact(1e9)) }, "0.5458434494 0 -287"},
		"hyperbolic sine":                  {func() (precise, bool) { return e.hyperbolic("sinh", at(1, 0, -10)) }, "1.175201194 0 -1"},
		"arctangent":                       {func() (precise, bool) { return e.arc("arctan", at(1, 0, -10)) }, "0.7853981634 0 -7"},
		"arctangent, large":                {func() (precise, bool) { return e.arc("arctan", at(1000, 0, -10)) }, "1.569796327 0 -25"},
		"arcsine":                          {func() (precise, bool) { return e.arc("arcsin", at(0.5, 0, -20)) }, "0.5235987756 0 -10"},
		"arccosine":                        {func() (precise, bool) { return e.arc("arccos", at(0.5, 0, -20)) }, "1.047197551 0 -10"},
		"arccotangent":                     {func() (precise, bool) { return e.arc("arccot", at(2, 0, -10)) }, "0.463647609 0 -5"},
		"logarithm of what may be zero":    {func() (precise, bool) { return m.complexLog(at(0, 0, -10)) }, "-"},
	} {
		got := "-"
		if x, ok := c.of(); ok {
			got = fmt.Sprint(x.re.Text('g', 10), " ", x.im.Text('g', 10), " ", x.err)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// Values are taken up to exponents of 2^29, and powers no further.
	scaled := func(exponent int) precise {
		return precise{m.zero().SetMantExp(m.of(0.5), exponent), m.zero(), exactly}
	}
	for _, c := range []struct {
		x    precise
		want bool
	}{
		{scaled(maxExponent - 1), true},
		{scaled(maxExponent), false},
		{scaled(-maxExponent + 1), true},
		{scaled(-maxExponent), false},
		{at(0, 0, 5), true},
		{precise{new(big.Float).SetInf(false), m.zero(), 0}, false},
		{precise{m.zero(), new(big.Float).SetInf(true), 0}, false},
	} {
		if got := c.x.bounded(); got != c.want {
			t.Errorf("%v is taken: %v", c.x, got)
		}
	}
	for exponent, want := range map[int]int64{3: 1 << 27, -3: 1 << 27, 0: 1 << 29} { // (|exponent|+1)·n is 2^29
		for n, ok := range map[int64]bool{want - 1: true, want + 1: false} {
			if _, got := m.integerPower(scaled(exponent), n); got != ok {
				t.Errorf("2^%d to the power %d is computed: %v", exponent-1, n, got)
			}
		}
	}
	for _, c := range []struct{ x, exponent, top, relative int }{{0, 2, 3, -11}, {1, 3, 4, -12}, {2, 3, 4, -12}} {
		x := []precise{at(3, 0, -10), at(0, 5, -10), at(3, 5, -10)}[c.x]
		if x.exponent() != c.exponent || x.top() != c.top || x.relative() != c.relative {
			t.Errorf("%v: exponent %d, top %d, share of the error %d; want %+v", x, x.exponent(), x.top(), x.relative(), c)
		}
	}
	if top := at(0, 0, -10).top(); top != -10 {
		t.Errorf("what may be zero is below 2^%d, want its error's -10", top)
	}
}
