// Package rng draws every random number that Lathe uses.
//
// A draw is a pure function of what it is for: the run's seed, a purpose, the
// iteration, the instance, the sample and a position. Nothing is ever drawn
// from a shared generator, the clock or the order in which work completes, so
// a shard that runs twice, on another node, or split in another way draws the
// same numbers.
//
// The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random
// Numbers: As Easy as 1, 2, 3, SC 2011). A device kernel that is given a
// stream's key and sample reproduces every draw from the position alone.
package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
)

// Purpose says what a stream is for, so that two uses of one instance never
// share numbers. The values are part of the file format: they are never
// renumbered.
type Purpose uint32

// The purposes of streams.
const (
	PurposeSample     Purpose = 1  // a token of a response, by position
	PurposeSelect     Purpose = 2  // the curriculum's choice of instances
	PurposeInit       Purpose = 3  // initial weights, one stream per tensor
	PurposeData       Purpose = 4  // generated problems
	PurposeWarmStart  Purpose = 5  // the order and kind of demonstrations
	PurposeShuffle    Purpose = 6  // the order of sequences inside a batch
	PurposeEvaluation Purpose = 7  // a token of an evaluation response
	PurposeTest       Purpose = 8  // tests and benchmarks
	PurposeRounding   Purpose = 9  // an optimizer step's rounding, by parameter
	PurposeScaffold   Purpose = 10 // what the next attempt of a trace starts from
	PurposeBootstrap  Purpose = 11 // resamples of a comparison
	PurposeSimulate   Purpose = 12 // what happens on a simulated cluster
	PurposeTokens     Purpose = 13 // tokens that a loss treats apart, by gradient unit
)

// Stream is a sequence of random numbers addressed by position. The zero
// value is a valid, fixed stream. Key and Sample are what a device needs.
type Stream struct {
	Key    [2]uint32
	Sample uint32
}

// New returns the stream for one purpose of one sample of one instance.
func New(seed uint64, purpose Purpose, iteration int, instance string, sample int) Stream {
	h := sha256.New()
	var head [24]byte
	copy(head[:4], "lth1")
	binary.LittleEndian.PutUint32(head[4:], uint32(purpose))
	binary.LittleEndian.PutUint64(head[8:], seed)
	binary.LittleEndian.PutUint64(head[16:], uint64(int64(iteration)))
	h.Write(head[:])
	h.Write([]byte(instance))
	sum := h.Sum(nil)
	return Stream{
		Key:    [2]uint32{binary.LittleEndian.Uint32(sum), binary.LittleEndian.Uint32(sum[4:])},
		Sample: uint32(sample),
	}
}

// What words 0 and 2 of a counter are multiplied by in each round, for kernels that
// compute many blocks at once.
const (
	PhiloxMul0 = 0xD2511F53
	PhiloxMul1 = 0xCD9E8D57
)

const (
	philoxRounds = 10
	philoxKey0   = 0x9E3779B9
	philoxKey1   = 0xBB67AE85
)

// PhiloxKeys are the keys of the rounds under that of a stream.
func PhiloxKeys(key [2]uint32) (all [philoxRounds][2]uint32) {
	for round := range all {
		all[round] = key
		key[0] += philoxKey0
		key[1] += philoxKey1
	}
	return all
}

// Block returns the four 32-bit words at a position: Philox4x32-10 with the
// stream's key and the counter (position low, position high, sample, 0).
func (s Stream) Block(position uint64) [4]uint32 {
	return philox([4]uint32{uint32(position), uint32(position >> 32), s.Sample, 0}, s.Key)
}

// philox is Philox4x32-10 of a counter under a key.
func philox(c [4]uint32, key [2]uint32) [4]uint32 {
	k0, k1 := key[0], key[1] // in registers, which an array is not
	for range philoxRounds {
		hi0, lo0 := bits.Mul32(PhiloxMul0, c[0])
		hi1, lo1 := bits.Mul32(PhiloxMul1, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ k0, lo1, hi0 ^ c[3] ^ k1, lo0}
		k0 += philoxKey0
		k1 += philoxKey1
	}
	return c
}

// Uint64 returns 64 random bits at a position.
func (s Stream) Uint64(position uint64) uint64 {
	b := s.Block(position)
	return uint64(b[0]) | uint64(b[1])<<32
}

// Float64 returns a uniform number in [0, 1) with 53 random bits.
func (s Stream) Float64(position uint64) float64 {
	return float64(s.Uint64(position)>>11) * 0x1p-53
}

// Float32 returns a uniform number in [0, 1) with 24 random bits.
func (s Stream) Float32(position uint64) float32 {
	return float32(s.Block(position)[0]>>8) * 0x1p-24
}

// Bool is true with probability p.
func (s Stream) Bool(position uint64, p float64) bool { return s.Float64(position) < p }

// IntN returns a uniform integer in [0, n) for n > 0, by multiplication with
// 128 bits of randomness: the bias is below n/2^64.
func (s Stream) IntN(position uint64, n int) int {
	if n <= 0 {
		panic("rng: IntN needs n > 0")
	}
	hi, _ := bits.Mul64(s.Uint64(position), uint64(n))
	return int(hi)
}

// Normal returns a standard normal number, by the Box-Muller transform.
func (s Stream) Normal(position uint64) float64 {
	b := s.Block(position)
	// u1 in (0, 1] so that the logarithm is finite.
	u1 := (float64(b[0]) + 1) * 0x1p-32
	u2 := float64(b[1]) * 0x1p-32
	return math.Sqrt(-2*math.Log(u1)) * math.Cos(2*math.Pi*u2)
}

// Permutation returns a random permutation of 0..n-1 by Fisher-Yates, drawing
// from positions base to base+n-1.
func (s Stream) Permutation(base uint64, n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := s.IntN(base+uint64(i), i+1)
		p[i], p[j] = p[j], p[i]
	}
	return p
}
