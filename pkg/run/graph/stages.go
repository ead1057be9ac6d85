package graph

import (
	"strconv"

	"github.com/lathe-rl/lathe/pkg/recipe"
)

// spec is what the graph knows of a stage. A new stage is a row of the table below,
// and a row of package worker's.
type spec struct {
	stage Stage
	// binary runs its tasks; empty for a stage that has none, because whoever advances
	// or reports on the run does it.
	binary string
	// arguments of the binary after --run; nil for --iteration alone.
	arguments func(n Node) []string
	// resources is the stage whose resources, in the recipe and in a site profile, its
	// tasks take; empty for its own, which request finds.
	resources Stage
	request   func(q recipe.StageRequest) recipe.Request
	// iterations is the range that it has nodes in; nil for 1 to the last.
	iterations func(g Graph) (first, last int)
	// shards is the number of tasks of a node; nil for one.
	shards  func(g Graph) int
	needs   func(g Graph, n Node) []Node   // whose outputs a node reads
	outputs func(g Graph, t Task) []string // sealed files and folders that a task makes
	// urgency orders ready tasks of one iteration, the smallest first.
	urgency int
}

// nextIteration added to an urgency is that of the iteration after.
const nextIteration = 8

var (
	specs  map[Stage]spec
	staged []Stage // that run as tasks, in order
)

// The table refers to the graph's methods, which refer to it.
func init() {
	specs = map[Stage]spec{}
	for _, s := range table() {
		specs[s.stage] = s
		if s.binary != "" {
			staged = append(staged, s.stage)
		}
	}
}

