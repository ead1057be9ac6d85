package vec

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// Every instruction set draws what the stream's blocks hold, where positions pass 2³²
// too, and writes nothing beside.
func TestRandomHalves(t *testing.T) {
	t.Parallel()
	const edge = 0xbeef
	for isa := range EachISA {
		for _, from := range []uint64{0, 1, 12345, 1<<32 - 9, 7<<40 + 3, math.MaxUint64 - 20} {
			for blocks := range 3*lanes + 2 {
				stream := rng.New(uint64(blocks), rng.PurposeTest, 1, "halves", blocks%3)
				var out, want [3][]uint16
				var inner [3][]uint16
				for i := range out {
					out[i] = slices.Repeat([]uint16{edge}, 2*blocks+3)
					want[i] = slices.Clone(out[i])
					inner[i] = out[i][1 : 1+2*blocks]
				}
				RandomHalves(inner[0], inner[1], inner[2], stream, from)
				for block := range blocks {
					b := stream.Block(from + uint64(block))
					for half := range 2 {
						at := 1 + 2*block + half
						want[0][at], want[1][at], want[2][at] = uint16(b[2*half]), uint16(b[2*half]>>16), uint16(b[2*half+1])
					}
				}
				if got, wanted := fmt.Sprint(out), fmt.Sprint(want); got != wanted {
					t.Fatalf("%s, %d blocks from %d:\n%s, want\n%s", isa, blocks, from, got, wanted)
				}
			}
		}
	}
}
