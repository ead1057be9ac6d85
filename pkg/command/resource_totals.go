package command

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/safetensors"
	"github.com/lathe-rl/lathe/pkg/site"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// stageTotal is what the tasks of a stage request in a whole run, if every task
// takes as long as it may and every wave has all its shards.
type stageTotal struct {
	Stage                          graph.Stage
	Arrays, Tasks, Waves           int
	Request                        recipe.Request
	CoreHours, GPUHours, WallHours float64 // WallHours: one array after the other, on what the site has
}

// stageTotals sums up the tasks of a run by stage.
func stageTotals(g graph.Graph, p site.Profile) ([]stageTotal, error) {
	by := map[graph.Stage]*stageTotal{}
	for _, n := range g.Nodes() {
		a := by[n.Stage]
		if a == nil {
			a = &stageTotal{Stage: n.Stage, Waves: g.Waves(n.Stage), Request: g.Request(n.Stage)}
			by[n.Stage] = a
		}
		atOnce, err := atOnce(n.Stage, a.Request, p)
		if err != nil {
			return nil, err
		}
		tasks, hours := g.Shards(n), min(float64(a.Request.Minutes)/60, budgetHours(g, n, a.Request))
		a.Arrays++
		a.Tasks += tasks
		a.CoreHours += float64(tasks*a.Request.CPUs) * hours
		a.GPUHours += float64(tasks*a.Request.GPUs) * hours
		a.WallHours += float64((tasks+atOnce-1)/atOnce) * hours
	}
	var all []stageTotal
	for _, s := range graph.Stages() {
		if a := by[s]; a != nil {
			all = append(all, *a)
		}
	}
	return all, nil
}

// budgetHours bounds the mean time of a shard's tasks over all waves where each trace has
// a budget (scaffold.seconds or evaluation.seconds): what the traces of a shard have, with
// one task more for turns that begin within the budget and end after it.
func budgetHours(g graph.Graph, n graph.Node, q recipe.Request) float64 {
	budget := g.Recipe.Seconds(n.HeldOut())
	if !n.OfTraces() || budget == 0 {
		return math.Inf(1)
	}
	rows, chains := g.PlanRows(), g.Recipe.Rollout.Group
	if n.HeldOut() {
		rows, chains = g.Recipe.Evaluation.Rows(), 0
		for _, m := range g.Recipe.Evaluation.Measured() {
			chains = max(chains, m.Chains())
		}
	}
	tasks, waves := g.Shards(n), g.Waves(n.Stage)
	traces := (rows + tasks - 1) / tasks * chains
	whole := (float64(traces)*budget + float64(waves*assumedStartSeconds)) / 3600
	return (whole + float64(q.Minutes)/60) / float64(waves)
}

// atOnce is how many tasks of a stage a site has room for; where the profile does
// not say, any number.
func atOnce(s graph.Stage, q recipe.Request, p site.Profile) (int, error) {
	room := 1 << 30
	if p.GPUs > 0 && q.GPUs > 0 {
		room = min(room, p.GPUs/q.GPUs)
	}
	if p.Nodes > 0 && q.GPUs == 0 {
		each := 1
		if p.NodeCPUs > 0 {
			each = p.NodeCPUs / max(1, q.CPUs)
		}
		room = min(room, p.Nodes*each)
	}
	if p.Throttle > 0 {
		room = min(room, p.Throttle)
	}
	if room < 1 {
		return 0, exitcode.Usagef("one task of %s requests %s and %s, more than site %q has: %s of %s, %s",
			s, plural.Count(q.CPUs, "core"), plural.Count(q.GPUs, "GPU"), p.Name, plural.Count(p.Nodes, "node"), plural.Count(p.NodeCPUs, "core"), plural.Count(p.GPUs, "GPU"))
	}
	return room, nil
}