// The stages nearest to the learner are the most urgent of an iteration. The evaluation
// of a version has what the next iteration leaves idle, and goes before the one after,
// so that a machine that is never idle measures a version soon and not at the end of
// the run.
func table() []spec {
	return []spec{
		{
			stage: StageWarm, binary: "lathe-learn",
			arguments:  func(n Node) []string { return []string{"--warm", strconv.Itoa(n.Iteration)} },
			request:    func(q recipe.StageRequest) recipe.Request { return q.Warm },
			iterations: func(g Graph) (first, last int) { return 1, g.WarmChunks() },
			needs: func(_ Graph, n Node) []Node {
				if n.Iteration == 1 {
					return nil
				}
				return []Node{{Stage: StageWarm, Iteration: n.Iteration - 1}}
			},
			outputs: Graph.warmOutputs,
		},
		{
			stage: StageBuffer, binary: "lathe-buffer", urgency: 2,
			request:    func(q recipe.StageRequest) recipe.Request { return q.Buffer },
			iterations: fromStart,
			needs: func(g Graph, n Node) []Node {
				k := n.Iteration
				if k == 0 {
					return nil
				}
				return []Node{{Stage: StageClose, Iteration: k}, {Stage: StageBuffer, Iteration: k - 1}, g.PlanMaker(Node{Stage: StageRollout, Iteration: k})}
			},
			outputs: Graph.bufferOutputs,
		},
		{
			stage: StageRollout, binary: "lathe-rollout", urgency: 4,
			arguments: inWave("--iteration"),
			request:   func(q recipe.StageRequest) recipe.Request { return q.Rollout },
			shards:    traceShards, needs: Graph.samplingNeeds, outputs: sampled,
		},
		{
			stage: StageScore, binary: "lathe-score", urgency: 3,
			arguments: inWave("--iteration"),
			request:   func(q recipe.StageRequest) recipe.Request { return q.Score },
			shards:    traceShards, needs: Graph.scoringNeeds, outputs: sampled,
		},
		{
			stage: StageGradient, binary: "lathe-learn", urgency: 1,
			arguments: ofStep("--gradient"),
			request:   func(q recipe.StageRequest) recipe.Request { return q.Gradient },
			shards: func(g Graph) int {
				return min(max(1, g.Recipe.Schedule.GradientShards), g.Recipe.Schedule.GradientUnits)
			},
			needs: func(g Graph, n Node) []Node {
				return append(g.learnNeeds(n), Node{Stage: StageBuffer, Iteration: n.Iteration})
			},
			outputs: func(g Graph, t Task) []string { return []string{g.Dir.Gradient(t.Iteration, t.Step, t.Shard)} },
		},
		{
			stage: StageReduce, binary: "lathe-learn", urgency: 1, resources: StageGradient,
			arguments: ofStep("--reduce"),
			shards: func(g Graph) int {
				fanIn := max(1, g.Recipe.Schedule.GradientFanIn)
				return (g.Shards(Node{Stage: StageGradient}) + fanIn - 1) / fanIn
			},
			needs: func(g Graph, n Node) []Node {
				return append(g.learnNeeds(n), Node{Stage: StageGradient, Iteration: n.Iteration, Step: n.Step}, Node{Stage: StageBuffer, Iteration: n.Iteration})
			},
			outputs: func(g Graph, t Task) []string { return []string{g.Dir.Reduced(t.Iteration, t.Step, t.Shard)} },
		},
		{
			stage: StageSum, binary: "lathe-learn", urgency: 1, resources: StageLearn,
			arguments: ofStep("--sum"),
			shards:    applyShards,
			needs: func(g Graph, n Node) []Node {
				return append(g.learnNeeds(n), g.Summed(n.Iteration, n.Step))
			},
			outputs: func(g Graph, t Task) []string { return []string{g.Dir.PartSum(t.Iteration, t.Step, t.Shard)} },
		},
		{
			stage: StageApply, binary: "lathe-learn", resources: StageLearn,
			arguments: ofStep("--apply"),
			shards:    applyShards,
			needs: func(g Graph, n Node) []Node {
				return append(g.learnNeeds(n), Node{Stage: StageSum, Iteration: n.Iteration, Step: n.Step})
			},
			outputs: func(g Graph, t Task) []string { return []string{PartOf(g.stepPolicy(t.Node), t.Shard)} },
		},
		{
			stage: StageLearn, binary: "lathe-learn",
			arguments: ofStep(),
			request:   func(q recipe.StageRequest) recipe.Request { return q.Learn },
			needs: func(g Graph, n Node) []Node {
				needs := g.learnNeeds(n)
				if g.InParts() {
					sum, apply := n, n
					sum.Stage, apply.Stage = StageSum, StageApply
					needs = append(needs, sum, apply)
				} else if g.Sharded() {
					needs = append(needs, g.Summed(n.Iteration, n.Step))
				}
				return append(needs, Node{Stage: StageBuffer, Iteration: n.Iteration})
			},
			outputs: Graph.learnOutputs,
		},
		{
			stage: StageEvalPlan, binary: "lathe-buffer", resources: StageBuffer, urgency: nextIteration + 5,
			arguments:  func(Node) []string { return []string{"--evaluate"} },
			iterations: func(Graph) (first, last int) { return 0, 0 },
			outputs:    func(g Graph, _ Task) []string { return []string{g.Dir.EvaluationPlan()} },
		},
		{
			stage: StageEvalRollout, binary: "lathe-rollout", resources: StageEvaluate, urgency: nextIteration + 7,
			arguments: inWave("--evaluate"), iterations: fromStart,
			shards: evaluationShards, needs: Graph.samplingNeeds, outputs: sampled,
		},
		{
			stage: StageEvalScore, binary: "lathe-score", resources: StageScore, urgency: nextIteration + 6,
			arguments: inWave("--evaluate"), iterations: fromStart,
			shards: evaluationShards, needs: Graph.scoringNeeds, outputs: sampled,
		},
		{
			// Its resources, in recipes and site profiles, are those of the rollouts of an
			// evaluation.
			stage: StageEvaluate, binary: "lathe-score", resources: StageScore, urgency: nextIteration + 5,
			arguments:  func(n Node) []string { return []string{"--evaluate", strconv.Itoa(n.Iteration), "--gather"} },
			request:    func(q recipe.StageRequest) recipe.Request { return q.Evaluate },
			iterations: fromStart, shards: evaluationShards,
			needs: func(g Graph, n Node) []Node {
				return append(g.allWaves(Node{Stage: StageEvalScore, Iteration: n.Iteration}), Node{Stage: StageEvalPlan})
			},
			outputs: func(g Graph, t Task) []string { return []string{g.Dir.Evaluation(t.Iteration, t.Shard)} },
		},
		{
			stage:   StageClose,
			needs:   func(g Graph, n Node) []Node { return g.allWaves(Node{Stage: StageScore, Iteration: n.Iteration}) },
			outputs: func(g Graph, t Task) []string { return []string{g.Dir.Close(t.Iteration)} },
		},
		{
			stage: StageMetrics, iterations: fromStart,
			outputs: func(g Graph, t Task) []string { return []string{g.Dir.Metrics(t.Iteration), g.Dir.Usage(t.Iteration)} },
		},
	}
}

// fromStart is the range of a stage that iteration 0 has too. Any version may be
// evaluated, also those that the recipe does not ask for.
func fromStart(g Graph) (first, last int) { return 0, g.Recipe.Schedule.Iterations }

func applyShards(g Graph) int { return max(1, int(g.Recipe.Schedule.ApplyShards)) }

// traceShards are those of rollouts and scores; of a later wave there are at most as
// many.
func traceShards(g Graph) int { return min(max(1, g.Recipe.Rollout.Shards), g.PlanRows()) }

func evaluationShards(g Graph) int {
	return min(max(1, g.Recipe.Evaluation.Shards), g.Recipe.Evaluation.Rows())
}

func sampled(g Graph, t Task) []string { return []string{g.Dir.Sampled(t.Node, t.Shard)} }

// inWave are the arguments of a node of an iteration or of an evaluation, with its wave
// unless that is the first.
func inWave(flag string) func(Node) []string {
	return func(n Node) []string {
		arguments := []string{flag, strconv.Itoa(n.Iteration)}
		if n.Wave > 0 {
			arguments = append(arguments, "--wave", strconv.Itoa(n.Wave))
		}
		return arguments
	}
}

// ofStep are the arguments of a node of an optimizer step.
func ofStep(more ...string) func(Node) []string {
	return func(n Node) []string {
		return append([]string{"--iteration", strconv.Itoa(n.Iteration), "--step", strconv.Itoa(n.Step)}, more...)
	}
}
