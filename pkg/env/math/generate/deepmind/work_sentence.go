package deepmind

import (
	"math/big"
	"regexp"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

var (
	letValue    = lazyregexp.New(`^Let ([a-z]) (?:=|be) (.+)$`)
	letFunction = lazyregexp.New(`^Let ([a-z])\(([a-z])\) = (.+)$`)
	calls       = lazyregexp.New(`^([a-z])\((.+)\)$`)
)

// sentence works out what a sentence defines, and notes the steps. What comes
// after it says which of several unknowns are asked for.
func (w *worker) sentence(text, after string) bool {
	if equations, ok := strings.CutPrefix(text, "Suppose "); ok {
		return w.suppose(strings.Split(equations, ", "), after)
	}
	if m := letFunction().FindStringSubmatch(text); m != nil {
		body, ok := parse(m[3])
		w.functions[m[1]] = function{m[2], body}
		return ok
	}
	m := letValue().FindStringSubmatch(text)
	if m == nil {
		return false
	}
	var steps string
	var value *big.Rat
	var ok bool
	if call := calls().FindStringSubmatch(m[2]); call != nil {
		steps, value, ok = w.called(call[1], call[2])
	} else if n, parsed := parse(m[2]); parsed {
		steps, value, ok = w.reduced(n, strings.Contains(text, ".") || w.pointed(n))
	}
	if ok {
		w.define(m[1], m[1]+"="+steps, value)
	}
	return ok
}

// pointed says that a name in an expression stands for a decimal.
func (w *worker) pointed(n *node) bool {
	if n == nil {
		return false
	}
	if value, ok := w.known[n.name]; ok && n.op == 0 {
		_, exact := value.FloatPrec()
		return exact && !value.IsInt()
	}
	return w.pointed(n.left) || w.pointed(n.right)
}

// define notes the steps to a value, and its decimals if it is a fraction.
func (w *worker) define(name, steps string, value *big.Rat) {
	w.known[name] = value
	if strings.HasSuffix(steps, value.RatString()) && !value.IsInt() {
		steps += "=" + cutOff(value)
	}
	w.notes = append(w.notes, steps)
}

// called follows Horner's scheme from the highest coefficient to the value.
func (w *worker) called(name, argument string) (steps string, value *big.Rat, ok bool) {
	f, ok := w.functions[name]
	n, parsed := parse(argument)
	if !ok || !parsed {
		return "", nil, false
	}
	x, ok := w.value(n)
	if !ok {
		return "", nil, false
	}
	// The variable's letter stands for nothing else in the body.
	inner := &worker{known: map[string]*big.Rat{}}
	for known, v := range w.known {
		if known != f.variable {
			inner.known[known] = v
		}
	}
	p, ok := inner.evaluate(f.body)
	degree := 0
	for term := range p {
		if term.name != "" && term.name != f.variable {
			return "", nil, false
		}
		degree = max(degree, term.degree)
	}
	value = new(big.Rat)
	var results []string
	for ; ok && degree >= 0; degree-- {
		coefficient := power{f.variable, degree}
		if degree == 0 {
			coefficient.name = ""
		}
		value = new(big.Rat).Add(new(big.Rat).Mul(value, x), p.at(coefficient))
		results = append(results, value.RatString())
	}
	return strings.Join(results, " "), value, ok
}

// suppose solves one linear equation, or two.
func (w *worker) suppose(equations []string, after string) bool {
	var unknowns []string
	var rows []polynomial
	for _, equation := range equations {
		left, right, _ := strings.Cut(equation, " = ")
		a, okA := parse(left)
		b, okB := parse(right)
		if !okA || !okB {
			return false
		}
		row, ok := w.evaluate(&node{op: opSub, left: a, right: b})
		if !ok {
			return false
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		for term := range row {
			if term.degree > 1 {
				return false
			}
		}
	}
	for letter := 'a'; letter <= 'z'; letter++ {
		for _, row := range rows {
			if row[power{string(letter), 1}] != nil {
				unknowns = append(unknowns, string(letter))
				break
			}
		}
	}
	switch {
	case len(rows) == 1 && len(unknowns) == 1:
		x := unknowns[0]
		a, b := rows[0].at(power{x, 1}), new(big.Rat).Neg(rows[0].at(power{}))
		w.notes = append(w.notes, a.RatString()+x+"="+b.RatString())
		value := new(big.Rat).Quo(b, a)
		w.define(x, x+"="+value.RatString(), value)
		return true
	case len(rows) == 2 && len(unknowns) == 2:
		return w.cramer(rows, unknowns, after)
	}
	return false
}

// cramer solves p·x + q·y = r and s·x + t·y = u: x = (r·t - u·q) / (p·t - s·q)
// and y = (p·u - s·r) / (p·t - s·q).
func (w *worker) cramer(rows []polynomial, unknowns []string, after string) bool {
	var p, r [2][2]*big.Rat // coefficients; right sides, twice
	for i, row := range rows {
		right := new(big.Rat).Neg(row.at(power{}))
		var numbers []string
		for j, x := range unknowns {
			p[i][j], r[i][j] = row.at(power{x, 1}), right
			numbers = append(numbers, p[i][j].RatString()+x)
		}
		w.notes = append(w.notes, strings.Join(numbers, " ")+"="+right.RatString())
	}
	determinant := func(a, b, c, d *big.Rat) *big.Rat {
		return new(big.Rat).Sub(new(big.Rat).Mul(a, d), new(big.Rat).Mul(b, c))
	}
	bottom := determinant(p[0][0], p[0][1], p[1][0], p[1][1])
	if bottom.Sign() == 0 {
		return false
	}
	tops := []*big.Rat{determinant(r[0][0], p[0][1], r[1][0], p[1][1]), determinant(p[0][0], r[0][1], p[1][0], r[1][1])}
	for i, x := range unknowns {
		value := new(big.Rat).Quo(tops[i], bottom)
		w.known[x] = value
		if asked(x, after) {
			w.define(x, x+"="+tops[i].RatString()+"/"+bottom.RatString()+"="+value.RatString(), value)
		}
	}
	return true
}

// asked says that a letter stands alone in a text.
func asked(letter, text string) bool {
	return regexp.MustCompile(`(?:^|[^a-z])` + letter + `(?:[^a-z]|$)`).MatchString(text)
}
