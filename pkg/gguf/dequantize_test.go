package gguf

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// Every value of every type is that of the Python package gguf, bit for bit: ordinary
// scales, zeros of both signs, subnormals, the largest, infinities and NaN.
// LATHE_GGUF_BLOCKS names a larger file of testdata/blocks.py.
func TestDequantize(t *testing.T) {
	t.Parallel()
	path := "testdata/blocks.json"
	if more := os.Getenv("LATHE_GGUF_BLOCKS"); more != "" {
		path = more
	}
	raw, err := os.ReadFile(path)
	must.Do(t, err)
	var cases map[string]struct{ Blocks, Values []byte }
	must.Do(t, json.Unmarshal(raw, &cases))
	if len(cases) != len(kinds) {
		t.Errorf("%d types are tested, of %d", len(cases), len(kinds))
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			c := cases[k.name]
			dst := make([]float32, k.elements)
			if len(c.Blocks) == 0 || len(c.Values)/4/k.elements != len(c.Blocks)/k.bytes {
				t.Fatalf("%d bytes of blocks and %d of values", len(c.Blocks), len(c.Values))
			}
			wrong := 0
			for at := 0; at*k.bytes < len(c.Blocks); at++ {
				k.decode(dst, c.Blocks[at*k.bytes:(at+1)*k.bytes])
				for i, x := range dst {
					want := math.Float32frombits(binary.LittleEndian.Uint32(c.Values[4*(at*k.elements+i):]))
					if math.Float32bits(x) != math.Float32bits(want) && (x == x || want == want) {
						if wrong++; wrong < 5 {
							t.Errorf("block %d element %d: %x, want %x", at, i, x, want)
						}
					}
				}
			}
		})
	}
}

// TestHalf: values of IEEE 754 binary16 by their bits; of NaN the payload is kept.
func TestHalf(t *testing.T) {
	t.Parallel()
	for h, want := range map[uint16]uint32{0x3c00: 0x3f800000, 0x8000: 0x80000000, 0x0001: 0x33800000, 0x83ff: 0xb87fc000, 0x7bff: 0x477fe000, 0x7c00: 0x7f800000, 0xfc00: 0xff800000, 0x7e01: 0x7fc02000} {
		if got := math.Float32bits(half([]byte{byte(h), byte(h >> 8)})); got != want {
			t.Errorf("%04x is %08x, want %08x", h, got, want)
		}
	}
}
