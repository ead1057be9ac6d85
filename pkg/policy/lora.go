package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// LoRA is the shape of a low-rank adapter (Hu et al., LoRA: Low-Rank
// Adaptation of Large Language Models, ICLR 2022, section 4.1): to the
// projection y = x·Wᵀ of each target it adds
//
//	s·(x·Aᵀ)·Bᵀ,  A of shape (rank, in),  B of shape (out, rank),
//
// with s = alpha/rank. W is not trained.
type LoRA struct {
	Rank    int
	Alpha   float64
	Targets []string // of LoRATargets, in its order, and then of those of policies with fused projections
	// RankStabilized divides alpha by the root of the rank instead
	// (Kalajdzievski, A Rank Stabilization Scaling Factor, 2023).
	RankStabilized bool
}

// LoRATargets lists the projections that an adapter may change, by the names
// that Hugging Face gives them.
func LoRATargets() []string {
	return []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
}

// fusedTargets are the projections of a policy whose projections are fused, and
// what each is made of.
var fusedTargets = []struct {
	name  string
	parts []string
}{
	{"qkv_proj", []string{"q_proj", "k_proj", "v_proj"}},
	{"gate_up_proj", []string{"gate_proj", "up_proj"}},
}

// For is the adapter's shape by the projections that a policy has: where they are
// fused, a target is named with all others that it is fused with. Experts have no
// adapters.
func (l LoRA) For(c Config) (LoRA, error) {
	for _, group := range ProjectionGroups(c)[2:] {
		for _, p := range group {
			if c.Experts > 0 && l.Adapts(p.Target()) {
				return LoRA{}, exitcode.Dataf("the adapter's targets name %s, which policies of %s have in experts: adapters of experts are not implemented; choose from q_proj, k_proj, v_proj and o_proj",
					p.Target(), c.Architecture)
			}
		}
	}
	if !c.Fused {
		return l, nil
	}
	targets := slices.Clone(l.Targets)
	for _, fused := range fusedTargets {
		named := 0
		for _, part := range fused.parts {
			if i := slices.Index(targets, part); i >= 0 {
				targets = slices.Delete(targets, i, i+1)
				named++
			}
		}
		switch named {
		case 0:
		case len(fused.parts):
			targets = append(targets, fused.name)
		default:
			return LoRA{}, exitcode.Dataf("the adapter's targets name %d of %s, which are one tensor (%s) of this policy; name all of them or none",
				named, strings.Join(fused.parts, ", "), fused.name)
		}
	}
	l.Targets = SortTargets(targets)
	return l, nil
}

// Scale is what an adapter's product is multiplied by.
func (l LoRA) Scale() float32 {
	if l.RankStabilized {
		return float32(l.Alpha / math.Sqrt(float64(l.Rank)))
	}
	return float32(l.Alpha / float64(l.Rank))
}

// Adapts reports whether a projection is a target.
func (l LoRA) Adapts(projection string) bool { return slices.Contains(l.Targets, projection) }

// Validate refuses what is out of range.
func (l LoRA) Validate() error {
	if l.Rank < 1 || l.Rank > 1<<14 {
		return exitcode.Dataf("the adapter's rank is %d; it must lie between 1 and 2^14", l.Rank)
	}
	if !(l.Alpha > 0) || math.IsInf(l.Alpha, 0) {
		return exitcode.Dataf("the adapter's alpha is %g; it must be a number above 0", l.Alpha)
	}
	if len(l.Targets) == 0 {
		return exitcode.Dataf("the adapter has no targets; choose from %s", strings.Join(LoRATargets(), ", "))
	}
	sorted := SortTargets(l.Targets)
	if !slices.Equal(sorted, l.Targets) {
		return exitcode.Dataf("the adapter's targets are %s; they must be of %s, in this order and once each",
			strings.Join(l.Targets, ", "), strings.Join(LoRATargets(), ", "))
	}
	return nil
}

// SortTargets returns those of names that are targets of any policy, in the order
// of LoRA's.
func SortTargets(names []string) []string {
	all := LoRATargets()
	for _, fused := range fusedTargets {
		all = append(all, fused.name)
	}
	return slices.DeleteFunc(all, func(target string) bool { return !slices.Contains(names, target) })
}

