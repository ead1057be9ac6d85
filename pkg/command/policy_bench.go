package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gemm"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/policy/bench"
)

// PolicyBenchOptions are those of lathe policy bench.
type PolicyBenchOptions struct {
	Model   string // folder
	Threads int    // of the engine; 0 is all
	Seconds float64
	Compute string // of products on the CPU
	bench.Options
	RecipeOptions // of whose iteration the time is estimated; empty for none
	JSON          bool
}

func policyBenchCommand() *cli.Command {
	var o PolicyBenchOptions
	return cmdline.Help{
		Example: "lathe policy bench --model runs/quickstart/policy/v000000 --recipe jobs/quickstart.yaml",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "bench", Usage: "measure how fast a policy samples and trains on this machine, and its share of the hardware's limits",
		Description: "On a CPU it also measures the ceiling: float32 products of large matrices, and memory reads by all threads.\n" +
			"A share is relative to whichever of the two limits the work; with a batch of one, decoding reads every weight\n" +
			"for every token. With --recipe it prints the longest time of each task of an iteration at these rates, and\n" +
			"settings with time limits of twice that. lathe run --rates reads the output of --json and sets these limits.",
		Flags: []cli.Flag{
			modelFlag(&o.Model), cmdline.ThreadsFlag(&o.Threads), cmdline.JSONFlag(&o.JSON),
			&cli.IntFlag{Name: "prompt-tokens", Usage: "prompt length in `TOKENS`; 0 means 256, or half of the policy's context if that is less", Destination: &o.PromptTokens},
			&cli.IntFlag{Name: "new-tokens", Usage: "response length in `TOKENS`; 0 means 64, or the rest of the context if that is less", Destination: &o.NewTokens},
			&cli.IntSliceFlag{Name: "batch", Usage: "number of `RESPONSES` decoded together; may be repeated (default: 1, 8 and 64)"},
			&cli.IntFlag{Name: "pass-tokens", Value: 4096, Usage: "number of `TOKENS` per training pass", Destination: &o.PassTokens},
			&cli.Float64Flag{Name: "seconds", Value: 1, Usage: "measure each kind of work for `SECONDS`", Destination: &o.Seconds},
			&cli.StringFlag{Name: "compute", Value: "float32", Usage: "number type of products on the CPU, as policy.compute: `COMPUTE` is auto, float32 or bfloat16", Destination: &o.Compute},
			&cli.StringFlag{Name: "recipe", Usage: "estimate iteration time for `RECIPE`", Destination: &o.Recipe},
			cmdline.SetFlag(&o.Set),
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error {
			o.Batches = c.IntSlice("batch")
			return PolicyBench(c.Context, c.App.Writer, o)
		}),
	})
}

// benchmark is what lathe policy bench prints.
type benchmark struct {
	Arithmetic    policy.Arithmetic `json:"arithmetic"`
	Threads       int               `json:"threads"`
	PromptTokens  int               `json:"prompt_tokens"`
	ContextTokens int               `json:"context_tokens"` // the longest text that the policy takes
	Ceiling       bench.Ceiling     `json:"ceiling"`
	Rates         []bench.Rate      `json:"rates"`
	Iteration     *taskTimes        `json:"iteration"` // null without --recipe

	weights int // bytes, in float32
}

// pairs says that the engine's products round to bfloat16.
func (b benchmark) pairs() bool { return b.Arithmetic.Products != "" }

// PolicyBench measures a policy.
func PolicyBench(ctx context.Context, out io.Writer, o PolicyBenchOptions) error {
	if err := checkModel(o.Model); err != nil {
		return err
	}
	threads, err := cmdline.EngineThreads(o.Threads)
	if err != nil {
		return err
	}
	if o.Seconds <= 0 || o.PassTokens < 1 {
		return exitcode.Usagef("--seconds and --pass-tokens must be above 0")
	}
	o.For = time.Duration(o.Seconds * float64(time.Second))
	for _, batch := range o.Batches {
		if batch < 1 {
			return exitcode.Usagef("--batch: got %d, want 1 or more", batch)
		}
	}
	if len(o.Batches) == 0 {
		o.Batches = []int{1, 8, 64}
	}
	result := benchmark{Threads: threads}
	for _, train := range []bool{false, true} {
		if err := o.measure(ctx, train, threads, &result); err != nil {
			return err
		}
	}
	if result.Arithmetic.Backend == backend.CPU { // before and after, since other programs come and go
		result.Ceiling = result.Ceiling.Higher(bench.MeasureCPU(threads, o.For, result.pairs(), result.weights)).Reached(result.Rates)
	}
	result.Ceiling.Share(result.Rates)
	result.PromptTokens = o.PromptTokens
	if o.Recipe != "" {
		resolved, err := o.load()
		if err != nil {
			return err
		}
		times := result.estimate(resolved.Recipe)
		result.Iteration = &times
	}
	if o.JSON {
		return cmdline.WriteJSON(out, result)
	}
	return printBenchmark(out, result, o.Options)
}

