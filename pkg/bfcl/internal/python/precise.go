package python

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxDigits bounds the precision of what is computed here.
const maxDigits = 1000

var errPrecision = errors.New("the precision must be at most 1000 digits")

// Logarithm is the quotient log(value)/log(base) as mpmath's numbers of
// that many decimal digits have it: both logarithms and then the quotient are
// rounded to the bits that mpmath takes for the digits.
func Logarithm(value, base Value, digits int64) (Number, error) {
	if digits > maxDigits || digits < 0 {
		return "", errPrecision
	}
	const bitsPerDigit = 3.3219280948873626
	bits := max(1, uint(math.RoundToEven(float64(digits+1)*bitsPerDigit)))
	numerator, err := naturalLogarithm(value, bits)
	if err != nil {
		return "", err
	}
	denominator, err := naturalLogarithm(base, bits)
	if err != nil {
		return "", err
	}
	if denominator.Sign() == 0 {
		return "", ErrDivisionByZero
	}
	quotient := new(big.Float).SetPrec(bits).Quo(numerator, denominator)
	shown := int(math.RoundToEven(float64(bits)/bitsPerDigit)) - 1
	if shown = max(1, shown); shown == 15 {
		shown = 17
	} else {
		shown += 3
	}
	return Number("mpf('" + bigFloatText(quotient, shown) + "')"), nil
}

// naturalLogarithm rounds ln v to that many bits.
func naturalLogarithm(v Value, bits uint) (*big.Float, error) {
	work := bits + 64
	x := new(big.Float).SetPrec(max(work, maxBits))
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("the logarithm needs a finite number")
		}
		x.SetFloat64(v)
	default:
		n, ok := whole(v)
		if !ok {
			return nil, ErrNotANumber
		}
		x.SetInt(n)
	}
	if x.Sign() <= 0 {
		return nil, errors.New("the logarithm needs a number above 0")
	}
	x.SetPrec(work)
	one := new(big.Float).SetPrec(work).SetInt64(1)
	mantissa := new(big.Float).SetPrec(work)
	exponent := x.MantExp(mantissa) // x = mantissa * 2^exponent, mantissa in [1/2, 1)
	if mantissa.Cmp(big.NewFloat(math.Sqrt2/2)) < 0 {
		mantissa.Add(mantissa, mantissa)
		exponent--
	}
	above := new(big.Float).SetPrec(work).Sub(mantissa, one)
	below := new(big.Float).SetPrec(work).Add(mantissa, one)
	logarithm := twiceArtanh(above.Quo(above, below), work)
	if exponent != 0 {
		third := new(big.Float).SetPrec(work).Quo(one, big.NewFloat(3))
		ofTwo := twiceArtanh(third, work)
		logarithm.Add(logarithm, ofTwo.Mul(ofTwo, new(big.Float).SetInt64(int64(exponent))))
	}
	return logarithm.SetPrec(bits), nil
}

// twiceArtanh sums 2(z + z^3/3 + z^5/5 + ...) for |z| <= 1/3.
func twiceArtanh(z *big.Float, bits uint) *big.Float {
	sum := new(big.Float).SetPrec(bits)
	if z.Sign() == 0 {
		return sum
	}
	power := new(big.Float).SetPrec(bits).Add(z, z)
	square := new(big.Float).SetPrec(bits).Mul(z, z)
	smallest := power.MantExp(nil) - int(bits) - 2
	for n := int64(1); power.MantExp(nil) > smallest; n += 2 {
		term := new(big.Float).SetPrec(bits).Quo(power, new(big.Float).SetInt64(n))
		sum.Add(sum, term)
		power.Mul(power, square)
	}
	return sum
}

// rounded is the float nearest to f to the power of g, as C libraries have it
// but for a rare last digit. Go's own power, whose last digits may differ, is
// kept where there is nothing to round: it is 0, infinite or no number.
func rounded(f, g, power float64) float64 {
	const bits = 256
	if f == 0 || power == 0 || math.IsInf(f, 0) || math.IsInf(g, 0) || math.IsInf(power, 0) || math.IsNaN(power) {
		return power
	}
	logarithm, errBase := naturalLogarithm(math.Abs(f), bits)
	ofTwo, errTwo := naturalLogarithm(int64(2), bits)
	if errBase != nil || errTwo != nil {
		return power
	}
	logarithm.Mul(logarithm, new(big.Float).SetFloat64(g))
	twos, _ := new(big.Float).Quo(logarithm, ofTwo).Int64() // towards 0
	rest := logarithm.Sub(logarithm, ofTwo.Mul(ofTwo, new(big.Float).SetInt64(twos)))
	sum, term := new(big.Float).SetPrec(bits).SetInt64(1), new(big.Float).SetPrec(bits).SetInt64(1)
	for n := int64(1); term.Sign() != 0 && term.MantExp(nil) > -bits; n++ {
		term.Quo(term.Mul(term, rest), new(big.Float).SetInt64(n))
		sum.Add(sum, term)
	}
	exact, _ := sum.SetMantExp(sum, int(twos)).Float64()
	return math.Copysign(exact, power)
}

