package vec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// A kernelCase runs one function on slices of length n and returns its results
// besides the slices. The slices are four inputs, which it may also write.
type kernelCase struct {
	name string
	run  func(s [5][]float32, scalars [3]float32) float64
}

var adamWParams = AdamWParams{
	LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1,
	BiasCorrection1: 0.1, BiasCorrection2: 0.05, GradScale: 0.7,
}

var kernelCases = []kernelCase{
	{"Add", func(s [5][]float32, _ [3]float32) float64 { Add(s[0], s[1], s[2]); return 0 }},
	{"Add in place", func(s [5][]float32, _ [3]float32) float64 { Add(s[0], s[0], s[2]); return 0 }},
	{"Mul", func(s [5][]float32, _ [3]float32) float64 { Mul(s[0], s[1], s[2]); return 0 }},
	{"AXPY", func(s [5][]float32, c [3]float32) float64 { AXPY(s[0], c[0], s[1]); return 0 }},
	{"Scale", func(s [5][]float32, c [3]float32) float64 { Scale(s[0], c[0], s[1]); return 0 }},
	{"Sum", func(s [5][]float32, _ [3]float32) float64 { return float64(Sum(s[0])) }},
	{"Dot", func(s [5][]float32, _ [3]float32) float64 { return float64(Dot(s[0], s[1])) }},
	{"SumSquares", func(s [5][]float32, _ [3]float32) float64 { return SumSquares(s[0]) }},
	{"Max", func(s [5][]float32, _ [3]float32) float64 { return float64(Max(s[0])) }},
	{"ExpShiftSum", func(s [5][]float32, c [3]float32) float64 {
		return float64(ExpShiftSum(s[0], s[1], c[0], c[1]))
	}},
	{"ExpShiftSum in place", func(s [5][]float32, _ [3]float32) float64 {
		return float64(ExpShiftSum(s[0], s[0], 1, 0))
	}},
	{"SwiGLU", func(s [5][]float32, _ [3]float32) float64 { SwiGLU(s[0], s[1], s[2]); return 0 }},
	{"SwiGLUGrad", func(s [5][]float32, _ [3]float32) float64 {
		SwiGLUGrad(s[0], s[1], s[2], s[3], s[4])
		return 0
	}},
	{"SwiGLUGrad in place", func(s [5][]float32, _ [3]float32) float64 {
		SwiGLUGrad(s[3], s[4], s[2], s[3], s[4])
		return 0
	}},
	{"RMSNorm", func(s [5][]float32, _ [3]float32) float64 {
		return float64(RMSNorm(s[0], s[1], s[2], 1e-6))
	}},
	{"RMSNormGrad", func(s [5][]float32, c [3]float32) float64 {
		RMSNormGrad(s[0], s[1], s[2], s[3], s[4], c[0], false)
		return 0
	}},
	{"RMSNormGrad accumulating", func(s [5][]float32, c [3]float32) float64 {
		RMSNormGrad(s[0], nil, s[2], s[3], s[4], c[0], true)
		return 0
	}},
	{"SoftmaxGrad", func(s [5][]float32, c [3]float32) float64 {
		SoftmaxGrad(s[0], s[1], s[2], c[0], c[1])
		return 0
	}},
	{"RoPE", func(s [5][]float32, _ [3]float32) float64 {
		if half := len(s[0]) / 2; half > 0 {
			RoPE(s[0][:2*half], s[1][:half], s[2][:half])
		}
		return 0
	}},
	{"RoPEGrad", func(s [5][]float32, _ [3]float32) float64 {
		if half := len(s[0]) / 6; half > 0 {
			RoPEGrad(s[0][:6*half], s[1][:half], s[2][:half])
		}
		return 0
	}},
	{"AdamW", func(s [5][]float32, _ [3]float32) float64 {
		AdamW(s[0], s[1], s[2], s[3], adamWParams)
		return 0
	}},
}