// printAsked writes what a run asks of a site: time, memory and storage. It is an
// error where the policy does not fit on the site's GPUs.
func (o LaunchOptions) printAsked(out io.Writer, g graph.Graph, policyFolder string, p site.Profile) error {
	all, err := stageTotals(g, p)
	if err != nil {
		return err
	}
	shape, stored, err := startShape(g.Recipe, policyFolder)
	if err != nil {
		return err
	}
	versions := storageOf(g.Recipe, *shape, stored)
	kept := storageByStage(g, versions)
	fmt.Fprint(out, "\nupper bound, if every task runs to its time limit and every trace to its budget, every wave has all its shards and every response reaches its token limit:\n")
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "STAGE\tARRAYS\tWAVES\tTASKS\tCORES\tGPUS\tMEMORY\tMINUTES\tCORE-HOURS\tGPU-HOURS\tHOURS\tSTORAGE")
	var total stageTotal
	var bytes int64
	for _, a := range all {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%g GiB\t%d\t%.0f\t%.0f\t%.1f\t%s\n", a.Stage, a.Arrays, a.Waves, a.Tasks,
			a.Request.CPUs, a.Request.GPUs, a.Request.MemoryGB, a.Request.Minutes, a.CoreHours, a.GPUHours, a.WallHours, size(kept[a.Stage]))
		bytes += kept[a.Stage]
		total.Arrays, total.Tasks = total.Arrays+a.Arrays, total.Tasks+a.Tasks
		total.CoreHours, total.GPUHours, total.WallHours = total.CoreHours+a.CoreHours, total.GPUHours+a.GPUHours, total.WallHours+a.WallHours
	}
	fmt.Fprintf(table, "total\t%d\t\t%d\t\t\t\t\t%.0f\t%.0f\t%.1f\t%s\n", total.Arrays, total.Tasks, total.CoreHours, total.GPUHours, total.WallHours, size(bytes))
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "hours: arrays run one after the other%s\n", siteRoom(p))
	if err := o.printEstimate(out, g, *shape, p); err != nil {
		return err
	}
	printStorage(out, g.Recipe, versions)
	held, err := partsHeld(g, policyFolder)
	if err != nil {
		return err
	}
	onCPU := cpuPlansOf(g, *shape, stored, p)
	if onCPU != nil {
		maps.Copy(held, onCPU.held(g.InParts()))
	}
	sizes := versions.sizes(g.Recipe)
	if err := printTraffic(out, trafficOf(g, sizes, held)); err != nil {
		return err
	}
	if err := printWaves(out, g, sizes.Policy); err != nil {
		return err
	}
	if onCPU != nil {
		if err := printCPU(out, onCPU); err != nil {
			return err
		}
	}
	if err := checkHeld(g, held); err != nil {
		if o.Executor == "slurm" {
			return err
		}
		printNotes(os.Stderr, []string{"Slurm would end tasks that hold more than they request: " + err.Error()})
	}
	return printGPUMemory(out, g.Recipe, *shape, stored, p)
}

// cpuPlansOf plans the tasks that train, where they run on the CPU as far as is known: nil
// for those that request a GPU, or may find one.
func cpuPlansOf(g graph.Graph, c policy.Config, stored map[safetensors.DType]int, p site.Profile) *cpuPlans {
	asked := g.Request(graph.StageLearn).GPUs + g.Request(graph.StageGradient).GPUs
	if b := g.Recipe.Policy.Backend; b == backend.CUDA || b != backend.CPU && asked+p.GPUs+int(p.GPUMemoryGB) > 0 {
		return nil
	}
	return planCPU(g.Recipe, c, stored, 0)
}

func siteRoom(p site.Profile) string {
	if p.GPUs == 0 && p.Nodes == 0 {
		return ", all tasks of an array at once; set gpus, nodes and node_cpus in the site profile to include the cluster's size"
	}
	return fmt.Sprintf(", on %s and %s", plural.Count(p.GPUs, "GPU"), plural.Count(p.Nodes, "node"))
}

// shapeOf is the shape of the policy in a folder, and the numbers of each type of
// its weights; nil where there is no folder: the run makes its policy.
func shapeOf(folder string) (*policy.Config, map[safetensors.DType]int, error) {
	if folder == "" {
		return nil, nil, nil
	}
	_, base, err := inspectAdapter(folder)
	if err != nil {
		return nil, nil, err
	}
	source, err := checkpoint.Open(base)
	if err != nil {
		return nil, nil, err
	}
	defer source.Close()
	stored := map[safetensors.DType]int{}
	for _, t := range source.Tensors() {
		stored[t.DType] += t.Elements()
	}
	config := source.Config()
	return &config, stored, nil
}

