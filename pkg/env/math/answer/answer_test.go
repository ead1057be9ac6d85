package answer

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/mathverify"
)

func exact(t testing.TB, settings Settings) Exact {
	t.Helper()
	if settings.Extract == ExtractMarked && settings.Marker == "" {
		settings.Marker = "####"
	}
	v, err := NewExact(settings)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The judgements of the tables.
const (
	equal      = "equal"
	wrong      = "wrong" // read, and not equal
	unreadable = "unreadable"
)

func judgement(v Verification) string {
	switch {
	case v.Equal && v.Readable:
		return equal
	case v.Readable:
		return wrong
	case v.Equal:
		return "equal and unreadable"
	}
	return unreadable
}

func TestVerifyWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", MaxDigits)
	tests := []struct {
		gold, response, want string
	}{
		// Integers.
		{"46", "46", equal},
		{"46", " 46\n", equal},
		{"46", "46.", equal},
		{"46", "+46", equal},
		{"46", "046", equal},
		{"46", "46.0", equal},
		{"46", "$", unreadable},
		{"no!x", "no ! x", equal}, // blanks beside signs, from ! to ~
		{"~a/b:c@d[e`f{g", "~ a / b : c @ d [ e ` f { g", equal},
		{"a0b", "a 0 b", wrong},
		{"46", "$46", equal},
		{"46", `\$46`, equal},
		{"46", "$46$", equal},
		{"46", "92/2", equal},
		{"46", "45", wrong},
		{"46", "-46", wrong},
		{"-46", "−46", equal}, // U+2212
		{"-46", "-$46", equal},
		{"0", "-0", equal},
		{"1234567", "1,234,567", equal},
		{"1,234", "1234", equal},
		{"1234", "12,34", unreadable},
		{"1234", "1,2345", unreadable},
		{"1234", "1,234,", unreadable},
		{"1234", "1, 234", unreadable},
		// Rationals.
		{"1/2", "2/4", equal},
		{"1/2", "0.5", equal},
		{"1/2", ".5", equal},
		{"1/2", "1 / 2", equal},
		{"-3/17", "-3/17", equal},
		{"-3/17", "3/17", wrong},
		{"3/2", "1 1/2", equal},
		{"-3/2", "-1 1/2", equal}, // the sign is that of the whole mixed number
		{"-1/2", "-1 1/2", wrong},
		{"1000/3", "1,000/3", equal},
		{"3/4", `\frac{3}{4}`, equal},
		{"-3/4", `-\dfrac{3}{4}`, equal},
		{"7/4", `1\frac{3}{4}`, equal},
		{"3/4", `\frac34`, unreadable},
		{"1/2", "1/0", unreadable},
		{"1/2", "0/0", unreadable},
		{"1/2", "1/-2", unreadable},
		{"1/2", "1/2/3", unreadable},
		{"1/2", "/2", unreadable},
		// Decimals, compared exactly.
		{"0.3", "3/10", equal},
		{"0.3", "0.30", equal},
		{"0.3", "0.3000000000000000000000001", wrong},
		{"-27.2", "-27.2", equal},
		{"1/3", "0.333333", wrong},
		{"5", "5.", equal},
		{"5", "5..", unreadable},
		{"5", "1.2.3", unreadable},
		// What looks like a number and is not one.
		{"5", "", unreadable},
		{"5", "  \n\t ", unreadable},
		{"5", "--5", unreadable},
		{"5", "- 5", unreadable},
		{"5", "5 5", unreadable},
		{"5", "five", unreadable},
		{"16", "0x10", unreadable},
		{"100", "1e2", unreadable},
		{"100", "1E400000000", unreadable},
		{"0", "1e-999999999999999999999", unreadable},
		{"12", "١٢", unreadable}, // Arabic-Indic digits
		{"12", "１２", unreadable}, // full-width digits
		{"12", "1_2", unreadable},
		{"0", "NaN", unreadable},
		{"0", "inf", unreadable},
		{"0", "-Infinity", unreadable},
		{"50", "50%", unreadable},
		{"5", "5kg", unreadable},
		{"5", "the answer is 5", unreadable},
		{"5", "5\x00", unreadable},
		{"5", "5\xff", unreadable},
		{"5", "\u200b5", unreadable}, // a zero-width space is not trimmed
		// Bounds.
		{long, long, equal},
		{long, long + "9", unreadable},
		{"1", strings.Repeat("0", MaxDigits) + "1", unreadable},
		{"1", "1/" + strings.Repeat("7", 1<<20), unreadable},
		{"1", strings.Repeat("9", 1<<20), unreadable},
		{"1", "1" + strings.Repeat(",000", 1<<18), unreadable},
		// Words.
		{"True", "True", equal},
		{"True", "true.", equal},
		{"True", " TRUE ", equal},
		{"True", "False", wrong},
		{"True", "True False", wrong},
		{"True", "1", wrong},
		{"True", "", unreadable},
		{"b", "b", equal},
		{"b", "(b)", equal},
		{"b", "B", equal},
		{"b", "ab", wrong},
		{"-13c", "-13C", equal},
		{"2e5", "2e5", equal}, // a number in base 15, not 200000
		{"2e5", "200000", wrong},
		{"4 + 20*sqrt(3)", "4+20*sqrt(3)", equal},
		{"4 + 20*sqrt(3)", "20*sqrt(3) + 4", wrong}, // sums need the full verifier
		{"a b", "ab", wrong},
		{"a b", "a \n b", equal},
		{"yes", strings.Repeat("yes", MaxBytes), unreadable},
		// Lists keep their order.
		{"-3, 4", "-3, 4", equal},
		{"-3, 4", "-3,4", equal},
		{"-3, 4", "−3, 8/2", equal},
		{"-3, 4", "4, -3", wrong},
		{"-3, 4", "+3, 4", wrong},
		{"-3, 4", "-3", wrong},
		{"-3, 4", "-3, 4, 4", wrong},
		{"-3, 4", "-3, ", wrong},
		{"8, s, -3", "8,S,-3", equal},
		{"100, 200", "100,200", wrong}, // without a blank this is a number
		{"f(1, 2)", "f(1,2)", equal},
		// A reference that is missing is nobody's answer.
		{"", "", unreadable},
		{" ", "x", unreadable},
		{".", "", unreadable},
	}
	verifier := exact(t, Settings{Extract: ExtractWhole})
	for _, test := range tests {
		got := verifier.Verify(test.gold, test.response)
		if judgement(got) != test.want {
			t.Errorf("Verify(%q, %q) is %s, want %s (%s)", mathverify.Clip(test.gold), mathverify.Clip(test.response), judgement(got), test.want, got.Why)
		}
	}
}

