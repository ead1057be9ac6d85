package mathverify

import (
	"math"
	"math/cmplx"
	"slices"
	"strings"
)

// point is a place at which expressions are evaluated: a value for every
// symbol, derived from its name and the point's number, the same in every
// verification.
type point struct {
	number int
	values map[string]complex128
}

// points is the number of places; the first half has positive values, the
// second values of both signs. At least validPoints of them must be in the
// domain of both sides.
const (
	points      = 12
	validPoints = 4
)

func (p *point) value(name string) complex128 {
	if v, ok := p.values[name]; ok {
		return v
	}
	u := hashUnit(name, p.number)
	v := 0.3 + 2.2*u
	if p.number >= points/2 {
		v = -2.5 + 5*u
	}
	c := complex(v, 0)
	p.values[name] = c
	return c
}

// hashUnit is a number in [0, 1) from a text and an index.
func hashUnit(text string, index int) float64 { return float64(hashBits(text, index)>>11) / (1 << 53) }

// hashBits are FNV-1a of a text, then the finalizer of SplitMix64.
func hashBits(text string, index int) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	h += uint64(index+1) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

var nan = cmplx.NaN()

// evaluate computes an expression at a point; NaN outside of its domain or
// when it has no number.
func (b *budget) evaluate(n *node, at *point) complex128 {
	if !b.spend(1) {
		return nan
	}
	switch n.kind {
	case kindNumber:
		f, _ := n.value.Float64()
		return complex(f, 0)
	case kindConstant:
		switch n.name {
		case "pi":
			return math.Pi
		case "e":
			return math.E
		case "i":
			return 1i
		}
		return nan
	case kindSymbol:
		return at.value(n.name)
	case kindSum:
		total := complex128(0)
		for _, a := range n.args {
			total += b.evaluate(a, at)
		}
		return total
	case kindProduct:
		total := complex128(1)
		for _, a := range n.args {
			total *= b.evaluate(a, at)
		}
		return total
	case kindQuotient:
		return divide(b.evaluate(n.args[0], at), b.evaluate(n.args[1], at))
	case kindPercent:
		return b.evaluate(n.args[0], at) / 100
	case kindPower:
		return raise2(b.evaluate(n.args[0], at), b.evaluate(n.args[1], at))
	case kindFunction:
		return b.evaluateFunction(n, at)
	}
	return nan
}

func divide(a, c complex128) complex128 {
	if c == 0 {
		return nan
	}
	return a / c
}

// raise2 is base^exponent, real where both are real and the power is.
func raise2(base, exponent complex128) complex128 {
	if imag(base) == 0 && imag(exponent) == 0 {
		x, y := real(base), real(exponent)
		if x == 0 && y < 0 {
			return nan
		}
		if x >= 0 || y == math.Trunc(y) {
			return complex(math.Pow(x, y), 0)
		}
	}
	if base == 0 {
		return nan
	}
	return cmplx.Pow(base, exponent)
}

func (b *budget) evaluateFunction(n *node, at *point) complex128 {
	if n.name == "sum" || n.name == "prod" {
		terms, ok := b.series(n, maxSumTerms)
		if !ok {
			return nan
		}
		return b.evaluate(operation(seriesKinds[n.name], terms...), at)
	}
	if n.name == "det" {
		return b.determinant(n, at)
	}
	args := make([]complex128, len(n.args))
	for i, a := range n.args {
		args[i] = b.evaluate(a, at)
		if cmplx.IsNaN(args[i]) {
			return nan
		}
	}
	if strings.HasSuffix(n.name, "()") {
		return unknownFunction(n.name, args)
	}
	if f, ok := elementaries[n.name]; ok && len(args) == 1 {
		return f(args[0])
	}
	if n.name == "log" && len(args) == 2 {
		return divide(logarithm(args[0]), logarithm(args[1]))
	}
	for _, a := range args {
		if imag(a) != 0 {
			return nan
		}
	}
	return realFunction(n.name, args)
}

// unknownFunction gives f, g and h a smooth shape of their own, so that
// f(x) + 1 is equal to 1 + f(x) and to nothing else.
func unknownFunction(name string, args []complex128) complex128 {
	total := complex(hashUnit(name, 0), 0)
	for i, a := range args {
		total += cmplx.Sin(a*complex(1+hashUnit(name, 2*i+1), 0)+complex(hashUnit(name, 2*i+2), 0)) * complex(1+float64(i), 0)
	}
	return total
}

