package cpu

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// group is one tensor of the layout, or several that lie next to each other
// and are used as one.
type group struct {
	first  int // index of its first tensor
	offset int // elements of all tensors before it
	parts  []part
}

// part is one tensor of a group.
type part struct {
	from, to int // its elements in the group
	dtype    safetensors.DType
}

// size is the number of elements.
func (g *group) size() int { return g.parts[len(g.parts)-1].to }

// all reports whether every tensor has a type.
func (g *group) all(dtype safetensors.DType) bool {
	return !slices.ContainsFunc(g.parts, func(p part) bool { return p.dtype != dtype })
}

// each calls f for what the elements [from, to) of the group have of each
// tensor: elements [begin, end), of which the first is number at of the tensor.
func (g *group) each(from, to int, f func(index int, dtype safetensors.DType, begin, end, at int)) {
	for i, p := range g.parts {
		begin, end := max(from, p.from), min(to, p.to)
		if begin < end {
			f(g.first+i, p.dtype, begin, end, begin-p.from)
		}
	}
}

// round rounds values, the elements of the group from from on, each to its
// tensor's type.
func (g *group) round(values []float32, from int) {
	g.each(from, from+len(values), func(_ int, dtype safetensors.DType, begin, end, _ int) {
		roundTo(values[begin-from:end-from], dtype)
	})
}

// roundTo rounds values to nearest, ties to even.
func roundTo(values []float32, dtype safetensors.DType) {
	if dtype == safetensors.BF16 {
		vec.RoundToBF16(values)
	} else {
		dtype.Round(values)
	}
}

// parameter is a group of vectors, or of matrices that are not multiplied by
// from here, with its gradient.
type parameter struct {
	group
	value  []float32 // rounded
	master []float32 // what value was rounded from; empty when that is value itself
	grad   []float32 // as long as value; empty when it is not trained

	offset     float32
	multiplier []float32 // what everything computes with: value with the offset added
}

// setMultiplier follows a change of the value.
func (p *parameter) setMultiplier() {
	if p.offset == 0 {
		return // they are one
	}
	for i, x := range p.value {
		p.multiplier[i] = float32(p.offset + x)
	}
}

// weight is a group of matrices (out, in) one below the other. It is held
// packed, as a forward pass multiplies by it, and in no other form, except that
// training may keep what it was rounded from.
type weight struct {
	group
	out, in int
	packed  gemm.Packed // rounded
	master  []float32   // (out, in) or empty
	grad    []float32   // (out, in), empty when it is not trained
	blank   bool        // the gradient is zero, whatever grad holds
}

// row copies row i (in), widened to float32.
func (w *weight) row(dst []float32, i int) { w.packed.Column(dst, i) }

// addGrad adds dyᵀ·x to the gradient, if it is trained. dy is (rows, out) and x
// (rows, in), with rows of dyStride and xStride elements.
func (w *weight) addGrad(dy []float32, dyStride int, x []float32, xStride, rows, threads int) {
	if len(w.grad) == 0 {
		return
	}
	newProducts(w.packed.Format == gemm.BFloat16Pairs).tn(w.grad, w.in, dy, dyStride, x, xStride, w.out, w.in, rows, !w.blank, threads)
	w.blank = false
}

// settle makes a blank gradient zeros.
func (w *weight) settle(threads int) {
	if w.blank {
		parallel(threads, len(w.grad), unitElements, func(_, from, to int) { clear(w.grad[from:to]) })
		w.blank = false
	}
}

// unit is a part of a group that one goroutine loads, updates or reads at a
// time: some rows of a matrix, in whole panels, or a parameter.
type unit struct {
	*group
	weight    *weight
	parameter *parameter
	from, to  int // elements in the group
}

// unitElements is what a unit of a matrix has at most, if one panel of rows has
// no more.
const unitElements = 1 << 16

// panelRows is the number of rows that gemm packs together.
const panelRows = 32

// units divides a matrix.
func (w *weight) units() []unit {
	rows := max(1, unitElements/(panelRows*w.in)) * panelRows
	var all []unit
	for row := 0; row < w.out; row += rows {
		all = append(all, unit{group: &w.group, weight: w, from: row * w.in, to: min(w.out, row+rows) * w.in})
	}
	return all
}

// master is what the optimizer reads and writes, empty if it is the rounded
// weights.
func (u *unit) master() []float32 {
	switch {
	case u.weight == nil && len(u.parameter.master) > 0:
		return u.parameter.master
	case u.weight != nil && len(u.weight.master) > 0:
		return u.weight.master[u.from:u.to]
	}
	return nil
}

// grad is the gradient.
func (u *unit) grad() []float32 {
	if u.weight == nil {
		return u.parameter.grad
	}
	return u.weight.grad[u.from:u.to]
}

// read copies the weights, rounded each to its tensor's type. Where products round
// further, the master has what is packed in fewer bits.
func (u *unit) read(dst []float32) {
	if u.weight == nil {
		copy(dst, u.parameter.value)
		return
	}
	if master := u.master(); master != nil && u.weight.packed.Format == gemm.BFloat16Pairs {
		copy(dst, master)
		u.round(dst[:len(master)], u.from)
		return
	}
	u.weight.packed.Columns(dst, u.from/u.weight.in, (u.to-u.from)/u.weight.in, 1)
}

// write sets the weights to values, which it rounds, in scratch of the same
// length if need be; scratch may be values.
func (u *unit) write(values, scratch []float32) {
	packsRounded := u.weight != nil && u.weight.packed.Format != gemm.Float32 && u.all(safetensors.BF16)
	if !packsRounded && !u.all(safetensors.F32) {
		copy(scratch, values)
		values = scratch
		u.round(values, u.from)
	}
	if u.weight == nil {
		copy(u.parameter.value, values)
		u.parameter.setMultiplier()
		return
	}
	u.weight.packed.SetColumns(u.from/u.weight.in, values, (u.to-u.from)/u.weight.in, 1)
}

// load fills the weights, and the master if there is one, from a source.
func (u *unit) load(source policy.Source, scratch []float32) error {
	var err error
	u.each(u.from, u.to, func(index int, _ safetensors.DType, begin, end, at int) {
		if err == nil {
			err = source.Float32To(scratch[begin-u.from:end-u.from], index, at)
		}
	})
	if err != nil {
		return err
	}
	copy(u.master(), scratch)
	u.write(scratch, scratch)
	return nil
}
