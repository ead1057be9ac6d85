package worker

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// learnInputs says what an optimizer step of iteration k starts from.
func (w *Worker) learnInputs(t graph.Task) learn.Inputs {
	g, in, k := w.Run.Graph, w.Run.Dir, t.Iteration
	steps := g.OptimizerSteps()
	inputs := learn.Inputs{
		Iteration: k, Batch: in.Batch(k), Policy: in.Policy(k - 1), Start: in.Policy(k - 1),
		FirstStep: 0, LastStep: steps, StepsSoFar: (k - 1) * steps, StepsTotal: w.Run.Recipe.Schedule.DecayEnd(k) * steps,
		PolicyOf: in.Policy,
	}
	if k > 1 || w.Run.Recipe.Start.KeepsOptimizer() {
		inputs.Optimizer = in.Optimizer(k - 1)
	}
	if t.Step > 0 {
		inputs.Policy, inputs.Optimizer = in.StepPolicy(k, t.Step-1), in.StepOptimizer(k, t.Step-1)
	}
	if w.Run.Recipe.Policy.Critic == recipe.CriticModel {
		inputs.StartCritic = g.CriticPath(k)
		inputs.Critic = inputs.StartCritic
		if k > 1 {
			inputs.CriticOptimizer = graph.OptimizerOf(inputs.Critic)
		}
		if t.Step > 0 {
			inputs.Critic = graph.CriticOf(inputs.Policy)
			inputs.CriticOptimizer = graph.OptimizerOf(inputs.Critic)
		}
	}
	if version, ok := g.TeacherVersion(k); ok {
		inputs.Teacher = in.Policy(version)
	} else if pinned := w.Run.Identity.Teacher; pinned != nil {
		inputs.Teacher, inputs.TeacherSHA256 = pinned.Path, pinned.SHA256
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
	_, err := learn.RunGradient(ctx, job, learn.SettingsOf(w.Run.Recipe), w.learnInputs(t), t.Step, t.Shard, w.Run.Graph.Shards(t.Node),
		w.Output.Gradient(t.Iteration, t.Step, t.Shard))
	return err
}

func (w *Worker) reduce(ctx context.Context, job stage.Job, t graph.Task) error {
	_, err := learn.RunReduce(ctx, job, learn.SettingsOf(w.Run.Recipe), w.reduceInputs(t), t.Shard, w.Run.Graph.Shards(t.Node), w.Output.Reduced(t.Iteration, t.Step, t.Shard))
	return err
}

// reduceInputs are those of an optimizer step with the gradients that a task adds up.
func (w *Worker) reduceInputs(t graph.Task) learn.Inputs {
	g, inputs := w.Run.Graph, w.learnInputs(t)
	gradients := graph.Node{Stage: graph.StageGradient, Iteration: t.Iteration, Step: t.Step}
	first, last := graph.ShardRange(g.Shards(gradients), t.Shard, g.Shards(t.Node))
	for n := first; n < last; n++ {
		inputs.Gradients = append(inputs.Gradients, w.Run.Dir.Gradient(t.Iteration, t.Step, n))
	}
	return inputs
}

func (w *Worker) sum(ctx context.Context, job stage.Job, t graph.Task) error {
	_, err := learn.RunSum(ctx, job, learn.SettingsOf(w.Run.Recipe), w.sumInputs(t), t.Shard, w.Run.Graph.Shards(t.Node), w.Output.PartSum(t.Iteration, t.Step, t.Shard))
	return err
}

// sumInputs are those of an optimizer step with the gradients that tasks sum, each a part.
func (w *Worker) sumInputs(t graph.Task) learn.Inputs {
	inputs := w.stepInputs(t)
	inputs.Gradients = w.outputsOf(w.Run.Graph.Summed(t.Iteration, t.Step))
	return inputs
}

func (w *Worker) apply(ctx context.Context, job stage.Job, t graph.Task) error {
	inputs := w.stepInputs(t)
	_, err := learn.RunApply(ctx, job, learn.SettingsOf(w.Run.Recipe), inputs, t.Shard, w.Run.Graph.Shards(t.Node), graph.PartOf(inputs.PolicyOutput, t.Shard))
	return err
}

func (w *Worker) learn(ctx context.Context, job stage.Job, t graph.Task) error {
	run := learn.Run
	if w.Run.Graph.InParts() {
		run = learn.RunGather
	}
	_, err := run(ctx, job, learn.SettingsOf(w.Run.Recipe), w.stepInputs(t))
	return err
}

// outputsOf lists what the tasks of a node make of one file or folder each, in order.
func (w *Worker) outputsOf(n graph.Node) (paths []string) {
	for shard := range w.Run.Graph.Shards(n) {
		paths = append(paths, w.Run.Graph.Outputs(graph.Task{Node: n, Shard: shard})...)
	}
	return paths
}

// stepInputs are those of an optimizer step with what it makes.
func (w *Worker) stepInputs(t graph.Task) learn.Inputs {
	g, k := w.Run.Graph, t.Iteration
	inputs := w.learnInputs(t)
	inputs.PolicyOutput, inputs.OptimizerOutput, inputs.PolicyVersion = w.Output.Policy(k), w.Output.Optimizer(k), k
	if g.Sharded() {
		inputs.FirstStep, inputs.LastStep = t.Step, t.Step+1
		if t.Step < g.OptimizerSteps()-1 {
			inputs.PolicyOutput, inputs.OptimizerOutput = w.Output.StepPolicy(k, t.Step), w.Output.StepOptimizer(k, t.Step)
			inputs.PolicyVersion = -1
		}
		summed := g.Summed(k, t.Step)
		if g.InParts() {
			summed.Stage = graph.StageSum
			inputs.Parts = w.outputsOf(graph.Node{Stage: graph.StageApply, Iteration: k, Step: t.Step})
		}
		inputs.Gradients = w.outputsOf(summed)
	}
	if inputs.Critic != "" {
		inputs.CriticOutput = graph.CriticOf(inputs.PolicyOutput)
		inputs.CriticOptimizerOutput = graph.OptimizerOf(inputs.CriticOutput)
	}
	if inputs.PolicyVersion == k && g.RefreshesReference(k) {
		inputs.ReferenceOutput = w.Output.Reference(k)
	}
	return inputs
}
