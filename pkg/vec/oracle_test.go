package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// ulps returns the distance of got from want in units in the last place of
// float32 at want.
func ulps(got float32, want float64) float64 {
	_, exponent := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(exponent, -125)-24)
}

func TestExpAccuracy(t *testing.T) {
	t.Parallel()
	worst, at := 0.0, float32(0)
	for y := expMin; y <= expMax; y += 0.00037 {
		if u := ulps(Exp(y), math.Exp(float64(y))); u > worst {
			worst, at = u, y
		}
	}
	for y := float32(1e-10); y < 1; y *= 1.0003 {
		for _, y := range []float32{y, -y} {
			if u := ulps(Exp(y), math.Exp(float64(y))); u > worst {
				worst, at = u, y
			}
		}
	}
	t.Logf("worst error of Exp: %.3f units in the last place at %v", worst, at)
	if worst > 0.9 {
		t.Errorf("Exp(%v) is off by %.3f units in the last place, want at most 0.9", at, worst)
	}
}

func TestExpSpecial(t *testing.T) {
	t.Parallel()
	inf := float32(math.Inf(1))
	for _, c := range []struct{ y, want float32 }{
		{0, 1},
		{float32(math.Copysign(0, -1)), 1},
		{inf, inf},
		{-inf, 0},
		{float32(math.NaN()), float32(math.NaN())},
		{math.Nextafter32(expMin, -inf), 0},
		{math.Nextafter32(expMax, inf), inf},
		{math.MaxFloat32, inf},
		{-math.MaxFloat32, 0},
		{math.Float32frombits(0x7fabcdef), float32(math.NaN())}, // signalling, with payload
	} {
		for isa := range EachISA {
			got := []float32{0}
			sum := ExpShiftSum(got, []float32{c.y}, 1, 0)
			if !sameBits(got[0], c.want) || !sameBits(sum, c.want) || !sameBits(Exp(c.y), c.want) {
				t.Errorf("%s: exp(%v) = %v, sum %v, scalar %v, want %v", isa, c.y, got[0], sum, Exp(c.y), c.want)
			}
		}
	}
	if got := Exp(expMin); got < 0x1p-126 {
		t.Errorf("Exp(%v) = %x is subnormal", expMin, got)
	}
	if got := Exp(expMax); math.IsInf(float64(got), 0) {
		t.Errorf("Exp(%v) overflows", expMax)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		x := math.Float32frombits(r.Uint32() & 0x7fffffff)
		if x != x || math.IsInf(float64(x), 0) || x == 0 {
			continue
		}
		if u := ulps(Log(x), math.Log(float64(x))); u > 0.5001 {
			t.Fatalf("Log(%v) = %v is off by %.4f units in the last place", x, Log(x), u)
		}
	}
	for x := float32(0.9); x < 1.1; x += 1e-6 {
		if u := ulps(Log(x), math.Log(float64(x))); u > 0.5001 {
			t.Fatalf("Log(%v) = %v is off by %.4f units in the last place", x, Log(x), u)
		}
	}
	inf := float32(math.Inf(1))
	for _, c := range [][2]float32{{0, -inf}, {inf, inf}, {-1, float32(math.NaN())}, {1, 0}, {float32(math.NaN()), float32(math.NaN())}} {
		if got := Log(c[0]); !sameBits(got, c[1]) {
			t.Errorf("Log(%v) = %v, want %v", c[0], got, c[1])
		}
	}
}

// near tells whether got is within a relative error of 2⁻²⁰ of want, or within
// 1e-6 absolutely.
func near(got float32, want float64) bool {
	return math.Abs(float64(got)-want) <= 0x1p-20*math.Abs(want)+1e-6
}

// rows draws count rows of n normal values.
func rows(seed uint64, count, n int) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 5))
	all := make([][]float32, count)
	for i := range all {
		all[i] = make([]float32, n)
		for j := range all[i] {
			all[i][j] = float32(r.NormFloat64())
		}
	}
	return all
}

