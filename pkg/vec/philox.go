package vec

import (
	"unsafe"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// philoxTable is what the kernels of RandomHalves read; internal/gen has the offsets of
// its fields.
type philoxTable struct {
	keys      [10][2]uint32 // by round
	mul       [2]uint32
	sample    uint32
	_         uint32
	one       uint64
	stride    uint64    // between the blocks of one vector and those of the next
	positions [8]uint64 // of the blocks of even lanes
}

// RandomHalves draws three numbers of 16 random bits for each of an even number of
// elements. Two elements share a block of the stream, the first two that at position
// from; in their block the even one has words 0 and 1 and the odd one words 2 and 3. low
// and high are the halves of the first of these words, and next the lower half of the
// second.
func RandomHalves(low, high, next []uint16, stream rng.Stream, from uint64) {
	n := len(low)
	if len(high) != n || len(next) != n || n%2 != 0 {
		panic(badLength)
	}
	whole := wholeSteps(n / 2)
	if whole > 0 {
		f := philoxTable{keys: rng.PhiloxKeys(stream.Key), mul: [2]uint32{rng.PhiloxMul0, rng.PhiloxMul1}, sample: stream.Sample, one: 1, stride: 8}
		for i := range f.positions {
			f.positions[i] = from + 2*uint64(i)
		}
		pairs := func(s []uint16) *uint32 { return (*uint32)(unsafe.Pointer(&s[0])) }
		if Active() == AVX512 {
			f.stride = 16
			randomHalvesAVX512(pairs(low), pairs(high), pairs(next), whole, &f)
		} else {
			randomHalvesAVX2(pairs(low), pairs(high), pairs(next), whole, &f)
		}
	}
	randomHalvesGo(low[2*whole:], high[2*whole:], next[2*whole:], stream, from+uint64(whole))
}

func randomHalvesGo(low, high, next []uint16, stream rng.Stream, from uint64) {
	for i := 0; i < len(low); i += 2 {
		words := stream.Block(from + uint64(i/2))
		for half := range 2 {
			first, second := words[2*half], words[2*half+1]
			low[i+half], high[i+half], next[i+half] = uint16(first), uint16(first>>16), uint16(second)
		}
	}
}
