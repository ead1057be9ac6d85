package command

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/buffer"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// plainFlags are the flags of a binary that works on plain files, without a
// run: a recipe for the settings, the files to read, and where to write.
func plainFlags(inputs ...string) []cli.Flag {
	usage := map[string]string{
		"plan": "plan `FILE` of instances", "policy": "policy `FOLDER` in Hugging Face layout",
		"rollout": "rollout `FILE`", "rollouts": "comma-separated rollout `FILES`", "scores": "comma-separated score `FILES`, one per rollout file",
		"state": "curriculum state `FILE`; none starts an empty one", "stats": "curriculum statistics `FILE` beside the state; none starts without",
		"history": "comma-separated rollout `FILES` of earlier iterations, which hold what the state's entries go on from",
		"batch":   "batch `FILE`", "optimizer": "optimizer state `FOLDER`; none starts fresh",
		"first-row": "first `ROW` of the plan", "last-row": "row of the plan to stop before; 0 is its end",
	}
	flags := []cli.Flag{
		&cli.StringFlag{Name: "recipe", Usage: "work on plain files with the settings of `RECIPE`, without a run"},
		&cli.StringSliceFlag{Name: "set", Usage: "recipe setting `FIELD=VALUE`; may be repeated"},
		&cli.StringFlag{Name: "out", Usage: "`PATH` to write"},
	}
	for _, name := range inputs {
		if strings.HasSuffix(name, "-row") {
			flags = append(flags, &cli.IntFlag{Name: name, Usage: usage[name]})
			continue
		}
		flags = append(flags, &cli.StringFlag{Name: name, Usage: usage[name]})
	}
	return flags
}

// plain is what a command on plain files works with.
type plain struct {
	job stage.Job
	env env.Env
}

// plainInputs are the values of the flags that a command on plain files needs,
// after a look at the numbers that it takes too.
func plainInputs(c *cli.Context, names ...string) (map[string]string, error) {
	values, err := need(c, names...)
	if err != nil {
		return nil, err
	}
	if err := atLeast(c, 1, "iteration"); err != nil {
		return nil, err
	}
	return values, atLeast(c, 0, "shard")
}

// openPlain opens the environment of a recipe, for a program that works without
// a run.
func openPlain(program string, o RecipeOptions, threads int) (*plain, error) {
	threads, err := engineThreads(threads)
	if err != nil {
		return nil, err
	}
	resolved, err := o.load()
	if err != nil {
		return nil, err
	}
	environment, err := resolved.Recipe.NewEnv(filepath.Dir(resolved.Path))
	if err != nil {
		return nil, err
	}
	return &plain{
		job: stage.Job{
			Recipe: resolved.Recipe, RecipeSHA256: resolved.SHA256, Attempt: ownAttempt(), Threads: threads,
			BinaryVersion: Version, Cite: filepath.ToSlash, Log: cmdline.Log(program), Plain: true,
		},
		env: environment,
	}, nil
}

func openPlainOf(c *cli.Context) (*plain, error) {
	return openPlain(c.App.Name, RecipeOptions{Recipe: c.String("recipe"), Set: c.StringSlice("set")}, c.Int("threads"))
}

func plainRollout(c *cli.Context) error {
	paths, err := plainInputs(c, "recipe", "plan", "policy", "out")
	if err != nil {
		return err
	}
	if err := checkOut(seal.KindFile, paths["out"]); err != nil {
		return err
	}
	if err := checkPolicy(paths["policy"]); err != nil {
		return err
	}
	p, err := openPlainOf(c)
	if err != nil {
		return err
	}
	instances, _, err := stage.ReadTable[shard.Instance](c.Context, p.job, paths["plan"])
	if err != nil {
		return err
	}
	first, last, err := rowRange(c, paths["plan"], len(instances))
	if err != nil {
		return err
	}
	m, err := rollout.Run(c.Context, p.job, p.env, rollout.Inputs{
		Plan: paths["plan"], FirstRow: first, LastRow: last, PolicyFolder: paths["policy"],
		Iteration: max(0, c.Int("iteration")), Shard: c.Int("shard"), Of: 1, Output: paths["out"],
	})
	return sealed(m, paths["out"], err)
}

// rowRange is the range of a plan's rows, last exclusive, that --first-row and
// --last-row ask for.
func rowRange(c *cli.Context, plan string, rows int) (first, last int, err error) {
	first, last = c.Int("first-row"), c.Int("last-row")
	switch {
	case first == 0 && last == 0:
		return 0, rows, nil
	case first < 0 || first >= rows:
		return 0, 0, exitcode.Usagef("--first-row is %d; plan %q has %d rows, so it must be 0 to %d", first, plan, rows, max(0, rows-1))
	case last < 0 || last > rows:
		return 0, 0, exitcode.Usagef("--last-row is %d; plan %q has %d rows, so it must be 1 to %d, or 0 for the end", last, plan, rows, rows)
	case last == 0:
		last = rows
	case first >= last:
		return 0, 0, exitcode.Usagef("--first-row %d and --last-row %d leave no row: the last is the row to stop before", first, last)
	}
	return first, last, nil
}

