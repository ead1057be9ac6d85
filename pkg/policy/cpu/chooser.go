package cpu

import (
	"cmp"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// A chooser finds the truncated support of top-k and top-p without sorting the
// vocabulary. It puts the logits into bins by their distance from the largest
// one, and sorts only the bins in which the set ends.
//
// The mass of a bin is the sum of its masses in the order of ids, and the mass
// of a set that of its bins in their order, in float64: this is part of the
// definition of the truncated support, for sampler and learner alike.
type chooser struct {
	bin    []uint16 // (V) of each id
	counts [keptBins]int32
	masses [keptBins]float64
	kept   []int32
	sorted []int32 // the ids of one bin
}

const (
	keptBins   = 4096
	binsPerNat = 64 // at the sampling temperature; the last bin takes all that is farther away
)

// choose returns the ids of the truncated support of logits (V) in no order. exps (V) is
// scratch. Where a logit is NaN or +Inf, all ids are kept, so that it shows in
// the distribution.
func (c *chooser) choose(logits, exps []float32, s policy.Sampling) []int32 {
	scale, best := scaleOf(s), vec.Max(logits)
	if math.IsNaN(float64(best)) || math.IsInf(float64(best), 0) {
		return c.all(logits)
	}
	vec.ExpShiftSum(exps, logits, scale, scale*best)
	c.bin = grow(c.bin, len(logits))
	clear(c.counts[:])
	clear(c.masses[:])
	perLogit := scale * binsPerNat
	for id, x := range logits {
		at := uint16(keptBins - 1)
		if distance := float32(best-x) * perLogit; distance < keptBins-1 {
			at = uint16(distance)
		}
		c.bin[id] = at
		c.counts[at]++
		c.masses[at] += float64(exps[id])
	}
	if math.IsNaN(c.masses[keptBins-1]) {
		return c.all(logits)
	}
	// The truncated support is all of the bins before end, and the first n of that bin.
	end, n := 0, len(logits)
	if s.TopK > 0 {
		n = min(n, s.TopK)
	}
	for ; n > int(c.counts[end]); end++ {
		n -= int(c.counts[end])
	}
	c.sortBin(logits, end)
	if s.TopP > 0 && s.TopP < 1 {
		end, n = c.cut(logits, exps, end, n, float64(s.TopP))
	}
	c.kept = c.kept[:0]
	for id, at := range c.bin {
		if int(at) < end {
			c.kept = append(c.kept, int32(id))
		}
	}
	return append(c.kept, c.sorted[:n]...)
}

// all is every id of the vocabulary, in order; logits has one element for each.
func (c *chooser) all(logits []float32) []int32 {
	c.kept = grow(c.kept, len(logits))
	for id := range c.kept {
		c.kept[id] = int32(id)
	}
	return c.kept
}

// cut finds the least part of a set with at least the share p of its mass.
func (c *chooser) cut(logits, exps []float32, end, n int, p float64) (int, int) {
	total := 0.0
	for _, mass := range c.masses[:end] {
		total += mass
	}
	for _, id := range c.sorted[:n] {
		total += float64(exps[id])
	}
	wanted, reached := p*total, 0.0
	for bin, mass := range c.masses[:end] {
		if reached+mass >= wanted {
			end, n = bin, int(c.counts[bin])
			c.sortBin(logits, bin)
			break
		}
		reached += mass
	}
	for i, id := range c.sorted[:n] {
		if reached += float64(exps[id]); reached >= wanted {
			return end, i + 1
		}
	}
	return end, n
}

// sortBin fills sorted with the ids of a bin, the most probable first, ties by
// id.
func (c *chooser) sortBin(logits []float32, bin int) {
	c.sorted = c.sorted[:0]
	for id, at := range c.bin {
		if int(at) == bin {
			c.sorted = append(c.sorted, int32(id))
		}
	}
	slices.SortFunc(c.sorted, func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
}
