package mathverify

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// functions are the names that take an argument, with or without a backslash.
var functions = []string{
	"arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc", "asin", "acos", "atan",
	"sinh", "cosh", "tanh", "coth", "sin", "cos", "tan", "cot", "sec", "csc",
	"ln", "lg", "log", "exp", "sqrt", "cbrt", "max", "min", "gcd", "lcm", "det", "abs", "floor", "ceil", "sgn",
}

// unary are functions of which more arguments have no meaning that is agreed on:
// log(8, 2) may be one of either base.
var unary = []string{"sqrt", "cbrt", "exp", "log", "lg"}

// inverses are what f^{-1} means for a named function.
var inverses = map[string]string{
	"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec", "csc": "arccsc",
}

// mathWord reports whether a word is the name of a function or number.
func mathWord(word string) bool {
	return slices.Contains(functions, word) || word == "pi" || word == "inf" || word == "infinity"
}

var aliases = map[string]string{"asin": "arcsin", "acos": "arccos", "atan": "arctan"}

// primary reads what stands alone: a number, a name, a bracket, a command.
func (p *parser) primary() *node {
	if !p.enter() {
		return nothing
	}
	defer p.leave()
	p.blanks()
	if p.at >= len(p.text) {
		return p.fail(errParse)
	}
	c := p.text[p.at]
	switch {
	case c >= '0' && c <= '9' || c == '.' && digitAt(p.text, p.at+1):
		return p.number()
	case c == '(' || c == '[':
		return p.bracket(c)
	case c == '{':
		return p.group()
	case c == '|':
		return p.bar("|", "|")
	case c == '\\':
		return p.command()
	case letterAt(p.text, p.at):
		return p.letters()
	case p.literal("∞"):
		return constant("infinity")
	case p.literal("√"):
		return squareRoot(p.argument(true))
	case p.literal("∅"):
		return &node{kind: kindNamedSet, name: "empty"}
	}
	return p.fail(errParse)
}

func constant(name string) *node { return &node{kind: kindConstant, name: name} }

func squareRoot(n *node) *node { return power(n, number(big.NewRat(1, 2))) }

// number reads digits with thousands and a decimal point: 1234, 1,234.5, .5,
// 0.\overline{3}.
func (p *parser) number() *node {
	start := p.at
	whole := p.digits()
	// 1,234,567: groups of three after a first group of up to three.
	if n := len(whole); n >= 1 && n <= 3 && whole != "0" {
		for n := p.group3(); n > 0; n = p.group3() {
			whole += p.text[p.at+n-3 : p.at+n]
			p.at += n
		}
	}
	if len(whole) > maxBits/4 {
		return p.fail(errBudget)
	}
	fraction, decimal := "", false
	if p.at < len(p.text) && p.text[p.at] == '.' && !strings.HasPrefix(p.text[p.at:], "...") {
		p.at++
		fraction = p.digits()
		decimal = true
		if fraction == "" && !strings.HasPrefix(p.text[p.at:], `\overline{`) {
			decimal = false
		}
	}
	if len(fraction) > maxBits/4 || p.at == start {
		return p.fail(errBudget)
	}
	value, _ := new(big.Rat).SetString("0" + whole + "." + fraction + "0") // digits
	if m := mixed().FindStringSubmatch(p.text[p.at:]); m != nil && !decimal {
		if part, ok := new(big.Rat).SetString(m[1]); ok { // the denominator is not 0
			p.at += len(m[0])
			return number(value.Add(value, part))
		}
	}
	if decimal && p.literal(`\overline{`) {
		repeated := p.digits()
		if repeated == "" || len(repeated) > 64 || !p.literal("}") {
			return p.fail(errParse)
		}
		// 0.f(r) = 0.f + r / (10^|f| · (10^|r| - 1))
		period := new(big.Int).Sub(pow10(len(repeated)), big.NewInt(1))
		top, _ := new(big.Int).SetString(repeated, 10)
		value.Add(value, new(big.Rat).SetFrac(top, period.Mul(period, pow10(len(fraction)))))
		decimal = false
	}
	return p.scaled(&node{kind: kindNumber, value: value, decimal: decimal})
}

// mixed is the fraction of a mixed number in plain notation: 1 3/4.
var mixed = lazyregexp.New(`^ +([0-9]{1,9}/[0-9]{1,9})\b`)

// group3 is the length of a separator with exactly three digits behind it. A comma
// in brackets separates values.
func (p *parser) group3() int {
	rest := p.text[p.at:]
	if !p.tuple && groupOfThree(rest) {
		return 4
	}
	for _, blank := range []string{" ", "~", `\,`, `\;`, `\:`, `\ `} {
		if behind, ok := strings.CutPrefix(rest, blank); ok && groupOfThree(","+behind) {
			return len(blank) + 3
		}
	}
	return 0
}

