package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/run/worker"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// ReplayOptions are those of lathe replay.
type ReplayOptions struct {
	Run       string // folder
	Stage     string
	Iteration int  // for warm the checkpoint, for evaluations the policy version
	Step      int  // of the optimizer, for gradient shards
	Wave      *int // of rollouts and scores; nil is all
	Shard     *int // nil is all
	Threads   int  // of the engine; 0 is the recipe's or the machine's
	Trust     bool // start what the run names although others may write its folder
	JSON      bool
}

func replayCommand() *cli.Command {
	var o ReplayOptions
	return cmdline.Help{
		Example: "lathe replay runs/quickstart --iter 1 --stage learn",
		Exits:   map[int]string{exitcode.Data: "an output differs; or a file is damaged, foreign or missing", exitcode.Unavailable: "", exitcode.Stopped: ""},
	}.Command(&cli.Command{
		Name: "replay", Usage: "run a stage again and compare the bytes", ArgsUsage: "RUN",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "iter", Aliases: []string{"iteration"}, DefaultText: cmdline.NoDefault, Usage: "iteration `K`; for warm, the checkpoint; for evaluations, the policy version", Destination: &o.Iteration},
			&cli.StringFlag{Name: "stage", Usage: "`STAGE`: warm, buffer, rollout, score, gradient, reduce, sum, apply, learn, evalplan, evalrollout, evalscore or evaluate", Destination: &o.Stage},
			cmdline.NumberFlag("shard", "shard `N`; default: all", &o.Shard),
			&cli.IntFlag{Name: "step", Usage: "optimizer step `U`, for gradient shards", Destination: &o.Step},
			cmdline.NumberFlag("wave", "`WAVE` of rollouts or scores, from 0; default: all", &o.Wave),
			&cli.IntFlag{Name: "threads", Usage: "number of engine `THREADS`; 0 uses the recipe's, else all cores", Destination: &o.Threads},
			trustFlag(&o.Trust),
			cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RUN", &o.Run, func(c *cli.Context) error { return Replay(c.Context, c.App.Writer, o) }),
	})
}

// Replay runs a stage of a run again and compares the bytes.
func Replay(ctx context.Context, out io.Writer, o ReplayOptions) error {
	if err := trusted(o.Trust, o.Run); err != nil {
		return err
	}
	opened, err := openRun(ctx, o.Run)
	if err != nil {
		return err
	}
	tasks, err := o.tasks(opened.Graph)
	if err != nil {
		return err
	}
	if o.Shard == nil || o.Wave == nil { // not every shard has a later wave
		sealed := survey.NewInventory(opened.Graph)
		var failed error
		tasks = slices.DeleteFunc(tasks, func(t graph.Task) bool {
			exists, err := sealed.Exists(ctx, t)
			failed = cmp.Or(failed, err)
			return !exists
		})
		if failed != nil {
			return failed
		}
	}
	if err := cmdline.AtLeast(0, "threads", o.Threads); err != nil {
		return err
	}
	w := worker.New(opened, seal.AttemptFromEnv(), cmdline.Version, cmdline.Log("lathe"))
	w.Threads = o.Threads
	results, err := worker.Replay(ctx, w, tasks)
	if err != nil {
		return err
	}
	if o.JSON {
		if err := cmdline.WriteJSON(out, results); err != nil {
			return err
		}
	}
	different, remote, measured := 0, 0, 0
	for _, r := range results {
		word, digest := "same", r.Now
		switch {
		case r.Remote:
			word, digest = "remote", r.Sealed
			remote++
		case r.Measured:
			measured++
		case !r.Same:
			word = "DIFFERENT"
			different++
		}
		if !o.JSON {
			fmt.Fprintf(out, "%-9s %s %s\n", word, digest, r.Path)
		}
	}
	if remote > 0 {
		fmt.Fprintf(os.Stderr, "responses of a server, which may differ when sampled again, in %s: the seals match, and all later stages can be replayed\n", plural.Count(remote, "output"))
	}
	if measured > 0 {
		fmt.Fprintf(os.Stderr, "the same except for measured times, which differ between attempts: %s\n", plural.Count(measured, "output"))
	}
	if different > 0 {
		return exitcode.WithHint(exitcode.Dataf("%d of %s differ", different, plural.Count(len(results), "output")),
			"check that the binaries are the same: run.json and the manifests name their version")
	}
	return nil
}

// tasks are those of the stage that is meant.
func (o ReplayOptions) tasks(g graph.Graph) ([]graph.Task, error) {
	stage, err := graph.ParseStage(o.Stage)
	if err != nil {
		return nil, err
	}
	node := graph.Node{Stage: stage, Iteration: o.Iteration, Step: o.Step}
	if !slices.Contains(g.Nodes(), node) {
		return nil, exitcode.Usagef("the run has no %s", node)
	}
	waves, err := meant("wave", o.Wave, node, g.Waves(stage))
	if err != nil {
		return nil, err
	}
	shards, err := meant("shard", o.Shard, node, g.Shards(node))
	if err != nil {
		return nil, err
	}
	var tasks []graph.Task
	for _, wave := range waves {
		for _, shard := range shards {
			tasks = append(tasks, graph.Task{Node: node.InWave(wave), Shard: shard})
		}
	}
	return tasks, nil
}

// meant is the number of a flag, or all that a node has when it was left out.
func meant(flag string, given *int, n graph.Node, total int) ([]int, error) {
	if given == nil {
		all := make([]int, total)
		for i := range all {
			all[i] = i
		}
		return all, nil
	}
	if *given < 0 || *given >= total {
		return nil, exitcode.Usagef("--%s: got %d, want 0 to %d, as %s has", flag, *given, total-1, n)
	}
	return []int{*given}, nil
}