func logarithm(x complex128) complex128 {
	if x == 0 {
		return nan
	}
	return cmplx.Log(x)
}

// elementaries are the functions of one complex number.
var elementaries = map[string]func(x complex128) complex128{
	"sin": cmplx.Sin, "cos": cmplx.Cos, "tan": cmplx.Tan,
	"cot":    func(x complex128) complex128 { return divide(cmplx.Cos(x), cmplx.Sin(x)) },
	"sec":    func(x complex128) complex128 { return divide(1, cmplx.Cos(x)) },
	"csc":    func(x complex128) complex128 { return divide(1, cmplx.Sin(x)) },
	"arcsin": cmplx.Asin, "arccos": cmplx.Acos, "arctan": cmplx.Atan,
	"arccot": func(x complex128) complex128 { return cmplx.Atan(divide(1, x)) },
	"arcsec": func(x complex128) complex128 { return cmplx.Acos(divide(1, x)) },
	"arccsc": func(x complex128) complex128 { return cmplx.Asin(divide(1, x)) },
	"sinh":   cmplx.Sinh, "cosh": cmplx.Cosh, "tanh": cmplx.Tanh,
	"coth": func(x complex128) complex128 { return divide(cmplx.Cosh(x), cmplx.Sinh(x)) },
	"ln":   logarithm,
	"abs":  func(x complex128) complex128 { return complex(cmplx.Abs(x), 0) },
}

func realFunction(name string, args []complex128) complex128 {
	x := make([]float64, len(args))
	for i, a := range args {
		x[i] = real(a)
	}
	result := math.NaN()
	switch {
	case name == "floor" && len(x) == 1:
		result = math.Floor(x[0])
	case name == "ceil" && len(x) == 1:
		result = math.Ceil(x[0])
	case name == "sgn" && len(x) == 1:
		result = math.Copysign(1, x[0])
	case name == "factorial" && len(x) == 1:
		result = math.Gamma(x[0] + 1)
	case name == "binomial" && len(x) == 2:
		result = math.Gamma(x[0]+1) / (math.Gamma(x[1]+1) * math.Gamma(x[0]-x[1]+1))
	case name == "max" && len(x) > 0:
		result = slices.Max(x)
	case name == "min" && len(x) > 0:
		result = slices.Min(x)
	case name == "mod" && len(x) == 2:
		result = x[0] - x[1]*math.Floor(x[0]/x[1])
	case (name == "gcd" || name == "lcm") && len(x) == 2:
		// Between symbols only their structure can be compared; any function
		// that is symmetric does.
		result = unknownPair(name, x[0], x[1])
	}
	return complex(result, 0)
}

func unknownPair(name string, a, b float64) float64 {
	s := hashUnit(name, 1)
	return math.Sin(s*a*b) + math.Cos((a+b)*(1+s))
}

// determinant expands small matrices.
func (b *budget) determinant(n *node, at *point) complex128 {
	if len(n.args) != 1 || n.args[0].kind != kindMatrix {
		return nan
	}
	m := n.args[0]
	size := m.columns
	if size*size != len(m.args) || size > 6 {
		return nan
	}
	rows := make([][]complex128, size)
	for i := range rows {
		for j := range size {
			rows[i] = append(rows[i], b.evaluate(m.args[i*size+j], at))
		}
	}
	det := complex128(1)
	for i := range rows {
		pivot := i
		for j := i; j < size; j++ {
			if cmplx.Abs(rows[j][i]) > cmplx.Abs(rows[pivot][i]) {
				pivot = j
			}
		}
		if rows[pivot][i] == 0 {
			return 0
		}
		if pivot != i {
			rows[i], rows[pivot] = rows[pivot], rows[i]
			det = -det
		}
		det *= rows[i][i]
		for j := i + 1; j < size; j++ {
			factor := rows[j][i] / rows[i][i]
			for k := i; k < size; k++ {
				rows[j][k] -= factor * rows[i][k]
			}
		}
	}
	return det
}

// near reports whether two values may be the same number, and is strict
// enough to tell apart what a person would; closer calls go to more digits.
func near(a, b complex128) bool {
	if cmplx.IsInf(a) || cmplx.IsInf(b) {
		return false
	}
	return cmplx.Abs(a-b) <= 1e-9*math.Max(1e-3, math.Max(cmplx.Abs(a), cmplx.Abs(b)))
}
