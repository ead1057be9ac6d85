package deepmind

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// value is top/bottom in lowest terms, bottom positive.
type value struct {
	top, bottom int64
	decimal     bool // written with a point where it is no whole number
}

func whole(n int64) value { return value{top: n, bottom: 1} }

func (v value) isWhole() bool { return v.bottom == 1 }

// entropy is that of the numbers among which v is a typical one.
func (v value) entropy() float64 {
	entropy := math.Log10(5*math.Abs(float64(v.top)) + 1)
	if !v.isWhole() && !v.decimal {
		entropy += math.Log10(5*float64(v.bottom) + 1)
	}
	return entropy
}

func (v value) String() string {
	switch {
	case v.isWhole():
		return strconv.FormatInt(v.top, 10)
	case !v.decimal:
		return strconv.FormatInt(v.top, 10) + "/" + strconv.FormatInt(v.bottom, 10)
	}
	places := 1
	scale := int64(10)
	for scale%v.bottom != 0 {
		scale *= 10
		places++
	}
	text := strconv.FormatInt(abs(v.top)*(scale/v.bottom), 10)
	if missing := places + 1 - len(text); missing > 0 {
		text = strings.Repeat("0", missing) + text
	}
	text = text[:len(text)-places] + "." + text[len(text)-places:]
	if v.top < 0 {
		return "-" + text
	}
	return text
}

// fraction is top/bottom in lowest terms.
func (d *drawer) fraction(top, bottom int64) value {
	if bottom == 0 {
		d.failed = true
		return whole(0)
	}
	if bottom < 0 {
		top, bottom = -top, -bottom
	}
	g := gcd(top, bottom)
	return value{top: top / g, bottom: bottom / g}
}

func (d *drawer) add(a, b value) value {
	g := gcd(a.bottom, b.bottom)
	top := d.plus(d.times(a.top, b.bottom/g), d.times(b.top, a.bottom/g))
	v := d.fraction(top, d.times(a.bottom, b.bottom/g))
	v.decimal = a.decimal || b.decimal
	return d.written(v)
}

func (d *drawer) sub(a, b value) value { return d.add(a, negated(b)) }

func (d *drawer) mul(a, b value) value {
	g, h := gcd(a.top, b.bottom), gcd(b.top, a.bottom)
	v := d.fraction(d.times(a.top/g, b.top/h), d.times(a.bottom/h, b.bottom/g))
	v.decimal = a.decimal || b.decimal
	return d.written(v)
}

func (d *drawer) div(a, b value) value {
	inverse := d.fraction(b.bottom, b.top)
	return d.mul(a, inverse)
}

// written fails for a decimal whose digits do not fit.
func (d *drawer) written(v value) value {
	if !v.decimal {
		return v
	}
	scale := int64(1)
	for range 18 {
		if scale%v.bottom == 0 {
			d.times(abs(v.top), scale/v.bottom)
			return v
		}
		scale *= 10
	}
	d.failed = true
	return whole(0)
}

func negated(v value) value { v.top = -v.top; return v }

func less(a, b value) bool {
	return productLess(a.top, b.bottom, b.top, a.bottom)
}

// productLess compares the products a·b and c·e, b and e positive, exactly.
func productLess(a, b, c, e int64) bool {
	if (a < 0) != (c < 0) {
		return a < 0
	}
	leftHigh, leftLow := bits.Mul64(uint64(abs(a)), uint64(b))
	rightHigh, rightLow := bits.Mul64(uint64(abs(c)), uint64(e))
	smaller := leftHigh < rightHigh || leftHigh == rightHigh && leftLow < rightLow
	equal := leftHigh == rightHigh && leftLow == rightLow
	return !equal && smaller != (a < 0)
}

func equal(a, b value) bool { return a.top == b.top && a.bottom == b.bottom }

// times and plus fail where the result has more than 62 bits.
func (d *drawer) times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(abs(a)), uint64(abs(b)))
	if high > 0 || low >= 1<<62 {
		d.failed = true
		return 1
	}
	if (a < 0) != (b < 0) {
		return -int64(low)
	}
	return int64(low)
}

func (d *drawer) plus(a, b int64) int64 {
	if sum := a + b; abs(sum) < 1<<62 {
		return sum
	}
	d.failed = true
	return 1
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

// gcd is positive; that of 0 and 0 is 1, so that it can be divided by.
func gcd(a, b int64) int64 {
	a, b = abs(a), abs(b)
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, 1)
}

func power10(n int64) int64 {
	power := int64(1)
	for range n {
		power *= 10
	}
	return power
}

// factor is a prime and how often it divides.
type factor struct {
	prime int64
	times int
}

// factors are those of |n| in rising order; 0 and 1 have none.
func factors(n int64) []factor {
	n = abs(n)
	if n == 0 {
		return nil
	}
	var found []factor
	for p := int64(2); p*p <= n; p++ {
		times := 0
		for ; n%p == 0; n /= p {
			times++
		}
		if times > 0 {
			found = append(found, factor{p, times})
		}
	}
	if n > 1 {
		found = append(found, factor{n, 1})
	}
	return found
}
