package paper

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// mostCompared bounds the texts that are compared pair by pair: of more, every n-th.
const mostCompared = 2000

// thinned takes at most some texts, evenly.
func thinned(texts []string, most int) []string {
	if len(texts) <= most {
		return texts
	}
	picked := make([]string, most)
	for i := range picked {
		picked[i] = texts[i*len(texts)/most]
	}
	return picked
}

// distances are the mean cosine and Euclidean distance of the pairs of texts by their
// embeddings of hashed n-grams; known is false of fewer than two texts. A policy's own
// states would be another measure in each run, so that methods could not be compared.
func distances(texts []string) (cosine, euclidean float64, known bool) {
	texts = thinned(texts, mostCompared)
	if len(texts) < 2 {
		return 0, 0, false
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = score.NGrams(text)
	}
	for i, a := range vectors {
		for _, b := range vectors[:i] {
			dot, square := 0., 0.
			for d := range a {
				x, y := float64(a[d]), float64(b[d])
				dot += x * y
				square += (x - y) * (x - y)
			}
			cosine += 1 - dot
			euclidean += math.Sqrt(square)
		}
	}
	pairs := float64(len(vectors)*(len(vectors)-1)) / 2
	return cosine / pairs, euclidean / pairs, true
}

// projection puts the distinct prompts of the first seed of each method on the two
// principal components of all of them together. A component's sign is that which
// makes its largest coefficient positive.
func projection(ctx context.Context, runs []*source) ([]own, error) {
	const most = 300 // points of a method
	var labels []string
	var rows [][]float64
	for i, r := range runs {
		if i > 0 && runs[i-1].label == r.label {
			continue
		}
		prompts, err := r.distinct(ctx)
		if err != nil {
			return nil, err
		}
		for _, text := range thinned(prompts, most) {
			vector := score.NGrams(text)
			row := make([]float64, len(vector))
			for d, x := range vector {
				row[d] = float64(x)
			}
			labels, rows = append(labels, r.label), append(rows, row)
		}
	}
	if len(rows) < 3 {
		return nil, absent("there are fewer than three distinct prompts")
	}
	data := mat.NewDense(len(rows), len(rows[0]), nil)
	for i, row := range rows {
		data.SetRow(i, row)
	}
	var components stat.PC
	if !components.PrincipalComponents(data, nil) {
		return nil, absent("the prompts have no principal components")
	}
	var axes, placed mat.Dense
	components.VectorsTo(&axes)
	dimensions, _ := axes.Dims()
	two := mat.DenseCopyOf(axes.Slice(0, dimensions, 0, 2))
	for c := range 2 {
		largest := 0.
		for d := range dimensions {
			if x := two.At(d, c); math.Abs(x) > math.Abs(largest)+1e-12 {
				largest = x
			}
		}
		for d := range dimensions {
			two.Set(d, c, two.At(d, c)*math.Copysign(1, largest))
		}
	}
	placed.Mul(data, two)
	values := make([]own, len(rows))
	for i := range rows {
		values[i] = own{labels[i], value{"", "second component", on(placed.At(i, 0)), placed.At(i, 1)}}
	}
	return values, nil
}
