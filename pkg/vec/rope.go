package vec

// RoPE rotates in place each head of x, which holds one or more heads of length
// d = 2·len(cos) one after another. The rotation pairs elements i and i+d/2 of
// a head (the half-split convention of Hugging Face's Llama and Qwen):
//
//	x[i]     ← x[i]·cos[i] - x[i+d/2]·sin[i]
//	x[i+d/2] ← x[i+d/2]·cos[i] + x[i]·sin[i]
//
// The products with sin are rounded, those with cos are fused.
func RoPE(x, cos, sin []float32) {
	half := len(cos)
	if len(sin) != half {
		panic(badLength)
	}
	if half == 0 || len(x)%(2*half) != 0 {
		panic(badRotary)
	}
	for ; len(x) > 0; x = x[2*half:] {
		switch Active() {
		case AVX512:
			ropeAVX512(&x[0], &x[half], &cos[0], &sin[0], half)
		case AVX2:
			ropeAVX2(&x[0], &x[half], &cos[0], &sin[0], half)
		default:
			ropeGo(x[:half], x[half:], cos, sin)
		}
	}
}

func ropeGo(x0, x1, cos, sin []float32) {
	for i, c := range cos {
		a, b := x0[i], x1[i]
		x0[i] = FMA(a, c, -float32(b*sin[i]))
		x1[i] = FMA(b, c, float32(a*sin[i]))
	}
}

// RoPEGrad is the backward pass of RoPE: it rotates the gradient dx in place by
// the opposite angles.
func RoPEGrad(dx, cos, sin []float32) {
	half := len(cos)
	if len(sin) != half {
		panic(badLength)
	}
	if half == 0 || len(dx)%(2*half) != 0 {
		panic(badRotary)
	}
	for ; len(dx) > 0; dx = dx[2*half:] {
		switch Active() {
		case AVX512:
			ropeGradAVX512(&dx[0], &dx[half], &cos[0], &sin[0], half)
		case AVX2:
			ropeGradAVX2(&dx[0], &dx[half], &cos[0], &sin[0], half)
		default:
			ropeGradGo(dx[:half], dx[half:], cos, sin)
		}
	}
}

func ropeGradGo(x0, x1, cos, sin []float32) {
	for i, c := range cos {
		a, b := x0[i], x1[i]
		x0[i] = FMA(a, c, float32(b*sin[i]))
		x1[i] = FMA(b, c, -float32(a*sin[i]))
	}
}