func TestReductions(t *testing.T) {
	t.Parallel()
	x := rows(1, 2, 1003)
	var sum, dot, squares float64
	largest := math.Inf(-1)
	for i, v := range x[0] {
		sum += float64(v)
		dot += float64(v) * float64(x[1][i])
		squares += float64(v) * float64(v)
		largest = max(largest, float64(v))
	}
	if got := Sum(x[0]); math.Abs(float64(got)-sum) > 1e-4 {
		t.Errorf("Sum = %v, want %v", got, sum)
	}
	if got := Dot(x[0], x[1]); math.Abs(float64(got)-dot) > 1e-4 {
		t.Errorf("Dot = %v, want %v", got, dot)
	}
	if got := SumSquares(x[0]); math.Abs(got-squares) > 1e-12*squares {
		t.Errorf("SumSquares = %v, want %v", got, squares)
	}
	if got := Max(x[0]); float64(got) != largest {
		t.Errorf("Max = %v, want %v", got, largest)
	}
	if got := Max(nil); !math.IsInf(float64(got), -1) {
		t.Errorf("Max(nil) = %v, want -Inf", got)
	}
}

// silu64 is x·sigmoid(x) in float64.
func silu64(x float64) float64 { return x / (1 + math.Exp(-x)) }

func TestSwiGLU(t *testing.T) {
	t.Parallel()
	const n = 77
	x := rows(2, 6, n)
	gate, up, dOut, out, dGate, dUp := x[0], x[1], x[2], x[3], x[4], x[5]
	SwiGLU(out, gate, up)
	SwiGLUGrad(dGate, dUp, dOut, gate, up)
	const h = 1e-5
	for i := range n {
		g, u, d := float64(gate[i]), float64(up[i]), float64(dOut[i])
		if !near(out[i], silu64(g)*u) {
			t.Errorf("SwiGLU(%v, %v) = %v, want %v", g, u, out[i], silu64(g)*u)
		}
		if want := d * silu64(g); !near(dUp[i], want) {
			t.Errorf("dUp at (%v, %v) = %v, want %v", g, u, dUp[i], want)
		}
		if want := d * u * (silu64(g+h) - silu64(g-h)) / (2 * h); !near(dGate[i], want) {
			t.Errorf("dGate at (%v, %v) = %v, want %v", g, u, dGate[i], want)
		}
	}
}

// rmsNorm64 is RMSNorm in float64.
func rmsNorm64(x, weight []float64, eps float64) []float64 {
	var squares float64
	for _, v := range x {
		squares += v * v
	}
	rstd := 1 / math.Sqrt(squares/float64(len(x))+eps)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * rstd * weight[i]
	}
	return out
}

func TestRMSNorm(t *testing.T) {
	t.Parallel()
	const n, eps, h = 45, 1e-6, 1e-5
	r := rows(3, 6, n)
	x, weight, dy, out, dx, dWeight := r[0], r[1], r[2], r[3], r[4], r[5]
	before := append([]float32(nil), dWeight...)
	rstd := RMSNorm(out, x, weight, eps)
	RMSNormGrad(dx, dWeight, dy, x, weight, rstd, false)
	x64, weight64 := make([]float64, n), make([]float64, n)
	for i := range n {
		x64[i], weight64[i] = float64(x[i]), float64(weight[i])
	}
	loss := func() (total float64) {
		for i, v := range rmsNorm64(x64, weight64, eps) {
			total += v * float64(dy[i])
		}
		return total
	}
	slope := func(v *float64) float64 {
		saved := *v
		*v = saved + h
		up := loss()
		*v = saved - h
		down := loss()
		*v = saved
		return (up - down) / (2 * h)
	}
	for i, want := range rmsNorm64(x64, weight64, eps) {
		if !near(out[i], want) {
			t.Errorf("output %d is %v, want %v", i, out[i], want)
		}
		if want := slope(&x64[i]); !near(dx[i], want) {
			t.Errorf("dx[%d] = %v, want %v", i, dx[i], want)
		}
		if want := slope(&weight64[i]) + float64(before[i]); !near(dWeight[i], want) {
			t.Errorf("dWeight[%d] = %v, want %v", i, dWeight[i], want)
		}
	}
	twice := append([]float32(nil), dx...)
	RMSNormGrad(twice, nil, dy, x, weight, rstd, true)
	for i := range twice {
		if !near(twice[i], 2*float64(dx[i])) {
			t.Errorf("accumulated dx[%d] = %v, want %v", i, twice[i], 2*dx[i])
		}
	}
}

