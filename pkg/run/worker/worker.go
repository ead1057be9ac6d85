// Package worker carries out tasks of a run: it tells each stage which files to
// read and where its output goes.
package worker

import (
	"context"
	"runtime"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// Worker carries out tasks of a run in this process.
type Worker struct {
	Run     *rundir.Run
	Attempt seal.Attempt
	Threads int // 0: as the recipe says, else as many as there are cores
	Version string
	Log     func(format string, args ...any)
	// Output is where outputs go: the run itself, or another folder of the
	// same layout for a replay.
	Output graph.Dir
}

// New returns a worker that writes into the run.
func New(r *rundir.Run, attempt seal.Attempt, version string, log func(string, ...any)) *Worker {
	return &Worker{Run: r, Attempt: attempt, Version: version, Log: log, Output: r.Dir}
}

func (w *Worker) threads() int {
	switch {
	case w.Threads > 0:
		return w.Threads
	case w.Run.Recipe.Resources.Threads > 0:
		return w.Run.Recipe.Resources.Threads
	}
	return runtime.GOMAXPROCS(0)
}

func (w *Worker) job() stage.Job {
	return stage.Job{
		Recipe: w.Run.Recipe, RecipeSHA256: w.Run.Identity.RecipeSHA256, Attempt: w.Attempt, Threads: w.threads(),
		BinaryVersion: w.Version, Cite: w.Run.Dir.Rel, Log: w.Log, LogDir: w.Run.Dir.Logs(),
		Reading: seal.Options{Visibility: rundir.Visibility()},
	}
}

// done reports whether every output of a task is sealed.
func (w *Worker) done(ctx context.Context, t graph.Task) (bool, error) {
	for _, path := range (graph.Graph{Dir: w.Output, Recipe: w.Run.Recipe}).Outputs(t) {
		if _, sealed, err := seal.Check(ctx, path); err != nil || !sealed {
			return false, err
		}
	}
	return true, nil
}

// Do carries out one task. A task whose outputs are sealed already is done.
func (w *Worker) Do(ctx context.Context, t graph.Task) error {
	if err := w.Run.Graph.Check(t); err != nil {
		return err
	}
	if done, err := w.done(ctx, t); err != nil || done {
		return err
	}
	job := w.job()
	switch t.Stage {
	case graph.StageGradient:
		return w.gradient(ctx, job, t)
	case graph.StageLearn:
		return w.learn(ctx, job, t)
	}
	world, cited, err := w.Run.World(ctx, job.Reading)
	if err != nil {
		return err
	}
	job.World = cited
	switch t.Stage {
	case graph.StageWarm:
		return w.warm(ctx, job, world, t.Iteration)
	case graph.StageRollout:
		return w.rollout(ctx, job, world, t.Iteration, t.Shard)
	case graph.StageScore:
		return w.score(ctx, job, world, t.Iteration, t.Shard)
	case graph.StageBuffer:
		return w.buffer(ctx, job, world, t.Iteration)
	case graph.StageEvaluate:
		return w.evaluate(ctx, job, world, t.Iteration, t.Shard)
	}
	return exitcode.Usagef("stage %q is not one that runs as a task", t.Stage)
}

func (w *Worker) warm(ctx context.Context, job stage.Job, world env.Env, chunk int) error {
	g, in, out := w.Run.Graph, w.Run.Dir, w.Output
	steps, size := w.Run.Recipe.WarmStart.Steps, w.Run.Recipe.WarmStart.Chunk
	if size <= 0 {
		size = steps
	}
	inputs := warm.Inputs{
		Chunk: chunk, Source: w.Run.Identity.PolicySource,
		FirstStep: min(steps, (chunk-1)*size), LastStep: min(steps, chunk*size),
		PolicyOutput: out.Warm(chunk), PolicyVersion: -1, OptimizerOutput: out.WarmOptimizer(chunk),
	}
	if w.Run.Recipe.Policy.LoRA != nil {
		inputs.Base = out.Base()
	}
	if chunk > 1 {
		inputs.Policy, inputs.Optimizer = in.Warm(chunk-1), in.WarmOptimizer(chunk-1)
	}
	if chunk == g.WarmChunks() {
		inputs.PolicyOutput, inputs.PolicyVersion, inputs.OptimizerOutput = out.Policy(0), 0, ""
	}
	_, err := warm.Run(ctx, job, world, inputs)
	return err
}

func (w *Worker) rollout(ctx context.Context, job stage.Job, world env.Env, k, n int) error {
	g := w.Run.Graph
	shards := g.Shards(graph.Node{Stage: graph.StageRollout, Iteration: k})
	first, last := graph.ShardRange(g.PlanRows(), n, shards)
	version := g.RolloutVersion(k)
	_, err := rollout.Run(ctx, job, world, rollout.Inputs{
		Plan: w.Run.Dir.Plan(k), FirstRow: first, LastRow: last,
		PolicyFolder: w.Run.Dir.Policy(version), PolicyVersion: version,
		Iteration: k, Shard: n, Of: shards, Output: w.Output.Rollout(k, n),
	})
	return err
}

func (w *Worker) score(ctx context.Context, job stage.Job, world env.Env, k, n int) error {
	_, err := score.Run(ctx, job, world, score.Inputs{
		Plan: w.Run.Dir.Plan(k), Rollout: w.Run.Dir.Rollout(k, n), Iteration: k, Shard: n,
		Of: w.Run.Graph.Shards(graph.Node{Stage: graph.StageScore, Iteration: k}), Output: w.Output.Score(k, n),
	})
	return err
}

func (w *Worker) buffer(ctx context.Context, job stage.Job, world env.Env, k int) error {
	g, in, out := w.Run.Graph, w.Run.Dir, w.Output
	chooser, err := w.Run.Recipe.NewCurriculum()
	if err != nil {
		return err
	}
	inputs := buffer.Inputs{
		Iteration: k, StateOutput: out.State(k), StatsOutput: out.Stats(k), PlanRows: g.PlanRows(),
		WaveOf: func(ref shard.Ref, _ string) (buffer.WaveRef, error) {
			n := g.ShardOf(int(ref.Iteration), int(ref.Row))
			return buffer.WaveRef{Rollout: in.Rollout(int(ref.Iteration), n), Score: in.Score(int(ref.Iteration), n)}, nil
		},
	}
	for _, i := range g.PlansWritten(k) {
		inputs.PlanOutputs = append(inputs.PlanOutputs, buffer.PlanRef{Iteration: i, Path: out.Plan(i)})
	}
	if k > 0 {
		closed, err := closing.Read(ctx, in, k, job.Reading)
		if err != nil {
			return err
		}
		inputs.State, inputs.Stats = in.State(k-1), in.Stats(k-1)
		inputs.BatchOutput, inputs.LedgerOutput = out.Batch(k), out.Ledger(k)
		inputs.Plans = []buffer.PlanRef{{Iteration: k, Path: in.Plan(k)}}
		inputs.Shards = w.shardRefs(k, closed.Included)
		inputs.LeftOut = w.shardRefs(k, closed.LeftOut)
		planned := map[int]bool{k: true}
		cite := func(iteration int) {
			if !planned[iteration] {
				planned[iteration] = true
				inputs.Plans = append(inputs.Plans, buffer.PlanRef{Iteration: iteration, Path: in.Plan(iteration)})
			}
		}
		for _, ref := range closed.Carried {
			cite(ref.Iteration)
			inputs.Shards = append(inputs.Shards, w.shardRefs(ref.Iteration, []int{ref.Shard})...)
		}
		if k == w.Run.Recipe.Schedule.Iterations && w.Run.Recipe.Schedule.Oversample > 1 {
			late, err := w.lateForGood(ctx, closed, job.Reading)
			if err != nil {
				return err
			}
			for _, ref := range late {
				cite(ref.Iteration)
				inputs.RunEnded = append(inputs.RunEnded, w.shardRefs(ref.Iteration, []int{ref.Shard})...)
			}
		}
	}
	return buffer.Run(ctx, job, world, chooser, inputs)
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

func (w *Worker) shardRefs(k int, shards []int) []buffer.ShardRef {
	g, d := w.Run.Graph, w.Run.Dir
	total := g.Shards(graph.Node{Stage: graph.StageRollout, Iteration: k})
	var refs []buffer.ShardRef
	for _, n := range shards {
		first, last := graph.ShardRange(g.PlanRows(), n, total)
		refs = append(refs, buffer.ShardRef{
			Iteration: k, FirstRow: first, LastRow: last, Rollout: d.Rollout(k, n), Score: d.Score(k, n),
		})
	}
	return refs
}

// learnInputs says what an optimizer step of iteration k starts from.
func (w *Worker) learnInputs(t graph.Task) learn.Inputs {
	g, in, k := w.Run.Graph, w.Run.Dir, t.Iteration
	steps := g.OptimizerSteps()
	inputs := learn.Inputs{
		Iteration: k, Batch: in.Batch(k), Policy: in.Policy(k - 1), Start: in.Policy(k - 1),
		FirstStep: 0, LastStep: steps, StepsSoFar: (k - 1) * steps, StepsTotal: w.Run.Recipe.Schedule.Iterations * steps,
		PolicyOf: in.Policy,
	}
	if k > 1 {
		inputs.Optimizer = in.Optimizer(k - 1)
	}
	if t.Step > 0 {
		inputs.Policy, inputs.Optimizer = in.StepPolicy(k, t.Step-1), in.StepOptimizer(k, t.Step-1)
	}
	switch {
	case w.Run.Recipe.Policy.LoRA != nil:
		inputs.Base = w.Output.Base()
	case w.Run.Recipe.Loss.KL.Coef != 0:
		inputs.Reference = g.ReferencePath(k)
	}
	return inputs
}

func (w *Worker) gradient(ctx context.Context, job stage.Job, t graph.Task) error {
	_, err := learn.RunGradient(ctx, job, w.learnInputs(t), t.Step, t.Shard, w.Run.Graph.Shards(t.Node),
		w.Output.Gradient(t.Iteration, t.Step, t.Shard))
	return err
}

func (w *Worker) learn(ctx context.Context, job stage.Job, t graph.Task) error {
	g, k := w.Run.Graph, t.Iteration
	inputs := w.learnInputs(t)
	inputs.PolicyOutput, inputs.OptimizerOutput, inputs.PolicyVersion = w.Output.Policy(k), w.Output.Optimizer(k), k
	if g.Sharded() {
		inputs.FirstStep, inputs.LastStep = t.Step, t.Step+1
		if t.Step < g.OptimizerSteps()-1 {
			inputs.PolicyOutput, inputs.OptimizerOutput = w.Output.StepPolicy(k, t.Step), w.Output.StepOptimizer(k, t.Step)
			inputs.PolicyVersion = -1
		}
		for n := range g.Shards(graph.Node{Stage: graph.StageGradient, Iteration: k, Step: t.Step}) {
			inputs.Gradients = append(inputs.Gradients, w.Run.Dir.Gradient(k, t.Step, n))
		}
	}
	if inputs.PolicyVersion == k && g.RefreshesReference(k) {
		inputs.ReferenceOutput = w.Output.Reference(k)
	}
	_, err := learn.Run(ctx, job, inputs)
	return err
}

func (w *Worker) evaluate(ctx context.Context, job stage.Job, world env.Env, version, n int) error {
	shards := w.Run.Graph.Shards(graph.Node{Stage: graph.StageEvaluate, Iteration: version})
	first, last := graph.ShardRange(w.Run.Recipe.Evaluation.Problems, n, shards)
	_, err := evaluate.RunWhole(ctx, job, world, evaluate.WholeInputs{
		PolicyFolder: w.Run.Dir.Policy(version), PolicyVersion: version, FirstProblem: first, LastProblem: last,
		Shard: n, Of: shards, Output: w.Output.Evaluation(version, n),
	})
	return err
}
