package answer

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// MaxDigits bounds the digits of one number that is read, so that scoring a response costs
// little whatever a policy writes.
const MaxDigits = 1000

var (
	errNotANumber   = errors.New("not a number")
	errTooLong      = fmt.Errorf("a number of more than %d digits", MaxDigits)
	errZeroDivision = errors.New("a fraction with denominator 0")
)

// number is an exact value and how it was written.
type number struct {
	value   *big.Rat
	decimal bool // written with a point
}

// literal is a number as it stands in a text, still unread: at most one of
// a decimal (whole, fraction) and a rational (whole if mixed, numerator,
// denominator).
type literal struct {
	negative               bool
	whole                  string // digits before the point, or the whole part of a mixed number; commas included
	fraction               string // digits after the point
	point                  bool
	numerator, denominator string
	exponent               string // of a number in scientific notation, with its sign
}

// scanLiteral reads the longest number at the start of s and returns its
// length in bytes, 0 if there is none. The forms are
//
//	12  +12  -12  1,234  1.5  .5  3/4  1 3/4  \frac{3}{4}  1\frac{3}{4}  6.63e-34
//
// with ASCII digits, and U+2212 as another minus sign.
func scanLiteral(s string) (literal, int) {
	var lit literal
	at := 0
	switch {
	case strings.HasPrefix(s, "-"):
		lit.negative, at = true, 1
	case strings.HasPrefix(s, "−"):
		lit.negative, at = true, len("−")
	case strings.HasPrefix(s, "+"):
		at = 1
	}
	if strings.HasPrefix(s[at:], `\$`) {
		at += 2
	} else if strings.HasPrefix(s[at:], "$") {
		at++
	}

	n := groupedDigits(s[at:])
	lit.whole = s[at : at+n]
	at += n
	if m := scanFrac(s[at:], &lit); m > 0 {
		return lit, at + m
	}
	if at < len(s) && s[at] == '.' {
		if m := digits(s[at+1:]); m > 0 {
			lit.point, lit.fraction = true, s[at+1:at+1+m]
			at += 1 + m
			return lit, at + scanExponent(s[at:], &lit)
		}
	}
	if n == 0 {
		return literal{}, 0
	}

	if m := scanExponent(s[at:], &lit); m > 0 {
		return lit, at + m
	}

	// A plain fraction, or after blanks the fraction of a mixed number.
	if num, den, m := scanSlash(s[at:], lit.whole); m > 0 {
		lit.whole, lit.numerator, lit.denominator = "", num, den
		return lit, at + m
	}
	top := at + spaces(s[at:])
	over := top + digits(s[top:])
	if num, den, m := scanSlash(s[over:], s[top:over]); m > 0 {
		lit.numerator, lit.denominator = num, den
		return lit, over + m
	}
	return lit, at
}

// scanExponent reads the exponent of 6.63e-34, 1.5E3 and 1e-5. 2e5 has none: it
// is a number in base 15.
func scanExponent(s string, lit *literal) int {
	if s == "" || s[0]|0x20 != 'e' {
		return 0
	}
	at := 1
	if at < len(s) && (s[at] == '-' || s[at] == '+') {
		at++
	}
	n := digits(s[at:])
	if n == 0 || word(s[at:]) > n || at == 1 && !lit.point {
		return 0
	}
	lit.exponent = strings.TrimPrefix(s[1:at+n], "+")
	lit.point = lit.point || s[1] == '-'
	return at + n
}

// scanSlash reads "/ 4" after a numerator.
func scanSlash(s, before string) (numerator, denominator string, n int) {
	at := spaces(s)
	if at >= len(s) || s[at] != '/' {
		return "", "", 0
	}
	at++
	at += spaces(s[at:])
	d := digits(s[at:])
	if d == 0 {
		return "", "", 0
	}
	return before, s[at : at+d], at + d
}

