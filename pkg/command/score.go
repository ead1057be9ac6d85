package command

import (
	"cmp"
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

const scoreName = "lathe-score"

// ScoreOptions are those of lathe-score.
type ScoreOptions struct {
	TaskOptions
	Plan, Rollout string // plain files
}

// Score is lathe-score.
func Score() *cli.App {
	var o ScoreOptions
	app := newApp(scoreName, "judge responses: a shard of rollouts in, a shard of verdicts out")
	app.Flags = o.flags(nil, planFlag(&o.Plan), pathFlag("rollout", "rollout `FILE`", &o.Rollout))
	cmdline.Group(app, checkCommand())
	app.Action = o.taskAction(func(c *cli.Context) error { return DoScore(c.Context, c.App.Writer, o) })
	return cmdline.Help{
		Example: "lathe-score --run runs/quickstart --iteration 1 --shard 0\n" +
			"lathe-score --recipe jobs/quickstart.yaml --plan runs/quickstart/iter/000001/plan.parquet --rollout r.parquet --out s.parquet",
		Exits: taskExits(),
	}.App(app)
}

// DoScore judges the responses of one shard.
func DoScore(ctx context.Context, out io.Writer, o ScoreOptions) error {
	if o.Recipe != "" {
		return o.plain(ctx, out)
	}
	k, err := o.iteration()
	if err != nil {
		return err
	}
	return o.do(ctx, scoreName, graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: k}, Shard: o.Shard})
}

func (o ScoreOptions) plain(ctx context.Context, out io.Writer) error {
	err := cmp.Or(cmdline.Required("plan", o.Plan, "rollout", o.Rollout, "out", o.Out), o.checkNumbers())
	if err != nil {
		return err
	}
	if err := checkOut(seal.KindFile, o.Out); err != nil {
		return err
	}
	p, err := openPlain(scoreName, o.RecipeOptions, o.Threads)
	if err != nil {
		return err
	}
	m, err := score.Run(ctx, p.job, p.env, score.Inputs{
		Plan: o.Plan, Rollout: o.Rollout, Iteration: o.plainIteration(0), Shard: o.Shard, Of: 1, Output: o.Out,
	})
	if err != nil {
		return err
	}
	return printSealed(out, m, o.Out)
}
