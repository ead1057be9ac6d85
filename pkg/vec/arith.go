package vec

// Add sets dst[i] = a[i] + b[i].
func Add(dst, a, b []float32) {
	n := len(dst)
	if len(a) != n || len(b) != n {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	switch Active() {
	case AVX512:
		addAVX512(&dst[0], &a[0], &b[0], n)
	case AVX2:
		addAVX2(&dst[0], &a[0], &b[0], n)
	default:
		addGo(dst, a, b)
	}
}

// addGo sets dst to a + b, all of one length.
func addGo(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// Mul sets dst[i] = a[i]·b[i].
func Mul(dst, a, b []float32) {
	n := len(dst)
	if len(a) != n || len(b) != n {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	switch Active() {
	case AVX512:
		mulAVX512(&dst[0], &a[0], &b[0], n)
	case AVX2:
		mulAVX2(&dst[0], &a[0], &b[0], n)
	default:
		mulGo(dst, a, b)
	}
}

// mulGo sets dst to a · b, element by element, all of one length.
func mulGo(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// AXPY sets y[i] = FMA(alpha, x[i], y[i]).
func AXPY(y []float32, alpha float32, x []float32) {
	n := len(y)
	if len(x) != n {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	switch Active() {
	case AVX512:
		axpyAVX512(&y[0], &x[0], n, alpha)
	case AVX2:
		axpyAVX2(&y[0], &x[0], n, alpha)
	default:
		axpyGo(y, alpha, x)
	}
}

// axpyGo adds alpha · x to y, both of one length.
func axpyGo(y []float32, alpha float32, x []float32) {
	for i := range y {
		y[i] = FMA(alpha, x[i], y[i])
	}
}

// Scale sets dst[i] = alpha·x[i].
func Scale(dst []float32, alpha float32, x []float32) {
	n := len(dst)
	if len(x) != n {
		panic(badLength)
	}
	if n == 0 {
		return
	}
	switch Active() {
	case AVX512:
		scaleAVX512(&dst[0], &x[0], n, alpha)
	case AVX2:
		scaleAVX2(&dst[0], &x[0], n, alpha)
	default:
		scaleGo(dst, alpha, x)
	}
}

func scaleGo(dst []float32, alpha float32, x []float32) {
	for i := range dst {
		dst[i] = alpha * x[i]
	}
}