func TestVerifyDecimalPlaces(t *testing.T) {
	t.Parallel()
	tests := []struct {
		places         int
		gold, response string
		want           string
	}{
		{0, "1/3", "0.33", wrong},
		{2, "1/3", "0.33", equal},
		{2, "1/3", "0.34", wrong},
		{2, "1/3", "33/100", wrong}, // no point in either: exact
		{2, "0.125", "0.13", equal}, // halves away from zero
		{2, "-0.125", "-0.13", equal},
		{2, "-0.125", "-0.12", wrong},
		{2, "0", "-0.001", equal},
		{2, "0.005", "0.00", wrong},
		{6, "0.3333333", "1/3", equal},
		{1, "5, 0.25", "5, 0.3", equal},
	}
	for _, test := range tests {
		verifier := exact(t, Settings{Extract: ExtractWhole, DecimalPlaces: test.places})
		if got := verifier.Verify(test.gold, test.response); judgement(got) != test.want {
			t.Errorf("to %d places, Verify(%q, %q) is %s, want %s", test.places, test.gold, test.response, judgement(got), test.want)
		}
	}
}

func TestVerifyExtraction(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mode, gold, response string
		want, extracted      string
	}{
		{ExtractLast, "22", "She has 5 + 17 = 22 apples.", equal, "22"},
		{ExtractLast, "18", "18 a day, that is $18.", equal, "$18"},
		{ExtractLast, "3", "5-3", equal, "3"},
		{ExtractLast, "-3", "x = -3", equal, "-3"},
		{ExtractLast, "-3", "x=−3", equal, "−3"},
		{ExtractLast, "-22", "12-34=-22", equal, "-22"},
		{ExtractLast, "3", "(2)-3", equal, "3"},
		{ExtractLast, "5", "x2 is 5 for x2", equal, "5"},
		{ExtractLast, "5", "it weighs 5kg", equal, "5"},
		{ExtractLast, "150", "up by 150%", equal, "150"},
		{ExtractLast, "70000", "about 70,000 dollars", equal, "70,000"},
		{ExtractLast, "3/4", "so 3/4.", equal, "3/4"},
		{ExtractLast, "16", "16 is 0x10", unreadable, "0x10"},
		{ExtractLast, "12", "12e400", unreadable, "12e400"},
		{ExtractLast, "12", "12e-4", wrong, "12e-4"},
		{ExtractLast, "0.0012", "it is 12e-4.", equal, "12e-4"},
		{ExtractLast, "1500", "1.5E3 apples", equal, "1.5E3"},
		{ExtractLast, "12", "<think>13</think><answer>12</answer>", equal, "12"},
		{ExtractLast, "12", "12</s>", equal, "12"},
		{ExtractLast, "12", "12<|im_end|>", equal, "12"},
		{ExtractLast, "12", "the answer is `12`", equal, "12"},
		{ExtractLast, "Tuesday", "<answer>Tuesday</answer><|endoftext|>", equal, "Tuesday"},
		{ExtractLast, "12", "12e-4000", unreadable, "12e-4000"}, // of more digits than are read
		{ExtractLast, "5", "12e- 5", equal, "5"},
		{ExtractLast, "12", "12e-4x", unreadable, "12e-4"},
		{ExtractLast, "1/2", "1/2E+4", unreadable, "1/2E+4"}, // a fraction has no exponent
		{ExtractLast, "1/2", "1/2e-", equal, "1/2"},
		{ExtractLast, "12", "12e4", unreadable, "12e4"},
		{ExtractLast, "3", "5+3", equal, "3"},
		{ExtractLast, "3", "٣-3", equal, "3"},
		{ExtractLast, "3", "1 ++3", unreadable, "++3"},
		{ExtractLast, "3", "1 −-3", unreadable, "−-3"},
		{ExtractLast, "7", "--5 and 7", equal, "7"},
		{ExtractLast, "2", "1/2/", wrong, "1/2"},
		{ExtractLast, "a b", "a\nb", wrong, "b"}, // of the last line
		{ExtractLast, "1", "version 3.1.4", unreadable, "3.1.4"},
		{ExtractLast, "1", "1/2/3", unreadable, "1/2/3"},
		{ExtractLast, "5", "is --5", unreadable, "--5"},
		{ExtractLast, "12", "12 ١٢ １２", equal, "12"},
		{ExtractLast, "1", "no digits", unreadable, ""},
		{ExtractLast, "7", "1 2 3 4 5 6 7", equal, "7"},
		{ExtractLast, "1", "1 2 3 4 5 6 7", wrong, "7"},
		{ExtractLast, "True", "That is **True**.", equal, "True"},
		{ExtractLast, "True", "True or False", wrong, "False"},
		{ExtractLast, "b", "The answer is (b)", equal, "(b)"},
		{ExtractLast, "3, 5, -301", "Sorted:\nthe order is 3, 5, -301.", equal, "3, 5, -301"},
		{ExtractLast, "5, -301", "3, 5, -301", equal, "5, -301"},
		{ExtractLast, "5, -301", "5", wrong, "5"},
		{ExtractLast, "True", "...", unreadable, ""},

		{ExtractMarked, "72", "48 + 24 = 72\n#### 72", equal, "72"},
		{ExtractMarked, "72", "#### 71\n#### 72", equal, "72"},
		{ExtractMarked, "72", "#### 72\n#### 71", wrong, "71"},
		{ExtractMarked, "72", "#### 72\nand more", equal, "72"},
		{ExtractMarked, "72", "####72", equal, "72"},
		{ExtractMarked, "72", "72", unreadable, ""},
		{ExtractMarked, "72", "#### 72 ####", unreadable, ""},
		{ExtractMarked, "72", "#### 72 or 73", unreadable, "72 or 73"},
		{ExtractMarked, "2, 3", "#### 2, 3", equal, "2, 3"},
		{ExtractMarked, "72", "#### 72</s>", equal, "72"},
		{ExtractMarked, "72", "#### 72<|im_end|>", equal, "72"},
		{ExtractMarked, "72", "#### `72`", equal, "72"},
		{ExtractMarked, "72", "#### **72**", equal, "72"},
		{ExtractMarked, "72", `#### \boxed{72}`, equal, "72"},
		{ExtractMarked, "72", "<answer>#### 72</answer>", equal, "72"},
		{ExtractMarked, "72", "#### <answer>72</answer>", equal, "72"},

		{ExtractWhole, "72", "72</s>", equal, "72"},
		{ExtractWhole, "72", "<answer>72</answer>", equal, "72"},
		{ExtractWhole, "72", "<answer>71</answer>", wrong, "71"},
		{ExtractWhole, "72", "`72`", equal, "72"},
		{ExtractWhole, "72", `$\boxed{\fbox{72}}$.`, equal, "72"},
		{ExtractWhole, "True", "<answer>true</answer>", equal, "true"},

		{ExtractBoxed, "5", `so \boxed{5}`, equal, "5"},
		{ExtractBoxed, "5", `\boxed{4} no, \boxed{ 5 }.`, equal, "5"},
		{ExtractBoxed, "5", `so $\boxed 5$.`, equal, "5"},
		{ExtractBoxed, "5", `\boxed x`, unreadable, ""},
		{ExtractBoxed, "5", `\boxed {5}, not \boxed`, equal, "5"},
		{ExtractBoxed, "5", `<think>\boxed{5}</think> It is 4.`, unreadable, ""},
		{ExtractMarked, "5", "#### 5</think>\n4", unreadable, ""},
		{ExtractBoxed, "3/4", `\boxed{\frac{3}{4}}`, equal, `\frac{3}{4}`},
		{ExtractBoxed, "5", `\boxed{\boxed{5}}`, equal, "5"},
		{ExtractBoxed, "5", `\boxed{\fbox{5}}</s>`, equal, "5"},
		{ExtractBoxed, "1500", `\boxed{1.5e3}`, equal, "1.5e3"},
		{ExtractBoxed, "5", `\boxed{5`, unreadable, ""},
		{ExtractBoxed, "5", `\boxed{}`, unreadable, ""},
		{ExtractBoxed, "5", `\boxed 5`, equal, "5"},
		{ExtractBoxed, "5", `5`, unreadable, ""},
		{ExtractBoxed, "True", `\boxed{true}`, equal, "true"},
	}
	for _, test := range tests {
		got := exact(t, Settings{Extract: test.mode}).Verify(test.gold, test.response)
		if judgement(got) != test.want || got.Extracted != test.extracted {
			t.Errorf("%s: Verify(%q, %q) is %s of %q, want %s of %q (%s)", test.mode, test.gold, test.response,
				judgement(got), got.Extracted, test.want, test.extracted, got.Why)
		}
	}
}

