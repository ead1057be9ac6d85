package deepmind

import (
	"fmt"
	"math"
)

// surd is a + b·√n for the n of its context.
type surd struct{ a, b value }

// simplifySurd asks for a + b·√p, p a prime below 20, one of eight.
func simplifySurd(d *drawer, entropy float64) Problem {
	primes := []int64{2, 3, 5, 7, 11, 13, 17, 19}
	prime := primes[d.intN(len(primes))]
	e, s := d.surd(prime, entropy-math.Log10(float64(len(primes))), true, false)
	return Problem{"Simplify " + e.String() + ".", s.text(prime)}
}

// surd makes an expression of the form a + b·√n; bare means a = 0.
func (d *drawer) surd(n int64, entropy float64, powers, bare bool) (*expression, surd) {
	if entropy <= 0 || d.failed {
		return squareRoot(n), surd{whole(0), whole(1)}
	}
	const (
		sum = iota
		multiple
		summand
		square
		quotient
		inside
	)
	choices := []int{sum, multiple}
	if !bare {
		choices = append(choices, summand)
		if powers {
			choices = append(choices, square)
		}
	}
	if n < 64 { // what is under the root stays short
		choices = append(choices, quotient, inside)
	}
	step := min(1, entropy)
	switch choices[d.intN(len(choices))] {
	case sum:
		first, second := d.surdHalves(entropy)
		left, p := d.surd(n, first, powers, bare)
		right, q := d.surd(n, second, powers, bare)
		if d.coin() {
			return &expression{op: opAdd, left: left, right: right}, surd{d.add(p.a, q.a), d.add(p.b, q.b)}
		}
		return &expression{op: opSub, left: left, right: right}, surd{d.sub(p.a, q.a), d.sub(p.b, q.b)}
	case multiple:
		k := d.signed(step, least{abs: 1})
		e, s := d.surd(n, entropy-step, powers, bare)
		left, right := d.swapped(integer(k), e)
		return &expression{op: opMul, left: left, right: right}, surd{d.mul(whole(k), s.a), d.mul(whole(k), s.b)}
	case summand:
		k := d.signed(step, least{})
		e, s := d.surd(n, entropy-step, powers, bare)
		left, right := d.swapped(integer(k), e)
		return &expression{op: opAdd, left: left, right: right}, surd{d.add(whole(k), s.a), s.b}
	case square: // (a + b√n)² = a² + b²n + 2ab√n
		e, s := d.surd(n, entropy, false, false)
		a := d.add(d.mul(s.a, s.a), d.mul(whole(n), d.mul(s.b, s.b)))
		return &expression{op: opPow, left: e, right: integer(2)}, surd{a, d.mul(whole(2), d.mul(s.a, s.b))}
	case quotient: // √(kn) / √k
		k := d.unsigned(step, least{abs: 2})
		first, second := d.surdHalves(entropy - step)
		over, p := d.surd(k*n, first, powers, true)
		under, q := d.surd(k, second, powers, true)
		return &expression{op: opDiv, left: over, right: under}, surd{whole(0), d.div(p.b, q.b)}
	default: // √(k²n) = k√n
		k := d.unsigned(step, least{abs: 2})
		e, s := d.surd(k*k*n, entropy-step, powers, bare)
		return e, surd{s.a, d.mul(whole(k), s.b)}
	}
}

func (d *drawer) swapped(a, b *expression) (*expression, *expression) {
	if d.coin() {
		return b, a
	}
	return a, b
}

func (d *drawer) surdHalves(entropy float64) (float64, float64) {
	first := entropy / 2
	if first < 1 {
		first = 0
	}
	if d.coin() {
		return entropy - first, first
	}
	return first, entropy - first
}

// text writes a surd as the dataset does: terms of the same sign in rising
// order, else the rational one first.
func (s surd) text(n int64) string {
	switch {
	case s.b.top == 0:
		return s.a.String()
	case s.a.top == 0:
		return s.root(n)
	}
	a := float64(s.a.top) / float64(s.a.bottom)
	b := float64(s.b.top) / float64(s.b.bottom) * math.Sqrt(float64(n))
	if (a < 0) == (b < 0) && b < a {
		if s.a.top < 0 {
			return s.root(n) + " - " + negated(s.a).String()
		}
		return s.root(n) + " + " + s.a.String()
	}
	if s.b.top < 0 {
		return s.a.String() + " - " + surd{s.a, negated(s.b)}.root(n)
	}
	return s.a.String() + " + " + s.root(n)
}

// root writes b·√n.
func (s surd) root(n int64) string {
	text := fmt.Sprintf("sqrt(%d)", n)
	switch s.b.top {
	case 1:
	case -1:
		text = "-" + text
	default:
		text = fmt.Sprintf("%d*%s", s.b.top, text)
	}
	if s.b.bottom > 1 {
		text += fmt.Sprintf("/%d", s.b.bottom)
	}
	return text
}
