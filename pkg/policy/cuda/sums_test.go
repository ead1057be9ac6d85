//go:build cgo && linux

package cuda_test

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/policy/policytest"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// unit accumulates the gradient of one part of a batch.
func unit(t *testing.T, e *cuda.Engine, c policy.Config, seed uint64) {
	t.Helper()
	batch := policytest.Batch(c, seed, 6, 19)
	forward(t, e, batch, policy.Sampling{Temperature: 1})
	backward(t, e, policy.Coefficients{LogProb: policytest.Coefficients(batch, seed)})
}

// plus is a + b.
func plus(a, b []policy.Tensor) []policy.Tensor {
	sum := slices.Clone(a)
	for i := range sum {
		sum[i].Data = make([]float32, len(a[i].Data))
		vec.Add(sum[i].Data, a[i].Data, b[i].Data)
	}
	return sum
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Four parts summed in the engine as (a+b)+(c+d), on the device or on the host,
// have the bits of the same sums in Go, and so has what a step makes of them.
// Where the sums are on the device, no gradient leaves it.
func TestSumsInTheEngine(t *testing.T) {
	c := small(nil)
	for dtype, weights := range types(t, c) {
		for _, sums := range []struct{ device, spilled int }{{2, 0}, {1, 1}, {0, 2}} {
			if policytest.Emulated() && (dtype == safetensors.BF16) != (sums.device == 1) {
				continue
			}
			b := budgets(func(b *cuda.Budgets) { b.GradientSums, b.SpilledSums = sums.device, sums.spilled })
			options := cuda.Options{Train: true, DType: dtype}
			outside := open(t, c, weights, options, b)
			var parts [4][]policy.Tensor
			for i := range parts {
				outside.ZeroGradients()
				unit(t, outside, c, uint64(i))
				parts[i] = outside.Gradients()
			}
			left, right := plus(parts[0], parts[1]), plus(parts[2], parts[3])
			for i, g := range plus(left, right) {
				must(t, outside.WriteGradient(i, 0, g.Data))
			}
			want, err := outside.Step(adamW)
			must(t, err)

			inside := open(t, c, weights, options, b)
			_, err = inside.Stats()
			must(t, err)
			unit(t, inside, c, 0)
			must(t, inside.HoldGradients(0))
			unit(t, inside, c, 1)
			must(t, inside.AddGradients(0))
			must(t, inside.HoldGradients(1))
			unit(t, inside, c, 2)
			must(t, inside.HoldGradients(0))
			unit(t, inside, c, 3)
			must(t, inside.AddGradients(0))
			must(t, inside.AddGradients(1))
			got, err := inside.Step(adamW)
			must(t, err)
			stats, err := inside.Stats()
			must(t, err)
			if got != want || got.Skipped {
				t.Errorf("%+v: step %+v, want %+v", sums, got, want)
			}
			sameTensors(t, "weights", inside.Weights(), outside.Weights())
			sum := inside.Predicted().SumBytes + inside.Predicted().SpilledBytes
			spilled := map[int]int64{0: 3, 1: 1, 2: 0}[sums.device] // holds on the host
			if least := spilled * sum / 2; stats.ToHostBytes < least || stats.ToHostBytes > least+sum/8 || stats.ToDeviceBytes < least || stats.ToDeviceBytes > least+sum/8 {
				t.Errorf("%+v: %d bytes to the host and %d to the device; of gradients should be %d", sums, stats.ToHostBytes, stats.ToDeviceBytes, least)
			}

			for i, want := range left {
				half := len(want.Data) / 2
				read := make([]float32, len(want.Data))
				must(t, inside.ReadSum(1, i, half, read[half:]))
				must(t, inside.ReadSum(1, i, 0, read[:half]))
				if !policytest.SameBits(read, want.Data) {
					t.Errorf("sum 1 of %s is not a + b", want.Name)
				}
			}
		}
	}
}

// Room is what makes one pass: rows of 16, and so many sequences.
func TestRoom(t *testing.T) {
	c := small(nil)
	e := open(t, c, policytest.LoudWeights(t, c), cuda.Options{}, budgets(func(b *cuda.Budgets) { b.PassTokens, b.PassSequences = 96, 3 }))
	each := func(lengths ...int) [][]int {
		var groups [][]int
		for _, n := range lengths {
			groups = append(groups, []int{n})
		}
		return groups
	}
	for _, test := range []struct {
		groups [][]int
		want   int
	}{
		{nil, 0},
		{each(500), 1},
		{each(500, 1), 1},
		{each(17, 33, 16), 3}, // 32 + 48 + 16 rows
		{each(17, 33, 17), 2},
		{each(16, 33, 32), 3},
		{each(1, 1, 1, 1), 3},
		{each(1, 0, 1, 0, 1, 0, 1), 6},
		{[][]int{{1, 1}, {1}, {1}}, 2},
		{[][]int{{1, 0, 17}, {33}, {1}}, 2}, // 16 + 32 + 48 rows
		{[][]int{{1}, {1, 17, 49}, {1}}, 1},
	} {
		if got := e.Room(test.groups); got != test.want {
			t.Errorf("room for %d of %v, want %d", got, test.groups, test.want)
		}
	}
}
