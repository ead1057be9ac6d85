package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/stat"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/report"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
)

// EvalOptions are those of lathe eval.
type EvalOptions struct {
	RecipeOptions        // of the environment and the held-out problems
	Policy        string // folder
	Remote        string // address of a server that samples; empty for our engine
	RemoteModel   string // that the server is asked for
	HeldOut       string // set of the recipe's evaluation; empty is the test split
	Problems      int    // 0 is the recipe's
	Samples       int    // of each problem; 0 is the recipe's
	Steps         *int   // of self-improvement; nil is the recipe's
	Out           string // Parquet file for every response; empty is none
	Threads       int    // of the engine; 0 is all
	JSON          bool
}

func evalCommand() *cli.Command {
	var o EvalOptions
	return cmdline.Help{
		Example: "lathe eval --recipe jobs/quickstart.yaml --policy runs/quickstart/policy/v000000 --problems 64 --steps 2",
		Exits:   cmdline.Exits(exitcode.Data, exitcode.Unavailable, exitcode.Stopped),
	}.Command(&cli.Command{
		Name: "eval", Usage: "evaluate a policy on a recipe's held-out problems, with revisions",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "recipe", Usage: "`RECIPE` that names the environment and the held-out problems", Destination: &o.Recipe},
			cmdline.SetFlag(&o.Set),
			&cli.StringFlag{Name: "policy", Usage: "policy `FOLDER`", Destination: &o.Policy},
			&cli.StringFlag{Name: "remote", Usage: "sample from the OpenAI-compatible chat server at `URL`; --policy then gives the tokenizer", Destination: &o.Remote},
			&cli.StringFlag{Name: "remote-model", Usage: "model `NAME` on the server", Destination: &o.RemoteModel},
			&cli.StringFlag{Name: "held-out", Usage: "evaluate `SET` of evaluation.sets; default: the test split", Destination: &o.HeldOut},
			&cli.IntFlag{Name: "problems", Usage: "number of problems; 0 uses the recipe's", Destination: &o.Problems},
			&cli.IntFlag{Name: "samples", Usage: "samples per problem; 0 uses the recipe's", Destination: &o.Samples},
			cmdline.NumberFlag("steps", "number of revisions; default: the recipe's", &o.Steps),
			&cli.StringFlag{Name: "out", Usage: "also write every response to a Parquet `FILE`", Destination: &o.Out},
			cmdline.ThreadsFlag(&o.Threads), cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.NoArguments(func(c *cli.Context) error { return Eval(c.Context, c.App.Writer, o) }),
	})
}

// evaluated is what lathe eval prints.
type evaluated struct {
	Policy   string `json:"policy"`
	Problems int    `json:"problems"`
	Samples  int    `json:"samples"`
	// Means over problems and samples, by revision; null where no prompt left
	// room for a response.
	AccuracyByStep []*float64           `json:"accuracy_by_step"`
	GreedyByStep   []*float64           `json:"greedy_accuracy_by_step,omitempty"`
	AccuracyByKind map[string]float64   `json:"accuracy_by_kind"` // first answers
	Outcomes       map[string]int       `json:"outcomes"`
	Submissions    *measure.Submissions `json:"submissions,omitempty"` // of tasks with leaderboards
	Seconds        float64              `json:"seconds"`
}

// Eval measures a policy on held-out problems.
func Eval(ctx context.Context, out io.Writer, o EvalOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.Remote != "" {
		server := fmt.Sprintf("rollout.remote={server: openai, api: chat, logprobs: none, ready_seconds: 30, url: %q, model: %q}", o.Remote, o.RemoteModel)
		o.Set = append([]string{server}, o.Set...) // other fields of it may follow
	}
	p, err := plain.Open("lathe", o.Recipe, o.Set, o.Threads)
	if err != nil {
		return err
	}
	defer p.Close()
	measured, err := p.Recipe.Evaluation.Of(o.HeldOut)
	if err != nil {
		return err
	}
	spec := &measured.Evaluation
	o.change(spec)
	if spec.Problems == 0 {
		return exitcode.Usagef("the recipe evaluates no problems: give --problems, up to %d", len(p.Env.Set().Tasks(env.Split(measured.Set))))
	}
	settings := rollout.SettingsOf(p.Recipe)
	settings.Evaluation = measured.Only()
	sampler, err := rollout.OpenSampler(ctx, settings, p.Job.Process, o.Policy, p.Env.Traits().Turns)
	if err != nil {
		return err
	}
	defer sampler.Close()
	started := time.Now()
	rows, err := evaluate.Measure(ctx, settings, p.Env, sampler, 0, spec.Problems, 0)
	if err != nil {
		return err
	}
	result := summarize(rows, spec.Steps)
	result.Policy, result.Problems, result.Samples, result.Seconds = o.Policy, spec.Problems, spec.Samples, time.Since(started).Seconds()
	result.Submissions = measure.SubmissionsOf(rows, spec.Seconds)
	// The result was costly and is printed first: what --out names may turn out
	// to have other contents.
	if err := o.print(out, result, spec.Temperature); err != nil || o.Out == "" {
		return err
	}
	m := p.Job.Manifest("evaluate", 0, 0, 1, started)
	if err := sampler.Note(&m); err != nil {
		return err
	}
	_, err = shard.Write(o.Out, rows, nil, p.Job.Attempt, m)
	return err
}

