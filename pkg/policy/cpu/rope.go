package cpu

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// ropeTable holds the cosines and sines of rotary position embedding: position
// p rotates the pair (i, i+d/2) of the first d values of a head by p·f_i, with the
// frequencies of policy.Config and the product rounded to float32.
type ropeTable struct {
	frequencies []float32 // (d/2)
	factor      float32   // what cosines and sines are multiplied by
	cos, sin    []float32 // (positions, d/2)
	positions   int
}

func newRopeTable(c policy.Config, kind policy.Rope) ropeTable {
	if kind == policy.RopeLocal && c.LocalRopeTheta == 0 {
		return ropeTable{}
	}
	frequencies, factor := c.RopeFrequencies(kind)
	return ropeTable{frequencies: frequencies, factor: factor}
}

// extend makes the table hold at least n positions.
func (t *ropeTable) extend(n int) {
	if n <= t.positions {
		return
	}
	n = max(n, 2*t.positions)
	for p := t.positions; p < n; p++ {
		for _, f := range t.frequencies {
			sin, cos := math.Sincos(float64(float32(p) * f))
			t.cos = append(t.cos, float32(cos)*t.factor)
			t.sin = append(t.sin, float32(sin)*t.factor)
		}
	}
	t.positions = n
}

// at returns the cosines and sines of one position, (d/2) each.
func (t *ropeTable) at(position int) (cos, sin []float32) {
	half := len(t.frequencies)
	return t.cos[position*half : (position+1)*half], t.sin[position*half : (position+1)*half]
}

// extendRope makes the tables hold at least n positions.
func (e *Engine) extendRope(n int) {
	e.rope.extend(n)
	e.localRope.extend(n)
}

// ropeOf is the table of a layer, nil for none.
func (e *Engine) ropeOf(layer int) *ropeTable {
	switch e.config.Layer(layer).Rope {
	case policy.RopeNone:
		return nil
	case policy.RopeLocal:
		return &e.localRope
	}
	return &e.rope
}
