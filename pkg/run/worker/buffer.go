package worker

import (
	"context"
	"slices"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
)

func (w *Worker) buffer(ctx context.Context, job stage.Job, environment env.Env, t graph.Task) error {
	chooser, err := w.Run.Recipe.NewCurriculum()
	if err != nil {
		return err
	}
	inputs, err := w.bufferInputs(ctx, t.Iteration, job.Reading)
	if err != nil {
		return err
	}
	return buffer.Run(ctx, job, buffer.SettingsOf(w.Run.Recipe), environment, chooser, inputs)
}

// bufferInputs are those of an iteration as it was closed.
func (w *Worker) bufferInputs(ctx context.Context, k int, reading seal.Options) (buffer.Inputs, error) {
	g, in, out := w.Run.Graph, w.Run.Dir, w.Output
	inputs := buffer.Inputs{
		Iteration: k, StateOutput: out.State(k), StatsOutput: out.Stats(k), PlanRows: g.PlanRows(),
		WaveOf: func(ref shard.Ref, _ string) (buffer.WaveRef, error) {
			rollout, score := w.Run.Responses(ref)
			return buffer.WaveRef{Rollout: rollout, Score: score}, nil
		},
	}
	for _, i := range g.PlansWritten(k) {
		inputs.PlanOutputs = append(inputs.PlanOutputs, buffer.PlanRef{Iteration: i, Path: out.Plan(i)})
	}
	if k == 0 {
		if w.Run.Recipe.Start.KeepsCurriculum() {
			inputs.State, inputs.Stats = in.Inherited("state"), in.Inherited("stats")
		}
		return inputs, nil
	}
	closed, err := closing.Read(ctx, in, k, reading)
	if err != nil {
		return inputs, err
	}
	inputs.State, inputs.Stats = in.State(k-1), in.Stats(k-1)
	if g.Waits(k - 1) {
		inputs.Waiting = in.Waiting(k - 1)
	}
	if g.Waits(k) {
		inputs.WaitingOutput = out.Waiting(k)
	}
	inputs.BatchOutput, inputs.LedgerOutput = out.Batch(k), out.Ledger(k)
	inputs.Plans = []buffer.PlanRef{{Iteration: k, Path: in.Plan(k)}}
	if inputs.Shards, err = w.shardRefs(ctx, closed.Reads(), reading); err != nil {
		return inputs, err
	}
	for _, n := range closed.LeftOut {
		inputs.LeftOut = append(inputs.LeftOut, w.lostRef(closing.Ref{Iteration: k, Shard: n}))
	}
	if !g.Carries() {
		for _, n := range closed.Late {
			inputs.Late = append(inputs.Late, w.lostRef(closing.Ref{Iteration: k, Shard: n}))
		}
	}
	if k == w.Run.Recipe.Schedule.Iterations && g.Carries() {
		late, err := w.lateForGood(ctx, closed, reading)
		if err != nil {
			return inputs, err
		}
		for _, ref := range late {
			inputs.RunEnded = append(inputs.RunEnded, w.lostRef(ref))
		}
	}
	planned := map[int]bool{k: true}
	for _, ref := range slices.Concat(inputs.Shards, inputs.RunEnded) {
		if !planned[ref.Iteration] {
			planned[ref.Iteration] = true
			inputs.Plans = append(inputs.Plans, buffer.PlanRef{Iteration: ref.Iteration, Path: in.Plan(ref.Iteration)})
		}
	}
	return inputs, nil
}

// lateForGood lists the late shards that the last iteration leaves behind.
func (w *Worker) lateForGood(ctx context.Context, last closing.Closing, o seal.Options) ([]closing.Ref, error) {
	history := closing.History{last.Iteration: last}
	for k := 1; k < last.Iteration; k++ {
		earlier, err := closing.Read(ctx, w.Run.Dir, k, o)
		if err != nil {
			return nil, err
		}
		history[k] = earlier
	}
	return history.Outstanding(last.Iteration + 1), nil
}

// lostRef names a shard of whose responses nothing is read.
func (w *Worker) lostRef(ref closing.Ref) buffer.ShardRef {
	n := graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}
	first, last := w.Run.Graph.Rows(graph.Task{Node: n, Shard: ref.Shard})
	return buffer.ShardRef{Iteration: ref.Iteration, FirstRow: first, LastRow: last}
}

// shardRefs names shards with the files of all their waves.
func (w *Worker) shardRefs(ctx context.Context, refs []closing.Ref, o seal.Options) ([]buffer.ShardRef, error) {
	named := make([]buffer.ShardRef, len(refs))
	for i, ref := range refs {
		waves, err := w.wavesOf(ctx, graph.Node{Stage: graph.StageRollout, Iteration: ref.Iteration}, ref.Shard, o)
		if err != nil {
			return nil, err
		}
		named[i] = w.lostRef(ref)
		named[i].Rollout, named[i].Score, named[i].Later = waves[0].Rollout, waves[0].Score, waves[1:]
	}
	return named, nil
}
