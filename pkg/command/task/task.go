// Package task holds the commands of the binaries that run tasks:
// lathe-rollout, lathe-score, lathe-buffer and lathe-learn. They stand apart from
// those of lathe because every task of every array starts one: they link nothing
// that draws, compares or submits.
package task

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/monitor"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"

	_ "github.com/lathe-rl/lathe/pkg/builtin"
)

// Options are those of every binary that runs tasks: a task of a
// run, or, with a recipe, the same work on plain files.
type Options struct {
	Run       string // folder; empty with a recipe
	Iteration *int   // from 1; nil is not given
	Shard     int    // from 0
	Threads   int    // of the engine; 0 is the recipe's or the machine's
	Extended  int    // how often the run was extended

	// On plain files:
	Recipe string   // its file
	Set    []string // changes of it, FIELD=VALUE, in their order
	Out    string   // path
}

// flags are those of a task binary. inputs are the flags of the plain files
// that it reads.
func (o *Options) flags(task []cli.Flag, inputs ...cli.Flag) []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "run", Usage: "`RUN` folder", Destination: &o.Run},
		cmdline.NumberFlag("iteration", "iteration `K`, from 1", &o.Iteration),
		&cli.IntFlag{Name: "shard", Usage: "shard `N`, from 0", EnvVars: []string{"SLURM_ARRAY_TASK_ID"}, Destination: &o.Shard},
		&cli.IntFlag{Name: "threads", Usage: "number of engine `THREADS`; 0 uses the recipe's, else all cores", EnvVars: []string{"LATHE_THREADS"}, Destination: &o.Threads},
		&cli.IntFlag{Name: "extended", Usage: "wait until this node sees that the run was extended `N` times; set by what starts tasks", Destination: &o.Extended},
	}, task, []cli.Flag{
		&cli.StringFlag{Name: "recipe", Usage: "process plain files with the settings of `RECIPE`, without a run", Destination: &o.Recipe},
		cmdline.SetFlag(&o.Set),
		&cli.StringFlag{Name: "out", Usage: "write to `PATH`", Destination: &o.Out},
	}, inputs)
}

// taskExits are the exit codes of the task binaries.
func taskExits() map[int]string {
	return cmdline.Exits(exitcode.Data, exitcode.Unavailable, exitcode.Stopped)
}

// taskAction is the action of a task binary.
func taskAction(action cli.ActionFunc) cli.ActionFunc {
	return cmdline.NoArguments(func(c *cli.Context) error {
		if err := oneMode(c); err != nil {
			return err
		}
		return action(c)
	})
}

// iteration is that of a task, which must have one.
func (o Options) iteration() (int, error) {
	if o.Iteration == nil || *o.Iteration < 0 {
		return 0, cmdline.Misusef("--iteration is missing or negative")
	}
	return *o.Iteration, nil
}

// sampled is the node of rollouts or scores that is meant: of an iteration, or of
// the evaluation of a policy version.
func (o Options) sampled(evaluate *int, trained, held graph.Stage) (graph.Node, error) {
	if evaluate == nil {
		k, err := o.iteration()
		return graph.Node{Stage: trained, Iteration: k}, err
	}
	if o.Iteration != nil {
		return graph.Node{}, cmdline.Misusef("--evaluate and --iteration exclude each other")
	}
	return graph.Node{Stage: held, Iteration: *evaluate}, nil
}

func waveFlag(to *int) cli.Flag {
	return &cli.IntFlag{Name: "wave", Usage: "`WAVE`, from 0; later waves continue responses that waited for feedback", Destination: to}
}

