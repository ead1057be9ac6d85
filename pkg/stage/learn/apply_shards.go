package learn

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Parts are the files of a policy, into which an update in parts divides it.
type Parts struct {
	Files   []int64 // elements of each
	Largest int64   // elements of the largest tensor
	Kept    int64   // float32 numbers that the optimizer has for an element: moments and, of rounded weights, a master
	Models  int64   // that are updated: 2 with a critic that is a model of its own
	Bytes   int64   // of all weights, gradients and optimizer states, in their types
}

// PartsOf are those of a whole policy in a folder.
func PartsOf(s Settings, folder string) (Parts, error) {
	opened, err := checkpoint.OpenParts(folder, s.Policy.ValueHead())
	if err != nil {
		return Parts{}, err
	}
	p, m := Parts{Kept: 2, Models: 1}, model{state: backend.DTypes[s.Optimizer.State]}
	if s.Policy.Critic == recipe.CriticModel {
		p.Models = 2
	}
	for _, file := range opened.Files {
		elements := int64(0)
		for _, index := range file.Tensors {
			t := opened.Tensors[index]
			t.DType = cmp.Or(backend.DTypes[s.Policy.DType], t.DType)
			n, each := int64(t.Elements()), t.StoredAs().Bytes()+4+2*cmp.Or(m.state, safetensors.F32).Bytes()
			if m.mastered(t) {
				p.Kept, each = 3, each+4
			}
			elements, p.Largest, p.Bytes = elements+n, max(p.Largest, n), p.Bytes+n*int64(each)*p.Models
		}
		p.Files = append(p.Files, elements)
	}
	return p, opened.Close()
}

// Held is what the tasks of an update in parts hold in memory, at most, in bytes: one that
// adds up gradients those of its files, and one that applies them the optimizer's state of
// one file after the other. Beside it stand a partial sum of a tensor for each level of the
// tree of so many units, and a tensor's gradient, as it is read and as it is applied.
func (p Parts) Held(units, tasks int) (sum, apply int64) {
	share := int64(0)
	for n := range tasks {
		own := int64(0)
		first, last := owned(len(p.Files), n, tasks)
		for _, elements := range p.Files[first:last] {
			own += elements
		}
		share = max(share, own)
	}
	return 4 * (share*p.Models + int64(bits.Len(uint(units)))*p.Largest), 4 * (p.Kept*slices.Max(p.Files) + 2*p.Largest)
}
