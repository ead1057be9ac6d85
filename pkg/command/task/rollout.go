package task

import (
	"cmp"
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
)

const rolloutName = "lathe-rollout"

// RolloutOptions are those of lathe-rollout.
type RolloutOptions struct {
	Options
	Evaluate *int // policy version to sample the held-out problems with; nil samples an iteration
	Wave     int  // from 0; a later one continues traces that waited for scores

	// On plain files:
	Plan, Policy      string // file and folder
	FirstRow, LastRow int    // of the plan, the last exclusive; a last row of 0 is its end
}

// Rollout is lathe-rollout.
func Rollout() *cli.App {
	var o RolloutOptions
	app := cmdline.NewApp(rolloutName, "sample responses: reads a plan's shard and a policy, writes a shard of rollouts")
	app.Flags = o.flags([]cli.Flag{
		cmdline.NumberFlag("evaluate", "instead sample the held-out problems with policy `VERSION`", &o.Evaluate),
		waveFlag(&o.Wave),
	},
		planFlag(&o.Plan), policyFlag(&o.Policy),
		&cli.IntFlag{Name: "first-row", Usage: "first plan `ROW` to sample", Destination: &o.FirstRow},
		&cli.IntFlag{Name: "last-row", Usage: "plan `ROW` to stop before; 0 means the end", Destination: &o.LastRow},
	)
	app.Action = taskAction(func(c *cli.Context) error { return DoRollout(c.Context, c.App.Writer, o) })
	return cmdline.Help{
		Example: "lathe-rollout --run runs/quickstart --iteration 1 --shard 0\n" +
			"lathe-rollout --recipe jobs/quickstart.yaml --plan runs/quickstart/iter/000001/plan.parquet --policy runs/quickstart/policy/v000000 --last-row 8 --out r.parquet",
		Exits: taskExits(),
	}.App(app)
}

// DoRollout samples the responses of one shard.
func DoRollout(ctx context.Context, out io.Writer, o RolloutOptions) error {
	if o.Recipe != "" {
		return o.plain(ctx, out)
	}
	n, err := o.sampled(o.Evaluate, graph.StageRollout, graph.StageEvalRollout)
	if err != nil {
		return err
	}
	return o.do(ctx, rolloutName, graph.Task{Node: n.InWave(o.Wave), Shard: o.Shard})
}

func (o RolloutOptions) plain(ctx context.Context, out io.Writer) error {
	err := cmp.Or(cmdline.Required("plan", o.Plan, "policy", o.Policy, "out", o.Out), o.checkNumbers())
	if err != nil {
		return err
	}
	if err := plain.CheckOut(seal.KindFile, o.Out); err != nil {
		return err
	}
	if err := plain.CheckPolicy(o.Policy); err != nil {
		return err
	}
	p, err := plain.Open(rolloutName, o.Recipe, o.Set, o.Threads)
	if err != nil {
		return err
	}
	defer p.Close()
	instances, _, err := stage.ReadTable[shard.Instance](ctx, p.Job.Files, o.Plan)
	if err != nil {
		return err
	}
	first, last, err := o.rows(len(instances))
	if err != nil {
		return err
	}
	m, err := rollout.Run(ctx, p.Job, rollout.SettingsOf(p.Recipe), p.Env, rollout.Inputs{
		Plan: o.Plan, FirstRow: first, LastRow: last, PolicyFolder: o.Policy,
		Iteration: o.plainIteration(0), Shard: o.Shard, Of: 1, Output: o.Out,
	})
	if err != nil {
		return err
	}
	return plain.PrintSealed(out, m, o.Out)
}

// rows is the range of the plan's rows that is asked for, last exclusive.
func (o RolloutOptions) rows(rows int) (first, last int, err error) {
	first, last = o.FirstRow, o.LastRow
	switch {
	case first == 0 && last == 0:
		return 0, rows, nil
	case first < 0 || first >= rows:
		return 0, 0, exitcode.Usagef("--first-row: got %d for plan %q of %d rows, want 0 to %d", first, o.Plan, rows, max(0, rows-1))
	case last < 0 || last > rows:
		return 0, 0, exitcode.Usagef("--last-row: got %d for plan %q of %d rows, want 1 to %d, or 0 for the end", last, o.Plan, rows, rows)
	case last == 0:
		last = rows
	case first >= last:
		return 0, 0, exitcode.Usagef("--first-row %d and --last-row %d select no row: --last-row is the row to stop before", first, last)
	}
	return first, last, nil
}
