package vec

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactFMA rounds a·b + c once, by arbitrary precision.
func exactFMA(a, b, c float32) float32 {
	// 600 bits hold any sum of a product and a float32 exactly.
	product := new(big.Float).SetPrec(600).SetFloat64(float64(a))
	product.Mul(product, new(big.Float).SetPrec(600).SetFloat64(float64(b)))
	product.Add(product, new(big.Float).SetPrec(600).SetFloat64(float64(c)))
	result, _ := product.Float32()
	return result
}

// TestFMATies has sums next to the middle of two float32 values. A float64 sum
// loses the addend or the product there, and rounding it again goes wrong.
func TestFMATies(t *testing.T) {
	t.Parallel()
	half := float32(1 + 0x1p-12) // its square is 1 + 2⁻¹¹ + 2⁻²⁴, a tie
	for _, c := range [][3]float32{
		{half, half, 0},
		{half, half, 0x1p-80},
		{half, half, -0x1p-80},
		{-half, half, 0x1p-80},
		{-half, half, -0x1p-80},
		{half, half, 0x1p-126},
		{half * 0x1p-70, half * 0x1p-70, 0x1p-126}, // the product is far below the addend
		{1 + 0x1p-23, 1 + 0x1p-23, -1},
		{0x1p-100, 0x1p-40, 0x1p-149}, // subnormal result
		{0x1.8p-100, 0x1p-49, 0x1p-149},
		{math.MaxFloat32, 2, -math.MaxFloat32},
		{math.MaxFloat32, 1, 0x1p103}, // tie at the overflow threshold
		{math.MaxFloat32, 1, math.Nextafter32(0x1p103, 0)},
	} {
		if got, want := FMA(c[0], c[1], c[2]), exactFMA(c[0], c[1], c[2]); got != want {
			t.Errorf("FMA(%x, %x, %x) = %x, want %x", c[0], c[1], c[2], got, want)
		}
	}
}

// TestFMANearTies draws operands whose exact result is close to a tie, which
// random operands almost never are. The hardware must agree too.
func TestFMANearTies(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	const n = 4096
	x, y, alphas := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		alphas[i] = float32(r.IntN(1<<12)|1) * 0x1p-12
		x[i] = float32(r.IntN(1<<13)|1) * float32(math.Ldexp(1, r.IntN(80)-40))
		y[i] = float32(math.Ldexp(float64(r.IntN(5)-2), r.IntN(200)-100))
	}
	for isa := range EachISA {
		for i := range n {
			want := exactFMA(alphas[i], x[i], y[i])
			got := []float32{y[i]}
			AXPY(got, alphas[i], x[i:i+1])
			if got[0] != want {
				t.Fatalf("%s: FMA(%x, %x, %x) = %x, want %x", isa, alphas[i], x[i], y[i], got[0], want)
			}
		}
	}
}

func TestFMASpecial(t *testing.T) {
	t.Parallel()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	negativeZero := float32(math.Copysign(0, -1))
	for _, c := range []struct{ a, b, c, want float32 }{
		{inf, 1, 1, inf},
		{inf, 0, 1, nan},
		{inf, 1, -inf, nan},
		{1, 1, -inf, -inf},
		{1, nan, 1, nan},
		{1, 1, -1, 0},
		{negativeZero, 1, negativeZero, negativeZero},
		{negativeZero, 1, 0, 0},
		{-0x1p-100, 0x1p-100, 0, negativeZero}, // underflow keeps the sign
		{math.MaxFloat32, math.MaxFloat32, -1, inf},
	} {
		if got := FMA(c.a, c.b, c.c); !sameBits(got, c.want) {
			t.Errorf("FMA(%v, %v, %v) = %v, want %v", c.a, c.b, c.c, got, c.want)
		}
	}
}

// Without subnormal numbers what is nearer to the least normal number than to the one
// before it, if exponents went on, is that number, and the rest zero: x is the tie
// between them.
func TestFlushed(t *testing.T) {
	t.Parallel()
	const least, tiny = 0x1p-126, 0x1p-149
	zero, minus := float32(0), float32(math.Copysign(0, -1))
	below := math.Nextafter32(1, 0) // 1 - 2⁻²⁴
	for _, c := range [][4]float32{
		{1, least, 0, least},
		{1, tiny, 0, zero},
		{-1, least - tiny, 0, zero}, // -0 + 0
		{-1, least - tiny, minus, minus},
		{0x1p-70, 0x1p-57, 0, zero},
		{-0x1p-70, 0x1p-57, minus, minus},
		{2, least - tiny, 1, 1},             // a subnormal factor counts as zero
		{least, 1, -(least - tiny), least},  // and so does an addend
		{least, 1.5, -least, zero},          // 2⁻¹²⁷
		{0x1p-63 * below, 0x1p-63, 0, zero}, // 2⁻¹²⁶ - 2⁻¹⁵⁰ is one that exponents below would have
		{0x1p-63 * below, 0x1p-63 * (1 + 0x1p-23), 0, least},
		{-0x1p-63 * below, 0x1p-63 * (1 + 0x1p-23), 0, -least},
	} {
		got := FMAFlushed(c[0], c[1], c[2])
		if math.Float32bits(got) != math.Float32bits(c[3]) {
			t.Errorf("FMAFlushed(%x, %x, %x) = %x, want %x", c[0], c[1], c[2], got, c[3])
		}
	}
	for _, c := range [][3]float32{{least, tiny, least}, {least * 1.5, -least, zero}, {-least * 1.5, least, minus}, {tiny, tiny, zero}, {1, tiny, 1}} {
		if got := AddFlushed(c[0], c[1]); math.Float32bits(got) != math.Float32bits(c[2]) {
			t.Errorf("AddFlushed(%x, %x) = %x, want %x", c[0], c[1], got, c[2])
		}
	}
}
