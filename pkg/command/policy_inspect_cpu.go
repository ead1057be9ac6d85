package command

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
)

// cpuPlans are the plans of the tasks that train a policy on the CPU.
type cpuPlans struct {
	Tokens int       `json:"tokens"` // of the longest sequence that is learned from
	Plans  []cpuPlan `json:"plans"`
}

// cpuPlan is what a task with one engine holds.
type cpuPlan struct {
	Work string `json:"work"`
	learn.CPUPlan
}

// planCPU plans the tasks of a recipe on a policy of a shape, whose weights are mostly
// stored in one type. Sequences of 0 tokens are taken to be what the recipe bounds them to.
func planCPU(r recipe.Recipe, config policy.Config, stored map[safetensors.DType]int, longest int) *cpuPlans {
	plans := &cpuPlans{Tokens: cmp.Or(longest, contextTokens(r, config))}
	settings := learn.SettingsOf(r)
	for _, work := range engineWork(r, stored, plans.Tokens) {
		if work.Generate {
			continue
		}
		shape := config
		if work.shape != nil {
			shape = *work.shape
		}
		k := backend.CPUCase{
			DType: cmp.Or(work.DType, mostStored(stored)), State: work.State, Compute: backend.DTypes[r.Policy.Compute], Train: work.Train,
			ValueHead: work.ValueHead, LoRA: work.LoRA, Threads: max(1, graph.Graph{Recipe: r}.Request(work.stage()).CPUs), Workload: work.Workload,
		}
		if r.Policy.Compute == backend.Auto {
			k.Compute = k.DType
		}
		if work.stage() != graph.StageWarm {
			k.Tokens = unitTokens(r, plans.Tokens)
		}
		plans.Plans = append(plans.Plans, cpuPlan{work.name, learn.PlanCPU(settings, shape, k)})
	}
	return plans
}

// mostStored is the type of most weights; float32 where it is as many.
func mostStored(stored map[safetensors.DType]int) safetensors.DType {
	most := safetensors.F32
	for _, d := range []safetensors.DType{safetensors.BF16, safetensors.F16} {
		if stored[d] > stored[most] {
			most = d
		}
	}
	return most
}

// contextTokens is what the recipe bounds a sequence to: rollout.max_context_tokens, or
// else a prompt as long as the responses to it may be.
func contextTokens(r recipe.Recipe, c policy.Config) int {
	tokens := 0
	for _, turn := range r.Rollout.NewTokens() {
		tokens += 2 * turn
	}
	if most := r.Rollout.Context(c.MaxPositionEmbeddings); r.Rollout.MaxContextTokens > 0 || tokens == 0 {
		return most
	}
	return min(tokens, c.MaxPositionEmbeddings)
}

// unitTokens bounds the tokens of a gradient unit where each response is one sequence; 0
// where a trace may have more.
func unitTokens(r recipe.Recipe, longest int) int {
	if r.Scaffold.Steps > 0 || r.Scaffold.Seconds > 0 {
		return 0
	}
	sequences, units := cmp.Or(r.BatchSegments(), r.Rollout.Prompts*r.Rollout.Group), r.Loss.MiniBatches*r.Schedule.GradientUnits
	return (sequences + units - 1) / max(1, units) * longest
}

// held is what tasks hold by stage: a critic that is a model of its own is held beside the
// policy, others are open before it.
func (p *cpuPlans) held(inParts bool) map[graph.Stage]int64 {
	held := map[graph.Stage]int64{}
	training := []graph.Stage{graph.StageGradient}
	if !inParts {
		training = append(training, graph.StageLearn)
	}
	for _, one := range p.Plans {
		switch stage := graph.Stage(one.Work); stage {
		case graph.StageWarm, graph.StageGradient, graph.StageLearn:
			held[stage] = one.TotalBytes
		default:
			for _, stage := range training {
				if held[stage] == 0 {
					continue // there is no such task
				}
				if one.Work == criticWork {
					held[stage] += one.TotalBytes
				} else {
					held[stage] = max(held[stage], one.TotalBytes)
				}
			}
		}
	}
	return held
}

// printCPU writes plans for people.
func printCPU(w io.Writer, p *cpuPlans) error {
	gigabytes := func(bytes int64) string { return fmt.Sprintf("%.2f", float64(bytes)/(1<<30)) }
	fmt.Fprintf(w, "  on the CPU, for sequences of at most %s, in GiB:\n", plural.Count(p.Tokens, "token"))
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  \tweights\tgradients\ttheir sums\toptimizer\tactivations\thead\tother\tcopies\ttotal\t")
	for _, one := range p.Plans {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", one.Work, gigabytes(one.WeightBytes), gigabytes(one.GradientBytes), gigabytes(one.SumBytes),
			gigabytes(one.StateBytes), gigabytes(one.ActivationBytes), gigabytes(one.HeadBytes), gigabytes(one.OtherBytes), gigabytes(one.CopyBytes), gigabytes(one.TotalBytes))
	}
	return table.Flush()
}
