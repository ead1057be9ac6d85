package command

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/paper"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/site"
)

// publishedShapes are those of the policies that the papers train, as their config.json has
// them: an estimate needs no more of one that is not there.
var publishedShapes = map[string]policy.Config{
	"Llama-3.2-3B-Instruct": published(policy.Llama, 128256, 3072, 8192, 28, 24, 8, 131072, true),
	"Llama-3.1-8B-Instruct": published(policy.Llama, 128256, 4096, 14336, 32, 32, 8, 131072, false),
	"Qwen2.5-3B-Instruct":   published(policy.Qwen2, 151936, 2048, 11008, 36, 16, 2, 32768, true),
	"Qwen2.5-7B-Instruct":   published(policy.Qwen2, 152064, 3584, 18944, 28, 28, 4, 32768, false),
	"QwQ-32B":               published(policy.Qwen2, 152064, 5120, 27648, 64, 40, 8, 40960, false),
	"Qwen3-8B":              published(policy.Qwen3, 151936, 4096, 12288, 36, 32, 8, 40960, false),

	"DeepSeek-R1-Distill-Qwen-7B": published(policy.Qwen2, 152064, 3584, 18944, 28, 28, 4, 131072, false),
	"Qwen3-4B-Instruct-2507":      published(policy.Qwen3, 151936, 2560, 9728, 36, 32, 8, 262144, true),
}

// published is a shape with heads of 128 dimensions.
func published(a policy.Architecture, vocabulary, hidden, intermediate, layers, heads, keyValueHeads, context int, tied bool) policy.Config {
	c := policy.Config{
		Architecture: a, VocabSize: vocabulary, HiddenSize: hidden, IntermediateSize: intermediate, NumHiddenLayers: layers,
		NumAttentionHeads: heads, NumKeyValueHeads: keyValueHeads, HeadDim: 128, MaxPositionEmbeddings: context, RMSNormEps: 1e-6, RopeTheta: 1e6,
		TieWordEmbeddings: tied, QKVBias: a == policy.Qwen2,
	}
	if a == policy.Qwen3 {
		c.QKNorm = policy.QKNormHead
	}
	return c
}

// plannedRun is what one run of a recipe would take.
type plannedRun struct {
	recipe, policy, memory string
	cost
}

// paperPlan prints the runs that tables and figures of a paper need: all of them, or those
// that have one of some items.
func paperPlan(out io.Writer, jobs, name string, items []string) error {
	covered, err := paper.Covering(name)
	if err != nil {
		return err
	}
	for _, item := range items {
		if !slices.ContainsFunc(covered, func(c paper.Covered) bool { return has(c, item) }) {
			return exitcode.Usagef("lathe paper %s has no item %q: lathe paper %s --plan lists all", name, item, name)
		}
	}
	known := map[string]plannedRun{}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, c := range covered {
		if len(items) > 0 && !slices.ContainsFunc(items, func(item string) bool { return has(c, item) }) {
			continue
		}
		fmt.Fprintf(table, "%s: %s\n", c.Item, c.What)
		if c.Items == "" {
			fmt.Fprintf(table, "  %s: %s\n", c.Made(), c.Note)
			continue
		}
		for _, size := range []struct{ name, patterns string }{{"full size", c.Full}, {"miniature", c.Mini}} {
			recipes, err := paper.Recipes(jobs, size.patterns)
			if err != nil {
				return err
			}
			if len(recipes) == 0 {
				continue
			}
			fmt.Fprintf(table, "  %s\tPOLICY\tCORE-HOURS\tGPU-HOURS\tHOURS\tGPU MEMORY\n", size.name)
			for _, path := range recipes {
				run, there := known[path]
				if !there {
					if run, err = estimateRun(path); err != nil {
						return fmt.Errorf("planning %q: %w", path, err)
					}
					known[path] = run
				}
				fmt.Fprintf(table, "    %s\t%s\t%.2g\t%.2g\t%.2g\t%s\n", run.recipe, run.policy, run.cores, run.gpus, run.wall, run.memory)
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nOne run of each recipe, without limits of a site: hours with arrays one after the other, assuming %g GFLOP/s per core and %g TFLOP/s per GPU; %s. GPU memory is that of contexts as long as rollout.max_context_tokens or, without it, as the policy takes: lathe policy inspect --gpu SIZE --tokens N plans shorter ones.\nLATHE_MODELS and LATHE_DATA name the folders of policies and data: lathe run RECIPE --run RUN --dry-run estimates by what is there.\n",
		assumedCore/1e9, assumedGPU/1e12, estimateOf)
	return err
}

// has reports whether an item of lathe paper is one of a table or figure.
func has(c paper.Covered, item string) bool {
	return slices.Contains(strings.Fields(strings.ReplaceAll(c.Items, ",", " ")), item)
}

// estimateRun estimates a run of a recipe, whose policy need not be there.
func estimateRun(path string) (plannedRun, error) {
	resolved, err := recipe.Load(path, nil)
	if err != nil {
		return plannedRun{}, err
	}
	r := resolved.Recipe
	run := plannedRun{recipe: path, policy: "new", memory: "–"}
	if r.Policy.Path != "" {
		run.policy = filepath.Base(r.Policy.Path)
	}
	shape, isPublished := publishedShapes[run.policy]
	stored := map[safetensors.DType]int{safetensors.BF16: policy.ParameterCount(shape)}
	if !isPublished {
		if r.Policy.Path != "" && r.Policy.New == nil { // such as a policy of an earlier run
			run.policy += ", not estimated"
			return run, nil
		}
		own, kept, err := startShape(r, "")
		if err != nil {
			return run, err
		}
		shape, stored = *own, kept
	}
	s := storageOf(r, shape, stored)
	r.SettleApplyShards(s.Weights+s.Gradient+s.Optimizer, 1+int(s.Weights/4e9)) // as policies are published
	g := graph.Graph{Recipe: r}
	if run.cost, err = costOf(g, assumedSeconds(g, shape), site.Profile{}); err != nil || r.Policy.Backend == backend.CPU || !isPublished {
		return run, err
	}
	run.memory = "more than 288 GiB"
	for _, gigabytes := range []int64{80, 96, 141, 192, 288} {
		plans, err := plansFor(r, shape, stored, 0, gigabytes<<30)
		if err != nil {
			return run, err
		}
		if !slices.ContainsFunc(plans, func(p gpuPlan) bool { return p.Plan == nil }) {
			run.memory = fmt.Sprintf("fits %d GiB", gigabytes)
			break
		}
	}
	return run, nil
}