// A policy must not be able to buy time: each text here is 1 MiB.
//
// Alone: its time is bounded.
func TestVerifyIsLinear(t *testing.T) {
	const size = 1 << 20
	units := []string{
		"9", "1 ", "1 2", "-", "--1", "1/", "1/1", "1,", "1,000", ".", "1.", "e1", "1e", `\frac{`, `\frac{1`, `\frac{1}{`,
		`\boxed{`, "{", "}", "####", "#### 1\n", "a", "a,", "१", "\xff", "1 1/", " ", "$", "_1",
	}
	for _, unit := range units {
		response := strings.Repeat(unit, size/len(unit))
		for _, mode := range []string{ExtractWhole, ExtractLast, ExtractMarked, ExtractBoxed} {
			verifier := exact(t, Settings{Extract: mode})
			for _, gold := range []string{"7", "1, True"} {
				began := cputime.Spent(t, false)
				if got := verifier.Verify(gold, response+"x"); got.Equal {
					t.Errorf("%s: %q… is equal to %q", mode, unit, gold)
				}
				if cost := cputime.Spent(t, false) - began; cost > 5*time.Second {
					t.Errorf("%s: %q… cost %v", mode, unit, cost)
				}
			}
		}
	}
}

// TestInteger: numbers that are whole and written without a point.
func TestInteger(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"12": "12", " -1,234. ": "-1234", "4/2": "2", "$7$": "7", "1 4/2": "3", "0": "0",
		"12.0": "", "1/2": "", "x": "", "": "", "1.5e1": "", "1e+1": "10", "1e-0": "",
	} {
		got := ""
		if value, ok := Integer(text); ok {
			got = value.String()
		}
		if got != want {
			t.Errorf("Integer(%q) is %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"1,234": "1234", "-1,234.5": "-1234.5", "1,234 or 5": "1,234 or 5", "12": "12", "1,2": "1,2", "1,000/3": "1,000/3"} {
		if got := WithoutGrouping(text); got != want {
			t.Errorf("WithoutGrouping(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestNewExactSettings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		settings Settings
		want     string
	}{
		{Settings{}, `env.answer.extract is "": it must be whole, last, marked or boxed`},
		{Settings{Extract: "first"}, `env.answer.extract is "first": it must be whole, last, marked or boxed`},
		{Settings{Extract: "marked"}, `env.answer.marker is "": extract: marked needs a marker of one line, for example "####"`},
		{Settings{Extract: "whole", DecimalPlaces: -1}, `env.answer.decimal_places is -1: it must be in [0, 1000]`},
	}
	for _, test := range tests {
		_, err := NewExact(test.settings)
		if err == nil || err.Error() != test.want || exitcode.Code(err) != exitcode.Usage {
			t.Errorf("NewExact(%+v) is %v (code %d), want %s", test.settings, err, exitcode.Code(err), test.want)
		}
	}
}

// Every way to write a rational is equal to its lowest terms, and to no
// neighbour.
func TestVerifyRationals(t *testing.T) {
	t.Parallel()
	verifier := exact(t, Settings{Extract: ExtractWhole})
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(-1e12, 1e12).Draw(t, "numerator")
		b := rapid.Int64Range(1, 1e6).Draw(t, "denominator")
		k := rapid.Int64Range(1, 1000).Draw(t, "factor")
		gold := big.NewRat(a, b).RatString()
		written := fmt.Sprintf("%d/%d", a*k, b*k)
		if v := verifier.Verify(gold, written); !v.Equal {
			t.Fatalf("%q is not equal to %q: %s", written, gold, v.Why)
		}
		if v := verifier.Verify(written, gold); !v.Equal {
			t.Fatalf("%q is not equal to %q: %s", gold, written, v.Why)
		}
		if v := verifier.Verify(gold, fmt.Sprintf("%d/%d", a*k+1, b*k)); v.Equal || !v.Readable {
			t.Fatalf("%q is equal to a neighbour of %q", gold, written)
		}
	})
}

func TestVerifyDecimalsAreFractions(t *testing.T) {
	t.Parallel()
	verifier := exact(t, Settings{Extract: ExtractWhole})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1e15, 1e15).Draw(t, "n")
		digits := rapid.IntRange(0, 12).Draw(t, "digits")
		value := new(big.Rat).SetFrac(big.NewInt(n), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil))
		decimal := value.FloatString(digits + rapid.IntRange(0, 3).Draw(t, "zeros"))
		if v := verifier.Verify(value.RatString(), decimal); !v.Equal {
			t.Fatalf("%q is not equal to %q: %s", decimal, value.RatString(), v.Why)
		}
		if v := verifier.Verify(decimal, value.RatString()); !v.Equal {
			t.Fatalf("%q is not equal to %q: %s", value.RatString(), decimal, v.Why)
		}
	})
}

