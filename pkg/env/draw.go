package env

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// Draw takes n of some things, at most all, any with equal probability; both
// parts stay in their order.
func Draw[T any](all []T, n int, stream rng.Stream) (drawn, left []T) {
	if n >= len(all) {
		return all, nil
	}
	order := stream.Permutation(0, len(all))
	slices.Sort(order[:n])
	slices.Sort(order[n:])
	for i, at := range order {
		if i < n {
			drawn = append(drawn, all[at])
		} else {
			left = append(left, all[at])
		}
	}
	return drawn, left
}

// Limit keeps n of the tasks of a split, drawn by the seed; all for 0.
func Limit[T any](all []T, n int, seed uint64, split Split) []T {
	if n <= 0 {
		return all
	}
	kept, _ := Draw(all, n, rng.New(seed, rng.PurposeData, 0, "limit/"+string(split), 0))
	return kept
}

// HeldOut says on which side of the share of a test split the hash of a text falls.
func HeldOut(text string, share float64) bool {
	sum := sha256.Sum256([]byte(text))
	return float64(binary.LittleEndian.Uint64(sum[:])) < share*math.MaxUint64
}