// startShape is that of the policy that a run starts from: in a folder, or one that the
// run makes.
func startShape(r recipe.Recipe, folder string) (*policy.Config, map[safetensors.DType]int, error) {
	shape, stored, err := shapeOf(folder)
	if err == nil && shape == nil {
		own := warm.Shape(r.Policy)
		shape, stored = &own, map[safetensors.DType]int{safetensors.F32: policy.ParameterCount(own)}
	}
	return shape, stored, err
}

// Bytes that a token of a response or its prompt takes, measured on runs of this
// project (jobs/mle-small.yaml and jobs/rlmle/smoke.yaml): in rollouts with their
// scores, and in batches.
const (
	sampledTokenBytes = 14
	batchTokenBytes   = 20
)

// storage is what the versions of a policy take.
type storage struct {
	Versions                              int // that are kept
	Base, Weights, Optimizer, Total, Each int64
	Gradient                              int64 // of one step: a float32 for each weight that is trained
}

// storageOf is the storage of a run's policy versions. What is trained is written
// with the state of its optimizer, but for version 0.
func storageOf(r recipe.Recipe, c policy.Config, stored map[safetensors.DType]int) storage {
	d := backend.DTypes[r.Policy.DType]
	if d == "" {
		d = safetensors.F32
		if stored[safetensors.BF16] > stored[safetensors.F32] {
			d = safetensors.BF16
		}
	}
	m := policy.MemoryOf(c, d)
	s := storage{Versions: keptVersions(r.Schedule.Iterations, r.Schedule.KeepsEvery()), Weights: m.WeightBytes, Optimizer: m.MomentBytes + m.MasterBytes, Gradient: m.GradientBytes}
	if r.Optimizer.State == "bfloat16" {
		s.Optimizer = m.MomentBytes / 2
	}
	if l := r.Policy.LoRA; l != nil {
		trained := 0
		for _, t := range policy.LoRALayout(c, trainer.LoRAOf(*l)) {
			trained += t.Elements()
		}
		s.Base, s.Weights, s.Optimizer, s.Gradient = m.WeightBytes, 4*int64(trained), 8*int64(trained), 4*int64(trained)
	}
	s.Each = s.Weights + s.Optimizer
	if r.Policy.Critic == recipe.CriticModel {
		s.Each *= 2
	}
	s.Total = s.Base + s.Weights + int64(s.Versions-1)*s.Each
	return s
}

// keptVersions counts those that a run keeps: version 0, every n-th and the last; all
// of them for 0.
func keptVersions(iterations, every int) int {
	every = max(1, every)
	return 1 + (iterations+every-1)/every
}

// storageByStage is what the tasks of a stage leave in the run's folder: responses with
// their scores, of training and of evaluations, batches, and kept policy versions. A
// response has its bound of tokens in each turn that the recipe bounds, and as many
// again stand for its prompt.
func storageByStage(g graph.Graph, versions storage) map[graph.Stage]int64 {
	r := g.Recipe
	tokens := int64(0)
	for _, turn := range r.Rollout.NewTokens() {
		tokens += 2 * int64(turn)
	}
	trained := int64(r.Schedule.Iterations) * int64(r.Rollout.Prompts*r.Rollout.Group) * tokens
	evaluated := int64(0)
	for _, m := range r.Evaluation.Measured() {
		evaluated += int64(len(g.EvaluatedVersions())) * int64(m.Problems*m.Chains()*(m.Steps+1)) * tokens
	}
	return map[graph.Stage]int64{
		graph.StageRollout:     trained * sampledTokenBytes,
		graph.StageBuffer:      trained * batchTokenBytes,
		graph.StageEvalRollout: evaluated * sampledTokenBytes,
		graph.StageLearn:       versions.Total,
	}
}

// size is a number of bytes in words of three digits; nothing for none.
func size(bytes int64) string {
	switch {
	case bytes == 0:
		return ""
	case bytes < 1e9:
		return fmt.Sprintf("%.3g MB", float64(bytes)/1e6)
	default:
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	}
}

