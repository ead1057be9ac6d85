package cpu

import (
	"cmp"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// What families of models add to the decoder, each off in most.

// embeddingScale is what embeddings are multiplied by, as the table's type has it.
func (e *Engine) embeddingScale() float32 {
	scale := []float32{float32(cmp.Or(e.config.EmbeddingScale, 1))}
	roundTo(scale, e.model.embed.parts[0].dtype)
	return scale[0]
}

// residualScale is what a branch is multiplied by before it is added.
func (e *Engine) residualScale() float32 { return float32(cmp.Or(e.config.ResidualScale, 1)) }

// gateRows fills mlp (to-from, inner) from the rows from..to-1 of gate and up
// projections (N, 2·inner), the gates of a row first.
func (e *Engine) gateRows(mlp, gateUp []float32, inner, from, to int) {
	gated := vec.SwiGLU
	if e.config.Activation == policy.GELUTanh {
		gated = vec.GeGLU
	}
	for i := from; i < to; i++ {
		row := gateUp[2*i*inner : 2*(i+1)*inner]
		gated(mlp[(i-from)*inner:(i-from+1)*inner], row[:inner], row[inner:])
	}
}

// gateGrad is the backward pass of a row of gateRows.
func (e *Engine) gateGrad(dGate, dUp, dOut, gate, up []float32) {
	if e.config.Activation == policy.GELUTanh {
		vec.GeGLUGrad(dGate, dUp, dOut, gate, up)
	} else {
		vec.SwiGLUGrad(dGate, dUp, dOut, gate, up)
	}
}
