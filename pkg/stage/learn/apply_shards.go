package learn

import (
	"cmp"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// Parts are the files of a policy, into which an update in parts divides it.
type Parts struct {
	Files   []int64 // elements of each
	Largest int64   // elements of the largest tensor
	Models  int64   // that are updated: 2 with a critic that is a model of its own
	Bytes   int64   // of all weights, gradients and optimizer states, in their types
}

// PartsOf are those of a whole policy in a folder or, under policy.lora, of an adapter of
// one, which is a single file.
func PartsOf(s Settings, folder string) (Parts, error) {
	if s.Policy.LoRA != nil {
		return partsOfAdapter(s, folder)
	}
	opened, err := checkpoint.OpenParts(folder, s.Policy.ValueHead())
	if err != nil {
		return Parts{}, err
	}
	p, m := Parts{Models: 1}, model{state: backend.DTypes[s.Optimizer.State]}
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
				each += 4
			}
			elements, p.Largest, p.Bytes = elements+n, max(p.Largest, n), p.Bytes+n*int64(each)*p.Models
		}
		p.Files = append(p.Files, elements)
	}
	return p, opened.Close()
}

func partsOfAdapter(s Settings, folder string) (Parts, error) {
	config, err := checkpoint.LoadConfig(folder)
	if err != nil {
		return Parts{}, err
	}
	lora, err := trainer.LoRAOf(*s.Policy.LoRA).For(config)
	if err != nil {
		return Parts{}, err
	}
	p := Parts{Files: []int64{0}, Models: 1}
	for _, t := range policy.LoRALayout(config, lora) {
		n := int64(t.Elements())
		p.Files[0], p.Largest = p.Files[0]+n, max(p.Largest, n)
	}
	p.Bytes = p.Files[0] * int64(4+4+2*cmp.Or(backend.DTypes[s.Optimizer.State], safetensors.F32).Bytes())
	return p, nil
}

// pieceBytes is what a task that applies gradients takes for pieces of tensors, files that
// it reads and writes, and their lists of tensors.
const pieceBytes = 16 << 20

// Held is what the tasks of an update in parts hold in memory, at most, in bytes. One that
// adds up gradients holds those of its files, and beside it the partial sums of a tensor that
// the blocks of so many gradient shards want; one that applies them pieces of tensors.
func (p Parts) Held(units, shards, tasks int) (sum, apply int64) {
	share := int64(0)
	for n := range tasks {
		own := int64(0)
		first, last := owned(len(p.Files), n, tasks)
		for _, elements := range p.Files[first:last] {
			own += elements
		}
		share = max(share, own)
	}
	return 4 * (share*p.Models + int64(sumsOfBlocks(units, shards))*p.Largest), pieceBytes
}