// bigFloatText writes a number with at most that many significant digits, as
// mpmath does: no zeros at the end, an exponent only far from 1.
func bigFloatText(f *big.Float, digits int) string {
	if f.Sign() == 0 {
		return "0.0"
	}
	// Text rounds a tie to even and mpmath away from 0: less than what can
	// lie between a number and a tie turns the one into the other.
	bits := f.Prec()
	up := new(big.Float).SetPrec(5*bits + 128).Set(f)
	up.Add(up, new(big.Float).SetMantExp(f, -int(3*bits)-64))
	text := up.Text('e', digits-1)
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	mantissa, exponentText, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(exponentText)
	shown := strings.Replace(mantissa, ".", "", 1)
	point, suffix := 1, ""
	switch {
	case exponent <= min(-(digits/3), -5) || exponent >= digits:
		suffix = "e" + strconv.Itoa(exponent)
		if exponent >= 0 {
			suffix = "e+" + strconv.Itoa(exponent)
		}
	case exponent < 0:
		shown = strings.Repeat("0", -exponent) + shown
	default:
		point = exponent + 1
	}
	fraction := strings.TrimRight(shown[point:], "0")
	if fraction == "" {
		fraction = "0"
	}
	return sign + shown[:point] + "." + fraction + suffix
}

// SquareRoot is Decimal(value).sqrt() in a context of that many digits.
func SquareRoot(value Value, digits int64) (Number, error) {
	if digits < 1 || digits > maxDigits {
		return "", errPrecision
	}
	coefficient, exponent, err := exactDecimal(value)
	if err != nil {
		return "", err
	}
	if coefficient.Sign() < 0 {
		return "", errors.New("the square root needs a number of 0 or more")
	}
	ten := big.NewInt(10)
	if exponent%2 != 0 {
		coefficient.Mul(coefficient, ten)
		exponent--
	}
	root := new(big.Int).Sqrt(coefficient)
	exact := new(big.Int).Mul(root, root).Cmp(coefficient) == 0
	if !exact { // compute with three digits more than asked for
		missing := max(0, digits+3-int64(len(root.String())))
		scale := new(big.Int).Exp(ten, big.NewInt(2*missing), nil)
		root.Sqrt(coefficient.Mul(coefficient, scale))
		exponent -= 2 * missing
	}
	exponent /= 2
	if excess := int64(len(root.String())) - digits; excess > 0 {
		unit := new(big.Int).Exp(ten, big.NewInt(excess), nil)
		quotient, remainder := new(big.Int).QuoRem(root, unit, new(big.Int))
		half := remainder.Add(remainder, remainder).Cmp(unit)
		if half > 0 || half == 0 && (!exact || quotient.Bit(0) == 1) {
			quotient.Add(quotient, big.NewInt(1))
		}
		if exponent += excess; int64(len(quotient.String())) > digits {
			quotient.Quo(quotient, ten)
			exponent++
		}
		root = quotient
	}
	return Number("Decimal('" + decimalText(root.String(), exponent) + "')"), nil
}

// exactDecimal writes a number as coefficient * 10^exponent, exponent <= 0.
func exactDecimal(v Value) (*big.Int, int64, error) {
	f, isFloat := v.(float64)
	if !isFloat {
		n, ok := whole(v)
		if !ok {
			return nil, 0, ErrNotANumber
		}
		return new(big.Int).Set(n), 0, nil
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, 0, errors.New("the square root needs a finite number")
	}
	ratio := new(big.Rat).SetFloat64(f) // its denominator is a power of two
	places := int64(ratio.Denom().BitLen() - 1)
	scale := new(big.Int).Exp(big.NewInt(5), big.NewInt(places), nil)
	return scale.Mul(scale, ratio.Num()), -places, nil
}

// decimalText is str of a decimal number of 0 or more (General Decimal
// Arithmetic, to-scientific-string).
func decimalText(digits string, exponent int64) string {
	adjusted := exponent + int64(len(digits)) - 1
	switch {
	case exponent == 0:
		return digits
	case exponent < 0 && adjusted >= -6:
		if missing := -exponent - int64(len(digits)) + 1; missing > 0 {
			digits = strings.Repeat("0", int(missing)) + digits
		}
		point := int64(len(digits)) + exponent
		return digits[:point] + "." + digits[point:]
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	sign := ""
	if adjusted >= 0 {
		sign = "+"
	}
	return digits + "E" + sign + strconv.FormatInt(adjusted, 10)
}
