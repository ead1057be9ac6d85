package shard

import (
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// benchRollouts is a shard as a sampler writes it: 2,000 responses of 500
// tokens, 8 to a prompt.
func benchRollouts() []Rollout {
	const rows, tokens = 2000, 500
	stream := rng.New(1, rng.PurposeTest, 0, "rollouts", 0)
	shard := make([]Rollout, rows)
	position := uint64(0)
	for i := range shard {
		r := Rollout{InstanceID: "instance", Sample: int32(i % 8), Messages: []Message{{"user", "What is 12 * 34?"}, {"assistant", "408"}}}
		for range tokens {
			u := stream.Float64(position)
			position++
			r.TokenIDs = append(r.TokenIDs, int32(150000*u*u*u))
			r.LossMask = append(r.LossMask, u > 0.1)
			r.LogProbs = append(r.LogProbs, float32(-u))
		}
		shard[i] = r
	}
	return shard
}

func BenchmarkWrite(b *testing.B) {
	rows := benchRollouts()
	dir := b.TempDir()
	for b.Loop() {
		path := filepath.Join(dir, "00000.parquet")
		m := must.Get(Write(path, rows, nil, shardtest.Attempt, seal.Manifest{}))(b)
		b.SetBytes(m.Bytes)
		must.Do(b, seal.Remove(path))
	}
	b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "00000.parquet")
	m := must.Get(Write(path, benchRollouts(), nil, shardtest.Attempt, seal.Manifest{}))(b)
	b.SetBytes(m.Bytes)
	for b.Loop() {
		if _, _, err := Read[Rollout](b.Context(), path, seal.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(int(m.Rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkContentDigest(b *testing.B) {
	rows := benchRollouts()
	for b.Loop() {
		ContentDigest(rows)
	}
}