// measure opens the policy to sample or to learn, and adds what it measures. What is not
// given suits the policy.
func (o *PolicyBenchOptions) measure(ctx context.Context, train bool, threads int, result *benchmark) error {
	engine, err := backend.Open(o.Model, backend.Options{
		Backend: backend.Auto, Threads: threads, Train: train, Compute: o.Compute, Log: cmdline.Log("lathe"),
		Workload: policy.Workload{Generate: !train, PassTokens: o.PassTokens},
	})
	if err != nil {
		return err
	}
	defer engine.Close()
	if train {
		rates, err := bench.Learn(ctx, engine, o.Options)
		result.Rates = append(result.Rates, rates...)
		return err
	}
	longest := engine.Config().MaxPositionEmbeddings
	result.ContextTokens = longest
	o.PromptTokens = cmp.Or(o.PromptTokens, min(256, longest/2))
	o.NewTokens = cmp.Or(o.NewTokens, min(64, longest-o.PromptTokens))
	result.weights = 4 * policy.ParameterCount(engine.Config())
	if result.Arithmetic = engine.Arithmetic(); result.Arithmetic.Backend == backend.CPU {
		result.Ceiling = bench.MeasureCPU(threads, o.For, result.pairs(), result.weights)
	}
	result.Rates, err = bench.Sample(ctx, engine, o.Options)
	return err
}

func printBenchmark(out io.Writer, b benchmark, o bench.Options) error {
	where := b.Arithmetic.Backend
	if b.Arithmetic.Device != "" {
		where += ", " + b.Arithmetic.Device
	} else {
		where += ", " + plural.Count(b.Threads, "thread")
	}
	if b.Arithmetic.Backend == backend.CPU && b.Arithmetic.Products != "" {
		units := "on matrix units"
		if on, why := gemm.MatrixUnits(); !on {
			units = "not on matrix units, for " + why
		}
		where += fmt.Sprintf(", products in %s %s", b.Arithmetic.Products, units)
	}
	fmt.Fprintf(out, "engine    %s; prompts of %d tokens, responses of %d\n", where, o.PromptTokens, o.NewTokens)
	if b.Ceiling.GFLOPs > 0 {
		fmt.Fprintf(out, "ceiling   %.0f GFLOP/s in products, %.1f GB/s in reads as large as the weights; the highest rates measured, alone or during the work\n", b.Ceiling.GFLOPs, b.Ceiling.GBs)
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "work\tbatch\ttokens/s\tseconds\tGFLOP/s\tGB/s\tof ceiling")
	for _, r := range b.Rates {
		rate, share := "", ""
		if r.TokensPerSecond > 0 {
			rate = fmt.Sprintf("%.0f", r.TokensPerSecond)
		}
		if r.Share > 0 {
			share = fmt.Sprintf("%.0f %%", 100*r.Share)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%.3g\t%.1f\t%.1f\t%s\n", r.Work, r.Batch, rate, r.Seconds, r.GFLOPs, r.GBs, share)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if t := b.Iteration; t != nil {
		var tasks []string
		for _, task := range t.Tasks {
			tasks = append(tasks, fmt.Sprintf("%s %.2g", task.Stage, task.Minutes))
		}
		fmt.Fprintf(out, "iteration at most %s; minutes per task: %s\n", plural.Count(t.Responses, "response"), strings.Join(tasks, ", "))
		fmt.Fprintf(out, "request   --set %s\n", strings.Join(t.settings(), " --set "))
	}
	return nil
}
