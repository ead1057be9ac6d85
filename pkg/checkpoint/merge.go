package checkpoint

import (
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// Merge writes a whole policy into an existing folder: that of a base folder,
// with an adapter's products added to its matrices,
//
//	W + s·B·A,
//
// in float32, rounded to the type that the base has the matrix in. Names,
// files and everything else are the base's, but for the value head, which is
// the adapter's: it was trained with it. An empty base is the one that the
// adapter's folder names. Sealing the files is the caller's business.
func Merge(adapter, base, to string) error {
	is, err := IsAdapter(adapter)
	if err != nil {
		return err
	}
	if !is {
		return exitcode.Dataf("merging %q: it is not an adapter: it has no %s", adapter, AdapterConfigFile)
	}
	base, config, err := AdaptedConfig(adapter, base)
	if err != nil {
		return err
	}
	a, err := LoadAdapter(adapter, config, false)
	if err != nil {
		return err
	}
	source, err := openFolder(base)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := carryConfig(to, base, source.tensors, source.tensors); err != nil {
		return err
	}
	merged := newMerged(source, a)
	if err := writePlanned(to, source.plan(source.tensors), source.weights.sharded, merged.Float32To); err != nil {
		return fmt.Errorf("merging %q into %q: %w", adapter, base, err)
	}
	if err := carryValueHead(to, adapter); err != nil {
		return err
	}
	return CarryFiles(to, base)
}

// merged is a source with an adapter's products added.
type merged struct {
	policy.Source
	columns []int       // of each tensor
	down    [][]float32 // A (rank, in) of each tensor; nil where it is not adapted
	up      [][]float32 // s·B (out, rank)
	rank    int
}

func newMerged(source policy.Source, a policy.Adapter) *merged {
	byName := map[string][]float32{}
	for _, t := range a.Tensors {
		byName[t.Name] = t.Data
	}
	tensors := source.Tensors()
	m := &merged{Source: source, rank: a.Rank, columns: make([]int, len(tensors)), down: make([][]float32, len(tensors)), up: make([][]float32, len(tensors))}
	for i, t := range tensors {
		prefix := "base_model.model." + strings.TrimSuffix(t.Name, "weight")
		if down := byName[prefix+"lora_A.weight"]; down != nil {
			up := byName[prefix+"lora_B.weight"]
			m.columns[i], m.down[i], m.up[i] = t.Shape[1], down, make([]float32, len(up))
			vec.Scale(m.up[i], a.Scale(), up)
		}
	}
	return m
}

// Float32To implements [Source]. An element is a chain over the rank in
// ascending order.
func (m *merged) Float32To(dst []float32, index, from int) error {
	if err := m.Source.Float32To(dst, index, from); err != nil {
		return err
	}
	if m.down[index] == nil {
		return nil
	}
	for columns := m.columns[index]; len(dst) > 0; {
		row, column := from/columns, from%columns
		n := min(len(dst), columns-column)
		for k := range m.rank {
			vec.AXPY(dst[:n], m.up[index][row*m.rank+k], m.down[index][k*columns+column:][:n])
		}
		dst, from = dst[n:], from+n
	}
	return nil
}
