package task

import (
	"cmp"
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

const scoreName = "lathe-score"

// ScoreOptions are those of lathe-score.
type ScoreOptions struct {
	Options
	Evaluate *int // policy version whose responses to the held-out problems are scored; nil scores an iteration's
	Gather   bool // instead of scoring, gather what was scored of an evaluation into its rows
	Wave     int  // from 0

	Plan, Rollout string // plain files
	Policy        string // folder of the policy whose tokenizer bounds what it is told; may be empty
}

// Score is lathe-score.
func Score() *cli.App {
	var o ScoreOptions
	app := cmdline.NewApp(scoreName, "score responses: reads a shard of rollouts, writes a shard of scores")
	app.Flags = o.flags([]cli.Flag{
		cmdline.NumberFlag("evaluate", "instead score responses of policy `VERSION` to the held-out problems", &o.Evaluate),
		&cli.BoolFlag{Name: "gather", Usage: "instead collect the scores of an evaluation into its rows", Destination: &o.Gather},
		waveFlag(&o.Wave),
	}, planFlag(&o.Plan), cmdline.PathFlag("rollout", "rollout `FILE`", &o.Rollout),
		cmdline.PathFlag("policy", "policy `FOLDER` whose tokens count for the feedback limit; default: four characters count as one token", &o.Policy))
	cmdline.Group(app, checkCommand(), sandboxCommand())
	app.Action = taskAction(func(c *cli.Context) error { return DoScore(c.Context, c.App.Writer, o) })
	return cmdline.Help{
		Example: "lathe-score --run runs/quickstart --iteration 1 --shard 0\n" +
			"lathe-score --recipe jobs/quickstart.yaml --plan runs/quickstart/iter/000001/plan.parquet --rollout r.parquet --out s.parquet",
		Exits: taskExits(),
	}.App(app)
}

// DoScore scores the responses of one shard.
func DoScore(ctx context.Context, out io.Writer, o ScoreOptions) error {
	if o.Recipe != "" {
		return o.plain(ctx, out)
	}
	n, err := o.sampled(o.Evaluate, graph.StageScore, graph.StageEvalScore)
	if err != nil {
		return err
	}
	if o.Gather {
		if o.Evaluate == nil {
			return cmdline.Misusef("--gather requires --evaluate")
		}
		n.Stage = graph.StageEvaluate
	}
	return o.do(ctx, scoreName, graph.Task{Node: n.InWave(o.Wave), Shard: o.Shard})
}

func (o ScoreOptions) plain(ctx context.Context, out io.Writer) error {
	err := cmp.Or(cmdline.Required("plan", o.Plan, "rollout", o.Rollout, "out", o.Out), o.checkNumbers())
	if err != nil {
		return err
	}
	if err := plain.CheckOut(seal.KindFile, o.Out); err != nil {
		return err
	}
	p, err := plain.Open(scoreName, o.Recipe, o.Set, o.Threads)
	if err != nil {
		return err
	}
	defer p.Close()
	m, err := score.Run(ctx, p.Job, p.Recipe.Score, p.Env, score.Inputs{
		Plan: o.Plan, Rollout: o.Rollout, Iteration: o.plainIteration(0), Shard: o.Shard, Of: 1, Output: o.Out, Policy: o.Policy,
	})
	if err != nil {
		return err
	}
	return plain.PrintSealed(out, m, o.Out)
}
