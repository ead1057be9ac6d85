package command

import (
	"fmt"
	"io"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/bench"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/site"
)

// What an estimate takes a core and a GPU to do where nothing was measured, in operations a
// second, and what it takes a task to start.
const (
	assumedCore         = 20e9
	assumedGPU          = 50e12
	assumedStartSeconds = 1
)

// assumed are rates of a policy on one core, or one GPU, by the operations of a token: two
// for each weight to read or write it, six to train on it. newTokens stand for its prompt too,
// as storage counts them.
func assumed(shape policy.Config, newTokens int, perSecond float64) benchmark {
	weights := float64(policy.ParameterCount(shape))
	rate := func(work string, operations float64) bench.Rate {
		return bench.Rate{Work: work, Batch: 1, TokensPerSecond: perSecond / operations, Seconds: operations / perSecond}
	}
	return benchmark{PromptTokens: newTokens, ContextTokens: shape.MaxPositionEmbeddings, Rates: []bench.Rate{
		rate(bench.Prefill, 2*weights), rate(bench.Decode, 2*weights), rate(bench.Train, 6*weights), rate(bench.Update, 20*weights),
	}}
}

// printEstimate writes what a run probably takes, beside the bound that its time limits are.
func (o LaunchOptions) printEstimate(out io.Writer, g graph.Graph, shape policy.Config, p site.Profile) error {
	seconds := assumedSeconds(g, shape)
	basis := fmt.Sprintf("assuming %g GFLOP/s per core and %g TFLOP/s per GPU (to use measured rates: --rates FILE, printed by lathe policy bench --json)", assumedCore/1e9, assumedGPU/1e12)
	if o.Rates != "" {
		measured, err := readRates(o.Rates)
		if err != nil {
			return err
		}
		basis = "at the rates in " + o.Rates
		clear(seconds)
		for _, t := range measured.estimate(g.Recipe).Tasks {
			seconds[t.Stage] = t.Minutes * 60
		}
	}
	c, err := costOf(g, seconds, p)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "estimate: %.2g core-hours, %.2g GPU-hours, %.2g hours with arrays one after the other, %s; %s\n", c.cores, c.gpus, c.wall, basis, estimateOf)
	return err
}

// estimateOf says what an estimate is of.
var estimateOf = fmt.Sprintf("includes responses of maximum length and %d s to start each task, excludes the time of programs that score", assumedStartSeconds)

// assumedSeconds are those that a task of each stage takes on what it requests, by the rates
// that are assumed where nothing was measured.
func assumedSeconds(g graph.Graph, shape policy.Config) map[graph.Stage]float64 {
	seconds := map[graph.Stage]float64{}
	newTokens := g.Recipe.Rollout.NewTokens()[0]
	onCore, onGPU := assumed(shape, newTokens, assumedCore).estimate(g.Recipe), assumed(shape, newTokens, assumedGPU).estimate(g.Recipe)
	for i, t := range onCore.Tasks {
		seconds[t.Stage] = t.Minutes * 60 / float64(max(1, g.Request(t.Stage).CPUs))
		if q := g.Request(t.Stage); q.GPUs > 0 {
			seconds[t.Stage] = onGPU.Tasks[i].Minutes * 60 / float64(q.GPUs)
		}
	}
	return seconds
}

// cost is what a run takes, in hours: wall with arrays one after the other.
type cost struct{ cores, gpus, wall float64 }

// costOf sums up the tasks of a run by the seconds of each stage's.
func costOf(g graph.Graph, seconds map[graph.Stage]float64, p site.Profile) (c cost, err error) {
	for _, n := range g.Nodes() {
		q, tasks := g.Request(n.Stage), g.Shards(n)
		hours := min((assumedStartSeconds+seconds[n.Stage])/3600, budgetHours(g, n, q))
		atOnce, err := atOnce(n.Stage, q, p)
		if err != nil {
			return c, err
		}
		c.cores += float64(tasks*max(1, q.CPUs)) * hours
		c.gpus += float64(tasks*q.GPUs) * hours
		c.wall += float64((tasks+atOnce-1)/atOnce) * hours
	}
	return c, nil
}
