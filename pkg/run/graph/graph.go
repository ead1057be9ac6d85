// Package graph is what a run is made of: its stages, their tasks, what each
// reads and makes, and where that lies in the folder of the run. All of it is a
// pure function of the recipe and the folder's name; no file is looked at.
package graph

import (
	"fmt"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// Stage names a kind of work in a run.
type Stage string

// The stages of a run, in the order in which an iteration goes through them.
const (
	StageWarm     Stage = "warm"     // supervised warm start, one node per checkpoint
	StageRollout  Stage = "rollout"  //
	StageScore    Stage = "score"    //
	StageClose    Stage = "close"    // done by whoever advances the run, not by a task
	StageMetrics  Stage = "metrics"  // done by whoever reports
	StageBuffer   Stage = "buffer"   // for iteration 0: the first state and plans
	StageGradient Stage = "gradient" //
	StageReduce   Stage = "reduce"   // gradients are added up, so many a task, where there are more than one task should read
	StageSum      Stage = "sum"      // under schedule.apply_shards, of some tensors of the policy
	StageApply    Stage = "apply"    // likewise, to some files of the policy
	StageLearn    Stage = "learn"    // of an update in parts, one policy of what they made

	// An evaluation of a policy version is a rollout and its scores on the
	// held-out plan, and the rows that people read, gathered from them.
	StageEvalPlan    Stage = "evalplan" // one for the run
	StageEvalRollout Stage = "evalrollout"
	StageEvalScore   Stage = "evalscore"
	StageEvaluate    Stage = "evaluate"
)

// Stages lists every stage that runs as tasks, in order.
func Stages() []Stage { return slices.Clone(staged) }

// Node is one array of tasks: a stage of an iteration, or of one optimizer
// step of an iteration.
type Node struct {
	Stage     Stage
	Iteration int // for warm: the checkpoint, from 1; for evaluations: the policy version
	Step      int // for gradient, reduce, sum, apply and learn with gradient shards: the optimizer step, from 0
	Wave      int // for rollouts and scores: which turns of traces that wait for scores, from 0
}

func (n Node) String() string {
	return executor.NodeName(string(n.Stage), n.Iteration, n.Step, n.Wave)
}

// Task is one shard of a node.
type Task struct {
	Node
	Shard int
}

func (t Task) String() string { return fmt.Sprintf("%s-%05d", t.Node, t.Shard) }

// Graph is the dependency graph of a run. It is a pure function of the
// recipe.
type Graph struct {
	Dir    Dir
	Recipe recipe.Recipe

	// Who the run is, as its manifests say.
	RunID        string
	RecipeSHA256 string
	Extended     []Extended // recipes before this one, the first first; the run was extended after each
}

// Extended is a recipe that a run was made with until it was extended.
type Extended struct {
	Iterations   int       `json:"iterations"` // that it had
	RecipeSHA256 string    `json:"recipe_sha256"`
	At           time.Time `json:"at"` // when it was, by the clock of that host
}

// ExtendedAt is when the run was last extended; the zero time for never.
func (g Graph) ExtendedAt() time.Time {
	if n := len(g.Extended); n > 0 {
		return g.Extended[n-1].At
	}
	return time.Time{}
}

// PlanRows is the number of instances in an iteration's plan: m·B.
func (g Graph) PlanRows() int {
	return int(float64(g.Recipe.Rollout.Prompts)*g.Recipe.Schedule.Oversample + 0.5)
}

// OptimizerSteps is the number of optimizer steps of an iteration.
func (g Graph) OptimizerSteps() int { return g.Recipe.Loss.Epochs * g.Recipe.Loss.MiniBatches }

// WarmChunks is the number of checkpoints of the warm start. A run without
// one still has a chunk, which makes or copies the policy.
func (g Graph) WarmChunks() int {
	w := g.Recipe.WarmStart
	if w.Steps == 0 || w.Chunk <= 0 {
		return 1
	}
	return (w.Steps + w.Chunk - 1) / w.Chunk
}

// RolloutVersion is the policy version that samples iteration k: of those that there
// are s iterations before, the last whose number sync_every divides.
func (g Graph) RolloutVersion(k int) int {
	s := g.Recipe.Schedule
	latest := max(0, k-1-s.Staleness)
	return latest - latest%max(1, s.SyncEvery)
}

// ReferenceVersion is the version whose reference policy iteration k learns
// with.
func (g Graph) ReferenceVersion(k int) int {
	return loss.ReferenceVersion(g.Recipe.Loss.KL.RefEvery, k)
}

// RefreshesReference reports whether iteration k ends with a new reference.
func (g Graph) RefreshesReference(k int) bool {
	kl := g.Recipe.Loss.KL
	return kl.Coef != 0 && loss.RefreshDue(kl.RefEvery, k)
}

// TeacherVersion is the policy version of the run that teaches iteration k; ok is false
// where none does.
func (g Graph) TeacherVersion(k int) (version int, ok bool) {
	t := g.Recipe.Advantage.Teacher
	return t.VersionAt(k), t.Active() && t.Path == ""
}

// CriticPath is the folder of the critic that iteration k starts from, under
// policy.critic model: at first the policy itself.
func (g Graph) CriticPath(k int) string {
	if k == 1 {
		return g.Dir.Policy(0)
	}
	return g.Dir.Critic(k - 1)
}

// ReferencePath is the folder of the reference policy of iteration k.
func (g Graph) ReferencePath(k int) string {
	if version := g.ReferenceVersion(k); version > 0 {
		return g.Dir.Reference(version)
	}
	return g.Dir.Policy(0)
}

// Shards is the number of tasks of a node.
func (g Graph) Shards(n Node) int {
	if shards := specs[n.Stage].shards; shards != nil {
		return shards(g)
	}
	return 1
}

// ShardRange is the half-open range of rows, of total, that a shard of a
// node works on.
func ShardRange(total, shard, shards int) (first, last int) {
	return total * shard / shards, total * (shard + 1) / shards
}

// ShardOf is the shard that holds the responses to a row of an iteration's plan:
// the last one that begins at or before the row.
func (g Graph) ShardOf(k, row int) int {
	return ((row+1)*g.Shards(Node{Stage: StageRollout, Iteration: k}) - 1) / g.PlanRows()
}

// Sharded reports whether gradients are computed by an array of tasks.
func (g Graph) Sharded() bool { return g.Recipe.Schedule.GradientShards > 1 || g.InParts() }

// InParts reports whether an array of tasks applies the gradients, each to some files of
// the policy.
func (g Graph) InParts() bool { return g.Recipe.Schedule.ApplyShards > 1 }

// Reduced reports whether gradients are added up by tasks of their own before they are
// applied.
func (g Graph) Reduced() bool { return g.Sharded() && g.Shards(Node{Stage: StageReduce}) > 1 }

// Summed is the node whose outputs what comes after the gradients of an optimizer step
// adds up.
func (g Graph) Summed(k, step int) Node {
	if g.Reduced() {
		return Node{Stage: StageReduce, Iteration: k, Step: step}
	}
	return Node{Stage: StageGradient, Iteration: k, Step: step}
}

// MayBeLate reports whether an iteration may be closed before all its shards are
// done.
func (g Graph) MayBeLate() bool {
	return g.Recipe.Schedule.Oversample > 1 || g.Recipe.Schedule.CloseAfterSeconds > 0
}

// Carries reports whether late shards come into a later iteration.
func (g Graph) Carries() bool { return g.MayBeLate() && g.Recipe.Schedule.Late == recipe.LateCarry }

// Waits reports whether segments of iteration k may wait for the batch of a later
// one.
func (g Graph) Waits(k int) bool {
	return g.Recipe.BatchSegments() > 0 && k > 0 && k < g.Recipe.Schedule.Iterations
}

// LastLearn is the node that makes policy version k.
func (g Graph) LastLearn(k int) Node {
	if k == 0 {
		return Node{Stage: StageWarm, Iteration: g.WarmChunks()}
	}
	if g.Sharded() {
		return Node{Stage: StageLearn, Iteration: k, Step: g.OptimizerSteps() - 1}
	}
	return Node{Stage: StageLearn, Iteration: k}
}

// Needs lists the nodes whose outputs a node reads.
func (g Graph) Needs(n Node) []Node {
	if needs := specs[n.Stage].needs; needs != nil {
		return needs(g, n)
	}
	return nil
}

// samplingNeeds are those of a node of rollouts.
func (g Graph) samplingNeeds(n Node) []Node {
	needs := []Node{g.PlanMaker(n), g.LastLearn(g.SampledBy(n))}
	if n.Wave > 0 {
		needs = append(needs, n.InWave(n.Wave-1), n.InWave(n.Wave-1).Judging())
	}
	return needs
}

// scoringNeeds are those of a node of scores.
func (g Graph) scoringNeeds(n Node) []Node {
	needs := []Node{n.Sampling(), g.PlanMaker(n)}
	if n.Wave > 0 {
		needs = append(needs, n.InWave(n.Wave-1))
	}
	return needs
}

// allWaves lists the nodes of a score node's iteration or evaluation, of all waves.
func (g Graph) allWaves(n Node) []Node {
	var all []Node
	for wave := range g.Waves(n.Stage) {
		all = append(all, n.InWave(wave))
	}
	return all
}

// learnNeeds lists what an optimizer step starts from: the policy before it,
// the reference policy, a teacher of this run, and those whose values or log-probabilities it compares
// with and computes itself.
func (g Graph) learnNeeds(n Node) []Node {
	previous := g.LastLearn(n.Iteration - 1)
	if n.Step > 0 {
		previous = Node{Stage: StageLearn, Iteration: n.Iteration, Step: n.Step - 1}
	}
	needs := []Node{previous}
	if n.Step > 0 && g.Recipe.Advantage.Critic() {
		needs = append(needs, g.LastLearn(n.Iteration-1))
	}
	if g.Recipe.Rollout.Remote != nil {
		needs = append(needs, g.LastLearn(g.RolloutVersion(n.Iteration)))
	}
	if g.Recipe.Loss.KL.Coef != 0 {
		needs = append(needs, g.LastLearn(g.ReferenceVersion(n.Iteration)))
	}
	if version, ok := g.TeacherVersion(n.Iteration); ok {
		needs = append(needs, g.LastLearn(version))
	}
	return needs
}

// PlanMaker is the node that writes the plan that a node of rollouts or scores
// works on.
func (g Graph) PlanMaker(n Node) Node {
	if n.HeldOut() {
		return Node{Stage: StageEvalPlan}
	}
	return Node{Stage: StageBuffer, Iteration: max(0, n.Iteration-1-g.Recipe.Schedule.Staleness)}
}

// PlansWritten lists the iterations whose plans the buffer node of iteration
// k writes: with staleness s, iteration 0 writes 1 to 1+s and every later
// one writes k+1+s.
func (g Graph) PlansWritten(k int) []int {
	s, last := g.Recipe.Schedule.Staleness, g.Recipe.Schedule.Iterations
	first := k + 1 + s
	if k == 0 {
		first = 1
	}
	var plans []int
	for i := first; i <= min(k+1+s, last); i++ {
		plans = append(plans, i)
	}
	return plans
}

// Outputs lists the sealed files and folders that a task makes.
func (g Graph) Outputs(t Task) []string {
	if outputs := specs[t.Stage].outputs; outputs != nil {
		return outputs(g, t)
	}
	return nil
}

func (g Graph) warmOutputs(t Task) []string {
	d, k := g.Dir, t.Iteration
	outputs := []string{d.Warm(k), d.WarmOptimizer(k)}
	if k == g.WarmChunks() {
		outputs = []string{d.Policy(0)}
		if g.Recipe.Start.KeepsOptimizer() {
			outputs = append(outputs, d.Optimizer(0))
		}
	}
	if k == 1 && g.Recipe.Policy.LoRA != nil {
		outputs = append(outputs, d.Base())
	}
	return outputs
}

func (g Graph) bufferOutputs(t Task) []string {
	d, k := g.Dir, t.Iteration
	outputs := []string{d.State(k), d.Stats(k)}
	if k > 0 {
		outputs = append(outputs, d.Batch(k), d.Ledger(k))
	}
	if g.Waits(k) {
		outputs = append(outputs, d.Waiting(k))
	}
	for _, i := range g.PlansWritten(k) {
		outputs = append(outputs, d.Plan(i))
	}
	return outputs
}

func (g Graph) learnOutputs(t Task) []string {
	outputs := g.trained(g.stepPolicy(t.Node))
	if g.stepPolicy(t.Node) == g.Dir.Policy(t.Iteration) && g.RefreshesReference(t.Iteration) {
		outputs = append(outputs, g.Dir.Reference(t.Iteration))
	}
	return outputs
}

// stepPolicy is the folder of the policy after an optimizer step, or after all of an
// iteration.
func (g Graph) stepPolicy(n Node) string {
	if g.Sharded() && n.Step < g.OptimizerSteps()-1 {
		return g.Dir.StepPolicy(n.Iteration, n.Step)
	}
	return g.Dir.Policy(n.Iteration)
}

// trained lists what is written with a policy that has been trained.
func (g Graph) trained(policy string) []string {
	outputs := []string{policy, OptimizerOf(policy)}
	if g.Recipe.Policy.Critic == recipe.CriticModel {
		critic := CriticOf(policy)
		outputs = append(outputs, critic, OptimizerOf(critic))
	}
	return outputs
}

// EvaluatedVersions lists the policy versions that the run measures: the
// first, the last, every n-th between, and what was the last before each extension.
func (g Graph) EvaluatedVersions() []int {
	if g.Recipe.Evaluation.Rows() == 0 {
		return nil
	}
	last := g.Recipe.Schedule.Iterations
	versions := []int{0}
	if every := g.Recipe.EvaluatesEvery(); every > 0 {
		for v := every; v < last; v += every {
			versions = append(versions, v)
		}
	}
	if last > 0 {
		versions = append(versions, last)
	}
	for _, e := range g.Extended { // what was the last version then has been measured
		if at, known := slices.BinarySearch(versions, e.Iterations); !known {
			versions = slices.Insert(versions, at, e.Iterations)
		}
	}
	return versions
}

// Goals lists the nodes that a finished run has done; all others are only
// needed for these. Evaluations come last so that they never hold up
// training.
func (g Graph) Goals() []Node {
	last := g.Recipe.Schedule.Iterations
	goals := []Node{g.LastLearn(last)}
	if last > 0 {
		goals = append(goals, Node{Stage: StageBuffer, Iteration: last})
	}
	for _, version := range g.EvaluatedVersions() {
		goals = append(goals, Node{Stage: StageEvaluate, Iteration: version})
	}
	return goals
}

// Nodes lists every node of the run, in the order of a run without overlap.
func (g Graph) Nodes() []Node {
	var nodes []Node
	for c := 1; c <= g.WarmChunks(); c++ {
		nodes = append(nodes, Node{Stage: StageWarm, Iteration: c})
	}
	nodes = append(nodes, Node{Stage: StageBuffer})
	if len(g.EvaluatedVersions()) > 0 {
		nodes = append(nodes, Node{Stage: StageEvalPlan})
	}
	evaluated := map[int]bool{}
	for _, version := range g.EvaluatedVersions() {
		evaluated[version] = true
	}
	for k := 0; k <= g.Recipe.Schedule.Iterations; k++ {
		if k > 0 {
			nodes = append(nodes, g.Waved(Node{Stage: StageRollout, Iteration: k})...)
			nodes = append(nodes, Node{Stage: StageBuffer, Iteration: k})
			nodes = append(nodes, g.LearnNodes(k)...)
		}
		if evaluated[k] {
			nodes = append(nodes, g.Waved(Node{Stage: StageEvalRollout, Iteration: k})...)
			nodes = append(nodes, Node{Stage: StageEvaluate, Iteration: k})
		}
	}
	return nodes
}

// LearnNodes lists the nodes that make policy version k from its batch.
func (g Graph) LearnNodes(k int) []Node {
	if !g.Sharded() {
		return []Node{{Stage: StageLearn, Iteration: k}}
	}
	var nodes []Node
	for step := range g.OptimizerSteps() {
		nodes = append(nodes, Node{Stage: StageGradient, Iteration: k, Step: step})
		if g.Reduced() {
			nodes = append(nodes, g.Summed(k, step))
		}
		if g.InParts() {
			nodes = append(nodes, Node{Stage: StageSum, Iteration: k, Step: step}, Node{Stage: StageApply, Iteration: k, Step: step})
		}
		nodes = append(nodes, Node{Stage: StageLearn, Iteration: k, Step: step})
	}
	return nodes
}

// OfUpdate reports whether a node is part of an optimizer step of an iteration.
func (n Node) OfUpdate() bool {
	switch n.Stage {
	case StageGradient, StageReduce, StageSum, StageApply, StageLearn:
		return true
	}
	return false
}

// Prunable reports whether pruning may ever remove the outputs of a node.
func (n Node) Prunable() bool { return n.Stage == StageWarm || n.OfUpdate() }

// Prunable lists the outputs of a task that pruning may remove: not what every
// adapter is of.
func (g Graph) Prunable(t Task) []string {
	if !t.Node.Prunable() {
		return nil
	}
	return slices.DeleteFunc(g.Outputs(t), func(path string) bool { return path == g.Dir.Base() })
}
