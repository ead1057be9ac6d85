package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Rounding to nearest, ties to even, worked by hand: 1 has the bits 3f80, and
// the places that are dropped count 2⁻²³ each.
func TestRoundBF16(t *testing.T) {
	t.Parallel()
	bits := math.Float32frombits
	for _, c := range []struct {
		x    float32
		want uint16
	}{
		{0, 0},
		{bits(1 << 31), 0x8000},
		{1, 0x3f80},
		{bits(0x3f807fff), 0x3f80}, // below half
		{bits(0x3f808000), 0x3f80}, // half, and 80 is even
		{bits(0x3f808001), 0x3f81},
		{bits(0x3f818000), 0x3f82}, // half, and 81 is odd
		{bits(0xbf818000), 0xbf82},
		{bits(0x3fff8000), 0x4000}, // carries into the exponent
		{bits(0x00008000), 0},      // subnormal
		{bits(0x00018000), 2},
		{math.MaxFloat32, 0x7f80},
		{bits(0x7f7f7fff), 0x7f7f}, // the largest that stays finite
		{float32(math.Inf(1)), 0x7f80},
		{float32(math.Inf(-1)), 0xff80},
		{bits(0x7f800001), 0x7fc0}, // signalling NaN with a payload that is dropped
		{bits(0xffffffff), 0xffff},
	} {
		for isa := range EachISA {
			src, got := make([]float32, 33), make([]uint16, 33) // two steps and a rest
			for i := range src {
				src[i] = c.x
			}
			RoundBF16(got, src)
			for i, g := range got {
				if g != c.want {
					t.Fatalf("%s: %x at %d rounds to %04x, want %04x", isa, math.Float32bits(c.x), i, g, c.want)
				}
			}
		}
	}
}

// Every bfloat16 goes to float32 and back unchanged, whichever way it is
// rounded; signalling NaNs become quiet.
func TestBF16RoundTrip(t *testing.T) {
	t.Parallel()
	half, random := make([]uint16, 1<<16), make([]uint16, 1<<16)
	for i := range half {
		half[i], random[i] = uint16(i), uint16(i*40503)
	}
	for isa := range EachISA {
		wide, nearest, randomly := make([]float32, 1<<16), make([]uint16, 1<<16), make([]uint16, 1<<16)
		WidenBF16(wide, half)
		RoundBF16(nearest, wide)
		RoundBF16Randomly(randomly, wide, random)
		for i, x := range half {
			if math.Float32bits(wide[i]) != uint32(x)<<16 {
				t.Fatalf("%s: %04x widens to %08x", isa, x, math.Float32bits(wide[i]))
			}
			want := x
			if wide[i] != wide[i] {
				want |= 1 << 6
			}
			if nearest[i] != want || randomly[i] != want {
				t.Fatalf("%s: %04x comes back as %04x and %04x, want %04x", isa, x, nearest[i], randomly[i], want)
			}
		}
	}
}

// With each of the 2¹⁶ random numbers once, the number of results that are
// further from zero is the dropped part, and no instruction set differs.
func TestRoundBF16RandomlyIsUnbiased(t *testing.T) {
	t.Parallel()
	random := make([]uint16, 1<<16)
	for i := range random {
		random[i] = uint16(i)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for isa := range EachISA {
		src, got := make([]float32, 1<<16), make([]uint16, 1<<16)
		for range 20 {
			bits := r.Uint32() & 0xbfffffff // finite
			for i := range src {
				src[i] = math.Float32frombits(bits)
			}
			RoundBF16Randomly(got, src, random)
			away := 0
			for i, g := range got {
				if g != uint16(bits>>16) && g != uint16(bits>>16)+1 {
					t.Fatalf("%s: %08x rounds to %04x", isa, bits, g)
				}
				if want := upper(src[i], bits+uint32(random[i])); g != want {
					t.Fatalf("%s: %08x and %04x give %04x, want %04x", isa, bits, random[i], g, want)
				}
				away += int(g - uint16(bits>>16))
			}
			if away != int(bits&0xffff) {
				t.Errorf("%s: %08x goes away from zero %d times of 65536, want %d", isa, bits, away, bits&0xffff)
			}
		}
	}
}

// The kernels write nothing beside their slices, whatever length and place.
func TestBF16Bounds(t *testing.T) {
	t.Parallel()
	for isa := range EachISA {
		for n := range 50 {
			wide, half := make([]float32, n+8), make([]uint16, n+8)
			for i := range wide {
				wide[i], half[i] = guard, 0x1234
			}
			src := make([]float32, n)
			RoundBF16(half[3:3+n], src)
			RoundBF16Randomly(half[3:3+n], src, make([]uint16, n))
			WidenBF16(wide[3:3+n], make([]uint16, n))
			for i := range wide {
				inside := i >= 3 && i < 3+n
				if (wide[i] == 0) != inside || (half[i] == 0) != inside {
					t.Fatalf("%s, n = %d: element %d is %v and %04x", isa, n, i, wide[i], half[i])
				}
			}
		}
	}
}

func BenchmarkBF16(b *testing.B) {
	const n = 1 << 14
	wide, half, random := make([]float32, n), make([]uint16, n), make([]uint16, n)
	for name, f := range map[string]func(){
		"widen":          func() { WidenBF16(wide, half) },
		"round":          func() { RoundBF16(half, wide) },
		"round randomly": func() { RoundBF16Randomly(half, wide, random) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(6 * n)
			for b.Loop() {
				f()
			}
		})
	}
}
