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
