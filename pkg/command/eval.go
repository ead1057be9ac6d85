package command

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/evaluate"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
)

func evalCommand() *cli.Command {
	return &cli.Command{
		Name: "eval", Usage: "measure a policy on the held-out problems of a recipe, with self-improvement steps",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "recipe", Usage: "`RECIPE` with the environment and the held-out problems"},
			&cli.StringSliceFlag{Name: "set", Usage: "recipe setting `FIELD=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "policy", Usage: "policy `FOLDER`"},
			&cli.IntFlag{Name: "problems", Usage: "number of problems; 0 takes the recipe's"},
			&cli.IntFlag{Name: "samples", Usage: "samples per problem; 0 takes the recipe's"},
			&cli.IntFlag{Name: "steps", Usage: "self-improvement steps; the recipe's when left out"},
			&cli.StringFlag{Name: "out", Usage: "also write every response to this Parquet `FILE`"},
			&cli.IntFlag{Name: "threads", Usage: "engine `THREADS`; 0 takes all"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: eval,
	}
}

// evaluated is what lathe eval prints.
type evaluated struct {
	Policy         string             `json:"policy"`
	Problems       int                `json:"problems"`
	Samples        int                `json:"samples"`
	AccuracyByStep []float64          `json:"accuracy_by_step"` // mean over problems and samples, by self-improvement step
	GreedyByStep   []float64          `json:"greedy_accuracy_by_step,omitempty"`
	AccuracyByKind map[string]float64 `json:"accuracy_by_kind"` // first answers
	Outcomes       map[string]int     `json:"outcomes"`
	Seconds        float64            `json:"seconds"`
}

func eval(c *cli.Context) error {
	values, err := need(c, "recipe", "policy")
	if err != nil {
		return err
	}
	if err := atLeast(c, 0, "problems", "samples", "steps"); err != nil {
		return err
	}
	out := c.String("out")
	if out != "" {
		if err := checkOut(seal.KindFile, out); err != nil {
			return err
		}
	}
	if err := checkPolicy(values["policy"]); err != nil {
		return err
	}
	p, err := openPlain(c)
	if err != nil {
		return err
	}
	spec := &p.job.Recipe.Evaluation
	changeEvaluation(c, spec)
	if spec.Problems == 0 {
		return exitcode.Usagef("the recipe evaluates no problems: give --problems, up to %d", len(p.world.Tasks(env.Test)))
	}
	sampler, err := rollout.OpenSampler(c.Context, p.job, values["policy"], p.world.Traits().Turns)
	if err != nil {
		return err
	}
	defer sampler.Close()
	started := time.Now()
	rows, err := evaluate.Measure(c.Context, p.job, p.world, sampler, 0, spec.Problems, 0)
	if err != nil {
		return err
	}
	result := summarize(rows, spec.Steps)
	result.Policy, result.Problems, result.Samples, result.Seconds = values["policy"], spec.Problems, spec.Samples, time.Since(started).Seconds()
	// The result was costly and is printed first: what --out names may turn out
	// to have other contents.
	if err := printEvaluated(c, result, spec.Temperature); err != nil || out == "" {
		return err
	}
	m := p.job.Manifest("evaluate", 0, 0, 1, started)
	if err := sampler.Note(&m); err != nil {
		return err
	}
	_, err = shard.Write(out, rows, nil, p.job.Attempt, m)
	return err
}

// changeEvaluation makes of the recipe's evaluation the one that the flags ask
// for.
func changeEvaluation(c *cli.Context, spec *recipe.Evaluation) {
	if n := c.Int("problems"); n > 0 {
		spec.Problems = n
	}
	if n := c.Int("samples"); n > 0 {
		spec.Samples = n
	}
	if c.IsSet("steps") {
		spec.Steps = c.Int("steps")
	}
}

func printEvaluated(c *cli.Context, result evaluated, temperature float64) error {
	if c.Bool("json") {
		return writeJSON(stdout, result)
	}
	fmt.Fprintf(stdout, "%s on %d held-out problems, avg@%d at temperature %g\n", result.Policy, result.Problems, result.Samples, temperature)
	for step, accuracy := range result.AccuracyByStep {
		fmt.Fprintf(stdout, "  after %d improve steps  %.4f", step, accuracy)
		if len(result.GreedyByStep) > step {
			fmt.Fprintf(stdout, "  greedy %.4f", result.GreedyByStep[step])
		}
		fmt.Fprintln(stdout)
	}
	return nil
}

func summarize(rows []shard.EvaluationRow, steps int) evaluated {
	result := evaluated{AccuracyByKind: map[string]float64{}, Outcomes: map[string]int{}, AccuracyByStep: make([]float64, steps+1)}
	counts, greedyCounts := make([]int, steps+1), make([]int, steps+1)
	greedy := make([]float64, steps+1)
	kindCounts := map[string]int{}
	for _, row := range rows {
		if row.Sample == rollout.GreedySample {
			greedy[row.Step] += row.Score
			greedyCounts[row.Step]++
			continue
		}
		result.AccuracyByStep[row.Step] += row.Score
		counts[row.Step]++
		result.Outcomes[row.Outcome]++
		if row.Step == 0 {
			result.AccuracyByKind[row.Kind] += row.Score
			kindCounts[row.Kind]++
		}
	}
	for step := range counts {
		result.AccuracyByStep[step] /= float64(max(1, counts[step]))
		if greedyCounts[step] > 0 {
			result.GreedyByStep = append(result.GreedyByStep, greedy[step]/float64(greedyCounts[step]))
		}
	}
	for kind, n := range kindCounts {
		result.AccuracyByKind[kind] /= float64(n)
	}
	return result
}
