package shard

import (
	"context"
	"testing"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// sealedFiles are one file of every type.
func sealedFiles() map[string]shardtest.File {
	return map[string]shardtest.File{
		"plan.parquet":    tableFile([]Instance{{InstanceID: "i", Messages: []Message{{"user", "1+1?"}}, Seed: 1}}),
		"rollout.parquet": tableFile(sampleRollouts),
		"score.parquet":   tableFile([]Score{{InstanceID: "i", RewardParts: []RewardPart{{"accuracy", 1}}, Milestones: []string{"a"}}}),
		"ledger.parquet":  tableFile([]LedgerRow{{InstanceID: "i", Fate: string(FateTrained)}}),
		"metrics.parquet": tableFile([]Metric{{1, "learn", 0, "loss", 0.5}}),
		"eval.parquet":    tableFile([]EvaluationRow{{TaskID: "t", Response: "2"}}),
	}
}

func tableFile[T Row](rows []T) shardtest.File {
	return shardtest.File{
		Write: func(path string) error {
			_, err := Write(path, rows, nil, shardtest.Attempt, seal.Manifest{})
			return err
		},
		Read: func(path string) error {
			_, _, err := Read[T](context.Background(), path, seal.Options{})
			return err
		},
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	shardtest.Damage(t, sealedFiles())
}

func TestWriteFailure(t *testing.T) {
	t.Parallel()
	shardtest.WriteFailure(t, sealedFiles())
}
