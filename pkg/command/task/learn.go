package task

import (
	"cmp"
	"context"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

const learnName = "lathe-learn"

// LearnOptions are those of lathe-learn.
type LearnOptions struct {
	Options
	Step     int  // of the optimizer, from 0, when gradients are computed in shards
	Gradient bool // compute one gradient shard
	Reduce   bool // add up some gradient shards
	Sum      bool // add up all gradient shards for some files of the policy
	Apply    bool // update some files of the policy
	Warm     *int // checkpoint of the warm start, from 1; nil learns from an iteration

	// On plain files:
	Batch, Policy string // file and folder
	Optimizer     string // folder of its state; empty starts fresh
	Critic        string // folder under policy.critic model, its optimizer state beside it; empty starts from the policy
}

// Learn is lathe-learn.
func Learn() *cli.App {
	var o LearnOptions
	app := cmdline.NewApp(learnName, "train the policy on a batch, in one task or in gradient shards")
	app.Flags = o.flags([]cli.Flag{
		&cli.IntFlag{Name: "step", Usage: "with gradient shards: optimizer step `U` of the iteration, from 0", Destination: &o.Step},
		&cli.BoolFlag{Name: "gradient", Usage: "compute one gradient shard instead of updating the policy", Destination: &o.Gradient},
		&cli.BoolFlag{Name: "reduce", Usage: "sum some gradient shards instead of updating the policy", Destination: &o.Reduce},
		&cli.BoolFlag{Name: "sum", Usage: "sum all gradient shards for some files of the policy", Destination: &o.Sum},
		&cli.BoolFlag{Name: "apply", Usage: "update some files of the policy", Destination: &o.Apply},
		cmdline.NumberFlag("warm", "instead train checkpoint `C` of the supervised warm start, from 1", &o.Warm),
	},
		cmdline.PathFlag("batch", "batch `FILE`", &o.Batch), policyFlag(&o.Policy),
		cmdline.PathFlag("optimizer", "optimizer state `FOLDER`; default: a new state", &o.Optimizer),
		cmdline.PathFlag("critic", "`FOLDER` of a separate critic model, with its optimizer state in FOLDER.optim; default: start from the policy", &o.Critic),
	)
	app.Action = taskAction(func(c *cli.Context) error {
		if err := cmdline.Exclusive(c, [2]string{"warm", "iteration"}, [2]string{"warm", "step"}, [2]string{"warm", "gradient"}, [2]string{"warm", "reduce"}, [2]string{"gradient", "reduce"},
			[2]string{"warm", "sum"}, [2]string{"warm", "apply"}, [2]string{"gradient", "sum"}, [2]string{"gradient", "apply"},
			[2]string{"reduce", "sum"}, [2]string{"reduce", "apply"}, [2]string{"sum", "apply"}); err != nil {
			return err
		}
		return DoLearn(c.Context, c.App.Writer, o)
	})
	return cmdline.Help{
		Example: "lathe-learn --run runs/quickstart --iteration 1\n" +
			"lathe-learn --recipe jobs/quickstart.yaml --policy runs/quickstart/policy/v000000 --batch runs/quickstart/iter/000001/batch.arrow --out learned",
		Exits: taskExits(),
	}.App(app)
}

// DoLearn updates the policy, or computes a shard of the gradient.
func DoLearn(ctx context.Context, out io.Writer, o LearnOptions) error {
	if o.Recipe != "" {
		return o.plain(ctx, out)
	}
	if o.Warm != nil {
		return o.do(ctx, learnName, graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: *o.Warm}})
	}
	k, err := o.iteration()
	if err != nil {
		return err
	}
	task := graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: k, Step: o.Step}}
	switch {
	case o.Gradient:
		task.Stage, task.Shard = graph.StageGradient, o.Shard
	case o.Reduce:
		task.Stage, task.Shard = graph.StageReduce, o.Shard
	case o.Sum:
		task.Stage, task.Shard = graph.StageSum, o.Shard
	case o.Apply:
		task.Stage, task.Shard = graph.StageApply, o.Shard
	}
	return o.do(ctx, learnName, task)
}

func (o LearnOptions) plain(ctx context.Context, out io.Writer) error {
	err := cmp.Or(cmdline.Required("policy", o.Policy, "batch", o.Batch, "out", o.Out), o.checkNumbers())
	if err != nil {
		return err
	}
	p, err := plain.Open(learnName, o.Recipe, o.Set, o.Threads)
	if err != nil {
		return err
	}
	defer p.Close()
	folder := filepath.Clean(o.Out)
	critic := graph.CriticOf(folder)
	made := []string{graph.OptimizerOf(folder), folder}
	switch apart := p.Recipe.Policy.Critic == recipe.CriticModel; {
	case apart:
		made = append([]string{graph.OptimizerOf(critic), critic}, made...)
	case o.Critic != "":
		return cmdline.Misusef("--critic requires a recipe with policy.critic: model")
	}
	if err := cmp.Or(plain.CheckOut(seal.KindFolder, made...), plain.CheckPolicy(o.Policy)); err != nil {
		return err
	}
	steps := p.Recipe.Loss.Epochs * p.Recipe.Loss.MiniBatches
	k := o.plainIteration(1)
	inputs := learn.Inputs{
		Iteration: k, Batch: o.Batch, Policy: o.Policy, Optimizer: o.Optimizer, LastStep: steps,
		StepsSoFar: (k - 1) * steps, StepsTotal: max(k, p.Recipe.Schedule.DecayEnd(k)) * steps,
		PolicyOutput: folder, PolicyVersion: k, OptimizerOutput: graph.OptimizerOf(folder),
	}
	if p.Recipe.Policy.Critic == recipe.CriticModel {
		inputs.Critic, inputs.CriticOutput, inputs.CriticOptimizerOutput = o.Policy, critic, graph.OptimizerOf(critic)
		if o.Critic != "" {
			inputs.Critic, inputs.CriticOptimizer = o.Critic, graph.OptimizerOf(o.Critic)
		}
	}
	if p.Recipe.Loss.KL.Coef != 0 {
		inputs.Reference = o.Policy
	}
	if inputs.Teacher, err = plainTeacher(p.Recipe, o.Recipe, o.Policy); err != nil {
		return err
	}
	m, err := learn.Run(ctx, p.Job, learn.SettingsOf(p.Recipe), inputs)
	if err != nil {
		return err
	}
	return plain.PrintSealed(out, m, o.Out)
}

// plainTeacher is the folder of a recipe's teacher; empty for none.
func plainTeacher(r recipe.Recipe, recipePath, policy string) (string, error) {
	t := r.Advantage.Teacher
	switch {
	case t.Active() && t.Path == "" && t.Version != credit.TeacherCurrent:
		return "", exitcode.Usagef("advantage.teacher.version %d: only a run has versions; set advantage.teacher.path to the folder", t.Version)
	case t.Active() && t.Path == "":
		return policy, nil
	}
	return r.ResolveTeacher(filepath.Dir(recipePath))
}
