package policy

import "slices"

// Part names something that a family adds to the decoder of Llama.
type Part string

// The parts. Biases of queries, keys and values and norms of single heads are not
// among them: every engine has them.
const (
	PartOutputBias     Part = "a bias of attention's output projection"
	PartMLPBias        Part = "biases in the MLP"
	PartFused          Part = "fused projections"
	PartQKNormAll      Part = "norms of all queries and of all keys together"
	PartNormAfter      Part = "norms after attention and MLP"
	PartNormOffset     Part = "norms that add 1 to their weights"
	PartGELU           Part = "GELU"
	PartEmbeddingScale Part = "scaled embeddings"
	PartResidualScale  Part = "scaled branches"
	PartAttentionScale Part = "a scale of attention scores of its own"
	PartLogitScale     Part = "scaled logits"
	PartAttentionCap   Part = "capped attention scores"
	PartLogitCap       Part = "capped logits"
	PartRotaryDim      Part = "heads that are rotated in part"
	PartRopeFactor     Part = "scaled cosines and sines"
	PartLocalRope      Part = "two rotary embeddings"
	PartNoRope         Part = "layers without rotary embedding"
	PartWindow         Part = "sliding windows"
	PartExperts        Part = "mixtures of experts"
)

// Parts lists the parts that a policy has.
func (c Config) Parts() []Part {
	var parts []Part
	add := func(there bool, part Part) {
		if there {
			parts = append(parts, part)
		}
	}
	add(c.OutputBias, PartOutputBias)
	add(c.MLPBias, PartMLPBias)
	add(c.Fused, PartFused)
	add(c.QKNorm == QKNormAll, PartQKNormAll)
	add(c.Norms.After(), PartNormAfter)
	add(c.NormOffset != 0, PartNormOffset)
	add(c.Activation == GELUTanh, PartGELU)
	add(c.EmbeddingScale != 0 && c.EmbeddingScale != 1, PartEmbeddingScale)
	add(c.ResidualScale != 0 && c.ResidualScale != 1, PartResidualScale)
	plain := c
	plain.AttentionScale = 0
	add(c.ScoreScale() != plain.ScoreScale(), PartAttentionScale)
	add(c.LogitScale != 0 && c.LogitScale != 1, PartLogitScale)
	add(c.AttentionCap != 0, PartAttentionCap)
	add(c.LogitCap != 0, PartLogitCap)
	add(c.Rotated() != c.HeadDim, PartRotaryDim)
	add(float32(c.RopeScaling.attentionFactor()) != 1, PartRopeFactor)
	add(slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Rope == RopeLocal }), PartLocalRope)
	add(slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Rope == RopeNone }), PartNoRope)
	add(slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Window != 0 }), PartWindow)
	add(c.Experts != 0, PartExperts)
	return parts
}
