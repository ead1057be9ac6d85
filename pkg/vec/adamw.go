package vec

import "math"

// AdamWParams are the scalars of one AdamW update.
type AdamWParams struct {
	LR          float32 // learning rate
	Beta1       float32 // decay of the first moment
	Beta2       float32 // decay of the second moment
	Eps         float32 // added to the root of the second moment
	WeightDecay float32 // decoupled; the weight shrinks by LR·WeightDecay

	BiasCorrection1 float32 // 1 - Beta1^t at update t = 1, 2, ...
	BiasCorrection2 float32 // 1 - Beta2^t

	GradScale float32 // factor of the gradient, such as the clip factor; 1 for none
}

// adamWFactors are the scalars as the kernels use them. The order of the fields
// is the order in which the assembly loads them.
type adamWFactors struct {
	gradScale   float32
	beta1       float32
	oneMinus1   float32 // 1 - beta1
	beta2       float32
	oneMinus2   float32 // 1 - beta2
	rootScale   float32 // 1/sqrt(BiasCorrection2)
	eps         float32
	decay       float32 // 1 - LR·WeightDecay
	negatedStep float32 // -LR/BiasCorrection1
}

func (p AdamWParams) factors() adamWFactors {
	return adamWFactors{
		gradScale:   p.GradScale,
		beta1:       p.Beta1,
		oneMinus1:   1 - p.Beta1,
		beta2:       p.Beta2,
		oneMinus2:   1 - p.Beta2,
		rootScale:   1 / float32(math.Sqrt(float64(p.BiasCorrection2))),
		eps:         p.Eps,
		decay:       1 - float32(p.LR*p.WeightDecay),
		negatedStep: -(p.LR / p.BiasCorrection1),
	}
}

// AdamW updates the weights w and the moments m and v in place from the
// gradient g (Loshchilov and Hutter, 2019). With ĝ = g·GradScale:
//
//	m ← Beta1·m + (1-Beta1)·ĝ
//	v ← Beta2·v + (1-Beta2)·ĝ²
//	w ← w·(1 - LR·WeightDecay) - LR/BiasCorrection1 · m/(sqrt(v)/sqrt(BiasCorrection2) + Eps)
func AdamW(w, m, v, g []float32, p AdamWParams) {
	n := len(w)
	if len(m) != n || len(v) != n || len(g) != n {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	f := p.factors()
	switch Active() {
	case AVX512:
		adamWAVX512(&w[0], &m[0], &v[0], &g[0], n, &f)
	case AVX2:
		adamWAVX2(&w[0], &m[0], &v[0], &g[0], n, &f)
	default:
		adamWGo(w, m, v, g, &f)
	}
}

func adamWGo(w, m, v, g []float32, f *adamWFactors) {
	for i := range w {
		grad := g[i] * f.gradScale
		mi := FMA(m[i], f.beta1, grad*f.oneMinus1)
		vi := FMA(v[i], f.beta2, float32(grad*f.oneMinus2)*grad)
		root := float32(math.Sqrt(float64(vi)))
		update := mi / FMA(root, f.rootScale, f.eps)
		m[i], v[i] = mi, vi
		w[i] = FMA(f.negatedStep, update, w[i]*f.decay)
	}
}