// scaled reads the exponent of a number in scientific notation: 6.63e-34.
func (p *parser) scaled(n *node) *node {
	const written = 1000 // the largest exponent of a number that is written out
	if p.euler || p.at >= len(p.text) || p.text[p.at]|0x20 != 'e' {
		return n
	}
	m := exponent().FindStringSubmatch(p.text[p.at:])
	if m == nil {
		return n
	}
	end := p.at + len(m[0])
	if letterAt(p.text, end) || end < len(p.text) && strings.IndexByte("^_{", p.text[end]) >= 0 {
		return n
	}
	if len(m[2]) > 18 {
		return p.fail(errBudget)
	}
	p.at = end
	size, _ := strconv.ParseInt(m[2], 10, 64)
	negative := m[1] != "" && m[1] != "+"
	decimal := n.decimal || negative
	if size > written {
		if negative {
			size = -size
		}
		return operation(kindProduct, n, power(integer(10), integer(size)))
	}
	factor := new(big.Rat).SetInt(pow10(int(size)))
	if negative {
		factor.Inv(factor)
	}
	return &node{kind: kindNumber, value: factor.Mul(factor, n.value), decimal: decimal}
}

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func (p *parser) digits() string {
	start := p.at
	for digitAt(p.text, p.at) {
		p.at++
	}
	return p.text[start:p.at]
}

// groupOfThree reports whether s begins with a comma and exactly three digits.
func groupOfThree(s string) bool {
	return len(s) >= 4 && s[0] == ',' && digitAt(s, 1) && digitAt(s, 2) && digitAt(s, 3) && !digitAt(s, 4)
}

// bracket reads ( … ) and [ … ]: a group, or a tuple or interval. The closing
// bracket may be of the other sort, as of half-open intervals.
func (p *parser) bracket(open byte) *node {
	p.at++
	bars, brace, tuple := p.bars, p.brace, p.tuple
	p.bars, p.brace, p.tuple = 0, false, true
	var items []*node
	closing := byte(0)
	for p.failed == nil {
		p.blanks()
		if p.at >= len(p.text) {
			p.fail(errParse)
			break
		}
		if c := p.text[p.at]; c == ')' || c == ']' {
			p.at++
			closing = c
			break
		}
		if p.separator() || p.ellipsis() {
			continue
		}
		items = append(items, p.relation())
		if len(items) > maxListItems {
			p.fail(errBudget)
		}
		p.blanks()
		if p.failed == nil && p.at < len(p.text) && p.text[p.at] != ')' && p.text[p.at] != ']' && !p.peekSeparator() && !p.peekEllipsis() {
			p.fail(errParse)
		}
	}
	p.bars, p.brace, p.tuple = bars, brace, tuple
	switch {
	case p.failed != nil:
		return nothing
	case len(items) == 0:
		return p.fail(errParse)
	case len(items) == 1:
		return items[0]
	}
	return &node{kind: kindTuple, args: items, open: open, close: closing}
}

// bar reads an absolute value, whose opening sign stands here.
func (p *parser) bar(open, closing string) *node {
	p.at += len(open)
	p.bars++
	inner := p.sum()
	p.bars--
	p.blanks()
	if !p.literal(closing) {
		p.fail(errParse)
	}
	return function("abs", inner)
}

// letters reads a run of letters: a known name, words, or factors one by one.
func (p *parser) letters() *node {
	const longestName = 24 // bytes; no name that is known is longer
	rest := p.text[p.at:]
	end := 0
	for end < longestName && letterAt(rest, end) {
		_, size := utf8.DecodeRuneInString(rest[end:])
		end += size
	}
	run := strings.ToLower(rest[:end])
	switch run {
	case "pi", "π":
		p.at += end
		return constant("pi")
	case "infinity", "inf", "oo":
		p.at += end
		return constant("infinity")
	case "where", "for", "if", "with":
		return p.fail(errParse) // a condition, not a value
	}
	for _, name := range functions {
		if run == name {
			p.at += end
			return p.call(name)
		}
	}
	_, size := utf8.DecodeRuneInString(rest)
	letter := rest[:size]
	p.at += size
	switch {
	case letter == "e" && end == size:
		return constant("e")
	case letter == "i" && end == size:
		return constant("i")
	case letter == "π":
		return constant("pi")
	}
	if end == size && p.applied(letter) {
		p.blanks()
		return p.unknownFunction(strings.ToLower(letter))
	}
	// Within a run, e and i are factors like any other letter unless a number
	// stands before the run, as in 2i or 3ex.
	return p.subscripted(letter)
}

