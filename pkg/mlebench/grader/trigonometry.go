package grader

import "math"

// sincos are sine and cosine rounded to the nearest float64, nearly always, where
// package math is off by the last bit: between directions that are nearly opposite
// or equal, an angle magnifies that bit 10⁸ times.
func sincos(x float64) (sin, cos float64) {
	if math.Abs(x) > 1e6 {
		return math.Sincos(x)
	}
	// x = turns·π/2 + r with |r| at most π/4; π/2 is the sum of three floats.
	turns := math.RoundToEven(x * 2 / math.Pi)
	r := double{high: x}
	for _, part := range []float64{1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33} {
		r = r.plus(product(turns, -part))
	}
	square := r.times(r)
	s, c := r, double{high: 1}
	for k, term, other := 2.0, r, (double{high: 1}); k < 28; k += 2 { // r^28/28! is below 2⁻¹⁰⁶
		other = other.times(square).over(-(k - 1) * k)
		term = term.times(square).over(-k * (k + 1))
		s, c = s.plus(term), c.plus(other)
	}
	sin, cos = s.high, c.high
	switch int64(turns) & 3 {
	case 1:
		return cos, -sin
	case 2:
		return -sin, -cos
	case 3:
		return -cos, sin
	}
	return sin, cos
}

// double is the sum of two floats, the second below half a unit in the last place
// of the first (Dekker, "A floating-point technique for extending the available
// precision", 1971).
type double struct{ high, low float64 }

func product(a, b float64) double {
	p := a * b
	return double{p, math.FMA(a, b, -p)}
}

func (a double) plus(b double) double {
	s := a.high + b.high
	v := s - a.high
	e := (a.high - (s - v)) + (b.high - v) + a.low + b.low
	high := s + e
	return double{high, e - (high - s)}
}

func (a double) times(b double) double {
	p := product(a.high, b.high)
	e := p.low + (a.high*b.low + a.low*b.high)
	high := p.high + e
	return double{high, e - (high - p.high)}
}

func (a double) over(b float64) double {
	q := a.high / b
	p := product(q, b)
	e := ((a.high - p.high) - p.low + a.low) / b
	high := q + e
	return double{high, e - (high - q)}
}