// Projection is one matrix (Out, In) of a layer.
type Projection struct {
	name    string // self_attn.q_proj
	Out, In int
}

// Target is the projection's name without the module that it is in.
func (p Projection) Target() string { return p.name[strings.IndexByte(p.name, '.')+1:] }

// ProjectionGroups lists the matrices of a layer without experts in the order of
// Layout, those of one input together.
func ProjectionGroups(c Config) [][]Projection {
	hidden, inner := c.HiddenSize, c.IntermediateSize
	queryKeyValue := []Projection{
		{"self_attn.q_proj", c.QueryWidth(), hidden},
		{"self_attn.k_proj", c.KeyValueWidth(), hidden},
		{"self_attn.v_proj", c.KeyValueWidth(), hidden},
	}
	gateUp := []Projection{{"mlp.gate_proj", inner, hidden}, {"mlp.up_proj", inner, hidden}}
	if c.Fused {
		queryKeyValue = []Projection{{"self_attn.qkv_proj", c.QueryWidth() + 2*c.KeyValueWidth(), hidden}}
		gateUp = []Projection{{"mlp.gate_up_proj", 2 * inner, hidden}}
	}
	return [][]Projection{
		queryKeyValue,
		{{"self_attn.o_proj", hidden, c.QueryWidth()}},
		gateUp,
		{{"mlp.down_proj", hidden, inner}},
	}
}

// ExpertProjections lists an expert's matrices in the order of Layout.
func ExpertProjections(c Config) []Projection {
	return []Projection{
		{"gate_proj", c.ExpertSize, c.HiddenSize}, {"up_proj", c.ExpertSize, c.HiddenSize}, {"down_proj", c.HiddenSize, c.ExpertSize},
	}
}

// loraName is PEFT's name for one of the two matrices, A or B, of a projection.
func loraName(layer int, projection, matrix string) string {
	return fmt.Sprintf("base_model.model.model.layers.%d.%s.lora_%s.weight", layer, projection, matrix)
}

// LoRALayout lists an adapter's tensors by PEFT's names and by shape, without
// data, in the order of files and engines. The A of projections that share
// their input lie next to each other, so that a backend can multiply by all
// of them at once; their B follow.
func LoRALayout(c Config, l LoRA) []Tensor {
	var tensors []Tensor
	for layer := range c.NumHiddenLayers {
		for _, group := range ProjectionGroups(c) {
			for _, p := range group {
				if l.Adapts(p.Target()) {
					tensors = append(tensors, Tensor{Name: loraName(layer, p.name, "A"), Shape: []int{l.Rank, p.In}})
				}
			}
			for _, p := range group {
				if l.Adapts(p.Target()) {
					tensors = append(tensors, Tensor{Name: loraName(layer, p.name, "B"), Shape: []int{p.Out, l.Rank}})
				}
			}
		}
	}
	return tensors
}

// Adapter is a low-rank adapter with its weights.
type Adapter struct {
	LoRA
	// Base is the folder of the policy that it adapts, as its own folder
	// names it: relative to that folder, or absolute.
	Base    string
	Tensors []Tensor // as in LoRALayout
}

// InitAdapter draws a new adapter, which changes nothing: A uniform in
// ±1/sqrt(in), which is PyTorch's kaiming_uniform_ with a = sqrt(5) and what
// PEFT draws, and B zero. Each tensor has a random stream of its own by name.
func InitAdapter(c Config, l LoRA, seed uint64) (Adapter, error) {
	if err := l.Validate(); err != nil {
		return Adapter{}, err
	}
	l, err := l.For(c)
	if err != nil {
		return Adapter{}, err
	}
	a := Adapter{LoRA: l, Tensors: LoRALayout(c, l)}
	for i := range a.Tensors {
		t := &a.Tensors[i]
		t.Data = make([]float32, t.Elements())
		if !strings.HasSuffix(t.Name, ".lora_A.weight") {
			continue
		}
		bound := 1 / math.Sqrt(float64(t.Shape[1]))
		stream := rng.New(seed, rng.PurposeInit, 0, t.Name, 0)
		for j := range t.Data {
			t.Data[j] = float32((2*stream.Float64(uint64(j)) - 1) * bound)
		}
	}
	return a, nil
}
