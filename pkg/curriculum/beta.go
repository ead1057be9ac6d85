package curriculum

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// Beta is a Beta distribution; both parameters are 0 or more. One that discounting has
// brought to 0 is the limit: all mass at one end.
type Beta struct{ Alpha, Beta float64 }

// Draw samples the distribution by the numbers of a stream.
func (b Beta) Draw(stream rng.Stream) float64 {
	switch {
	case b.Alpha <= 0:
		return 0
	case b.Beta <= 0:
		return 1
	}
	s := &bits{stream: stream}
	x := distuv.Beta{Alpha: b.Alpha, Beta: b.Beta, Src: s}.Rand()
	if math.IsNaN(x) { // both gamma variates were too small for a float64
		x = 0
		if s.stream.Bool(s.next(), b.Alpha/(b.Alpha+b.Beta)) {
			x = 1
		}
	}
	return x
}

// bits gives a stream's numbers one after the other.
type bits struct {
	stream   rng.Stream
	position uint64
}

func (b *bits) next() uint64 {
	b.position++
	return b.position - 1
}

// Uint64 implements [math/rand/v2.Source].
func (b *bits) Uint64() uint64 { return b.stream.Uint64(b.next()) }

// within is the probability that a draw is at most d from the target.
func (b Beta) within(target, d float64) float64 {
	switch low, high := target-d, target+d; {
	case b.Alpha <= 0 && low <= 0, b.Beta <= 0 && high >= 1:
		return 1
	case b.Alpha <= 0 || b.Beta <= 0:
		return 0
	default:
		x := distuv.Beta{Alpha: b.Alpha, Beta: b.Beta}
		return x.CDF(high) - x.CDF(low)
	}
}

// The parts into which AmongNearest cuts the distances from the target, up to one that
// is as good as never among them.
const (
	gridPoints = 1000
	never      = 1e-9
)

// AmongNearest is the probability that of one draw of each distribution that of own is
// among the n nearest to the target: the integral over its distance d of the probability
// that fewer than n of the others are nearer than d. It is exact but for the grid.
func AmongNearest(n int, target float64, own Beta, others []Beta) float64 {
	var kinds []kind
	at := map[Beta]int{}
	for _, b := range others {
		i, known := at[b]
		if !known {
			i = len(kinds)
			at[b], kinds = i, append(kinds, kind{Beta: b})
		}
		kinds[i].many++
	}
	among := func(d float64) float64 { return fewer(n, target, kinds, d) }
	var low float64
	farthest := 1.0
	for farthest-low > farthest/64 {
		if middle := (low + farthest) / 2; among(middle) < never {
			farthest = middle
		} else {
			low = middle
		}
	}
	var probability, before float64
	for i := range gridPoints {
		nearer := own.within(target, farthest*float64(i+1)/gridPoints)
		probability += (nearer - before) * among(farthest*(float64(i)+0.5)/gridPoints)
		before = nearer
	}
	return probability
}

// kind is a distribution, and how many have it: most have the prior.
type kind struct {
	Beta
	many int
}

// fewer is the probability that of some draws fewer than n are within a distance of the
// target: the distribution of 0 to n-1 of them, one after the other.
func fewer(n int, target float64, kinds []kind, d float64) float64 {
	distribution := make([]float64, n)
	distribution[0] = 1
	for _, q := range kinds {
		p := q.within(target, d)
		for range q.many {
			for k := n - 1; k > 0; k-- {
				distribution[k] += (distribution[k-1] - distribution[k]) * p
			}
			distribution[0] -= distribution[0] * p
		}
	}
	var sum float64
	for _, x := range distribution {
		sum += x
	}
	return sum
}
