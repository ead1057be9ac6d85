package deepmind

import (
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// drawer draws one number after the other from a stream. A value that does
// not fit 64 bits, or a choice that cannot be made, marks the problem as
// failed, and [Make] draws another.
type drawer struct {
	stream   rng.Stream
	position uint64
	failed   bool
}

func (d *drawer) intN(n int) int {
	d.position++
	return d.stream.IntN(d.position-1, n)
}

// between draws a whole number from low to high, both included.
func (d *drawer) between(low, high int64) int64 { return low + int64(d.intN(int(high-low+1))) }

func (d *drawer) coin() bool { return d.intN(2) == 1 }

func (d *drawer) uniform(low, high float64) float64 {
	d.position++
	return low + (high-low)*d.stream.Float64(d.position-1)
}

func (d *drawer) pick(templates ...string) string { return templates[d.intN(len(templates))] }

// shares draws from the Dirichlet distribution with whole parameters: the
// lengths into which sum-1 even points cut the unit interval, counted
// together by the parameters. A parameter of 0 has the share 0.
func (d *drawer) shares(parameters ...int) []float64 {
	sum := 0
	for _, n := range parameters {
		sum += n
	}
	points := make([]float64, max(sum-1, 0), sum+1)
	for i := range points {
		points[i] = d.uniform(0, 1)
	}
	slices.Sort(points)
	points = append(points, 1)
	shares := make([]float64, len(parameters))
	at, from := 0, 0.0
	for i, n := range parameters {
		if n > 0 {
			at += n
			shares[i] = points[at-1] - from
			from = points[at-1]
		}
	}
	return shares
}

// evenShares draws n shares from the flat Dirichlet distribution.
func (d *drawer) evenShares(n int) []float64 {
	ones := make([]int, n)
	for i := range ones {
		ones[i] = 1
	}
	return d.shares(ones...)
}

// counts draws n whole numbers from 0 with a given sum, all such choices
// alike: the gaps between n-1 dividers among sum+n-1 places.
func (d *drawer) counts(n, sum int) []int {
	counts := make([]int, n)
	dividers, item := n-1, 0
	for places := sum + n - 1; places > 0; places-- {
		if d.intN(places) < dividers {
			dividers--
			item++
		} else {
			counts[item]++
		}
	}
	return counts
}

func shuffle[T any](d *drawer, items []T) {
	for i := len(items) - 1; i > 0; i-- {
		j := d.intN(i + 1)
		items[i], items[j] = items[j], items[i]
	}
}

// least bounds the absolute value of a whole number from below, and names a
// number that it must have no factor in common with (0 and 1: any).
type least struct{ abs, coprime int64 }

// signed draws a whole number from about 10^entropy of them, half of them
// negative; unsigned draws one that is not.
func (d *drawer) signed(entropy float64, bound least) int64 {
	return d.whole(entropy, bound, true)
}

func (d *drawer) unsigned(entropy float64, bound least) int64 {
	return d.whole(entropy, bound, false)
}

func (d *drawer) whole(entropy float64, bound least, negative bool) int64 {
	most := math.Pow(10, entropy) + float64(bound.abs)
	other := abs(bound.coprime)
	if other >= 2 {
		most = most/coprimeDensity(other) + 1
	}
	low := bound.abs
	if negative {
		most /= 2
		low = -int64(math.Ceil(most))
	}
	high := int64(math.Ceil(most))
	for range attempts {
		value := d.between(low, high)
		if abs(value) >= bound.abs && (other < 2 || gcd(value, other) == 1) {
			return value
		}
	}
	d.failed = true
	return max(bound.abs, 1)
}

// coprimeDensity is the share of the whole numbers that have no factor in
// common with n.
func coprimeDensity(n int64) float64 {
	density := 1.0
	for _, f := range factors(n) {
		density *= 1 - 1/float64(f.prime)
	}
	return density
}

// ratio draws a fraction that is no whole number.
func (d *drawer) ratio(entropy float64) value {
	top := d.uniform(0, entropy)
	numerator := d.signed(top, least{abs: 1})
	return d.fraction(numerator, d.unsigned(entropy-top, least{abs: 2, coprime: numerator}))
}

func (d *drawer) wholeOrRatio(entropy float64) value {
	if d.coin() {
		return whole(d.signed(entropy, least{}))
	}
	return d.ratio(entropy)
}

// point draws a decimal that is no whole number.
func (d *drawer) point(entropy float64) value {
	for {
		digits := d.signed(entropy, least{})
		shift := d.between(1, int64(math.Ceil(entropy)))
		if scale := power10(shift); digits%scale != 0 {
			v := d.fraction(digits, scale)
			v.decimal = true
			return v
		}
	}
}

func (d *drawer) wholeOrPoint(entropy float64) value {
	if d.coin() {
		return value{top: d.signed(entropy, least{}), bottom: 1, decimal: true}
	}
	return d.point(entropy)
}

func (d *drawer) number(entropy float64) value {
	if d.coin() {
		return d.wholeOrPoint(entropy)
	}
	return d.wholeOrRatio(entropy)
}

// halves splits an entropy at random, at least 1 to each part.
func (d *drawer) halves(entropy float64) (float64, float64) {
	first := max(1, d.uniform(0, entropy))
	return first, max(1, entropy-first)
}