func printStorage(out io.Writer, r recipe.Recipe, s storage) {
	fmt.Fprintf(out, "storage: %s, %s each including the optimizer's state, %s in total", plural.Count(s.Versions, "kept policy version"), size(s.Each), size(s.Total))
	if every := r.Schedule.KeepsEvery(); r.Schedule.KeepEvery == recipe.KeepAuto && every > 0 {
		fmt.Fprintf(out, " (schedule.keep_every: auto keeps every %d-th version; all %d versions would take %s)", every, r.Schedule.Iterations+1, size(s.Base+s.Weights+int64(r.Schedule.Iterations)*s.Each))
	}
	if every := 50; r.Schedule.KeepsEvery() == 0 && s.Versions > 2 {
		fmt.Fprintf(out, " (schedule.keep_every: %d would keep %d)", every, keptVersions(r.Schedule.Iterations, every))
	}
	fmt.Fprintf(out, "; %d bytes per token of a response and its prompt, %d more per token that is trained on\n", sampledTokenBytes, batchTokenBytes)
}

// printGPUMemory says what each engine takes of a site's GPU.
func printGPUMemory(out io.Writer, r recipe.Recipe, c policy.Config, stored map[safetensors.DType]int, p site.Profile) error {
	if p.GPUMemoryGB == 0 || r.Policy.Backend == backend.CPU {
		return nil
	}
	bytes := func(gigabytes float64) int64 { return int64(gigabytes * (1 << 30)) }
	plans, err := plansFor(r, c, stored, 0, bytes(p.GPUMemoryGB))
	if err != nil {
		return err
	}
	if err := printPlans(out, &gpuPlans{FreeBytes: bytes(p.GPUMemoryGB), Plans: plans}); err != nil {
		return err
	}
	fits := func(r recipe.Recipe, free int64) bool {
		plans, err := plansFor(r, c, stored, 0, free)
		return err == nil && !slices.ContainsFunc(plans, func(p gpuPlan) bool { return p.Plan == nil })
	}
	if fits(r, bytes(p.GPUMemoryGB)) {
		return checkHeld(graph.Graph{Recipe: r}, spilled(plans))
	}
	err = exitcode.Usagef("the policy %q does not fit into the GPU memory of site %q, %g GiB", r.Policy.Path, p.Name, p.GPUMemoryGB)
	var would []string
	smaller := r
	smaller.Optimizer.State = "bfloat16"
	if fits(smaller, bytes(p.GPUMemoryGB)) {
		would = append(would, "optimizer.state: bfloat16")
	}
	smaller = r
	smaller.Schedule.GradientShards, smaller.Schedule.ApplyShards = max(r.Schedule.GradientShards, min(8, r.Schedule.GradientUnits)), 8
	if r.Schedule.ApplyShards == 1 && r.Policy.LoRA == nil && r.Policy.New == nil && fits(smaller, bytes(p.GPUMemoryGB)) {
		would = append(would, fmt.Sprintf("schedule.gradient_shards: %d and schedule.apply_shards: 8", smaller.Schedule.GradientShards))
	}
	smaller = r
	smaller.Policy.Critic = recipe.CriticHead
	if r.Policy.Critic == recipe.CriticModel && fits(smaller, bytes(p.GPUMemoryGB)) {
		would = append(would, "policy.critic: head")
	}
	smaller = r
	smaller.Policy.LoRA = &recipe.LoRA{Rank: 64, Alpha: 128, Targets: policy.LoRATargets()}
	if r.Policy.LoRA == nil && fits(smaller, bytes(p.GPUMemoryGB)) {
		would = append(would, "policy.lora: {rank: 64, alpha: 128}")
	}
	for _, size := range []float64{80, 96, 141, 192, 288} {
		if size > p.GPUMemoryGB && fits(r, bytes(size)) {
			would = append(would, fmt.Sprintf("GPUs of %g GiB", size))
			break
		}
	}
	if len(would) == 0 {
		return err
	}
	return exitcode.WithHint(err, "it would fit with %s", strings.Join(would, ", or "))
}
