package arrowfile

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()
	sequences := make([]shard.Sequence, 2000)
	for i := range sequences {
		sequences[i].InstanceID = strings.Repeat("i", 128)
	}
	tensors := func(n int) func(path string) error {
		return func(path string) error {
			_, err := WriteTensors(path, []Tensor{{"w", []int{n}, make([]float32, n)}}, nil, shardtest.Attempt, seal.Manifest{})
			return err
		}
	}
	shardtest.FullDisk(t, map[string]func(path string) error{
		"batch.arrow": func(path string) error {
			_, err := WriteBatch(path, sequences, shardtest.Attempt, seal.Manifest{})
			return err
		},
		"grad.arrow": tensors(1 << 17),
	}, tensors(1))
}
