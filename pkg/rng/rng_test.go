package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The known answers of Random123 1.14, tests/kat_vectors, philox4x32 10.
func TestPhiloxKnownAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{
			[4]uint32{},
			[2]uint32{},
			[4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
		},
		{
			[4]uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32},
			[2]uint32{math.MaxUint32, math.MaxUint32},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{ // the digits of pi
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%08x, %08x) = %08x, want %08x", c.counter, c.key, got, c.want)
		}
	}
}

func TestBlockPlacesPositionAndSample(t *testing.T) {
	t.Parallel()
	s := Stream{Key: [2]uint32{5, 6}, Sample: 7}
	got := s.Block(3<<32 | 2)
	if want := philox([4]uint32{2, 3, 7, 0}, [2]uint32{5, 6}); got != want {
		t.Errorf("Block = %08x, want %08x", got, want)
	}
}

// The key is spelled out, because a device kernel and another language must
// be able to derive it.
func TestNewKey(t *testing.T) {
	t.Parallel()
	const seed, iteration, instance, sample = 1<<63 + 9, -2, "task 7/é", 11
	head := []byte("lth1")
	head = binary.LittleEndian.AppendUint32(head, uint32(PurposeSelect))
	head = binary.LittleEndian.AppendUint64(head, seed)
	minusTwo := int64(iteration)
	head = binary.LittleEndian.AppendUint64(head, uint64(minusTwo))
	sum := sha256.Sum256(append(head, instance...))
	want := Stream{
		Key:    [2]uint32{binary.LittleEndian.Uint32(sum[:4]), binary.LittleEndian.Uint32(sum[4:8])},
		Sample: sample,
	}
	if got := New(seed, PurposeSelect, iteration, instance, sample); got != want {
		t.Errorf("New = %+v, want %+v", got, want)
	}
}

// Numbers that were computed apart from this package, by a program in another
// language. A change here changes every run's bytes.
func TestPinnedStream(t *testing.T) {
	t.Parallel()
	const pinned = 0xc324ae0ee508e16c
	s := New(1, PurposeTest, 2, "instance", 3)
	if got, want := s.Uint64(4), uint64(pinned); got != want {
		t.Errorf("Uint64 = %#x, want %#x", got, want)
	}
	if got, want := s.Float64(4), float64(uint64(pinned)>>11)/(1<<53); got != want {
		t.Errorf("Float64 = %v, want %v", got, want)
	}
	if got, want := s.Float32(4), float32(uint32(pinned&math.MaxUint32)>>8)/(1<<24); got != want {
		t.Errorf("Float32 = %v, want %v", got, want)
	}
	if got, want := fmt.Sprintf("%.12f", s.Normal(4)), "0.036363236102"; got != want { // by Python's math, of the same 64 bits
		t.Errorf("Normal = %s, want %s", got, want)
	}
	if got, want := s.Permutation(0, 8), []int{5, 7, 1, 0, 3, 4, 2, 6}; !slices.Equal(got, want) {
		t.Errorf("Permutation = %v, want %v", got, want)
	}
}

// Streams that differ in one thing share no numbers.
func TestStreamsAreApart(t *testing.T) {
	t.Parallel()
	base := New(1, PurposeTest, 2, "a", 3)
	seen := map[[4]uint32]string{base.Block(0): "base"}
	for name, s := range map[string]Stream{
		"seed":      New(2, PurposeTest, 2, "a", 3),
		"purpose":   New(1, PurposeSample, 2, "a", 3),
		"iteration": New(1, PurposeTest, 3, "a", 3),
		"instance":  New(1, PurposeTest, 2, "b", 3),
		"sample":    New(1, PurposeTest, 2, "a", 4),
	} {
		if other, ok := seen[s.Block(0)]; ok {
			t.Errorf("another %s draws the numbers of %s", name, other)
		}
		seen[s.Block(0)] = name
	}
	for _, position := range []uint64{1, 1 << 32, math.MaxUint64} {
		if other, ok := seen[base.Block(position)]; ok {
			t.Errorf("position %d draws the numbers of %s", position, other)
		}
	}
}

