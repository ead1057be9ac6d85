package arrowfile

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

func BenchmarkReadTensors(b *testing.B) {
	path := filepath.Join(b.TempDir(), "grad.arrow")
	m := must.Get(WriteTensors(path, []Tensor{{"w", []int{1 << 24}, make([]float32, 1<<24)}}, nil, shardtest.Attempt, seal.Manifest{}))(b)
	b.SetBytes(m.Bytes)
	for b.Loop() {
		if _, _, _, err := ReadTensors(b.Context(), path, seal.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadUnits reads a batch unit by unit, each of one short sequence.
func BenchmarkReadUnits(b *testing.B) {
	for _, units := range []int{1 << 12, 1 << 14, 1 << 16} {
		b.Run(fmt.Sprintf("units=%d", units), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "batch.arrow")
			sequences := make([]shard.Sequence, units)
			for i := range sequences {
				sequences[i] = shard.Sequence{Unit: int32(i), Place: int32(i), LogProbSource: shard.LogProbsEngine}
			}
			if _, err := WriteBatch(path, sequences, shardtest.Attempt, seal.Manifest{}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				batch, _ := must.Get2(OpenBatch(b.Context(), path, seal.Options{}))(b)
				for number := range units {
					must.Get(batch.Unit(0, number))(b)
				}
				must.Do(b, batch.Close())
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*units), "µs/unit")
		})
	}
}