func plainScore(c *cli.Context) error {
	paths, err := plainInputs(c, "recipe", "plan", "rollout", "out")
	if err != nil {
		return err
	}
	if err := checkOut(seal.KindFile, paths["out"]); err != nil {
		return err
	}
	p, err := openPlainOf(c)
	if err != nil {
		return err
	}
	m, err := score.Run(c.Context, p.job, p.env, score.Inputs{
		Plan: paths["plan"], Rollout: paths["rollout"], Iteration: max(0, c.Int("iteration")), Shard: c.Int("shard"), Of: 1, Output: paths["out"],
	})
	return sealed(m, paths["out"], err)
}

func plainBuffer(c *cli.Context) error {
	paths, err := plainInputs(c, "recipe", "plan", "rollouts", "scores", "out")
	if err != nil {
		return err
	}
	p, err := openPlainOf(c)
	if err != nil {
		return err
	}
	chooser, err := p.job.Recipe.NewCurriculum()
	if err != nil {
		return err
	}
	rollouts, scores := strings.Split(paths["rollouts"], ","), strings.Split(paths["scores"], ",")
	if len(rollouts) != len(scores) {
		return exitcode.Usagef("--rollouts names %d files, --scores %d: each rollout file needs its scores", len(rollouts), len(scores))
	}
	k := max(1, c.Int("iteration"))
	inputs := buffer.Inputs{
		Iteration: k, Plans: []buffer.PlanRef{{Iteration: k, Path: paths["plan"]}}, State: c.String("state"), Stats: c.String("stats"),
		RolloutOf:   rolloutsIn(c.Context, p.job, slices.Concat(rollouts, filesOf(c.String("history")))),
		StateOutput: filepath.Join(paths["out"], "state.parquet"), StatsOutput: filepath.Join(paths["out"], "stats.parquet"),
		BatchOutput: filepath.Join(paths["out"], "batch.arrow"), LedgerOutput: filepath.Join(paths["out"], "ledger.parquet"),
		PlanOutputs: []buffer.PlanRef{{Iteration: k + 1, Path: filepath.Join(paths["out"], "plan.parquet")}},
		PlanRows:    p.job.Recipe.Rollout.Prompts,
	}
	if err := checkOut(seal.KindFile, inputs.BatchOutput, inputs.LedgerOutput, inputs.StateOutput, inputs.StatsOutput, inputs.PlanOutputs[0].Path); err != nil {
		return err
	}
	for i := range rollouts {
		inputs.Shards = append(inputs.Shards, buffer.ShardRef{Iteration: k, Rollout: rollouts[i], Score: scores[i]})
	}
	if err := buffer.Run(c.Context, p.job, p.env, chooser, inputs); err != nil {
		return err
	}
	for _, path := range []string{inputs.StateOutput, inputs.StatsOutput, inputs.BatchOutput, inputs.LedgerOutput, inputs.PlanOutputs[0].Path} {
		m, err := seal.Read(c.Context, path, seal.Options{})
		if err := sealed(m, path, err); err != nil {
			return err
		}
	}
	return nil
}

// filesOf splits a list of files that may be empty.
func filesOf(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// sampled is what is read of a rollout's row to know what the file holds.
type sampled struct {
	InstanceID string `parquet:"instance_id"`
	Wave       int32  `parquet:"wave"`
}

// Schema is that of the whole row.
func (sampled) Schema() seal.Schema { return shard.Rollout{}.Schema() }

// rolloutsIn finds which of some rollout files holds a response. They are read
// when the first is asked for.
func rolloutsIn(ctx context.Context, job stage.Job, files []string) func(shard.Ref, string) (string, error) {
	var holder map[sampled]string
	return func(ref shard.Ref, instanceID string) (string, error) {
		if holder == nil {
			holder = map[sampled]string{}
			for _, file := range files {
				rows, _, err := stage.ReadTable[sampled](ctx, job, file)
				if err != nil {
					return "", err
				}
				for _, row := range rows {
					holder[row] = file
				}
			}
		}
		file, ok := holder[sampled{instanceID, ref.Wave}]
		if !ok {
			err := exitcode.Usagef("the plan goes on from a response to instance %q of iteration %d, which is in no file of --rollouts or --history", instanceID, ref.Iteration)
			return "", exitcode.WithHint(err, "name the rollout file that holds it with --history")
		}
		return file, nil
	}
}

func plainLearn(c *cli.Context) error {
	paths, err := plainInputs(c, "recipe", "policy", "batch", "out")
	if err != nil {
		return err
	}
	out := filepath.Clean(paths["out"])
	if err := checkOut(seal.KindFolder, out+".optim", out); err != nil {
		return err
	}
	if err := checkPolicy(paths["policy"]); err != nil {
		return err
	}
	p, err := openPlainOf(c)
	if err != nil {
		return err
	}
	steps := p.job.Recipe.Loss.Epochs * p.job.Recipe.Loss.MiniBatches
	k := max(1, c.Int("iteration"))
	inputs := learn.Inputs{
		Iteration: k, Batch: paths["batch"], Policy: paths["policy"], Optimizer: c.String("optimizer"), LastStep: steps,
		StepsSoFar: (k - 1) * steps, StepsTotal: max(k, p.job.Recipe.Schedule.Iterations) * steps,
		PolicyOutput: out, PolicyVersion: k, OptimizerOutput: out + ".optim",
	}
	if p.job.Recipe.Loss.KL.Coef != 0 {
		inputs.Reference = paths["policy"]
	}
	m, err := learn.Run(c.Context, p.job, inputs)
	return sealed(m, paths["out"], err)
}
