package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exit"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// statsKey is the metadata key of a gradient shard under which it keeps what
// it saw of the loss.
const statsKey = "statistics"

// RunGradient computes the gradients of the units of one optimizer step that
// shard n of a gradient array owns, and seals their sums.
func RunGradient(ctx context.Context, job stage.Job, in Inputs, step, n, of int, output string) (seal.Manifest, error) {
	started := time.Now()
	l, err := open(ctx, job, in)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer l.close()
	units := job.Recipe.Schedule.GradientUnits
	first, last := units*n/of, units*(n+1)/of
	mine := func(s shard.Sequence) bool {
		return int(s.OptimizerStep) == step%job.Recipe.Loss.MiniBatches && first <= int(s.Unit) && int(s.Unit) < last
	}
	if err := l.recompute(ctx, mine); err != nil {
		return seal.Manifest{}, err
	}
	if err := l.critique(ctx, mine); err != nil {
		return seal.Manifest{}, fmt.Errorf("values: %w", err)
	}
	t := &tree{units: units, next: first}
	stats := &stepStats{}
	if err := l.units(ctx, step, first, last, t, stats); err != nil {
		return seal.Manifest{}, err
	}
	var tensors []shard.Tensor
	for _, b := range t.blocks() {
		for _, tensor := range b.sum {
			tensors = append(tensors, shard.Tensor{
				Name: fmt.Sprintf("%d/%d/%s", b.start, b.level, tensor.Name), Shape: tensor.Shape, Data: tensor.Data,
			})
		}
	}
	encoded, err := json.Marshal(stats)
	if err != nil {
		return seal.Manifest{}, err
	}
	m := job.Manifest("gradient", in.Iteration, n, of, started, l.cited...)
	m.Metrics = map[string]float64{"seconds": time.Since(started).Seconds(), "tokens": float64(stats.Tokens)}
	return shard.WriteTensors(output, tensors, map[string]string{statsKey: string(encoded)}, job.Attempt, m)
}

// readGradient adds the blocks of one gradient shard to the tree.
func (l *learner) readGradient(ctx context.Context, path string, t *tree, stats *stepStats) (seal.Manifest, error) {
	like := l.engine.Gradients() // the names and sizes that every block must have
	tensors, meta, m, err := shard.ReadTensors(ctx, path, l.Reading)
	if err != nil {
		return m, err
	}
	var record stepStats
	if err := json.Unmarshal([]byte(meta[statsKey]), &record); err != nil {
		return m, exit.Dataf("gradient shard %q has no readable statistics: %w", path, err)
	}
	stats.merge(record)
	if len(tensors)%len(like) != 0 {
		return m, exit.Dataf("gradient shard %q has %d tensors, the policy has %d", path, len(tensors), len(like))
	}
	for ; len(tensors) > 0; tensors = tensors[len(like):] {
		b := block{sum: make([]policy.Tensor, len(like))}
		for i, want := range like {
			start, level, name, ok := blockName(tensors[i].Name)
			if !ok || name != want.Name || len(tensors[i].Data) != len(want.Data) {
				return m, exit.Dataf("gradient shard %q holds %q with %d values where %q with %d is expected",
					path, tensors[i].Name, len(tensors[i].Data), want.Name, len(want.Data))
			}
			b.start, b.level = start, level
			b.sum[i] = policy.Tensor{Name: want.Name, Shape: want.Shape, Data: tensors[i].Data}
		}
		if err := t.add(b); err != nil {
			return m, err
		}
	}
	return m, nil
}

// blockName splits START/LEVEL/NAME.
func blockName(s string) (start, level int, name string, ok bool) {
	parts := strings.SplitN(s, "/", 3)
	if len(parts) != 3 {
		return 0, 0, "", false
	}
	start, err1 := strconv.Atoi(parts[0])
	level, err2 := strconv.Atoi(parts[1])
	return start, level, parts[2], err1 == nil && err2 == nil && level >= 0 && level < 31
}