func anyStream(t *rapid.T) Stream {
	return Stream{
		Key:    [2]uint32{rapid.Uint32().Draw(t, "key 0"), rapid.Uint32().Draw(t, "key 1")},
		Sample: rapid.Uint32().Draw(t, "sample"),
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anyStream(t)
		position := rapid.Uint64().Draw(t, "position")
		if v := s.Float64(position); v < 0 || v >= 1 {
			t.Fatalf("Float64 = %v", v)
		}
		if v := s.Float32(position); v < 0 || v >= 1 {
			t.Fatalf("Float32 = %v", v)
		}
		n := rapid.IntRange(1, math.MaxInt).Draw(t, "n")
		if v := s.IntN(position, n); v < 0 || v >= n {
			t.Fatalf("IntN(%d) = %d", n, v)
		}
		// The largest normal: u1 = 2^-32 gives sqrt(64 ln 2) = 6.66.
		if v := s.Normal(position); math.IsNaN(v) || math.Abs(v) > 6.67 {
			t.Fatalf("Normal = %v", v)
		}
		if s.Bool(position, 0) || !s.Bool(position, 1) {
			t.Fatal("Bool with probability 0 is true, or with 1 is false")
		}
	})
}

func TestPermutationHoldsEachOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 100).Draw(t, "n")
		p := anyStream(t).Permutation(rapid.Uint64().Draw(t, "base"), n)
		slices.Sort(p)
		for i, v := range p {
			if v != i {
				t.Fatalf("sorted: %v", p)
			}
		}
		if len(p) != n {
			t.Fatalf("length %d of %d", len(p), n)
		}
	})
}

func TestIntNNeedsARange(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("IntN(0) does not panic")
		}
	}()
	Stream{}.IntN(0, 0)
}

// Moments over n = 200,000 draws; the bounds are five standard errors.
func TestMoments(t *testing.T) {
	t.Parallel()
	const n = 200_000
	s := New(1, PurposeTest, 0, "moments", 0)
	var uniform, normal, square, heads float64
	var bins [10]float64
	for i := range uint64(n) {
		uniform += s.Float64(i)
		x := s.Normal(i)
		normal += x
		square += x * x
		bins[s.IntN(i, 10)]++
		if s.Bool(i, 0.3) {
			heads++
		}
	}
	for _, c := range []struct {
		name             string
		got, want, sigma float64 // sigma: standard deviation of one draw
	}{
		{"mean of Float64", uniform / n, 0.5, math.Sqrt(1.0 / 12)},
		{"mean of Normal", normal / n, 0, 1},
		{"mean of squared Normal", square / n, 1, math.Sqrt2},
		{"share of Bool(0.3)", heads / n, 0.3, math.Sqrt(0.21)},
	} {
		if bound := 5 * c.sigma / math.Sqrt(n); math.Abs(c.got-c.want) > bound {
			t.Errorf("%s = %v, want %v within %v", c.name, c.got, c.want, bound)
		}
	}
	chi := 0.0
	for _, count := range bins {
		chi += (count - n/10) * (count - n/10) / (n / 10)
	}
	// The 0.9999 quantile of chi squared with 9 degrees of freedom is 33.7.
	if chi > 33.7 {
		t.Errorf("IntN(10): chi squared %v over %v", chi, bins)
	}
}

func BenchmarkFloat64(b *testing.B) {
	s := New(1, PurposeTest, 0, "benchmark", 0)
	sum := 0.0
	for i := range b.N {
		sum += s.Float64(uint64(i))
	}
	if sum < 0 {
		b.Fatal(sum)
	}
}

// The keys of ten rounds are those that philox adds up.
func TestPhiloxKeys(t *testing.T) {
	t.Parallel()
	keys := PhiloxKeys([2]uint32{5, math.MaxUint32})
	for round, got := range keys {
		if want := [2]uint32{5 + uint32(round)*0x9E3779B9, math.MaxUint32 + uint32(round)*0xBB67AE85}; got != want {
			t.Errorf("round %d: %08x, want %08x", round, got, want)
		}
	}
}

// A million normal numbers have the moments 0, 1, 0 and 3, within five standard errors: of n
// numbers those are √(1/n), √(2/n), √(15/n) and √(96/n).
func TestNormalMoments(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	var sums [4]float64
	s := New(3, PurposeTest, 0, "normal", 0)
	for i := range uint64(n) {
		x := s.Normal(i)
		for k, power := 0, x; k < 4; k, power = k+1, power*x {
			sums[k] += power
		}
	}
	for k, want := range []struct{ moment, variance float64 }{{0, 1}, {1, 2}, {0, 15}, {3, 96}} {
		if got := sums[k] / n; math.Abs(got-want.moment) > 5*math.Sqrt(want.variance/n) {
			t.Errorf("moment %d is %v, want %v", k+1, got, want.moment)
		}
	}
}
