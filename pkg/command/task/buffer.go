package task

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
)

const bufferName = "lathe-buffer"

// BufferOptions are those of lathe-buffer.
type BufferOptions struct {
	Options
	Evaluate bool // instead write the plan of evaluations

	// Plain files:
	Plan             string
	Rollouts, Scores []string // a score file for each rollout file
	State            string   // of the curriculum; empty starts an empty one
	Stats            string   // of the curriculum, beside the state; empty starts without
	Waiting          string   // segments that wait for a batch, beside the state; empty starts without
	History          []string // rollout files of earlier iterations, which hold what the state's entries go on from
}

// Buffer is lathe-buffer.
func Buffer() *cli.App {
	var o BufferOptions
	var rollouts, scores, history string
	app := cmdline.NewApp(bufferName, "build a batch, the curriculum's next state and the next plan from scored responses")
	app.Flags = o.flags([]cli.Flag{
		&cli.BoolFlag{Name: "evaluate", Usage: "instead write the plan of held-out problems for evaluations", Destination: &o.Evaluate},
	}, planFlag(&o.Plan),
		cmdline.PathFlag("rollouts", "comma-separated rollout `FILES`", &rollouts),
		cmdline.PathFlag("scores", "comma-separated score `FILES`, one per rollout file", &scores),
		cmdline.PathFlag("state", "curriculum state `FILE`; default: an empty state", &o.State),
		cmdline.PathFlag("stats", "curriculum statistics `FILE` beside the state; default: none", &o.Stats),
		cmdline.PathFlag("waiting", "`FILE` of segments that wait for a batch (schedule.batch_segments), beside the state; default: none", &o.Waiting),
		cmdline.PathFlag("history", "comma-separated rollout `FILES` of earlier iterations, with the parent attempts of the state's entries and the waiting segments", &history),
	)
	app.Action = taskAction(func(c *cli.Context) error {
		o.Rollouts, o.Scores, o.History = filesOf(rollouts), filesOf(scores), filesOf(history)
		return DoBuffer(c.Context, c.App.Writer, o)
	})
	return cmdline.Help{
		Example: "lathe-buffer --run runs/quickstart --iteration 1\n" +
			"lathe-buffer --recipe jobs/quickstart.yaml --plan runs/quickstart/iter/000001/plan.parquet --rollouts r.parquet --scores s.parquet --out next",
		Exits: taskExits(),
	}.App(app)
}

// filesOf splits a list of files that may be empty.
func filesOf(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// DoBuffer turns the scored responses of an iteration into what is learned
// from and what is sampled next.
func DoBuffer(ctx context.Context, out io.Writer, o BufferOptions) error {
	if o.Recipe != "" {
		return o.plain(ctx, out)
	}
	if o.Evaluate {
		if o.Iteration != nil {
			return cmdline.Misusef("--evaluate and --iteration exclude each other")
		}
		return o.do(ctx, bufferName, graph.Task{Node: graph.Node{Stage: graph.StageEvalPlan}})
	}
	k, err := o.iteration()
	if err != nil {
		return err
	}
	return o.do(ctx, bufferName, graph.Task{Node: graph.Node{Stage: graph.StageBuffer, Iteration: k}})
}

func (o BufferOptions) plain(ctx context.Context, out io.Writer) error {
	err := cmp.Or(
		cmdline.Required("plan", o.Plan, "rollouts", strings.Join(o.Rollouts, ","), "scores", strings.Join(o.Scores, ","), "out", o.Out),
		o.checkNumbers(),
	)
	if err != nil {
		return err
	}
	p, err := plain.Open(bufferName, o.Recipe, o.Set, o.Threads)
	if err != nil {
		return err
	}
	defer p.Close()
	chooser, err := p.Recipe.NewCurriculum()
	if err != nil {
		return err
	}
	if len(o.Rollouts) != len(o.Scores) {
		return exitcode.Usagef("--rollouts has %d files and --scores %d: each rollout file needs its score file", len(o.Rollouts), len(o.Scores))
	}
	k := o.plainIteration(1)
	var shards []buffer.ShardRef
	for i := range o.Rollouts {
		shards = append(shards, buffer.ShardRef{Iteration: k, Rollout: o.Rollouts[i], Score: o.Scores[i]})
	}
	inputs := buffer.Inputs{
		Iteration: k, Plans: []buffer.PlanRef{{Iteration: k, Path: o.Plan}}, Shards: shards, State: o.State, Stats: o.Stats, Waiting: o.Waiting,
		WaveOf:      wavesIn(ctx, p.Job.Files, shards, o.History),
		StateOutput: filepath.Join(o.Out, "state.parquet"), StatsOutput: filepath.Join(o.Out, "stats.parquet"),
		BatchOutput: filepath.Join(o.Out, "batch.arrow"), LedgerOutput: filepath.Join(o.Out, "ledger.parquet"),
		PlanOutputs: []buffer.PlanRef{{Iteration: k + 1, Path: filepath.Join(o.Out, "plan.parquet")}},
		PlanRows:    p.Recipe.Rollout.Prompts,
	}
	outputs := []string{inputs.StateOutput, inputs.StatsOutput, inputs.BatchOutput, inputs.LedgerOutput, inputs.PlanOutputs[0].Path}
	if p.Recipe.BatchSegments() > 0 {
		inputs.WaitingOutput = filepath.Join(o.Out, "waiting.parquet")
		outputs = append(outputs, inputs.WaitingOutput)
	}
	if err := plain.CheckOut(seal.KindFile, outputs...); err != nil {
		return err
	}
	if err := buffer.Run(ctx, p.Job, buffer.SettingsOf(p.Recipe), p.Env, chooser, inputs); err != nil {
		return err
	}
	for _, path := range outputs {
		m, err := seal.Read(ctx, path, seal.Options{})
		if err != nil {
			return err
		}
		if err := plain.PrintSealed(out, m, path); err != nil {
			return err
		}
	}
	return nil
}

// sampled is what is read of a rollout's row to know what the file holds.
type sampled struct {
	InstanceID string `parquet:"instance_id"`
	Wave       int32  `parquet:"wave"`
}

// Schema is that of the whole row.
func (sampled) Schema() seal.Schema { return shard.Rollout{}.Schema() }

// wavesIn finds which of the shards at hand and the rollout files of earlier
// iterations holds a response. They are read when the first is asked for. The
// scores of earlier responses are not known.
func wavesIn(ctx context.Context, read stage.Files, shards []buffer.ShardRef, earlier []string) func(shard.Ref, string) (buffer.WaveRef, error) {
	var files []buffer.WaveRef
	for _, s := range shards {
		files = append(files, buffer.WaveRef{Rollout: s.Rollout, Score: s.Score})
	}
	for _, rollout := range earlier {
		files = append(files, buffer.WaveRef{Rollout: rollout})
	}
	var holder map[sampled]buffer.WaveRef
	return func(ref shard.Ref, instanceID string) (buffer.WaveRef, error) {
		if holder == nil {
			holder = map[sampled]buffer.WaveRef{}
			for _, file := range files {
				rows, _, err := stage.ReadTable[sampled](ctx, read, file.Rollout)
				if err != nil {
					return buffer.WaveRef{}, err
				}
				for _, row := range rows {
					holder[row] = file
				}
			}
		}
		file, ok := holder[sampled{instanceID, ref.Wave}]
		if !ok {
			err := exitcode.Usagef("the response to instance %q of iteration %d is missing from the files of --rollouts and --history", instanceID, ref.Iteration)
			return buffer.WaveRef{}, exitcode.WithHint(err, "add its rollout file to --history")
		}
		return file, nil
	}
}
