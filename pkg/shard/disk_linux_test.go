package shard

import (
	"fmt"
	"testing"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/shardtest"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()
	rows := make([]EvaluationRow, 2000)
	for i := range rows {
		rows[i].Response = fmt.Sprintf("%x", shardtest.SHA256(fmt.Append(nil, i))) // does not compress to nothing
		rows[i].Prompt = fmt.Sprintf("%x", shardtest.SHA256(fmt.Append(nil, -i)))
	}
	write := func(rows []EvaluationRow) func(path string) error {
		return func(path string) error {
			_, err := Write(path, rows, nil, shardtest.Attempt, seal.Manifest{})
			return err
		}
	}
	shardtest.FullDisk(t, map[string]func(path string) error{"eval.parquet": write(rows)}, write(rows[:1]))
}
