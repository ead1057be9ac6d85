package shares

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		weights       []float64
		before, n     int
		rows, earlier []int
	}{
		{[]float64{3}, 2, 3, []int{0, 0, 0}, []int{2}},
		{[]float64{1, 1}, 0, 4, []int{0, 1, 0, 1}, []int{0, 0}},
		// w/(rows+1): 2 > 1; 1 = 1, the first; 2/3 < 1. Three rows are a period.
		{[]float64{2, 1}, 0, 6, []int{0, 0, 1, 0, 0, 1}, []int{0, 0}},
		// 2 > 1 = 1; 0 has ⌈2·2/4⌉ already, 1 = 1; 1 = 1; 0 and 1 have ⌈4·w/4⌉.
		{[]float64{0.5, 0.25, 0.25}, 4, 4, []int{0, 1, 0, 2}, []int{2, 1, 1}},
		{[]float64{1, 1, 1}, 2, 0, nil, []int{1, 1, 0}},
	} {
		rows, earlier := New(c.weights).Plan(c.before, c.n)
		if !slices.Equal(rows, c.rows) || !slices.Equal(earlier, c.earlier) {
			t.Errorf("%v, %d rows after %d: %v, %v, want %v, %v", c.weights, c.n, c.before, rows, earlier, c.rows, c.earlier)
		}
	}
}

// TestPeriod: plans one after the other are the rows in their order.
func TestPeriod(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := New(rapid.SliceOfN(rapid.SampledFrom([]float64{0.5, 1, 2, 3}), 1, 4).Draw(t, "weights"))
		n := rapid.IntRange(1, 9).Draw(t, "rows of a plan")
		var planned []int
		for len(planned) < 60 {
			before := len(planned)
			rows, earlier := s.Plan(before, n)
			for i := range s {
				if want := len(slices.DeleteFunc(slices.Clone(planned), func(j int) bool { return j != i })); earlier[i] != want {
					t.Fatalf("%d has %d rows before row %d, want %d", i, earlier[i], before, want)
				}
			}
			planned = append(planned, rows...)
		}
		for i := range s.Rows() {
			if planned[0] != i {
				t.Fatalf("row %d is of %d, want %d", 60-len(planned), planned[0], i)
			}
			if planned = planned[1:]; len(planned) == 0 {
				return
			}
		}
	})
}

// TestQuota: at every row each index has its share, rounded down or up.
func TestQuota(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(Least, Most), 1, 6).Draw(t, "weights")
		s := New(weights)
		sum := s.sum()
		has, row := make([]int64, len(s)), int64(0)
		for i := range s.Rows() {
			row++
			has[i]++
			for j, w := range s {
				if low := row * w / sum; has[j] < low || has[j] > (row*w+sum-1)/sum {
					t.Fatalf("shares %v: %d has %d of %d rows", s, j, has[j], row)
				}
			}
			if row == 200 {
				return
			}
		}
	})
}
