package vec

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// tanh within 1e-11 of the library's, relative to it, over all arguments.
func TestTanh(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{0, 1e-300, 1e-9, 0.9e-3, 1e-3, 0.5, 1, 20, 43.9, 44, 1e300, math.Inf(1)} {
		for _, x := range []float64{x, -x} {
			if got, want := tanh(x), math.Tanh(x); math.Abs(got-want) > 1e-11*math.Abs(want) {
				t.Errorf("tanh(%g) is %g, want %g", x, got, want)
			}
		}
	}
	if got := tanh(math.NaN()); got == got {
		t.Errorf("tanh of no number is %g", got)
	}
	rapid.Check(t, func(rt *rapid.T) {
		x := rapid.Float64Range(-50, 50).Draw(rt, "x")
		if got, want := tanh(x), math.Tanh(x); math.Abs(got-want) > 1e-11*math.Abs(want) {
			rt.Fatalf("tanh(%g) is %g, want %g", x, got, want)
		}
	})
}

// Values by hand: tanh(1) = 0.76159416, and with x·scale/cap = 1 its slope is
// 1 - 0.76159416² = 0.41997434.
func TestSoftCap(t *testing.T) {
	t.Parallel()
	y := make([]float32, 3)
	SoftCap(y, []float32{0, 8, -8}, 0.5, 4)
	for i, want := range []float32{0, 3.0463767, -3.0463767} {
		if y[i] != want {
			t.Errorf("element %d is %v, want %v", i, y[i], want)
		}
	}
	dx := []float32{2, 2, 2}
	SoftCapGrad(dx, dx, y, 0.5, 4)
	for i, want := range []float32{1, 0.41997433, 0.41997433} {
		if math.Abs(float64(dx[i]-want)) > 1e-7 {
			t.Errorf("gradient %d is %v, want %v", i, dx[i], want)
		}
	}
}

// gelu(1) = 0.5·(1 + tanh(0.79788456·1.044715)) = 0.8411920, and gradients against
// central differences.
func TestGeGLU(t *testing.T) {
	t.Parallel()
	out := make([]float32, 2)
	GeGLU(out, []float32{1, 0}, []float32{2, 5})
	if math.Abs(float64(out[0])-1.6823840) > 1e-6 || out[1] != 0 {
		t.Errorf("got %v, want 1.682384 and 0", out)
	}
	rapid.Check(t, func(rt *rapid.T) {
		g, u := rapid.Float64Range(-6, 6).Draw(rt, "gate"), rapid.Float64Range(-3, 3).Draw(rt, "up")
		gate, up := []float32{float32(g)}, []float32{float32(u)}
		value, slope := gelu(float64(gate[0]))
		high, _ := gelu(float64(gate[0]) + 1e-5)
		low, _ := gelu(float64(gate[0]) - 1e-5)
		if want := (high - low) / 2e-5; math.Abs(slope-want) > 1e-6 {
			rt.Fatalf("the slope at %g is %g, by differences %g", g, slope, want)
		}
		GeGLUGrad(gate, up, []float32{2}, gate, up)
		if math.Abs(float64(up[0])-2*value) > 1e-6 || math.Abs(float64(gate[0])-2*u*slope) > 1e-5 {
			rt.Fatalf("gradients %v and %v, want %g and %g", gate, up, 2*u*slope, 2*value)
		}
	})
}
