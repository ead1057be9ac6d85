package credit

import (
	"math"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// minDistanceRange is the range of the distances of a group, as a share of
// the largest, below which they count as equal: embeddings are float32, so a
// smaller range is rounding.
const minDistanceRange = 1e-6

// DiversityScores returns the diversity scores of one group (ExIt Eq. 6): the distance of each
// embedding to the centroid of the group, divided by the range of the distances.
//
//	d_i = |e_i - c| / (max_j |e_j - c| - min_j |e_j - c|)
//
// embeddings has shape (G, D). Only valid responses enter; the others get 0.
// The paper does not say what a range of 0 means (reading exit-diversity-range). Where all distances are
// equal — one response, two responses, or equal embeddings — no response is
// more diverse than another, and every d_i is 1. Otherwise the largest score
// is the smallest plus 1, and a range that is small beside the distances
// makes all of them large: the formula has no bound.
func DiversityScores(embeddings [][]float32, valid []bool) ([]float64, error) {
	if len(valid) != len(embeddings) {
		return nil, exitcode.Bugf("computing diversity: %d embeddings, %d valid marks", len(embeddings), len(valid))
	}
	centroid, err := centroid(embeddings, valid)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(embeddings))
	nearest, farthest := math.Inf(1), math.Inf(-1)
	for i, e := range embeddings {
		if !valid[i] {
			continue
		}
		var squares float64
		for k, x := range e {
			off := float64(x) - centroid[k]
			squares += off * off
		}
		scores[i] = math.Sqrt(squares)
		nearest, farthest = min(nearest, scores[i]), max(farthest, scores[i])
	}
	span := farthest - nearest
	for i := range scores {
		switch {
		case !valid[i]:
		case span <= minDistanceRange*farthest:
			scores[i] = 1
		default:
			scores[i] /= span
		}
	}
	return scores, nil
}

// centroid returns the mean embedding of the valid responses, nil if there
// is none.
func centroid(embeddings [][]float32, valid []bool) ([]float64, error) {
	var sum []float64
	var first int
	var count float64
	for i, e := range embeddings {
		if !valid[i] {
			continue
		}
		if sum == nil {
			first, sum = i, make([]float64, len(e))
		}
		if len(e) != len(sum) || len(e) == 0 {
			return nil, exitcode.Dataf("computing diversity: embedding of response %d has %d numbers, that of response %d has %d; want equal and at least 1", i, len(e), first, len(sum))
		}
		for k, x := range e {
			if !isFinite(float64(x)) {
				return nil, exitcode.Dataf("computing diversity: number %d of the embedding of response %d is %v", k, i, x)
			}
			sum[k] += float64(x)
		}
		count++
	}
	for k := range sum {
		sum[k] /= count
	}
	return sum, nil
}
