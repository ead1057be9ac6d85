package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// statsKey is the metadata key of a gradient shard under which it keeps what
// it saw of the loss.
const statsKey = "statistics"

// RunGradient computes the gradients of the units of one optimizer step that
// shard n of a gradient array owns, and seals their sums.
func RunGradient(ctx context.Context, job stage.Job, s Settings, in Inputs, step, n, of int, output string) (seal.Manifest, error) {
	started := time.Now()
	l := &learner{Settings: s, files: job.Files, process: job.Process, in: in.withoutOptimizer()}
	first, last := unitsOfShards(s.GradientUnits, n, n+1, of)
	mine := func(u unit) bool {
		return u.step == step%s.Loss.MiniBatches && first <= u.number && u.number < last
	}
	if err := l.open(ctx, GradientWorkload, mine); err != nil {
		return seal.Manifest{}, err
	}
	defer l.close()
	l.trained.ZeroGradients()
	t := newPart(l.trained, s.GradientUnits, n, n+1, of)
	stats := &stepStats{}
	if err := l.units(ctx, step, t, stats); err != nil {
		return seal.Manifest{}, err
	}
	m := job.Manifest("gradient", in.Iteration, n, of, started, l.cited...)
	m.Metrics = map[string]float64{"tokens": float64(stats.Tokens), "batch_bytes_read": float64(l.batch.BytesRead())}
	return l.sealSums(job, t, stats, output, m)
}

// withoutOptimizer is what gradients depend on: the optimizer's state, which may be twice
// as large as the policy, is read by the task that applies them alone.
func (in Inputs) withoutOptimizer() Inputs {
	in.Optimizer, in.CriticOptimizer = "", ""
	return in
}

// RunReduce adds up the gradient shards of one optimizer step that task n of so many
// has, in.Gradients, and seals their sums: whole subtrees of the tree of units, as if
// one gradient shard had computed all of them.
func RunReduce(ctx context.Context, job stage.Job, s Settings, in Inputs, n, of int, output string) (seal.Manifest, error) {
	started := time.Now()
	l := &learner{Settings: s, files: job.Files, process: job.Process, in: in.withoutOptimizer()}
	if err := l.open(ctx, reduceWorkload(of), func(unit) bool { return false }); err != nil {
		return seal.Manifest{}, err
	}
	defer l.close()
	l.trained.ZeroGradients()
	shards := s.GradientShards
	t := newPart(l.trained, s.GradientUnits, shards*n/of, shards*(n+1)/of, shards)
	stats := &stepStats{}
	read, err := l.readGradients(ctx, t, stats)
	if err != nil {
		return seal.Manifest{}, err
	}
	m := job.Manifest("reduce", in.Iteration, n, of, started, l.cited...)
	m.Metrics = map[string]float64{"gradient_bytes_read": float64(read)}
	return l.sealSums(job, t, stats, output, m)
}

// sealSums seals the sums of a part of the tree.
func (l *learner) sealSums(job stage.Job, t *tree, stats *stepStats, output string, m seal.Manifest) (seal.Manifest, error) {
	if err := t.finish(); err != nil {
		return seal.Manifest{}, err
	}
	encoded, err := json.Marshal(stats)
	if err != nil {
		return seal.Manifest{}, err
	}
	if err := trainer.NoteDevice(&m, l.engine.Meter); err != nil {
		return seal.Manifest{}, err
	}
	if err := stage.NoteEngine(&m, l.engine); err != nil {
		return seal.Manifest{}, err
	}
	return writeBlocks(l.trained, t.done, output, map[string]string{statsKey: string(encoded)}, job.Attempt, m)
}

// writeBlocks seals partial sums of gradients. While one tensor is written and
// digested, the next is read from the engine.
func writeBlocks(engine trained, blocks []block, output string, meta map[string]string, attempt seal.Attempt, m seal.Manifest) (seal.Manifest, error) {
	trained := engine.Trained()
	largest := 0
	for _, t := range trained {
		largest = max(largest, t.Elements())
	}
	var tensors []arrowfile.Tensor
	for _, b := range blocks {
		for _, t := range trained {
			tensors = append(tensors, arrowfile.Tensor{Name: blockOf(b, t.Name), Shape: t.Shape})
		}
	}
	read := func(room []float32, i int) ([]float32, error) {
		index := i % len(trained)
		numbers := room[:trained[index].Elements()]
		return numbers, engine.ReadSum(blocks[i/len(trained)].sum, index, 0, numbers)
	}
	next, stop := prefetch(len(tensors), largest, read)
	defer stop()
	return arrowfile.WriteTensorsFrom(output, tensors, meta, next, attempt, m)
}

// readGradients adds the gradient shards of a task to the tree, cites them, and returns
// how many bytes they have.
func (l *learner) readGradients(ctx context.Context, t *tree, stats *stepStats) (bytes int64, err error) {
	for i, path := range l.in.Gradients {
		m, err := l.readGradient(ctx, path, t, stats)
		if err != nil {
			return 0, fmt.Errorf("gradient shard %d: %w", i, err)
		}
		l.cited, bytes = append(l.cited, l.files.Input(path, m)), bytes+m.Bytes
	}
	return bytes, nil
}

// readGradient adds the blocks of one gradient shard to the tree. A tensor at a time is in
// memory.
func (l *learner) readGradient(ctx context.Context, path string, t *tree, stats *stepStats) (seal.Manifest, error) {
	f, m, err := arrowfile.OpenTensors(ctx, path, l.files.Reading)
	if err != nil {
		return m, err
	}
	defer f.Close()
	like := l.trained.Trained() // the names and sizes that every block must have
	if len(f.Names)%len(like) != 0 {
		return m, exitcode.Dataf("gradient shard %q has %d tensors, the policy has %d", path, len(f.Names), len(like))
	}
	var numbers []float32
	for i, found := range f.Names {
		index := i % len(like)
		want := like[index]
		start, level, name, ok := blockName(found)
		first, height, _, _ := blockName(f.Names[i-index])
		if !ok || name != want.Name || start != first || level != height {
			return m, exitcode.Dataf("gradient shard %q holds %q where %q is expected", path, found, want.Name)
		}
		numbers = slices.Grow(numbers[:0], want.Elements())[:want.Elements()]
		if err := f.Read(numbers, found, want.Elements(), 0); err != nil {
			return m, err
		}
		if err := l.trained.WriteGradient(index, 0, numbers); err != nil {
			return m, err
		}
		if index == len(like)-1 {
			if err := t.add(start, level); err != nil {
				return m, err
			}
		}
	}
	record, err := statsOf(path, f.Meta)
	stats.merge(record)
	return m, err
}

// blockOf names a block of a tensor: START/LEVEL/NAME.
func blockOf(b block, tensor string) string { return fmt.Sprintf("%d/%d/%s", b.start, b.level, tensor) }

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
