package vec

// SwiGLU sets dst[i] = silu(gate[i])·up[i] with silu(g) = g/(1 + exp(-g)).
func SwiGLU(dst, gate, up []float32) {
	n := len(dst)
	if len(gate) != n || len(up) != n {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	switch Active() {
	case AVX512:
		swiGLUAVX512(&dst[0], &gate[0], &up[0], n)
	case AVX2:
		swiGLUAVX2(&dst[0], &gate[0], &up[0], n)
	default:
		swiGLUGo(dst, gate, up)
	}
}

func swiGLUGo(dst, gate, up []float32) {
	for i, g := range gate {
		silu := g / (1 + Exp(-g))
		dst[i] = silu * up[i]
	}
}

// SwiGLUGrad is the backward pass of SwiGLU. With s = 1/(1 + exp(-gate)) it
// sets
//
//	dUp[i]   = dOut[i]·silu(gate[i])
//	dGate[i] = dOut[i]·up[i]·s·(1 + gate[i]·(1 - s)).
//
// dGate and dUp may be the same slices as gate and up.
func SwiGLUGrad(dGate, dUp, dOut, gate, up []float32) {
	n := len(dGate)
	if len(dUp) != n || len(dOut) != n || len(gate) != n || len(up) != n {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	switch Active() {
	case AVX512:
		swiGLUGradAVX512(&dGate[0], &dUp[0], &dOut[0], &gate[0], &up[0], n)
	case AVX2:
		swiGLUGradAVX2(&dGate[0], &dUp[0], &dOut[0], &gate[0], &up[0], n)
	default:
		swiGLUGradGo(dGate, dUp, dOut, gate, up)
	}
}

func swiGLUGradGo(dGate, dUp, dOut, gate, up []float32) {
	for i, g := range gate {
		u, d := up[i], dOut[i]
		denominator := 1 + Exp(-g)
		silu := g / denominator
		sigmoid := 1 / denominator
		slope := sigmoid * FMA(g, 1-sigmoid, 1)
		dGate[i] = float32(d*u) * slope
		dUp[i] = d * silu
	}
}
