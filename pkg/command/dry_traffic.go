package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/simulate"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// fileRates are those of the file systems that a dry run counts seconds for, in GB/s of all
// tasks together: a server, a parallel file system, a large one.
var fileRates = []float64{2, 10, 50}

// stageTraffic is what the tasks of a stage move through the file system in an iteration,
// of the files that grow with the policy.
type stageTraffic struct {
	Stage         graph.Stage
	Tasks         int
	Read, Written int64
	Held          int64 // by a task in the host's memory, at most; 0 for what a GPU holds
}

// seconds is how long it takes at a rate in GB/s.
func (t stageTraffic) seconds(rate float64) float64 { return float64(t.Read+t.Written) / (rate * 1e9) }

// trafficOf is that of an iteration in which the optimizer has a state: the second, or the
// only one. It is empty without iterations.
func trafficOf(g graph.Graph, s simulate.Sizes, held map[graph.Stage]int64) []stageTraffic {
	k := min(2, g.Recipe.Schedule.Iterations)
	if k == 0 {
		return nil
	}
	var all []stageTraffic
	for _, n := range append(g.Waved(graph.Node{Stage: graph.StageRollout, Iteration: k}), g.LearnNodes(k)...) {
		read, written := s.Traffic(g, n)
		if read+written == 0 {
			continue
		}
		i := slices.IndexFunc(all, func(t stageTraffic) bool { return t.Stage == n.Stage })
		if i < 0 {
			i = len(all)
			all = append(all, stageTraffic{Stage: n.Stage, Held: held[n.Stage]})
		}
		all[i].Tasks += g.Shards(n)
		all[i].Read += read
		all[i].Written += written
	}
	return all
}

// printTraffic writes the traffic of an iteration by stage, and its seconds.
func printTraffic(out io.Writer, all []stageTraffic) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nfiles of policies, gradients and optimizer states, read and written in an iteration; seconds at the rate of the file system, all tasks together:\n")
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "STAGE\tTASKS\tREAD\tWRITTEN")
	for _, rate := range fileRates {
		fmt.Fprintf(table, "\tAT %g GB/s", rate)
	}
	fmt.Fprintln(table, "\tHELD BY A TASK\t")
	total := stageTraffic{Stage: "total"}
	for _, t := range all {
		total.Tasks, total.Read, total.Written = total.Tasks+t.Tasks, total.Read+t.Read, total.Written+t.Written
	}
	for _, t := range append(all, total) {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s", t.Stage, t.Tasks, size(t.Read), size(t.Written))
		for _, rate := range fileRates {
			fmt.Fprintf(table, "\t%s s", digits(t.seconds(rate)))
		}
		fmt.Fprintf(table, "\t%s\t\n", size(t.Held))
	}
	return table.Flush()
}

// printWaves says what the tasks of rollouts read in each wave.
func printWaves(out io.Writer, g graph.Graph, policy int64) error {
	waves, shards := g.Waves(graph.StageRollout), g.Shards(graph.Node{Stage: graph.StageRollout, Iteration: 1})
	if g.Recipe.Schedule.Iterations == 0 || waves == 1 {
		return nil
	}
	_, err := fmt.Fprintf(out, "rollout: each of %d tasks opens the policy, %s, in each of %d waves, %s of the above: no task keeps its GPU while programs are scored. A task whose traces have all ended has no further wave, so that less is read. With fewer rollout.shards less is read too, and a task of score has more programs; the results are the same.\n",
		shards, size(policy), waves, size(int64(shards)*int64(waves)*policy))
	return err
}

// digits writes a positive number with three digits, or all of those before the point.
func digits(x float64) string {
	if x >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// partsHeld is what the tasks of an update in parts hold of the host's memory, in bytes. It is empty
// for an update in one task, and for a policy that is not there.
func partsHeld(g graph.Graph, folder string) (map[graph.Stage]int64, error) {
	if !g.InParts() || folder == "" {
		return map[graph.Stage]int64{}, nil
	}
	p, err := learn.PartsOf(learn.SettingsOf(g.Recipe), folder)
	if err != nil {
		return nil, err
	}
	sum, apply := p.Held(g.Recipe.Schedule.GradientUnits, g.Recipe.Schedule.GradientShards, g.Shards(graph.Node{Stage: graph.StageApply}))
	return map[graph.Stage]int64{graph.StageSum: sum, graph.StageApply: apply}, nil
}

// checkHeld refuses tasks that hold more of the host's memory than they request: what is known of
// is a policy's parts, and sums of gradients that found no place on a GPU.
func checkHeld(g graph.Graph, held map[graph.Stage]int64) error {
	var problems []string
	for _, stage := range graph.Stages() {
		if gib, request := float64(held[stage])/(1<<30), g.Request(stage).MemoryGB; gib > request {
			problems = append(problems, fmt.Sprintf("resources.stages.%s.memory_gb: got %g, and a task of %s holds %.1f GiB", stage.Resources(), request, stage, gib))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return exitcode.WithHint(exitcode.Usagef("%s", strings.Join(problems, "\n  ")),
		"request more; tasks of gradient hold less with more schedule.gradient_shards, those of sum and apply with more schedule.apply_shards on smaller files: lathe policy convert --model %s --out FOLDER --max-file-mb 2000", g.Recipe.Policy.Path)
}

// spilled is what tasks hold in the host's memory, by plans for a GPU, whose works are called
// as stages are: sums of gradients, inputs of blocks and optimizer state that found no place on
// the GPU and, with an optimizer, the weights in float32 on their way to files.
func spilled(plans []gpuPlan) map[graph.Stage]int64 {
	held := map[graph.Stage]int64{}
	for _, p := range plans {
		if p.Plan == nil {
			continue
		}
		bytes := p.Plan.SpilledBytes
		if p.Plan.OptimizerBytes() > 0 {
			bytes += p.Plan.GradientBytes
		}
		held[graph.Stage(p.Work)] = bytes
	}
	return held
}

// sizes are what a simulation counts with.
func (s storage) sizes(r recipe.Recipe) simulate.Sizes {
	sizes := simulate.Sizes{Policy: s.Base + s.Weights, Trained: s.Weights, Optimizer: s.Optimizer, Gradient: s.Gradient}
	if r.Policy.Critic == recipe.CriticModel {
		sizes.Trained, sizes.Optimizer, sizes.Gradient = 2*sizes.Trained, 2*sizes.Optimizer, 2*sizes.Gradient
	}
	return sizes
}
