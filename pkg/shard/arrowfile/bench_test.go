package arrowfile

import (
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

func BenchmarkReadTensors(b *testing.B) {
	path := filepath.Join(b.TempDir(), "grad.arrow")
	m, err := WriteTensors(path, []Tensor{{"w", []int{1 << 24}, make([]float32, 1<<24)}}, nil, shardtest.Attempt, seal.Manifest{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(m.Bytes)
	for b.Loop() {
		if _, _, _, err := ReadTensors(b.Context(), path, seal.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
