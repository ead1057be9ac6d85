// Package shares divides a sequence of rows among several in exact shares, without
// chance.
package shares

import (
	"iter"
	"math"
)

// Shares are weights as whole numbers without a common factor.
type Shares []int64

// Least and Most bound a weight, and Step is what weights are rounded to.
const (
	Least = 0.001
	Most  = 1000
	step  = 1000 // parts of 1
)

// New makes the shares of weights, each from [Least] to [Most], rounded to thousandths.
func New(weights []float64) Shares {
	s := make(Shares, len(weights))
	var common int64
	for i, w := range weights {
		s[i] = int64(math.Round(w * step))
		common = gcd(common, s[i])
	}
	for i := range s {
		s[i] /= common
	}
	return s
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Rows are the indices to which rows 1, 2, 3 … go, for ever. Of the first t rows an index
// of weight w, in a sum W of weights, has ⌊t·w/W⌋ or ⌈t·w/W⌉: exactly t·w/W where that is
// a whole number. It is the quota method of Balinski and Young (The American Mathematical
// Monthly 82, 1975, pp. 701-730): a row goes to the index with the largest w/(rows so far
// + 1) of those that it does not take above ⌈t·w/W⌉, the first of equals.
func (s Shares) Rows() iter.Seq[int] {
	return func(yield func(int) bool) {
		sum := s.sum()
		has := make([]int64, len(s))
		for t := int64(1); ; t++ {
			next := -1
			for i, w := range s {
				if has[i]*sum < t*w && (next < 0 || w*(has[next]+1) > s[next]*(has[i]+1)) {
					next = i
				}
			}
			has[next]++
			if !yield(next) {
				return
			}
		}
	}
}

func (s Shares) sum() (sum int64) {
	for _, w := range s {
		sum += w
	}
	return sum
}

// Plan are the indices of n rows, and how many rows each index has before them. Rows
// repeat with a period of the sum of the shares, after which each index has its own.
func (s Shares) Plan(before, n int) (rows, earlier []int) {
	sum := int(s.sum())
	earlier = make([]int, len(s))
	for i, w := range s {
		earlier[i] = before / sum * int(w)
	}
	before %= sum
	for i := range s.Rows() { // one more than are asked for
		switch {
		case before > 0:
			before--
			earlier[i]++
		case len(rows) < n:
			rows = append(rows, i)
		default:
			return rows, earlier
		}
	}
	panic("the rows never end")
}
