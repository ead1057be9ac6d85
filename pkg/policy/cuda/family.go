package cuda

import (
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
)

// computed are the parts of families that the kernels compute.
var computed = []policy.Part{policy.PartRopeFactor, policy.PartLocalRope, policy.PartNoRope}

// frequencies are those of rotary embedding, (layers, head_dim/2 + 1): of a layer's
// pairs, and then what cosines and sines are multiplied by. A layer without it turns
// nothing.
func frequencies(c policy.Config) []float32 {
	var all []float32
	for i := range c.NumHiddenLayers {
		kind := c.Layer(i).Rope
		if kind == policy.RopeNone {
			all = append(append(all, make([]float32, c.HeadDim/2)...), 1)
			continue
		}
		own, factor := c.RopeFrequencies(kind)
		all = append(append(all, own...), factor)
	}
	return all
}

// Takes reports whether the engine computes policies of a shape.
func Takes(c policy.Config) bool { return len(missing(c)) == 0 }

// missing are the parts that the kernels do not compute.
func missing(c policy.Config) []string {
	var parts []string
	for _, part := range c.Parts() {
		if !slices.Contains(computed, part) {
			parts = append(parts, string(part))
		}
	}
	return parts
}

// checkFamily refuses policies with a part that the kernels do not compute.
func checkFamily(c policy.Config) error {
	if parts := missing(c); len(parts) > 0 {
		return exitcode.WithHint(exitcode.Usagef("the GPU engine does not compute policies of %s: it lacks %s", c.Architecture, strings.Join(parts, ", ")),
			"set policy.backend to cpu: the CPU engine computes them")
	}
	return nil
}
