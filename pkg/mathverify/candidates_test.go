package mathverify

import (
	"fmt"
	"strings"
	"testing"
)

// listed shows candidates in their order: rank, text, and place.
func listed(found []candidate) string {
	var all []string
	for _, c := range found {
		all = append(all, fmt.Sprintf("%d %s %d-%d", c.priority, c.text, c.start, c.end))
	}
	return strings.Join(all, "; ")
}

// What may be the answer, best first: its rank (0 tag or "I hope", 1 box, 50
// final, 100 colon, 200 announced, 300 others), its text, and its bytes.
func TestCandidates(t *testing.T) {
	t.Parallel()
	blanks := func(n int) string { return strings.Repeat(" ", n) }
	type row struct{ response, want string }
	check := func(options Options, rows []row) {
		t.Helper()
		for _, c := range rows {
			if got := listed(extract(c.response, options)); got != c.want {
				t.Errorf("%.90q\n got %s\nwant %s", c.response, got, c.want)
			}
		}
	}
	check(DefaultOptions(), []row{
		// numbers and what stands beside them
		{"3 then 4", "300 4 7-8; 300 3 0-1"},
		{"-5", "300 -5 0-2"},
		{"+5", "300 +5 0-2"},
		{"a -5", "300 -5 2-4"},
		{"a-5", ""},
		{")-5", ""},
		{"x5", ""},
		{"x\t5\n", "300 5 2-3"},
		{"5x", ""},
		{"5 x", "300 5 0-1"},
		{"5.", "300 5 0-1"},
		{".5", "300 .5 0-2"},
		{"a.5", ""},
		{"$5", "300 5 1-2"},
		{`\$5`, ""},
		{"€5", "300 5 3-4"},
		{"5€", "300 5 0-1"},
		{"5cm^2 high", "300 5 0-1"},
		{"5em", ""},
		{"$18/day", "300 18 1-3"},
		{"18/week, $18/egg", "300 18 10-12; 300 18 0-2"},
		{"18/x", ""},
		{"18/ab", ""},
		{"1/arctan(x)", ""},
		{`5\%`, `300 5\% 0-3`},
		{"5 %", `300 5\% 0-3`},
		{"5  %", "300 5 0-1"},
		{"5 percent", `300 5\% 0-9`},
		{"5 percents", "300 5 0-1"},
		{`5\text{ cm}`, "300 5 0-1"},
		{`5\pi`, ""},
		{`5^\circ`, "300 5 0-1"},
		{"5^x", ""},
		// thousands and decimal commas
		{"1,234", "300 1,234 0-5"},
		{"1,23", "300 1.23 0-4"},
		{"1234,567", "300 1234.567 0-8"},
		{"0,111", "300 0.111 0-5"},
		{"12,034,567", "300 12,034,567 0-10"},
		{"1 234 567", "300 1234567 0-9"},
		{"1 2345", "300 2345 2-6; 300 1 0-1"},
		{"1 23", "300 23 2-4; 300 1 0-1"},
		{"6.02 x 10^23", "300 6.02*10^23 0-12"},
		{"6 x10^2", "300 6*10^2 0-7"},
		{"5e3", "300 5e3 0-3"},
		{"5e3x", ""},
		// expressions
		{"1 + 2", "300 1 + 2 0-5"},
		{"1 +2", "300 1 +2 0-4"},
		{"1 +(2)", "300 1 +(2) 0-6"},
		{"1+ 2", "300 1+ 2 0-4"},
		{"1 +", "300 1 0-1"},
		{"1 + x", ""},
		{"7:32", "300 7:32 0-4"},
		{"7: 32", "300 32 3-5; 300 7 0-1"},
		{"(1+2)/2", "300 (1+2)/2 0-7"},
		{"(8)", "300 8 1-2"},
		{"1)", "300 1 0-1"},
		{"2(3)", "300 2(3) 0-4"},
		{"f(3)", ""},
		{"a(8)", "300 8 2-3"},
		{"A(8)", "300 8 2-3"},
		{"is (8)", "300 8 4-5"},
		{"word(8)", "300 8 5-6"},
		{"tan(8)", "300 tan(8) 0-6"},
		{"Tan (8)", "300 8 5-6"},
		{"xtan(8)", "300 8 5-6"},
		{"x_2(8)", ""},
		{"x^{2}(8)", ""},
		{"é(8)", "300 8 3-4"},
		{"sqrt(3)/2", "300 sqrt(3)/2 0-9"},
		{"x=sqrt(3)", "300 sqrt(3) 2-9"},
		{"xsqrt(3)", "300 3 6-7"},
		{"√3/2", "300 √3/2 0-6"},
		{"2π", "300 2π 0-3"},
		{"2*pi", "300 2*pi 0-4"},
		{"sqrt(x)", ""},
		{"(see above) sqrt(3)/2", "300 sqrt(3)/2 12-21"},
		{"1*" + strings.Repeat("(", 8) + "2" + strings.Repeat(")", 8), "300 1*((((((((2)))))))) 0-19"},
		{"1*" + strings.Repeat("(", 9) + "2" + strings.Repeat(")", 9), "300 2 11-12"},
		{strings.Repeat("1", 256), "300 " + strings.Repeat("1", 256) + " 0-256"},
		{strings.Repeat("1", 257), ""},
		// formulas go on beside a number
		{"2x + 3", ""},
		{"y - 3", ""},
		{"3*x", ""},
		{"2)*x", ""},
		{"12 - a prime", "300 12 0-2"},
		{"x - a 3", "300 3 6-7"},
		{"**3**", "300 3 2-3"},
		// formulas
		{"$x$", "300 x 0-3"},
		{"$box$", "300 box 0-5"},
		{"$$5$$", "300 5 0-5"},
		{`\(5\)`, "300 5 0-5"},
		{`\[5\]`, "300 5 0-5"},
		{"[ 5 ]", "300 5 0-5"},
		{"x[ 5 ]", "300 5 3-4"},
		{"$5\n$", "300 5 1-2"},
		{"$$5\n$$", "300 5\n 0-6"},
		{`$\$5$`, `300 \$5 0-5`},
		{"$$", ""},
		{"5$x$", "300 5 0-1"},
		{"`5`", "300 5 0-3"},
		{"`x`", ""},
		{"`five 5`", "300 5 6-7"},
		{`\frac{1}{2}`, `300 \frac{1}{2} 0-11`},
		{`-\frac{1}{2}`, `300 -\frac{1}{2} 0-12`},
		{`\frac{-1.5}{2,5}`, `300 \frac{-1.5}{2,5} 0-16`},
		{`\frac{x}{2}`, ""},
		{`\frac{1.}{2}`, ""},
		{`\frac{1}`, ""},
		{"$2$*pi", ""},
		{"$2$*", "300 2 0-3"},
		{"$2$ %", `300 2\% 0-5`},
		{"$1$, $2$", "300 1, 2 0-8"},
		{"$1$     , and  $2$", "300 1, 2 0-18"},
		{"$1$     , and   $2$", "300 2 16-19; 300 1 0-3"},
		{"$(1$, $2)$", "300 2) 6-10; 300 (1 0-4"},
		{"$1$ or $2)$", "300 2) 7-11; 300 1 0-3"},
		{"$1$,$2$,$3$,$4$,$5$,$6$,$7$", "300 7 24-27; 300 1, 2, 3, 4, 5, 6 0-23"},
		{"$1$ and 2", "300 2 8-9; 300 1 0-3"},
		// boxes
		{`\boxed{5} 6`, "1 5 0-9; 300 6 10-11"},
		{`\boxed  {5}`, "1 5 0-11"},
		{`\boxed 5x y`, "1 5x 0-9"},
		{`\boxed x`, ""},
		{`\boxed{{5}`, "1 {5} 0-10"},
		{"\\boxed{5\n6", "1 5 0-8; 300 6 9-10"},
		{`\boxed{5\}}`, `1 5\} 0-11`},
		{`$x=\boxed{5}$`, "1 5 0-13; 300 5 0-13"},
		{`$\boxed{2}\times\boxed{3}$`, "1 2, 3 0-26; 300 2, 3 0-26"},
		{`$\boxed{5$}`, `300 \boxed{5 0-10`},
		{`not \boxed{5}`, "1 5 4-13"},
		{`not \boxed{4} but \boxed{5}`, "1 5 18-27"},
		{`knot \boxed{4}, \boxed{5}`, "1 4, 5 5-25"},
		{`2not \boxed{4}, \boxed{5}`, "1 4, 5 5-25"},
		{`not` + blanks(47) + `\boxed{4}, \boxed{5}`, "1 5 61-70"},
		{`not` + blanks(48) + `\boxed{4}, \boxed{5}`, "1 4, 5 51-71"},
		{`\boxed{4}` + blanks(9) + `\boxed{5}`, "1 4, 5 0-27"},
		{`\boxed{4}` + blanks(10) + `\boxed{5}`, "1 5 19-28"},
		{`\boxed{4}` + blanks(64) + ` and \boxed{5}`, "1 4, 5 0-87"},
		{`\boxed{4}` + blanks(65) + ` and \boxed{5}`, "1 5 79-88"},
		{`\boxed{5} \boxed{5}`, "1 5 0-19"},
		{`\boxed{4}; sorry, \boxed{5}`, "1 5 18-27"},
		{`\boxed{1}\boxed{2}\boxed{3}\boxed{4}\boxed{5}\boxed{6}\boxed{7}`, "1 2, 3, 4, 5, 6, 7 9-63"},
		{`\boxed{5}` + blanks(1<<16-9), "1 5 0-9"},
		{`\boxed{5}` + blanks(1<<16-8), ""},
		// announcements
		{"answer 5", "200 5 7-8"},
		{"ANSWER: 5", "100 5 8-9"},
		{"final answer is 5", "50 5 16-17"},
		{"finel answer is 5", "200 5 16-17"},
		{"my final answer: 5", "100 5 17-18"},
		{"final answer is $5$. I hope so", "0 5 16-19"},
		{"answer:\n5", "100 5 8-9"},
		{"answer\n5", "300 5 7-8"},
		{"4 answer 5, 6", "200 5 9-10; 300 6 12-13; 300 4 0-1"},
		{"answer" + blanks(50) + "5", "200 5 56-57"},
		{"answer" + blanks(51) + "5", "300 5 57-58"},
		{"answer:" + blanks(49) + "5", "100 5 56-57"},
		{"answer:" + blanks(50) + "5", "300 5 57-58"},
		{"final answer is" + blanks(97) + "5", "50 5 112-113"},
		{"final answer is" + blanks(98) + "5", "300 5 113-114"},
		{"answer $n$ is 5", "200 5 14-15; 300 n 7-10"},
		{"answer $n$" + blanks(93) + "=" + blanks(2) + "5", "300 5 106-107; 300 n 7-10"},
		{"answer $n$" + blanks(94) + "=" + blanks(2) + "5", "200 n 7-10; 300 5 107-108"},
		{"answer 1 answer 2", "200 2 16-17; 200 1 7-8"},
		{`answer is \boxed{5}`, "1 5 10-19"},
		// tags
		{"<answer> x+1 </answer>", "0 x+1 9-12"},
		{"<answer>**5**</answer>", "0 5 8-13"},
		{"<answer>this is 5</answer>", "0 5 16-17"},
		{"4</answer> 5", "0 4 0-1"},
		{"<answer>4</answer> <answer> </answer>", "0 4 8-9"},
		{`<answer>4</answer> \boxed{5}`, "1 5 19-28"},
		{"<answer></answer> 5", "200 5 18-19"},
		{"<b>5</b>", "300 5 3-4"},
	})
	first, anyone, among, off := DefaultOptions(), DefaultOptions(), DefaultOptions(), DefaultOptions()
	first.Match, anyone.Match, among.Boxed, off.Boxed = MatchFirst, MatchAny, BoxedAmong, BoxedOff
	many := strings.Repeat("1 ", 65)
	check(first, []row{
		{"3 then 4", "300 3 0-1; 300 4 7-8"},
		{`\boxed{1} \boxed{2}`, "1 1 0-9"},
		{`$\boxed{1},\boxed{2}$ \boxed{3}`, "1 1, 2 0-21; 300 1, 2 0-21"},
	})
	check(anyone, []row{{`\boxed{1} \boxed{2}`, "1 2 10-19; 1 1 0-9"}})
	check(among, []row{{`\boxed{1} 2`, "50 1 0-9; 300 2 10-11"}})
	check(off, []row{{`\boxed{1} 2`, "300 2 10-11"}, {`$\boxed{1}$ 2`, "300 2 12-13; 300 1 0-11"}})
	// Of more than 64 numbers the last or first ones, and what is announced.
	for name, c := range map[string]struct {
		response string
		options  Options
		count    int
		at       int // where the best one stands
	}{
		"last 64": {many, DefaultOptions(), 64, 128}, "first 64": {many, first, 64, 0}, "announced": {"answer 2 " + many, DefaultOptions(), 65, 7},
		"16 boxes": {strings.Repeat(`\boxed{1}`, 17), anyone, 16, 144},
	} {
		if found := extract(c.response, c.options); len(found) != c.count || found[0].start != c.at {
			t.Errorf("%s: %d candidates, the first at %d; want %d, at %d", name, len(found), found[0].start, c.count, c.at)
		}
	}
}