func TestRoPE(t *testing.T) {
	t.Parallel()
	const half, heads = 24, 3
	r := rows(4, 2, 2*half*heads)
	angles := rows(5, 1, half)[0]
	cos, sin := make([]float32, half), make([]float32, half)
	for i, angle := range angles {
		cos[i], sin[i] = float32(math.Cos(float64(angle))), float32(math.Sin(float64(angle)))
	}
	x, y := r[0], append([]float32(nil), r[0]...)
	RoPE(y, cos, sin)
	for head := range heads {
		for i := range half {
			p := head*2*half + i
			a, b := float64(x[p]), float64(x[p+half])
			c, s := float64(cos[i]), float64(sin[i])
			if !near(y[p], a*c-b*s) || !near(y[p+half], b*c+a*s) {
				t.Errorf("head %d pair %d is (%v, %v), want (%v, %v)", head, i, y[p], y[p+half], a*c-b*s, b*c+a*s)
			}
		}
	}
	RoPEGrad(y, cos, sin)
	for i := range y {
		if !near(y[i], float64(x[i])) {
			t.Errorf("rotating forth and back gives %v at %d, want %v", y[i], i, x[i])
		}
	}
}

func TestSoftmaxGrad(t *testing.T) {
	t.Parallel()
	const n, temperature, h = 37, 0.3, 1e-5
	r := rows(6, 4, n)
	x, dp, p, dx := r[0], r[1], r[2], r[3]
	Scale(p, 1/ExpShiftSum(p, x, temperature, temperature*Max(x)), p)
	SoftmaxGrad(dx, p, dp, Dot(p, dp), temperature)
	loss := func(at int, shift float64) float64 {
		var sum, total float64
		for i, v := range x {
			e := float64(v)
			if i == at {
				e += shift
			}
			e = math.Exp(e * temperature)
			sum += e
			total += e * float64(dp[i])
		}
		return total / sum
	}
	for i := range n {
		if want := (loss(i, h) - loss(i, -h)) / (2 * h); !near(dx[i], want) {
			t.Errorf("dx[%d] = %v, want %v", i, dx[i], want)
		}
	}
}

func TestAdamW(t *testing.T) {
	t.Parallel()
	const n = 50
	r := rows(7, 4, n)
	w, m, v, g := r[0], r[1], r[2], r[3]
	for i := range v {
		v[i] *= v[i]
	}
	p := adamWParams
	type state struct{ w, m, v float64 }
	var want [n]state
	for i := range want {
		grad := float64(g[i]) * float64(p.GradScale)
		s := &want[i]
		s.m = float64(p.Beta1)*float64(m[i]) + (1-float64(p.Beta1))*grad
		s.v = float64(p.Beta2)*float64(v[i]) + (1-float64(p.Beta2))*grad*grad
		update := s.m / float64(p.BiasCorrection1) / (math.Sqrt(s.v/float64(p.BiasCorrection2)) + float64(p.Eps))
		s.w = float64(w[i]) - float64(p.LR)*float64(p.WeightDecay)*float64(w[i]) - float64(p.LR)*update
	}
	AdamW(w, m, v, g, p)
	for i, s := range want {
		if !near(w[i], s.w) || !near(m[i], s.m) || !near(v[i], s.v) {
			t.Errorf("element %d is %v, %v, %v, want %v", i, w[i], m[i], v[i], s)
		}
	}
}
