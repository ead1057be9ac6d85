package vec

import "math"

// RMSNorm normalises one row: dst[i] = (x[i]·rstd)·weight[i] with
// rstd = 1/sqrt(Dot(x, x)/len(x) + eps), which it returns for RMSNormGrad.
func RMSNorm(dst, x, weight []float32, eps float32) (rstd float32) {
	n := len(dst)
	if len(x) != n || len(weight) != n {
		panic(badLength)
	}
	if n == 0 {
		return 0
	}
	rstd = 1 / float32(math.Sqrt(float64(Dot(x, x)/float32(n)+eps)))
	switch Active() {
	case AVX512:
		normApplyAVX512(&dst[0], &x[0], &weight[0], n, rstd)
	case AVX2:
		normApplyAVX2(&dst[0], &x[0], &weight[0], n, rstd)
	default:
		normApplyGo(dst, x, weight, rstd)
	}
	return rstd
}

func normApplyGo(dst, x, weight []float32, rstd float32) {
	for i, v := range x {
		dst[i] = float32(v*rstd) * weight[i]
	}
}

// RMSNormGrad is the backward pass of RMSNorm for one row. With g = dy·weight
// and c = Σ(g·x)·rstd²/len(x) it computes
//
//	dx[i]      = rstd·(g[i] - c·x[i])    added to dx if accumulate is set
//	dWeight[i] += dy[i]·(x[i]·rstd)      unless dWeight is nil
//
// dx may be the same slice as dy unless accumulate is set.
func RMSNormGrad(dx, dWeight, dy, x, weight []float32, rstd float32, accumulate bool) {
	n := len(dx)
	if len(dy) != n || len(x) != n || len(weight) != n || (dWeight != nil && len(dWeight) != n) {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	switch Active() {
	case AVX512:
		if dWeight != nil {
			normWeightGradAVX512(&dWeight[0], &dy[0], &x[0], n, rstd)
		}
		c := normCoefficient(dotThreeAVX512(&dy[0], &weight[0], &x[0], n), rstd, n)
		if accumulate {
			normInputGradAddAVX512(&dx[0], &dy[0], &x[0], &weight[0], n, rstd, c)
		} else {
			normInputGradAVX512(&dx[0], &dy[0], &x[0], &weight[0], n, rstd, c)
		}
	case AVX2:
		if dWeight != nil {
			normWeightGradAVX2(&dWeight[0], &dy[0], &x[0], n, rstd)
		}
		c := normCoefficient(dotThreeAVX2(&dy[0], &weight[0], &x[0], n), rstd, n)
		if accumulate {
			normInputGradAddAVX2(&dx[0], &dy[0], &x[0], &weight[0], n, rstd, c)
		} else {
			normInputGradAVX2(&dx[0], &dy[0], &x[0], &weight[0], n, rstd, c)
		}
	default:
		if dWeight != nil {
			normWeightGradGo(dWeight, dy, x, rstd)
		}
		c := normCoefficient(dotThreeGo(dy, weight, x), rstd, n)
		if accumulate {
			normInputGradAddGo(dx, dy, x, weight, rstd, c)
		} else {
			normInputGradGo(dx, dy, x, weight, rstd, c)
		}
	}
}

// normCoefficient returns the factor of x in the gradient of a row of length n,
// where dot is Σ(dy·weight·x).
func normCoefficient(dot, rstd float32, n int) float32 {
	return float32(float32(dot*rstd)*rstd) / float32(n)
}

// dotThreeGo returns Σ(a·b)·c in the order of Sum, the first product rounded.
func dotThreeGo(a, b, c []float32) float32 {
	var p [lanes]float32
	for i, v := range a {
		p[i%lanes] = FMA(float32(v*b[i]), c[i], p[i%lanes])
	}
	return sumLanes(&p)
}

func normWeightGradGo(dWeight, dy, x []float32, rstd float32) {
	for i, v := range x {
		dWeight[i] = FMA(dy[i], v*rstd, dWeight[i])
	}
}

func normInputGradGo(dx, dy, x, weight []float32, rstd, c float32) {
	for i, v := range x {
		dx[i] = rstd * FMA(-c, v, dy[i]*weight[i])
	}
}

func normInputGradAddGo(dx, dy, x, weight []float32, rstd, c float32) {
	for i, v := range x {
		dx[i] = FMA(rstd, FMA(-c, v, dy[i]*weight[i]), dx[i])
	}
}
