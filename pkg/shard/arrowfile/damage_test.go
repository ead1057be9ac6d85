package arrowfile

import (
	"context"
	"testing"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

// sealedFiles are one file of every type.
func sealedFiles() map[string]shardtest.File {
	ctx, o := context.Background(), seal.Options{}
	return map[string]shardtest.File{
		"batch.arrow": {
			Write: func(path string) error {
				_, err := WriteBatch(path, sampleBatch, shardtest.Attempt, seal.Manifest{})
				return err
			},
			Read: func(path string) error { _, _, err := ReadBatch(ctx, path, o); return err },
		},
		"grad.arrow": {
			Write: func(path string) error {
				_, err := WriteTensors(path, sampleTensors, nil, shardtest.Attempt, seal.Manifest{})
				return err
			},
			Read: func(path string) error { _, _, _, err := ReadTensors(ctx, path, o); return err },
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
