package vec

// SoftmaxGrad is the backward pass of p = softmax(scale·x) for one row:
//
//	dst[i] = (p[i]·(dp[i] - sum))·scale,
//
// where sum is Dot(p, dp). The caller passes sum because attention can also
// take it from the output row and its gradient. dst may be the same slice as
// p or dp.
func SoftmaxGrad(dst, p, dp []float32, sum, scale float32) {
	n := len(dst)
	if len(p) != n || len(dp) != n {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	switch Active() {
	case AVX512:
		softmaxGradAVX512(&dst[0], &p[0], &dp[0], n, sum, scale)
	case AVX2:
		softmaxGradAVX2(&dst[0], &p[0], &dp[0], n, sum, scale)
	default:
		softmaxGradGo(dst, p, dp, sum, scale)
	}
}

func softmaxGradGo(dst, p, dp []float32, sum, scale float32) {
	for i, v := range p {
		dst[i] = float32(v*(dp[i]-sum)) * scale
	}
}
