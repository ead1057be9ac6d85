package command

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/policy/cuda"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// gpuPlans are the plans of a policy's work on a GPU.
type gpuPlans struct {
	FreeBytes int64        `json:"free_bytes"`
	Device    *cuda.Device `json:"device"` // null for a size that was given
	Plans     []gpuPlan    `json:"plans"`
}

// gpuPlan is one engine: what it would be given, or why it would not start.
type gpuPlan struct {
	Work    string     `json:"work"`
	Plan    *cuda.Plan `json:"plan"`
	Refused string     `json:"refused,omitempty"`
}

// plan plans what --gpu and --cpu ask for, on a policy of a shape whose weights are
// stored in types.
func (o PolicyInspectOptions) plan(config policy.Config, stored map[safetensors.DType]int) (*gpuPlans, *cpuPlans, error) {
	if o.GPU == "" && !o.CPU {
		for _, given := range []struct {
			name string
			is   bool
		}{{"recipe", o.Recipe != ""}, {"set", len(o.Set) > 0}, {"tokens", o.Tokens != 0}} {
			if given.is {
				return nil, nil, cmdline.Misusef("--%s requires --gpu or --cpu", given.name)
			}
		}
		return nil, nil, nil
	}
	settings, err := o.planned()
	if err != nil {
		return nil, nil, err
	}
	var onCPU *cpuPlans
	if o.CPU {
		onCPU = planCPU(settings, config, stored, o.Tokens)
	}
	if o.GPU == "" {
		return nil, onCPU, nil
	}
	onGPU, err := o.planGPU(settings, config, stored)
	return onGPU, onCPU, err
}

// planned are the settings that are planned for.
func (o PolicyInspectOptions) planned() (recipe.Recipe, error) {
	settings := recipe.Defaults()
	if o.Recipe != "" {
		resolved, err := o.load()
		if err != nil {
			return recipe.Recipe{}, err
		}
		settings = resolved.Recipe
		if err := rundir.SettleApplyShards(&settings, o.Model); err != nil {
			return recipe.Recipe{}, err
		}
	} else if len(o.Set) > 0 {
		return recipe.Recipe{}, cmdline.Misusef("--set requires --recipe")
	}
	return settings, cmdline.AtLeast(0, "tokens", o.Tokens)
}

// planGPU plans what --gpu asks for.
func (o PolicyInspectOptions) planGPU(settings recipe.Recipe, config policy.Config, stored map[safetensors.DType]int) (*gpuPlans, error) {
	plans := &gpuPlans{}
	if o.GPU == "auto" {
		device, err := cuda.Find("", 0)
		if err != nil {
			return nil, err
		}
		plans.Device, plans.FreeBytes = &device, device.FreeBytes
	} else {
		var err error
		if plans.FreeBytes, err = bytesOf(o.GPU); err != nil {
			return nil, exitcode.Usagef("--gpu: %w", err)
		}
	}
	var err error
	plans.Plans, err = plansFor(settings, config, stored, o.Tokens, plans.FreeBytes)
	return plans, err
}

// plansFor plans the engines of a recipe's stages, on a GPU with so many bytes
// free.
func plansFor(r recipe.Recipe, config policy.Config, stored map[safetensors.DType]int, longest int, free int64) ([]gpuPlan, error) {
	var plans []gpuPlan
	beside := int64(0) // what a learn task has opened before
	for _, work := range engineWork(r, stored, longest) {
		if work.name != criticWork {
			beside = 0
		}
		planned, shape := gpuPlan{Work: work.name}, config
		if work.shape != nil {
			shape = *work.shape
		}
		plan, err := cuda.PlanFor(shape, work.Case, free-beside)
		switch {
		case err == nil:
			planned.Plan = &plan
			beside += plan.TotalBytes
		case exitcode.Code(err) == exitcode.Unavailable, exitcode.Code(err) == exitcode.Usage:
			planned.Refused = err.Error()
		default:
			return nil, err
		}
		plans = append(plans, planned)
	}
	return plans, nil
}

// work is an engine that a stage opens.
type work struct {
	name  string
	shape *policy.Config // of another policy than the one that is trained; nil for that
	cuda.Case
}

// criticWork is what a critic that is a model of its own is called.
const criticWork = "critic"

// stage is the stage whose tasks open the engine.
func (w work) stage() graph.Stage {
	switch stage := graph.Stage(w.name); stage {
	case graph.StageWarm, graph.StageGradient, graph.StageLearn, graph.StageRollout:
		return stage
	}
	return graph.StageLearn
}

