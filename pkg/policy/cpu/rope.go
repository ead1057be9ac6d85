package cpu

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/policy"
)

// ropeTable holds the cosines and sines of rotary position embedding: position
// p rotates the pair (i, i+d/2) of a head of width d by p·f_i, with the
// frequencies of policy.Config and the product rounded to float32.
type ropeTable struct {
	frequencies []float32 // (d/2)
	cos, sin    []float32 // (positions, d/2)
	positions   int
}

func newRopeTable(c policy.Config) ropeTable { return ropeTable{frequencies: c.RopeFrequencies()} }

// extend makes the table hold at least n positions.
func (t *ropeTable) extend(n int) {
	if n <= t.positions {
		return
	}
	n = max(n, 2*t.positions)
	for p := t.positions; p < n; p++ {
		for _, f := range t.frequencies {
			sin, cos := math.Sincos(float64(float32(p) * f))
			t.cos = append(t.cos, float32(cos))
			t.sin = append(t.sin, float32(sin))
		}
	}
	t.positions = n
}

// at returns the cosines and sines of one position, (d/2) each.
func (t *ropeTable) at(position int) (cos, sin []float32) {
	half := len(t.frequencies)
	return t.cos[position*half : (position+1)*half], t.sin[position*half : (position+1)*half]
}