// scanFrac reads \frac{3}{4}, \dfrac{3}{4} or \tfrac{3}{4}.
func scanFrac(s string, lit *literal) int {
	for _, name := range []string{`\frac{`, `\dfrac{`, `\tfrac{`} {
		if !strings.HasPrefix(s, name) {
			continue
		}
		at := len(name)
		n := digits(s[at:])
		if n == 0 || !strings.HasPrefix(s[at+n:], "}{") {
			return 0
		}
		d := digits(s[at+n+2:])
		if d == 0 || !strings.HasPrefix(s[at+n+2+d:], "}") {
			return 0
		}
		lit.numerator, lit.denominator = s[at:at+n], s[at+n+2:at+n+2+d]
		return at + n + 2 + d + 1
	}
	return 0
}

// read turns the literal into its exact value.
func (l literal) read() (number, error) {
	if len(l.whole)+len(l.fraction)+len(l.numerator)+len(l.denominator) > MaxDigits*4/3 {
		return number{}, errTooLong
	}
	whole, numerator := strings.ReplaceAll(l.whole, ",", ""), strings.ReplaceAll(l.numerator, ",", "")
	if len(whole)+len(l.fraction)+len(numerator)+len(l.denominator) > MaxDigits {
		return number{}, errTooLong
	}
	value := new(big.Rat)
	if whole+l.fraction != "" {
		top, bottom := integer(whole+l.fraction), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(l.fraction))), nil)
		value.SetFrac(top, bottom)
	}
	if l.exponent != "" {
		size, err := strconv.Atoi(l.exponent)
		if err != nil || size > MaxDigits || size < -MaxDigits {
			return number{}, errTooLong
		}
		factor := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(size, -size))), nil))
		if size < 0 {
			factor.Inv(factor)
		}
		value.Mul(value, factor)
	}
	if l.denominator != "" {
		bottom := integer(l.denominator)
		if bottom.Sign() == 0 {
			return number{}, errZeroDivision
		}
		value.Add(value, new(big.Rat).SetFrac(integer(numerator), bottom))
	}
	if l.negative {
		value.Neg(value)
	}
	return number{value: value, decimal: l.point}, nil
}

// integer reads a string of ASCII digits.
func integer(s string) *big.Int {
	value, _ := new(big.Int).SetString(s, 10)
	return value
}

// parseNumber reads a text that is one number and nothing else but blanks
// around it, one pair of dollar signs (a formula) and one final full stop.
func parseNumber(s string) (number, error) {
	s = strings.TrimSuffix(strings.TrimSpace(s), ".")
	if len(s) > 1 && s[0] == '$' && s[len(s)-1] == '$' {
		s = strings.TrimSpace(s[1 : len(s)-1])
	}
	lit, n := scanLiteral(s)
	if n == 0 || n != len(s) {
		return number{}, errNotANumber
	}
	return lit.read()
}

// Integer reads a text that is one whole number and is written without a point.
func Integer(text string) (value *big.Int, ok bool) {
	n, err := parseNumber(text)
	if err != nil || n.decimal || !n.value.IsInt() {
		return nil, false
	}
	return n.value.Num(), true
}

// WithoutGrouping is the text without the commas between its thousands, if it
// is a single number, and else as it is.
func WithoutGrouping(text string) string {
	if lit, n := scanLiteral(text); n == len(text) && strings.Contains(lit.whole, ",") {
		return strings.ReplaceAll(text, ",", "")
	}
	return text
}

// equalNumbers compares two numbers: exactly, unless places is positive and
// one of them was written with a point; then both are rounded to that many
// places, halves away from zero.
func equalNumbers(a, b number, places int) bool {
	if places > 0 && (a.decimal || b.decimal) {
		return rounded(a.value, places) == rounded(b.value, places)
	}
	return a.value.Cmp(b.value) == 0
}

// rounded writes a value with so many places; what rounds to zero has no sign.
func rounded(value *big.Rat, places int) string {
	s := value.FloatString(places)
	if strings.Trim(s, "-0.") == "" {
		return "0"
	}
	return s
}

// groupedDigits is the length of the digits at the start of s, where commas
// may group them by three: "1,234,567". A comma that does not group is not
// part of the number: "1,2" starts with 1.
func groupedDigits(s string) int {
	n := digits(s)
	if n == 0 || n > 3 {
		return n
	}
	for {
		rest := s[n:]
		if len(rest) < 4 || rest[0] != ',' || digits(rest[1:min(len(rest), 5)]) != 3 {
			return n
		}
		n += 4
	}
}

func digits(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}

func spaces(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