func FuzzVerify(f *testing.F) {
	for _, gold := range []string{"46", "-3/17", "0.5", "True", "-3, 4", "7*sqrt(3)", "", ","} {
		for _, response := range []string{"", "46", "--5", "1/0", "1e9", `\boxed{\frac{3}{4}}`, "#### 1,000", "x = −3.", "(b)", "a, b", "\xff", "9\u0664"} {
			f.Add(gold, response)
		}
	}
	f.Fuzz(func(t *testing.T, gold, response string) {
		for _, mode := range []string{ExtractWhole, ExtractLast, ExtractMarked, ExtractBoxed} {
			verifier := exact(t, Settings{Extract: mode, DecimalPlaces: len(gold) % 3})
			got := verifier.Verify(gold, response)
			if got.Equal && !got.Readable {
				t.Errorf("%s: equal and unreadable", mode)
			}
			if got.Readable && got.Extracted == "" {
				t.Errorf("%s: readable, and nothing extracted", mode)
			}
			if got.Why == "" || len(got.Extracted) > 3*mathverify.MaxExtracted || !utf8.ValidString(got.Extracted) {
				t.Errorf("%s: bad verification %+v", mode, got)
			}
			if again := verifier.Verify(gold, response); again != got {
				t.Errorf("%s: %+v, then %+v", mode, got, again)
			}
		}
		whole := exact(t, Settings{Extract: ExtractWhole})
		if v := whole.Verify(gold, gold); strings.TrimSpace(gold) != "" && len(gold) <= MaxBytes && !v.Equal {
			t.Errorf("%q is not equal to itself: %s", gold, v.Why)
		}
	})
}
