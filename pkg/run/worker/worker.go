// Package worker runs the tasks of a run: it tells each stage which files to
// read and where its output goes.
package worker

import (
	"context"
	"runtime"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// Worker runs tasks of a run in this process.
type Worker struct {
	Run     *rundir.Run
	Attempt seal.Attempt
	Threads int // 0: as the recipe says, else as many as there are cores
	Version string
	Log     func(format string, args ...any)
	// SlowAfter is how long a request to a program of the user's is waited for before
	// the run reports it; New sets [env.SlowAfter].
	SlowAfter time.Duration
	// Output is where outputs go: the run itself, or another folder of the
	// same layout for a replay.
	Output graph.Dir
}

// New returns a worker that writes into the run.
func New(r *rundir.Run, attempt seal.Attempt, version string, log func(string, ...any)) *Worker {
	return &Worker{Run: r, Attempt: attempt, Version: version, Log: log, Output: r.Dir, SlowAfter: env.SlowAfter}
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

func (w *Worker) job(t graph.Task) stage.Job {
	return stage.Job{
		RunID: w.Run.Identity.RunID, Step: t.Step, Wave: t.Wave,
		Seed: w.Run.Recipe.Seed, RecipeSHA256: w.Run.Graph.RecipeSHA256, Attempt: w.Attempt, BinaryVersion: w.Version,
		Files:   stage.Files{Cite: w.Run.Dir.Rel, Reading: w.Run.Graph.Reading(rundir.Visibility())},
		Process: stage.Process{Threads: w.threads(), Log: w.Log, LogDir: w.Run.Dir.Logs()},
	}
}

// done reports whether every output of a task is sealed.
func (w *Worker) done(ctx context.Context, t graph.Task) (bool, error) {
	output := w.Run.Graph
	output.Dir = w.Output
	for _, path := range output.Outputs(t) {
		if _, sealed, err := seal.Check(ctx, path, output.ReadingAs(t, 0)); err != nil || !sealed {
			return false, err
		}
	}
	return true, nil
}

// open starts the programs of the environment.
func (w *Worker) open(e env.Env, job stage.Job, t graph.Task) (end func()) {
	return env.Open(e, job.Threads, job.Log, w.SlowAfter, w.reportWait(t))
}

// reportWait logs which program keeps a task waiting, and leaves a note of it where whoever
// looks at the run finds it. The note goes once nothing waits.
func (w *Worker) reportWait(t graph.Task) func(oldest *env.Wait, waited time.Duration) {
	return func(oldest *env.Wait, waited time.Duration) {
		if oldest == nil {
			rundir.RemoveWait(w.Output, t)
			return
		}
		message := oldest.After(waited)
		rundir.WriteWait(w.Output, t, w.Attempt, rundir.Wait{Message: message, Time: time.Now().UTC()})
		w.Log("%s", message)
	}
}

// Do runs one task. A task whose outputs are sealed already is done.
func (w *Worker) Do(ctx context.Context, t graph.Task) error {
	if err := w.Run.Graph.Check(t); err != nil {
		return err
	}
	if done, err := w.done(ctx, t); err != nil || done {
		if done {
			w.Log("%s is done already: its outputs are sealed", t)
		}
		return err
	}
	does, known := work[t.Stage]
	if !known {
		return exitcode.Usagef("stage %q is not one that runs as a task", t.Stage)
	}
	job := w.job(t)
	if does.withoutTasks != nil {
		return does.withoutTasks(w, ctx, job, t)
	}
	loaded := phase.Enter(phase.Load)
	tasks, err := w.tasksOf(ctx, job, t)
	if err != nil {
		return err
	}
	environment, cited, err := w.Run.Environment(ctx, tasks, job.Reading)
	loaded()
	if err != nil {
		return err
	}
	defer w.open(environment, job, t)()
	job.EnvironmentInputs = cited
	return does.run(w, ctx, job, environment, t)
}

// work is what the tasks of each stage do.
var work = map[graph.Stage]struct {
	run          func(*Worker, context.Context, stage.Job, env.Env, graph.Task) error
	withoutTasks func(*Worker, context.Context, stage.Job, graph.Task) error // of a stage that needs no environment
}{
	graph.StageWarm:        {run: (*Worker).warm},
	graph.StageBuffer:      {run: (*Worker).buffer},
	graph.StageRollout:     {run: (*Worker).rollout},
	graph.StageScore:       {run: (*Worker).score},
	graph.StageGradient:    {withoutTasks: (*Worker).gradient},
	graph.StageReduce:      {withoutTasks: (*Worker).reduce},
	graph.StageSum:         {withoutTasks: (*Worker).sum},
	graph.StageApply:       {withoutTasks: (*Worker).apply},
	graph.StageLearn:       {withoutTasks: (*Worker).learn},
	graph.StageEvalPlan:    {run: (*Worker).evaluationPlan},
	graph.StageEvalRollout: {run: (*Worker).rollout},
	graph.StageEvalScore:   {run: (*Worker).score},
	graph.StageEvaluate:    {run: (*Worker).gather},
}

func (w *Worker) evaluationPlan(ctx context.Context, job stage.Job, environment env.Env, _ graph.Task) error {
	_, err := evaluate.Plan(ctx, job, w.Run.Recipe.Evaluation, environment, w.Output.EvaluationPlan())
	return err
}

func (w *Worker) warm(ctx context.Context, job stage.Job, environment env.Env, t graph.Task) error {
	_, err := warm.Run(ctx, job, warm.SettingsOf(w.Run.Recipe), environment, w.warmInputs(t))
	return err
}

func (w *Worker) warmInputs(t graph.Task) warm.Inputs {
	g, in, out, chunk := w.Run.Graph, w.Run.Dir, w.Output, t.Iteration
	steps, size := w.Run.Recipe.WarmStart.Steps, w.Run.Recipe.WarmStart.Chunk
	if size <= 0 {
		size = steps
	}
	inputs := warm.Inputs{
		Chunk: chunk, Source: w.Run.Identity.PolicySource,
		FirstStep: min(steps, (chunk-1)*size), LastStep: min(steps, chunk*size),
		PolicyOutput: out.Warm(chunk), PolicyVersion: -1, OptimizerOutput: out.WarmOptimizer(chunk),
	}
	if pool := w.Run.Identity.Pool; pool != nil {
		inputs.Pool, inputs.PoolSHA256 = pool.Path, pool.SHA256
	}
	for _, file := range w.Run.Identity.WarmStartData {
		inputs.Data, inputs.DataFolder = append(inputs.Data, env.Input{Path: file.Path, SHA256: file.SHA256}), w.Run.Identity.RecipeFolder
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
	if origin := w.Run.Identity.Origin; origin != nil && chunk == 1 {
		inputs.SourceSHA256 = origin.PolicySHA256
		if w.Run.Recipe.Start.KeepsOptimizer() {
			inputs.Optimizer, inputs.OptimizerSHA256 = graph.OptimizerOf(w.Run.Identity.PolicySource), origin.OptimizerSHA256
			inputs.OptimizerOutput = out.Optimizer(0)
		}
	}
	return inputs
}
