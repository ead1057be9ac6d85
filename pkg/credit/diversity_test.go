package credit

import (
	"math"
	"strings"
	"testing"
)

// ExIt Eq. 6, by hand: the centroid of (0,0), (4,0), (0,0), (0,4)
// is (1,1); the distances are √2, √10, √2, √10 and their range √10-√2.
func TestDiversityScores(t *testing.T) {
	t.Parallel()
	r2, r10 := math.Sqrt2, math.Sqrt(10)
	for _, unit := range []float32{1. / 65536, 1, 65536} { // which does not matter, nor what does not count
		got, err := DiversityScores([][]float32{{7}, {0, 0}, {4 * unit, 0}, {0, 0}, {0, 4 * unit}}, []bool{false, true, true, true, true})
		if err != nil {
			t.Fatal(err)
		}
		nearAll(t, "d", got, []float64{0, r2 / (r10 - r2), r10 / (r10 - r2), r2 / (r10 - r2), r10 / (r10 - r2)})
	}
}

// A range of 0 is defined as "nobody is more diverse": advantages stay.
func TestDiversityWithoutRange(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		embeddings [][]float32
	}{
		{"equal embeddings", [][]float32{{.1, .7}, {.1, .7}, {.1, .7}}},
		{"two responses are equally far from their mean", [][]float32{{.1, .7}, {.3, -.2}}},
		{"one response", [][]float32{{.1, .7}}},
		{"a simplex: distances that differ in rounding alone", [][]float32{{.1, 0, 0, 0, 0}, {0, .1, 0, 0, 0}, {0, 0, .1, 0, 0}, {0, 0, 0, .1, 0}, {0, 0, 0, 0, .1}}},
		{"a square around its centre", [][]float32{{.1, .1}, {.1, .3}, {.3, .1}, {.3, .3}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := DiversityScores(test.embeddings, allValid(len(test.embeddings)))
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range got {
				if d != 1 {
					t.Errorf("d[%d] = %v, want 1", i, d)
				}
			}
		})
	}
}

func TestDiversityErrors(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	for _, test := range []struct {
		name       string
		embeddings [][]float32
		want       string
	}{
		{"missing", [][]float32{{1}, nil}, "embedding of response 1 has 0 numbers, that of response 0 has 1"},
		{"none at all", [][]float32{nil, nil}, "embedding of response 0 has 0 numbers"},
		{"marks", [][]float32{{1}}, "1 embeddings, 2 valid marks"},
		{"NaN", [][]float32{{1, 2}, {3, nan}}, "number 1 of the embedding of response 1 is NaN"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := DiversityScores(test.embeddings, allValid(2))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