// check refuses invalid options, before any work.
func (o EvalOptions) check() error {
	err := cmp.Or(
		cmdline.Required("recipe", o.Recipe, "policy", o.Policy),
		cmdline.AtLeast(0, "problems", o.Problems), cmdline.AtLeast(0, "samples", o.Samples),
	)
	if err == nil && (o.Remote == "") != (o.RemoteModel == "") {
		err = cmdline.Misusef("--remote and --remote-model go together")
	}
	if err == nil && o.Steps != nil {
		err = cmdline.AtLeast(0, "steps", *o.Steps)
	}
	if err == nil && o.Out != "" {
		err = plain.CheckOut(seal.KindFile, o.Out)
	}
	if err != nil {
		return err
	}
	return plain.CheckPolicy(o.Policy)
}

// change makes of the recipe's evaluation the one that is asked for.
func (o EvalOptions) change(spec *recipe.Evaluation) {
	spec.Problems = cmp.Or(o.Problems, spec.Problems)
	spec.Samples = cmp.Or(o.Samples, spec.Samples)
	if o.Steps != nil {
		spec.Steps = *o.Steps
	}
}

func (o EvalOptions) print(out io.Writer, result evaluated, temperature float64) error {
	if o.JSON {
		return cmdline.WriteJSON(out, result)
	}
	fmt.Fprintf(out, "%s on %s, avg@%d at temperature %g\n", result.Policy, plural.Count(result.Problems, "held-out problem"), result.Samples, temperature)
	for step, accuracy := range result.AccuracyByStep {
		fmt.Fprintf(out, "  after %s  %s", plural.Count(step, "revision"), share(accuracy))
		if len(result.GreedyByStep) > step {
			fmt.Fprintf(out, "  greedy %s", share(result.GreedyByStep[step]))
		}
		fmt.Fprintln(out)
	}
	if n := result.Outcomes[string(shard.OutcomeNoRoom)]; n > 0 {
		fmt.Fprintf(out, "%s had no room because the prompt fills the policy's context; the numbers exclude %s\n", plural.Of(n, result.responses(), "response"), plural.Verb(n, "it", "them"))
	}
	if result.Submissions != nil {
		return report.PrintSubmissions(out, *result.Submissions)
	}
	return nil
}

// share prints a share of answers.
func share(x *float64) string {
	if x == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.4f", *x)
}

// responses counts those of all outcomes.
func (e evaluated) responses() (n int) {
	for _, count := range e.Outcomes {
		n += count
	}
	return n
}

// averages are means by name; what nothing is known of has none.
type averages[K comparable] map[K][]float64

func (a averages[K]) add(of K, value float64) { a[of] = append(a[of], value) }

func (a averages[K]) mean(of K) *float64 {
	if len(a[of]) == 0 {
		return nil
	}
	m := stat.Mean(a[of], nil)
	return &m
}

func summarize(rows []shard.EvaluationRow, steps int) evaluated {
	result := evaluated{AccuracyByKind: map[string]float64{}, Outcomes: map[string]int{}}
	sampled, greedy, kinds := averages[int32]{}, averages[int32]{}, averages[string]{}
	for _, row := range rows {
		measured := shard.Outcome(row.Outcome).Policys()
		switch {
		case row.Sample != rollout.GreedySample:
			result.Outcomes[row.Outcome]++
			if measured {
				sampled.add(row.Step, row.Score)
			}
			if measured && row.Step == 0 {
				kinds.add(row.Kind, row.Score)
			}
		case measured:
			greedy.add(row.Step, row.Score)
		}
	}
	for step := range int32(steps + 1) {
		result.AccuracyByStep = append(result.AccuracyByStep, sampled.mean(step))
		if len(greedy) > 0 {
			result.GreedyByStep = append(result.GreedyByStep, greedy.mean(step))
		}
	}
	for kind := range kinds {
		result.AccuracyByKind[kind] = *kinds.mean(kind)
	}
	return result
}