// applied reports whether a letter is a function's name: f, g and h before any
// bracket, and other letters before names and numbers alone, as in P(x) and
// a(2); x(y+1) is a product.
func (p *parser) applied(letter string) bool {
	rest := strings.TrimLeft(p.text[p.at:], " ")
	if strings.HasPrefix(rest, `\left`) {
		rest = strings.TrimLeft(rest[len(`\left`):], " ")
	}
	if !strings.HasPrefix(rest, "(") {
		return false
	}
	if strings.Contains("fghFGH", letter) {
		return true
	}
	inner, _, closed := strings.Cut(rest[1:], ")")
	return closed && !strings.ContainsFunc(strings.TrimSuffix(inner, `\right`), func(r rune) bool {
		return r != ' ' && r != ',' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) && !slices.ContainsFunc(strings.FieldsFunc(strings.TrimSuffix(inner, `\right`), func(r rune) bool { return r == ' ' || r == ',' }), func(word string) bool {
		number := strings.Trim(word, "0123456789") == ""
		return !number && utf8.RuneCountInString(word) != 1
	})
}

// unknownFunction reads f(x).
func (p *parser) unknownFunction(name string) *node {
	arg := p.bracket('(')
	if arg.kind == kindTuple {
		return function(name+"()", arg.args...)
	}
	return function(name+"()", arg)
}

// subscripted reads the subscript of a name: x_1 and x_{1} are one symbol.
func (p *parser) subscripted(name string) *node {
	name = strings.ToLower(name)
	if strings.HasPrefix(p.text[p.at:], "_") {
		p.at++
		start := p.at
		if p.at < len(p.text) && p.text[p.at] == '{' {
			end := closingBrace(p.text, p.at)
			if end < 0 {
				return p.fail(errParse)
			}
			p.at = end + 1
			return &node{kind: kindSymbol, name: name + "_" + compact(p.text[start+1:end])}
		}
		_, length := command(p.text[p.at:])
		_, size := utf8.DecodeRuneInString(p.text[p.at:])
		p.at += max(length, size)
		return &node{kind: kindSymbol, name: name + "_" + compact(p.text[start:p.at])}
	}
	return &node{kind: kindSymbol, name: name}
}

// compact drops blanks and case.
func compact(s string) string {
	return strings.ToLower(strings.Join(strings.Fields(s), ""))
}

// closingBrace finds the brace that closes the one at i; -1 when none does.
func closingBrace(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// call reads what follows a function's name: a power, a base, the argument.
func (p *parser) call(name string) *node {
	if alias, ok := aliases[name]; ok {
		name = alias
	}
	var exponent, base *node
	for p.failed == nil {
		p.blanks()
		if p.literal("^") {
			exponent = p.argument(true)
		} else if p.literal("_") {
			base = p.argument(true)
		} else {
			break
		}
	}
	if exponent != nil && exponent.kind == kindNumber && exponent.value.Cmp(big.NewRat(-1, 1)) == 0 && inverses[name] != "" {
		name, exponent = inverses[name], nil
	}
	args := p.callArguments(name)
	if len(args) > 1 && slices.Contains(unary, name) {
		return p.fail(errParse)
	}
	var n *node
	switch name {
	case "sqrt":
		n = squareRoot(args[0])
	case "cbrt":
		n = power(args[0], number(big.NewRat(1, 3)))
	case "exp":
		n = power(constant("e"), args[0])
	case "log", "lg":
		if base == nil {
			base = integer(10)
		}
		n = function("log", args[0], base)
	default:
		n = function(name, args...)
	}
	if exponent != nil {
		n = power(n, exponent)
	}
	return n
}

// callArguments reads (a, b), {a}, or the factors up to the next sign or
// function: sin 2x cos y is sin(2x)·cos y.
func (p *parser) callArguments(name string) []*node {
	p.blanks()
	if p.at < len(p.text) && p.text[p.at] == '(' {
		arg := p.bracket('(')
		if arg.kind == kindTuple {
			return arg.args
		}
		return []*node{arg}
	}
	if p.at < len(p.text) && p.text[p.at] == '{' {
		return []*node{p.group()}
	}
	if name == "sqrt" {
		return []*node{p.argument(true)}
	}
	arg := p.signedFactor()
	for p.failed == nil {
		p.blanks()
		if p.startsFunction() || !p.startsFactor() || p.text[p.at] == '(' {
			break
		}
		arg = juxtapose(arg, p.factor())
	}
	return []*node{arg}
}

func (p *parser) startsFunction() bool {
	rest := p.text[p.at:]
	if rest != "" && rest[0] == '\\' {
		name, _ := command(rest)
		return slices.Contains(functions, name) && name != "sqrt"
	}
	return slices.ContainsFunc(functions, func(f string) bool { return strings.HasPrefix(rest, f) })
}
