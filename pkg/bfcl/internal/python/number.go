package python

import (
	"cmp"
	"errors"
	"math"
	"math/big"
)

// maxBits bounds whole numbers: CPython refuses to write more than 4300 digits.
const maxBits = 14285

// Errors of arithmetic.
var (
	ErrTooLarge       = errors.New("the whole number has more than 4300 digits")
	ErrOverflow       = errors.New("int too large to convert to float")
	ErrDivisionByZero = errors.New("division by zero")
	ErrNotANumber     = errors.New("an operand is not a number")
)

// whole returns an int or a bool as a big number.
func whole(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case int64:
		return big.NewInt(v), true
	case *big.Int:
		return v, true
	}
	return nil, false
}

// Int makes the smallest form of a whole number.
func Int(n *big.Int) (Value, error) {
	if n.IsInt64() {
		return n.Int64(), nil
	}
	if n.BitLen() > maxBits {
		return nil, ErrTooLarge
	}
	return n, nil
}

// IsNumber tells whether a value is an int, a float or a bool.
func IsNumber(v Value) bool {
	switch v.(type) {
	case bool, int64, *big.Int, float64:
		return true
	}
	return false
}

// Float is float(v) of a number.
func Float(v Value) (float64, error) {
	if f, ok := v.(float64); ok {
		return f, nil
	}
	n, ok := whole(v)
	if !ok {
		return 0, ErrNotANumber
	}
	f, _ := new(big.Float).SetInt(n).Float64()
	if math.IsInf(f, 0) {
		return 0, ErrOverflow
	}
	return f, nil
}

// compareNumbers orders two numbers; ok is false when one is none, or NaN.
func compareNumbers(a, b Value) (order int, ok bool) {
	if m, isWhole := a.(int64); isWhole {
		if n, isWhole := b.(int64); isWhole {
			return cmp.Compare(m, n), true
		}
	}
	x, xWhole := whole(a)
	y, yWhole := whole(b)
	if xWhole && yWhole {
		return x.Cmp(y), true
	}
	f, fFloat := a.(float64)
	g, gFloat := b.(float64)
	switch {
	case fFloat && math.IsNaN(f) || gFloat && math.IsNaN(g):
		return 0, false
	case fFloat && gFloat:
		return cmp.Compare(f, g), true
	case fFloat && yWhole:
		return new(big.Float).SetFloat64(f).Cmp(new(big.Float).SetInt(y)), true
	case xWhole && gFloat:
		return new(big.Float).SetInt(x).Cmp(new(big.Float).SetFloat64(g)), true
	}
	return 0, false
}

// Less is a < b for numbers; with NaN it is false.
func Less(a, b Value) (bool, error) {
	if !IsNumber(a) || !IsNumber(b) {
		return false, ErrNotANumber
	}
	order, ok := compareNumbers(a, b)
	return ok && order < 0, nil
}

// Operator is one of + - * /.
type Operator byte

// Apply computes a OPERATOR b as Python does: whole numbers stay whole except
// under /, which rounds the exact quotient once.
func (o Operator) Apply(a, b Value) (Value, error) {
	x, xWhole := whole(a)
	y, yWhole := whole(b)
	if xWhole && yWhole {
		switch o {
		case '+':
			return Int(new(big.Int).Add(x, y))
		case '-':
			return Int(new(big.Int).Sub(x, y))
		case '*':
			return Int(new(big.Int).Mul(x, y))
		}
		if y.Sign() == 0 {
			return nil, ErrDivisionByZero
		}
		if x.Sign() == 0 && y.Sign() < 0 {
			return math.Copysign(0, -1), nil
		}
		quotient, _ := new(big.Rat).SetFrac(x, y).Float64()
		if math.IsInf(quotient, 0) {
			return nil, ErrOverflow
		}
		return quotient, nil
	}
	f, err := Float(a)
	if err != nil {
		return nil, err
	}
	g, err := Float(b)
	if err != nil {
		return nil, err
	}
	switch o {
	case '+':
		return f + g, nil
	case '-':
		return f - g, nil
	case '*':
		return f * g, nil
	}
	if g == 0 {
		return nil, ErrDivisionByZero
	}
	return f / g, nil
}

// Power is base ** exponent for real results.
func Power(base, exponent Value) (Value, error) {
	x, xWhole := whole(base)
	n, nWhole := whole(exponent)
	if xWhole && nWhole && n.Sign() >= 0 {
		if x.CmpAbs(big.NewInt(1)) > 0 && (!n.IsInt64() || float64(x.BitLen()-1)*float64(n.Int64()) > maxBits) {
			return nil, ErrTooLarge
		}
		if x.CmpAbs(big.NewInt(1)) <= 0 { // 0, 1 and -1 to any power, however large
			switch {
			case n.Sign() == 0 || x.Sign() < 0 && n.Bit(0) == 0:
				return int64(1), nil
			default:
				return x.Int64(), nil
			}
		}
		return Int(new(big.Int).Exp(x, n, nil))
	}
	f, err := Float(base)
	if err != nil {
		return nil, err
	}
	g, err := Float(exponent)
	if err != nil {
		return nil, err
	}
	switch {
	case f == 0 && g < 0:
		return nil, errors.New("0.0 cannot be raised to a negative power")
	case f < 0 && !math.IsInf(f, 0) && !math.IsInf(g, 0) && g != math.Trunc(g):
		return nil, errors.New("the power of a negative number with a fractional exponent is not real")
	}
	power := rounded(f, g, math.Pow(f, g))
	if math.IsInf(power, 0) && !math.IsInf(f, 0) && !math.IsInf(g, 0) {
		return nil, errors.New("(34, 'Numerical result out of range')")
	}
	return power, nil
}

// Round is round(v, places): the nearest decimal with that many places, ties
// of the exact value to even.
func Round(v Value, places int64) (Value, error) {
	if n, ok := whole(v); ok {
		if places >= 0 {
			return Int(n)
		}
		if places < -5000 {
			return int64(0), nil
		}
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(-places), nil)
		return Int(new(big.Int).Mul(unit, roundHalfEven(new(big.Rat).SetFrac(n, unit))))
	}
	f, err := Float(v)
	if err != nil {
		return nil, err
	}
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0) || places > 323:
		return f, nil
	case places < -308:
		return math.Copysign(0, f), nil
	}
	exact := new(big.Rat).SetFloat64(f)
	unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(places, -places)), nil))
	if places < 0 {
		unit.Inv(unit)
	}
	rounded := new(big.Rat).SetInt(roundHalfEven(exact.Mul(exact, unit)))
	nearest, _ := rounded.Quo(rounded, unit).Float64()
	if math.IsInf(nearest, 0) {
		return nil, errors.New("rounded value too large to represent")
	}
	return math.Copysign(nearest, f), nil
}

func roundHalfEven(r *big.Rat) *big.Int {
	two := big.NewInt(2)
	quotient, remainder := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	switch twice := new(big.Int).Mul(remainder, two); twice.Cmp(r.Denom()) {
	case 1:
		quotient.Add(quotient, big.NewInt(1))
	case 0:
		quotient.Add(quotient, new(big.Int).And(quotient, big.NewInt(1)))
	}
	return quotient
}
