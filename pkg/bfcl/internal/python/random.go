package python

import (
	"math/bits"
	"strconv"

	"gonum.org/v1/gonum/mathext/prng"
)

// Random is CPython's random.Random: the Mersenne Twister MT19937 of Matsumoto
// and Nishimura (1998), seeded by their init_by_array, with CPython's ways to
// make ranges and floats of its words.
type Random struct {
	seed    uint64
	twister *prng.MT19937 // nil until the first word is drawn: most are never drawn from
}

// NewRandom is random.Random(seed) for a seed of 0 or more.
func NewRandom(seed uint64) *Random { return &Random{seed: seed} }

// word draws 32 bits.
func (r *Random) word() uint32 {
	if r.twister == nil {
		key := []uint32{uint32(r.seed)}
		if high := uint32(r.seed >> 32); high != 0 {
			key = append(key, high)
		}
		r.twister = prng.NewMT19937()
		r.twister.SeedFromKeys(key)
	}
	return r.twister.Uint32()
}

// Bits is getrandbits(count) for a count of 1 to 64.
func (r *Random) Bits(count int) uint64 {
	low := r.word()
	if count <= 32 {
		return uint64(low >> (32 - count))
	}
	return uint64(low) | uint64(r.word()>>(64-count))<<32
}

// Between is randint(low, high): both ends belong to the range.
func (r *Random) Between(low, high int64) int64 {
	width := uint64(high-low) + 1
	count := bits.Len64(width)
	drawn := r.Bits(count)
	for drawn >= width {
		drawn = r.Bits(count)
	}
	return low + int64(drawn)
}

// Digits draws a whole number of that many digits, the first of them not 0,
// and returns its text.
func (r *Random) Digits(count int) string {
	low := int64(1)
	for range count - 1 {
		low *= 10
	}
	return strconv.FormatInt(r.Between(low, 10*low-1), 10)
}

// Float is random(): 53 bits in [0, 1).
func (r *Random) Float() float64 {
	high, low := r.word()>>5, r.word()>>6
	return (float64(high)*(1<<26) + float64(low)) / (1 << 53)
}

// Uniform is uniform(low, high).
func (r *Random) Uniform(low, high float64) float64 { return low + float64((high-low)*r.Float()) }
