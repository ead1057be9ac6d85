package paper

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/measure"
)

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
		prompts, err := r.Prompts(ctx)
		if err != nil {
			return nil, err
		}
		vectors, err := r.Embedded(ctx, measure.Thinned(prompts, most))
		if err != nil {
			return nil, err
		}
		for _, vector := range vectors {
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
		values[i] = own{labels[i], value{"", "second component", measure.On(placed.At(i, 0)), placed.At(i, 1)}}
	}
	return values, nil
}
