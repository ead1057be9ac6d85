package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// taskFlags are the flags of every binary that carries out tasks of a run.
func taskFlags(extra ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "run", Usage: "folder of the `RUN`"},
		&cli.IntFlag{Name: "iteration", Usage: "iteration `K`, from 1", Value: -1},
		&cli.IntFlag{Name: "shard", Usage: "shard `N`, from 0", EnvVars: []string{"SLURM_ARRAY_TASK_ID"}},
		&cli.IntFlag{Name: "threads", Usage: "engine `THREADS`; 0 takes the recipe's or the machine's", EnvVars: []string{"LATHE_THREADS"}},
	}, extra...)
}

// doTask carries out one task of the run that --run names.
func doTask(c *cli.Context, task graph.Task) error {
	if _, err := arguments(c); err != nil {
		return err
	}
	if c.String("run") == "" {
		return withHelp(c, exitcode.Usagef("--run is missing"))
	}
	if err := atLeast(c, 0, "threads"); err != nil {
		return err
	}
	dir := graph.Dir(c.String("run"))
	opened, err := rundir.Open(c.Context, dir)
	if err != nil {
		return err
	}
	if task.Stage == graph.StageGradient && opened.Recipe.Schedule.GradientShards <= 1 {
		return exitcode.Usagef("--gradient: run %q computes no gradients in shards, its schedule.gradient_shards is %d",
			dir, opened.Recipe.Schedule.GradientShards)
	}
	attempt := seal.AttemptFromEnv()
	w := worker.New(opened, attempt, Version, talk(c.App.Name))
	w.Threads = c.Int("threads")
	err = w.Do(c.Context, task)
	if err != nil {
		recordExit(dir, task, attempt, err)
	}
	return err
}

// iteration returns --iteration, which must have been given.
func iteration(c *cli.Context) (int, error) {
	if c.Int("iteration") < 0 {
		return 0, withHelp(c, exitcode.Usagef("--iteration is missing or negative"))
	}
	return c.Int("iteration"), nil
}

// recordExit leaves the reason of a failure where whoever advances the run
// finds it, since a batch system without accounting keeps no exit codes. A
// record that cannot be written is no second failure: the missing output
// speaks for itself.
func recordExit(dir graph.Dir, task graph.Task, attempt seal.Attempt, cause error) {
	record := rundir.ExitRecord{
		Task: task.String(), Attempt: attempt.Number, Code: exitcode.Code(cause), Message: cause.Error(), Host: attempt.Host, Time: time.Now().UTC(),
	}
	if hints := exitcode.Hints(cause); len(hints) > 0 {
		record.Hint = hints[0]
	}
	path := dir.ExitRecord(task, attempt.Number-attempt.Restarts, attempt.Restarts)
	content, err := json.Marshal(record)
	if err == nil && os.MkdirAll(filepath.Dir(path), 0o777) == nil {
		_ = os.WriteFile(path, append(content, '\n'), 0o666)
	}
}

// Rollout is lathe-rollout.
func Rollout() *cli.App {
	app := newApp("lathe-rollout", "sample responses: a shard of a plan and a policy in, a shard of rollouts out")
	app.Flags = append(taskFlags(
		&cli.IntFlag{Name: "evaluate", Usage: "instead measure policy `VERSION` on the held-out problems"},
	), plainFlags("plan", "policy", "first-row", "last-row")...)
	app.Action = func(c *cli.Context) error {
		if err := oneMode(c); err != nil {
			return err
		}
		if c.IsSet("recipe") {
			return plainRollout(c)
		}
		if err := exclusive(c, [2]string{"evaluate", "iteration"}); err != nil {
			return err
		}
		if c.IsSet("evaluate") {
			return doTask(c, graph.Task{Node: graph.Node{Stage: graph.StageEvaluate, Iteration: c.Int("evaluate")}, Shard: c.Int("shard")})
		}
		k, err := iteration(c)
		if err != nil {
			return err
		}
		return doTask(c, graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: k}, Shard: c.Int("shard")})
	}
	return app
}