// guard is the value around the slices of a test; no kernel may change it.
const guard = float32(-7.25e17)

// outcome is the state of the slices and the result after a kernel ran.
func outcome(c kernelCase, seed uint64, n, misalignment int, specials float64) (slices [5][]float32, result float64, err error) {
	r := rand.New(rand.NewPCG(seed, 7))
	var whole [5][]float32
	for i := range slices {
		whole[i] = make([]float32, n+misalignment+40)
		for j := range whole[i] {
			whole[i][j] = guard
		}
		slices[i] = whole[i][misalignment : misalignment+n]
		draw(r, slices[i], specials)
	}
	var scalars [3]float32
	draw(r, scalars[:], specials)
	result = c.run(slices, scalars)
	for i := range whole {
		for j, v := range whole[i] {
			if (j < misalignment || j >= misalignment+n) && v != guard {
				return slices, result, fmt.Errorf("wrote slice %d outside its bounds, at %d of length %d", i, j-misalignment, n)
			}
		}
	}
	return slices, result, nil
}

// checkEqual compares a kernel on every instruction set with the widest.
func checkEqual(t rapid.TB, c kernelCase, seed uint64, n, misalignment int, specials float64) {
	var first string // the widest
	var want [5][]float32
	var wantResult float64
	for isa := range EachISA {
		got, gotResult, err := outcome(c, seed, n, misalignment, specials)
		if err != nil {
			t.Fatalf("%s, %s: %v", c.name, isa, err)
		}
		if first == "" {
			first, want, wantResult = isa, got, gotResult
			continue
		}
		if gotResult != wantResult && (gotResult == gotResult || wantResult == wantResult) {
			t.Fatalf("%s, n = %d: result is %v with %s, %v with %s", c.name, n, gotResult, isa, wantResult, first)
		}
		for i := range want {
			for j := range want[i] {
				if !sameBits(got[i][j], want[i][j]) {
					t.Fatalf("%s, n = %d: slice %d differs at %d: %v with %s, %v with %s",
						c.name, n, i, j, got[i][j], isa, want[i][j], first)
				}
			}
		}
	}
}

// TestEqualAcrossISA is the contract of the package: the same bits, and nothing
// written outside the slices, for every length up to three steps of the loops.
func TestEqualAcrossISA(t *testing.T) {
	t.Parallel()
	for _, c := range kernelCases {
		for n := range 3*lanes + 2 {
			checkEqual(t, c, uint64(n), n, n%5, 0)
			checkEqual(t, c, uint64(n), n, n%3, 0.3)
		}
	}
}

func TestEqualAcrossISARandomly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkEqual(t,
			rapid.SampledFrom(kernelCases).Draw(t, "kernel"),
			rapid.Uint64().Draw(t, "seed"),
			rapid.IntRange(0, 700).Draw(t, "n"),
			rapid.IntRange(0, 17).Draw(t, "misalignment"),
			rapid.SampledFrom([]float64{0, 0, 0.02, 0.3}).Draw(t, "specials"),
		)
	})
}

// TestExpEqualDensely looks for differences that only one argument in many
// thousands would show, such as a coefficient that is off in its last bit.
func TestExpEqualDensely(t *testing.T) {
	t.Parallel()
	x := make([]float32, 1<<20)
	for i := range x {
		x[i] = -88 + 177*float32(i)/float32(len(x))
	}
	want, got := make([]float32, len(x)), make([]float32, len(x))
	wantSum := expShiftSumGo(want, x, 1, 0)
	for isa := range EachISA {
		if sum := ExpShiftSum(got, x, 1, 0); sum != wantSum {
			t.Errorf("%s: sum is %v, want %v", isa, sum, wantSum)
		}
		for i := range x {
			if got[i] != want[i] {
				t.Fatalf("%s: exp(%v) = %x, want %x", isa, x[i], got[i], want[i])
			}
		}
	}
}