// The words of a response without formulas and numbers.
func TestBareWords(t *testing.T) {
	t.Parallel()
	for response, want := range map[string]string{
		"Paris": "Paris", "The answer is Paris.\nYes": "Paris", "Answer: **Paris**": "Paris", "the answer, answer is: it is": "it is", "": "", "answer": "", "<answer>Rome</answer>": "Rome",
		strings.Repeat("x", 128): strings.Repeat("x", 128), strings.Repeat("x", 129): "", "A" + strings.Repeat("\n", 1<<16-1): "A", "A" + strings.Repeat("\n", 1<<16): "",
	} {
		got := ""
		for _, c := range bare(response) {
			got += c.text
		}
		if got != want {
			t.Errorf("%.40q has the words %q, want %q", response, got, want)
		}
	}
}

// The parts that reading and searching are made of.
func TestPieces(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]int{
		"": 0, "cm": 2, "m/s": 3, "m/s^2": 5, "m^{2}/s": 7, "m^2 x": 3, "KG": 2, "M": 0, "n": 0, "m23": 2, "m/x": 0, "m/5": 1, "m/": 1, "rd": 2, "é": 0, "mé": 1,
	} {
		if got := unitLength(rest); got != want {
			t.Errorf("the unit of %q has %d bytes, want %d", rest, got, want)
		}
	}
	for text, want := range map[string]string{
		"5": "5", " 5 .,": "5", "5;:": "5", `5\\`: "5", "1,2,...": "1,2,...", `\approx 5`: " 5", "≈5": "5", `\$5`: "5", `{n\choose k}`: `\binom{n}{ k}`, `1\text{e}5`: "1e5", `1\mathrm{E-}{5}`: `1\mathrm{E-}{5}`, `1\mathrm{e} 5`: "1e5",
		`1\text{e-}{5}`: "1e-5", `14 {, }9`: "14,9", `\\frac12`: `\frac12`, `1\\2`: `1\\2`, `\begin{matrix}1\\x\end{matrix}`: `\begin{matrix}1\\x\end{matrix}`,
		"5 cm": "5", "5 cm^2": "5", "5 cm^{3}": "5", "5 m m m m m m": "5", "5 m m m m m m m": "5 m m m m m m m", "5 Kilometers per hour": "5", "cm": "cm", "3m": "3m", "3 m": "3", "3km": "3", "x m": "x m", "(x) m": "(x)", `\frac{1}{2} m`: `\frac{1}{2}`,
		"5+ cm": "5+ cm", "3m km": "3m km", "x_m": "x_m", `5 \cm`: `5 \cm`, `{m`: "{m", "50 percent": `50\%`, "50 pct": `50\%`, "percent": `\%`, "5 of the apples": "5", "5 of xs": "5 of xs",
	} {
		if got := normalize(text); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"2e-5": true, "2.e-5": true, "2e+5": true, "12e-15": true, "2e5": false, "xe-5": false, "e-5": false, "2e-": false, "2e-5x": false, "2f-5": false, "": false, "1": false,
	} {
		if got := signedExponent(text); got != want {
			t.Errorf("%q has a signed exponent: %v", text, got)
		}
	}
	for text, want := range map[string]bool{
		"": false, "xy": false, "xyz": true, "sin(x)": false, `\alpha x`: false, "x+abc": true, "ab cd": false, "pi": false, "Infinity": false, "ab five": true,
	} {
		if got := prose(text); got != want {
			t.Errorf("%q is prose: %v", text, got)
		}
	}
	for text, want := range map[string]bool{
		"5": true, "-5": true, "1.5": true, "1,5": true, "": false, "1.": false, ".5": false, "--5": false, "5x": false, "1.2.3": false,
	} {
		if got := simpleNumber(text); got != want {
			t.Errorf("%q is a simple number: %v", text, got)
		}
	}
	for text, want := range map[string]bool{"i": true, "2 i": true, "i+1": true, "2i": false, "i2": false, "xi": false, "ix": false, "i i2": true, "": false} {
		if got := apart(text); got != want {
			t.Errorf("an i stands apart in %q: %v", text, got)
		}
	}
}
