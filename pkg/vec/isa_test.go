package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sameBits tells whether a and b are the same value; all NaNs are the same.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || (a != a && b != b)
}

// special are values at the edges of the kernels' arguments.
var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 0.5, -0.5,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32,
	0x1p-126, -0x1p-126, expMin, expMax, -expMin, -expMax,
	math.Nextafter32(expMin, -100), math.Nextafter32(expMax, 100),
	88, -88, 89, -89, 104, -104, 1e-20, -1e-20, 1e20, -1e20,
}

// draw fills x with values of a mixture of magnitudes, and with special values
// with the given probability.
func draw(r *rand.Rand, x []float32, specials float64) {
	for i := range x {
		switch {
		case r.Float64() < specials:
			x[i] = special[r.IntN(len(special))]
		case r.IntN(4) == 0:
			x[i] = math.Float32frombits(r.Uint32())
			if specials == 0 && !(math.Abs(float64(x[i])) < 1e18) {
				x[i] = 1
			}
		default:
			x[i] = float32(r.NormFloat64() * 4)
		}
	}
}

func TestEachISA(t *testing.T) {
	t.Parallel()
	var seen []string
	for isa := range EachISA {
		seen = append(seen, isa)
		for _, name := range []string{"", "sse2", "AVX2", "avx-512"} {
			if err := selectISA(name); err == nil || !strings.Contains(err.Error(), strconv.Quote(name)) {
				t.Errorf("selectISA(%q): %v, want an error that quotes it", name, err)
			}
			if Active().String() != isa {
				t.Errorf("a failed choice changed the instruction set from %s to %v", isa, Active())
			}
		}
	}
	if !slices.Equal(seen, AvailableISAs()) {
		t.Errorf("in turn %v, want %v", seen, AvailableISAs())
	}
}