// do runs one task of the run, for a program.
func (o Options) do(ctx context.Context, program string, task graph.Task) error {
	if err := cmdline.Required("run", o.Run); err != nil {
		return err
	}
	if err := cmdline.AtLeast(0, "threads", o.Threads); err != nil {
		return err
	}
	dir := graph.Dir(o.Run)
	if err := rundir.Trusted(dir); err != nil {
		return err
	}
	if err := rundir.AwaitExtension(ctx, dir, o.Extended); err != nil {
		return err
	}
	opened, err := rundir.Open(ctx, dir)
	if err != nil {
		return err
	}
	if task.Stage == graph.StageGradient && !opened.Graph.Sharded() {
		return exitcode.Usagef("--gradient: run %q has no gradient shards: its schedule.gradient_shards is %d",
			dir, opened.Recipe.Schedule.GradientShards)
	}
	if task.Stage == graph.StageReduce && !opened.Graph.Reduced() {
		return exitcode.Usagef("--reduce: run %q sums its gradient shards in the learn task: its schedule.gradient_fan_in is %d",
			dir, opened.Recipe.Schedule.GradientFanIn)
	}
	if (task.Stage == graph.StageSum || task.Stage == graph.StageApply) && !opened.Graph.InParts() {
		return exitcode.Usagef("--%s: run %q applies gradients in one task: its schedule.apply_shards is %d", task.Stage, dir, opened.Recipe.Schedule.ApplyShards)
	}
	attempt, log, began := seal.AttemptFromEnv(), cmdline.Log(program), time.Now()
	log("%s, attempt %d: started on %s as job %s at %s", task, attempt.Number, attempt.Host, attempt.JobID, began.UTC().Format(time.RFC3339))
	defer monitor.Beside(o.Run, task.String(), log)()
	w := worker.New(opened, attempt, cmdline.Version, log)
	w.Threads = o.Threads
	err = w.Do(ctx, task)
	if err != nil {
		recordExit(ctx, dir, task, attempt, began, err)
		log("%s, attempt %d: not done, ended after %.1f s", task, attempt.Number, time.Since(began).Seconds())
		return err
	}
	log("%s, attempt %d: done after %.1f s", task, attempt.Number, time.Since(began).Seconds())
	return nil
}

// recordExit leaves the reason of a failure.
func recordExit(ctx context.Context, dir graph.Dir, task graph.Task, attempt seal.Attempt, began time.Time, cause error) {
	var device *policy.DeviceError
	record := rundir.ExitRecord{
		Device: errors.As(cause, &device),
		Task:   task.String(), Attempt: attempt.Number, Code: exitcode.Code(cause), Message: cause.Error(), Host: attempt.Host, Time: time.Now().UTC(), Seconds: time.Since(began).Seconds(),
	}
	if errors.Is(cause, context.Canceled) {
		record.Message, record.Signal = "stopped by a signal", cmdline.Stopping(ctx)
	}
	if hints := exitcode.Hints(cause); len(hints) > 0 {
		record.Hint = hints[0]
	}
	rundir.WriteExitRecord(dir, task, attempt.Number-attempt.Restarts, attempt.Restarts, record)
}

// Of the flags of a task binary, taskOnly name a task of a run and eitherMode go
// with --recipe too. All others are for work on plain files.
var (
	taskOnly   = []string{"run", "apply", "evaluate", "extended", "gather", "gradient", "reduce", "step", "sum", "warm", "wave"}
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
			return cmdline.Misusef("--%s and --recipe exclude each other: --%[1]s is for a task of a run", name)
		case !task && !plain:
			return cmdline.Misusef("--%s requires --recipe: it is for plain files", name)
		}
	}
	return nil
}

func planFlag(to *string) cli.Flag { return cmdline.PathFlag("plan", "plan `FILE` of instances", to) }

func policyFlag(to *string) cli.Flag {
	return cmdline.PathFlag("policy", "policy `FOLDER` in Hugging Face layout", to)
}

// checkNumbers refuses an iteration or a shard of plain files that cannot be.
func (o Options) checkNumbers() error {
	if o.Iteration != nil {
		if err := cmdline.AtLeast(1, "iteration", *o.Iteration); err != nil {
			return err
		}
	}
	return cmdline.AtLeast(0, "shard", o.Shard)
}

// plainIteration is the iteration that plain files are taken for, or least.
func (o Options) plainIteration(least int) int {
	if o.Iteration == nil {
		return least
	}
	return *o.Iteration
}
