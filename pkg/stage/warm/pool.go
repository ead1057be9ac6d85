package warm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// poolRow is what is read of a pool's row.
type poolRow struct {
	TokenIDs []int32 `parquet:"token_ids,list" parquet-element:",delta"`
	LossMask []bool  `parquet:"loss_mask,list"`
}

// Schema is that of the whole row.
func (poolRow) Schema() seal.Schema { return shard.PoolRow{}.Schema() }

// CheckPool refuses a file that is not a pool, and one whose tokens are not those of
// the policy of a folder.
func CheckPool(ctx context.Context, path, folder string, o seal.Options) (seal.Manifest, error) {
	m, err := seal.Read(ctx, path, o)
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		return m, exitcode.WithHint(exitcode.Dataf("%q is not a sealed pool: %w", path, err), "make one with: lathe pool RUN --out %s", path)
	case err != nil:
		return m, err
	case m.Schema.Name != shard.PoolSchema:
		return m, exitcode.Dataf("%q holds rows of schema %q and is no pool", path, m.Schema)
	case m.Rows == 0:
		return m, exitcode.Dataf("pool %q is empty", path)
	}
	meta, err := shard.Metadata(ctx, path, o)
	if err != nil {
		return m, err
	}
	file := filepath.Join(folder, tokenizer.TokenizerFile)
	content, err := plainfile.ReadWhole(file)
	if err != nil {
		return m, err
	}
	sum := sha256.Sum256(content)
	if own := hex.EncodeToString(sum[:]); own != meta[shard.PoolTokenizer] {
		return m, exitcode.WithHint(exitcode.Dataf("pool %q holds tokens of another tokenizer than %q: sha256 %s, this one's is %s", path, file, meta[shard.PoolTokenizer], own),
			"start from the policy that the pool's runs started from, such as their policy/v000000")
	}
	return m, nil
}

// pooled are the batches of a checkpoint's steps, and the pool that they are from.
func pooled(ctx context.Context, job stage.Job, s Settings, in Inputs, folder string) ([]batch, seal.Input, error) {
	m, err := CheckPool(ctx, in.Pool, folder, job.Reading)
	if err != nil {
		return nil, seal.Input{}, err
	}
	if m.ContentSHA256 != in.PoolSHA256 {
		return nil, seal.Input{}, exitcode.WithHint(exitcode.Dataf("pool %q has changed since the run was made: content sha256 %s, was %s", in.Pool, m.ContentSHA256, in.PoolSHA256),
			"put the file back, or start a new run with the new file")
	}
	size := s.WarmStart.Batch
	order := poolOrder(s.Seed, int(m.Rows), in.FirstStep*size, in.LastStep*size)
	wanted := map[int]poolRow{}
	for _, at := range order {
		wanted[at] = poolRow{}
	}
	at := 0
	for row, err := range shard.Rows[poolRow](ctx, in.Pool, job.Reading) {
		if err != nil {
			return nil, seal.Input{}, err
		}
		if len(row.TokenIDs) != len(row.LossMask) {
			return nil, seal.Input{}, exitcode.Dataf("pool %q row %d has %d tokens and a mask of %d", in.Pool, at, len(row.TokenIDs), len(row.LossMask))
		}
		if _, ok := wanted[at]; ok {
			wanted[at] = row
		}
		at++
	}
	batches := make([]batch, in.LastStep-in.FirstStep)
	for slot, at := range order {
		batches[slot/size].add(wanted[at].TokenIDs, wanted[at].LossMask)
	}
	return batches, job.Input(in.Pool, m), nil
}

// poolOrder lists which of a pool's rows stand in the slots [first, last) of a warm
// start. Its slots run through permutations of the rows, one drawn for each epoch.
func poolOrder(seed uint64, rows, first, last int) []int {
	order := make([]int, 0, last-first)
	epoch, permutation := -1, []int(nil)
	for slot := first; slot < last; slot++ {
		if e := slot / rows; e != epoch {
			epoch = e
			permutation = rng.New(seed, rng.PurposeWarmStart, epoch, "epoch of a pool", 0).Permutation(0, rows)
		}
		order = append(order, permutation[slot%rows])
	}
	return order
}