// Score is lathe-score.
func Score() *cli.App {
	app := newApp("lathe-score", "judge responses: a shard of rollouts in, a shard of verdicts out")
	app.Flags = append(taskFlags(), plainFlags("plan", "rollout")...)
	app.Commands = []*cli.Command{checkCommand()}
	app.Action = func(c *cli.Context) error {
		if err := oneMode(c); err != nil {
			return err
		}
		if c.IsSet("recipe") {
			return plainScore(c)
		}
		k, err := iteration(c)
		if err != nil {
			return err
		}
		return doTask(c, graph.Task{Node: graph.Node{Stage: graph.StageScore, Iteration: k}, Shard: c.Int("shard")})
	}
	return app
}

// Buffer is lathe-buffer.
func Buffer() *cli.App {
	app := newApp("lathe-buffer", "turn scored responses into a batch, the curriculum's next state and a plan")
	app.Flags = append(taskFlags(), plainFlags("plan", "rollouts", "scores", "state", "stats", "history")...)
	app.Action = func(c *cli.Context) error {
		if err := oneMode(c); err != nil {
			return err
		}
		if c.IsSet("recipe") {
			return plainBuffer(c)
		}
		k, err := iteration(c)
		if err != nil {
			return err
		}
		return doTask(c, graph.Task{Node: graph.Node{Stage: graph.StageBuffer, Iteration: k}})
	}
	return app
}

// Learn is lathe-learn.
func Learn() *cli.App {
	app := newApp("lathe-learn", "update the policy from a batch, in one task or as gradient shards and an apply")
	app.Flags = append(taskFlags(
		&cli.IntFlag{Name: "step", Usage: "optimizer step `U` of the iteration, from 0, when gradients are computed in shards"},
		&cli.BoolFlag{Name: "gradient", Usage: "compute one gradient shard instead of updating the policy"},
		&cli.IntFlag{Name: "warm", Usage: "instead take checkpoint `C` of the supervised warm start, from 1"},
	), plainFlags("batch", "policy", "optimizer")...)
	app.Action = func(c *cli.Context) error {
		if err := oneMode(c); err != nil {
			return err
		}
		if c.IsSet("recipe") {
			return plainLearn(c)
		}
		if err := exclusive(c, [2]string{"warm", "iteration"}, [2]string{"warm", "step"}, [2]string{"warm", "gradient"}); err != nil {
			return err
		}
		if c.IsSet("warm") {
			return doTask(c, graph.Task{Node: graph.Node{Stage: graph.StageWarm, Iteration: c.Int("warm")}})
		}
		k, err := iteration(c)
		if err != nil {
			return err
		}
		if c.Bool("gradient") {
			return doTask(c, graph.Task{Node: graph.Node{Stage: graph.StageGradient, Iteration: k, Step: c.Int("step")}, Shard: c.Int("shard")})
		}
		return doTask(c, graph.Task{Node: graph.Node{Stage: graph.StageLearn, Iteration: k, Step: c.Int("step")}})
	}
	return app
}

// need returns the values of string flags that must be given together.
func need(c *cli.Context, names ...string) (map[string]string, error) {
	if _, err := arguments(c); err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, name := range names {
		if values[name] = c.String(name); values[name] == "" {
			return nil, withHelp(c, exitcode.Usagef("--%s is missing", name))
		}
	}
	return values, nil
}

func sealed(m seal.Manifest, path string, err error) error {
	if err == nil {
		fmt.Fprintln(stdout, path, m.SHA256)
	}
	return err
}

// Of the flags of a task binary, taskOnly name a task of a run and eitherMode go
// with --recipe too. All others are for work on plain files.
var (
	taskOnly   = []string{"run", "evaluate", "gradient", "step", "warm"}
	eitherMode = []string{"recipe", "iteration", "shard", "threads"}
)

// oneMode refuses flags that would have no effect: a task binary works on a task
// of a run, or with --recipe on plain files.
func oneMode(c *cli.Context) error {
	plain := c.IsSet("recipe")
	for _, flag := range c.App.Flags {
		name := flag.Names()[0]
		if !c.IsSet(name) || slices.Contains(eitherMode, name) {
			continue
		}
		switch task := slices.Contains(taskOnly, name); {
		case task && plain:
			return withHelp(c, exitcode.Usagef("--%s is for a task of a run: it does not go with --recipe", name))
		case !task && !plain:
			return withHelp(c, exitcode.Usagef("--%s is for work on plain files: it needs --recipe", name))
		}
	}
	return nil
}
