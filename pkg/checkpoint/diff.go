package checkpoint

import (
	"errors"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Difference is what the weights of two policies, a and b, differ in.
type Difference struct {
	OnlyA   []string           `json:"only_a"`   // tensors that b has not
	OnlyB   []string           `json:"only_b"`   // tensors that a has not
	Differ  []TensorDifference `json:"differ"`   // tensors of both that differ, in a's order
	Same    int                `json:"same"`     // tensors of both that do not
	MaxAbs  float64            `json:"max_abs"`  // the largest of all tensors
	MaxRel  float64            `json:"max_rel"`  // the largest of all tensors
	Changed int                `json:"changed"`  // elements that differ, of all tensors
	Total   int                `json:"compared"` // elements of tensors of both with equal shapes
}

// TensorDifference is what a tensor of two policies differs in: shape, type
// or numbers. Numbers are compared as float32, if the shapes are equal.
type TensorDifference struct {
	Name     string            `json:"name"`
	ShapeA   []int             `json:"shape_a"`
	ShapeB   []int             `json:"shape_b"`
	DTypeA   safetensors.DType `json:"dtype_a"`
	DTypeB   safetensors.DType `json:"dtype_b"`
	Elements int               `json:"elements"` // of a's tensor
	Changed  int               `json:"changed"`  // elements that differ
	MaxAbs   float64           `json:"max_abs"`  // the largest |x-y|
	MaxRel   float64           `json:"max_rel"`  // the largest |x-y| / max(|x|, |y|)
}

// Equal reports whether nothing differs.
func (d Difference) Equal() bool { return len(d.OnlyA)+len(d.OnlyB)+len(d.Differ) == 0 }

// Diff compares the weights of two model folders, which may be of different
// shapes and divided into files differently.
func Diff(folderA, folderB string) (Difference, error) {
	a, err := Open(folderA)
	if err != nil {
		return Difference{}, err
	}
	defer a.Close()
	b, err := Open(folderB)
	if err != nil {
		return Difference{}, err
	}
	defer b.Close()
	return compare(a, b)
}

func compare(a, b policy.Source) (Difference, error) {
	var d Difference
	inB := map[string]int{}
	tensorsA, tensorsB := a.Tensors(), b.Tensors()
	for i, t := range tensorsB {
		inB[t.Name] = i
	}
	for i, t := range tensorsA {
		j, both := inB[t.Name]
		if !both {
			d.OnlyA = append(d.OnlyA, t.Name)
			continue
		}
		delete(inB, t.Name)
		other := tensorsB[j]
		one := TensorDifference{
			Name: t.Name, ShapeA: t.Shape, ShapeB: other.Shape, DTypeA: t.StoredAs(), DTypeB: other.StoredAs(), Elements: t.Elements(),
		}
		if slices.Equal(t.Shape, other.Shape) {
			if err := one.compare(a, i, b, j); err != nil {
				return Difference{}, err
			}
			d.Total += one.Elements
		}
		d.add(one)
	}
	for _, t := range tensorsB {
		if _, left := inB[t.Name]; left {
			d.OnlyB = append(d.OnlyB, t.Name)
		}
	}
	return d, nil
}

func (d *Difference) add(t TensorDifference) {
	if t.Changed == 0 && t.DTypeA == t.DTypeB && slices.Equal(t.ShapeA, t.ShapeB) {
		d.Same++
		return
	}
	d.Differ = append(d.Differ, t)
	d.Changed += t.Changed
	d.MaxAbs, d.MaxRel = max(d.MaxAbs, t.MaxAbs), max(d.MaxRel, t.MaxRel)
}

// compare compares the numbers of tensor i of a with those of tensor j of b.
func (t *TensorDifference) compare(a policy.Source, i int, b policy.Source, j int) error {
	const chunk = 1 << 18 // elements at a time
	n := min(chunk, t.Elements)
	x, y := make([]float32, n), make([]float32, n)
	for from := 0; from < t.Elements; from += n {
		n = min(n, t.Elements-from)
		if err := errors.Join(a.Float32To(x[:n], i, from), b.Float32To(y[:n], j, from)); err != nil {
			return err
		}
		for k, p := range x[:n] {
			q := y[k]
			if p == q {
				continue
			}
			t.Changed++
			apart := math.Abs(float64(p) - float64(q))
			t.MaxAbs = max(t.MaxAbs, apart)
			t.MaxRel = max(t.MaxRel, apart/max(math.Abs(float64(p)), math.Abs(float64(q))))
		}
	}
	return nil
}
