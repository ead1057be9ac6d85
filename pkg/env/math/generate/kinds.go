package generate

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env/math/generate/deepmind"
)

// span is a range of whole numbers, both ends included.
type span struct{ low, high int64 }

// kind is one family of generated problems. A problem is one value from each
// span, and no two choices make the same question.
type kind struct {
	name  string
	spans func(level int) []span
	build func(level int, v []int64) (question, answer string)
}

// kinds are the families that can be counted, levels 1 to 9. "n digits" means exactly n, without
// a leading zero, except that one digit may be 0.
//
//	add       12+34           level digits each
//	sub       12-34           level digits each
//	mul       12*3            level+1 digits in all
//	div       56/7            exact: divisor at least 2, and level+1 digits in divisor and quotient together
//	compare   max(3,5) min(3,5) 3<5   level digits each; 3<5 asks True or False
//	mod       13 mod 5        level+1 digits, modulus of half the level's, at least 2
//	chain     12+34-56        level digits each, any signs
//	linear    3*x-4=11        level digits in both factors and the summand; asks x, which is not 0
//	fraction  1/2+1/3         level digits each; + - or *; the answer is in lowest terms
//	decimal   1.5-2.3         level digits before the point and level after
var kinds = []kind{
	{"add", two, func(_ int, v []int64) (string, string) {
		return fmt.Sprintf("%d+%d", v[0], v[1]), whole(v[0] + v[1])
	}},
	{"sub", two, func(_ int, v []int64) (string, string) {
		return fmt.Sprintf("%d-%d", v[0], v[1]), whole(v[0] - v[1])
	}},
	{"mul", shared(0), func(_ int, v []int64) (string, string) {
		return fmt.Sprintf("%d*%d", v[0], v[1]), whole(v[0] * v[1])
	}},
	{"div", shared(2), func(_ int, v []int64) (string, string) {
		return fmt.Sprintf("%d/%d", v[0]*v[1], v[1]), whole(v[0])
	}},
	{"compare", func(level int) []span {
		return []span{{0, 2}, ofDigits(level, 0), ofDigits(level, 0)}
	}, buildCompare},
	{"mod", func(level int) []span {
		return []span{ofDigits(level+1, 0), ofDigits((level+1)/2, 2)}
	}, func(_ int, v []int64) (string, string) {
		return fmt.Sprintf("%d mod %d", v[0], v[1]), whole(v[0] % v[1])
	}},
	{"chain", func(level int) []span {
		n := ofDigits(level, 0)
		return []span{{0, 1}, {0, 1}, n, n, n}
	}, func(_ int, v []int64) (string, string) {
		return fmt.Sprintf("%d%c%d%c%d", v[2], sign(v[0]), v[3], sign(v[1]), v[4]), whole(v[2] + signed(v[0], v[3]) + signed(v[1], v[4]))
	}},
	{"linear", func(level int) []span {
		return []span{{0, 1}, {0, 1}, ofDigits(level, 2), ofDigits(level, 1), ofDigits(level, 1)}
	}, func(_ int, v []int64) (string, string) {
		x := signed(v[0], v[3])
		return fmt.Sprintf("%d*x%c%d=%d", v[2], sign(v[1]), v[4], v[2]*x+signed(v[1], v[4])), whole(x)
	}},
	{"fraction", func(level int) []span {
		top, bottom := ofDigits(level, 1), ofDigits(level, 2)
		return []span{{0, 2}, top, bottom, top, bottom}
	}, buildFraction},
	{"decimal", func(level int) []span {
		n := ofDigits(2*level, 0)
		return []span{{0, 1}, n, n}
	}, func(level int, v []int64) (string, string) {
		result := places(v[1]+signed(v[0], v[2]), level)
		if strings.Contains(result, ".") {
			result = strings.TrimRight(strings.TrimRight(result, "0"), ".")
		}
		return places(v[1], level) + string(sign(v[0])) + places(v[2], level), result
	}},
}

// Kinds lists the kinds of generated problems: those above, then the modules
// of DeepMind's Mathematics Dataset by their own names, whose levels are its
// entropies (package deepmind).
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return append(names, deepmind.Modules()...)
}

// kindNamed finds a kind. One of package deepmind has a name alone.
func kindNamed(name string) (kind, bool) {
	if at := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name }); at >= 0 {
		return kinds[at], true
	}
	return kind{name: name}, slices.Contains(deepmind.Modules(), name)
}

func two(level int) []span { return []span{ofDigits(level, 0), ofDigits(level, 0)} }

// shared gives level+1 digits to two numbers, the longer first, the second
// not below a bound.
func shared(least int64) func(int) []span {
	return func(level int) []span {
		return []span{ofDigits((level+2)/2, 0), ofDigits((level+1)/2, least)}
	}
}

// ofDigits is the span of the numbers of n digits that are not below least.
func ofDigits(n int, least int64) span {
	low := int64(0)
	high := int64(9)
	for range n - 1 {
		low, high = high+1, high*10+9
	}
	return span{max(low, least), high}
}

func buildCompare(_ int, v []int64) (string, string) {
	switch v[0] {
	case 0:
		return fmt.Sprintf("max(%d,%d)", v[1], v[2]), whole(max(v[1], v[2]))
	case 1:
		return fmt.Sprintf("min(%d,%d)", v[1], v[2]), whole(min(v[1], v[2]))
	}
	if v[1] < v[2] {
		return fmt.Sprintf("%d<%d", v[1], v[2]), "True"
	}
	return fmt.Sprintf("%d<%d", v[1], v[2]), "False"
}

func buildFraction(_ int, v []int64) (string, string) {
	a, b := big.NewRat(v[1], v[2]), big.NewRat(v[3], v[4])
	question := fmt.Sprintf("%d/%d%c%d/%d", v[1], v[2], "+-*"[v[0]], v[3], v[4])
	switch v[0] {
	case 0:
		a.Add(a, b)
	case 1:
		a.Sub(a, b)
	default:
		a.Mul(a, b)
	}
	return question, a.RatString()
}

func whole(n int64) string { return strconv.FormatInt(n, 10) }

func sign(minus int64) byte { return "+-"[minus] }

func signed(minus, n int64) int64 {
	if minus == 1 {
		return -n
	}
	return n
}

// places writes n / 10^digits with that many digits after the point.
func places(n int64, digits int) string {
	return big.NewRat(n, ofDigits(digits, 1).high+1).FloatString(digits)
}
