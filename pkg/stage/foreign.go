package stage

import (
	"context"
	"errors"

	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// ReadTable reads the rows of an input. A job that works on plain files takes
// a table without a manifest as it is.
func ReadTable[T shard.Row](ctx context.Context, job Job, path string) ([]T, seal.Input, error) {
	rows, m, err := shard.Read[T](ctx, path, job.Reading)
	if job.Plain && errors.Is(err, seal.ErrNotSealed) {
		rows, err = shard.ReadForeign[T](ctx, path)
		return rows, seal.Input{Path: job.Cite(path)}, err
	}
	return rows, job.Input(path, m), err
}