// engineWork lists the engines of a recipe's stages, as the stages open them.
func engineWork(r recipe.Recipe, stored map[safetensors.DType]int, longest int) []work {
	var lora *policy.LoRA
	if l := r.Policy.LoRA; l != nil {
		lora = &policy.LoRA{Rank: l.Rank, Alpha: l.Alpha, Targets: policy.SortTargets(l.Targets), RankStabilized: l.RankStabilized}
	}
	plain := cuda.Case{
		DType: backend.DTypes[r.Policy.DType], Stored: slices.Sorted(maps.Keys(stored)), ValueHead: r.Policy.ValueHead(), LoRA: lora,
	}
	var all []work
	settings := learn.SettingsOf(r)
	learned := longest // no context is longer, but for prompts that a teacher words
	if longest == 0 && !r.Advantage.Teacher.Rewords() {
		learned = r.Rollout.MaxContextTokens
	}
	add := func(name string, optimizer *loss.Optimizer, workload policy.Workload) {
		one := plain
		if one.Workload = workload; optimizer != nil {
			one.Train, one.State = true, backend.DTypes[optimizer.State]
		}
		all = append(all, work{name: name, Case: one})
	}
	if r.WarmStart.Steps > 0 {
		add("warm", &r.WarmStart.Optimizer, warm.Workload(warm.SettingsOf(r), longest))
	}
	sampling := func() []work {
		plain.ValueHead = false
		add("rollout", nil, policy.Workload{Generate: true})
		return all
	}
	if r.Schedule.Iterations == 0 {
		return sampling()
	}
	inParts := r.Schedule.ApplyShards > 1 // then no engine takes an optimizer step
	if inParts || r.Schedule.GradientShards > 1 {
		add("gradient", &r.Optimizer, learn.GradientWorkload(settings, learned))
	}
	if !inParts {
		add("learn", &r.Optimizer, learn.Workload(settings, learned))
	}
	if workload, ok := learn.CriticWorkload(settings, learned); ok {
		if inParts {
			workload.Sums, workload.Gradients = learn.GradientWorkload(settings, learned).Sums, true
		}
		head := plain.ValueHead
		plain.ValueHead = true
		add(criticWork, &r.Optimizer, workload)
		plain.ValueHead = head
	}
	if workload, ok := learn.ReferenceWorkload(settings, learned); ok {
		add("reference", nil, workload)
	}
	if workload, ok := learn.TeacherWorkload(settings, learned); ok {
		add(teacherWork, nil, workload)
		all[len(all)-1].ofTeacher(r)
	}
	return sampling()
}

// teacherWork is what a teacher that is open beside the policy is called.
const teacherWork = "teacher policy"

// ofTeacher gives the work the shape of the recipe's teacher, if its folder can be read
// here: else it is counted as the policy.
func (w *work) ofTeacher(r recipe.Recipe) {
	folder, err := r.ResolveTeacher("")
	if err != nil || folder == "" {
		return
	}
	if shape, stored, err := shapeOf(folder); err == nil && shape != nil {
		w.shape, w.DType, w.LoRA, w.Stored = shape, "", nil, slices.Sorted(maps.Keys(stored))
	}
}

// byteUnits are the suffixes of sizes, longer ones before those that they end in.
var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"", 1},
}

// bytesOf reads a size as 80e9, 80GB or 75GiB.
func bytesOf(text string) (int64, error) {
	for _, unit := range byteUnits {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if bytes := value * unit.bytes; err == nil && bytes >= 1 && bytes < math.MaxInt64 {
			return int64(bytes), nil
		}
		break
	}
	return 0, fmt.Errorf("got %q, want a size such as 80e9, 80GB or 75GiB", text)
}

// printPlans writes plans for people.
func printPlans(w io.Writer, p *gpuPlans) error {
	gigabytes := func(bytes int64) string { return fmt.Sprintf("%.2f", float64(bytes)/(1<<30)) }
	name := "a GPU"
	if p.Device != nil {
		name = p.Device.Name
	}
	fmt.Fprintf(w, "  on %s with %s GiB free, in GiB:\n", name, gigabytes(p.FreeBytes))
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  \tweights\tgradients\ttheir sums\toptimizer\tactivations\thead\tkeys, values\tother\ttotal\t")
	for _, one := range p.Plans {
		if f := one.Plan; f != nil {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", one.Work, gigabytes(f.WeightBytes), gigabytes(f.GradientBytes),
				gigabytes(f.SumBytes), gigabytes(f.StateBytes), gigabytes(f.ActivationBytes), gigabytes(f.HeadBytes), gigabytes(f.CacheBytes), gigabytes(f.OtherBytes),
				gigabytes(f.TotalBytes))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, one := range p.Plans {
		if one.Plan == nil {
			fmt.Fprintf(w, "  %s: does not fit: %s\n", one.Work, one.Refused)
		} else {
			fmt.Fprintf(w, "  %s: %s\n", one.Work, one.Plan)
		}
	}
	return nil
}
