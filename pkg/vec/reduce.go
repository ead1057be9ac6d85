package vec

import "math"

// lanes is the number of partial results of a reduction. It is the width of an
// AVX-512 register; AVX2 uses two registers.
const lanes = 16

// sumLanes adds the 16 partial sums: lane i gets lane i+8, then i+4, i+2, i+1.
func sumLanes(p *[lanes]float32) float32 {
	for width := lanes / 2; width > 0; width /= 2 {
		for i := range width {
			p[i] += p[i+width]
		}
	}
	return p[0]
}

// Sum returns the sum of x, 0 if x is empty. Element i is added to partial sum
// i mod 16 in ascending order; the partial sums are added by halves.
func Sum(x []float32) float32 {
	n := len(x)
	if n == 0 {
		return 0
	}
	switch Active() {
	case AVX512:
		return sumAVX512(&x[0], n)
	case AVX2:
		return sumAVX2(&x[0], n)
	default:
		return sumGo(x)
	}
}

func sumGo(x []float32) float32 {
	var p [lanes]float32
	for i, v := range x {
		p[i%lanes] += v
	}
	return sumLanes(&p)
}

// Dot returns the sum of a[i]·b[i], accumulated by fused multiply-adds in the
// order of Sum.
func Dot(a, b []float32) float32 {
	n := len(a)
	if len(b) != n {
		panic(badLength)
	}
	if n == 0 {
		return 0
	}
	switch Active() {
	case AVX512:
		return dotAVX512(&a[0], &b[0], n)
	case AVX2:
		return dotAVX2(&a[0], &b[0], n)
	default:
		return dotGo(a, b)
	}
}

func dotGo(a, b []float32) float32 {
	var p [lanes]float32
	for i, v := range a {
		p[i%lanes] = FMA(v, b[i], p[i%lanes])
	}
	return sumLanes(&p)
}

// SumSquares returns the sum of x[i]², accumulated in float64 in the order of
// Sum. Each square is exact in float64.
func SumSquares(x []float32) float64 {
	n := len(x)
	if n == 0 {
		return 0
	}
	switch Active() {
	case AVX512:
		return sumSquaresAVX512(&x[0], n)
	case AVX2:
		return sumSquaresAVX2(&x[0], n)
	default:
		return sumSquaresGo(x)
	}
}

func sumSquaresGo(x []float32) float64 {
	var p [lanes]float64
	for i, v := range x {
		p[i%lanes] += float64(v) * float64(v)
	}
	for width := lanes / 2; width > 0; width /= 2 {
		for i := range width {
			p[i] += p[i+width]
		}
	}
	return p[0]
}

// Max returns the largest element of x. NaN elements are passed over; the
// result is -Inf if x has no other element.
func Max(x []float32) float32 {
	n := len(x)
	if n == 0 {
		return float32(math.Inf(-1))
	}
	switch Active() {
	case AVX512:
		return maxAVX512(&x[0], n)
	case AVX2:
		return maxAVX2(&x[0], n)
	default:
		return maxGo(x)
	}
}

// maxGo keeps the earlier of two equal values, so that the sign of a zero is
// the same on every instruction set.
func maxGo(x []float32) float32 {
	var p [lanes]float32
	for i := range p {
		p[i] = float32(math.Inf(-1))
	}
	for i, v := range x {
		if v > p[i%lanes] {
			p[i%lanes] = v
		}
	}
	for width := lanes / 2; width > 0; width /= 2 {
		for i := range width {
			if p[i+width] > p[i] {
				p[i] = p[i+width]
			}
		}
	}
	return p[0]
}
