package graph

// A trace whose next turn needs a score that takes minutes continues in the next
// wave of its iteration: it is sampled, scored, sampled on, scored again. A shard
// goes through its waves without waiting for others, and it ends with the first
// wave after which nothing in it waits: that is in the manifest of its scores,
// and only the number of waves that there can be is in the recipe.

// Waves bounds the waves of a stage: 1 but for rollouts and scores of traces
// that wait for scores.
func (g Graph) Waves(s Stage) int {
	n := Node{Stage: s}
	if !n.OfTraces() {
		return 1
	}
	waves, err := g.Recipe.Waves(n.HeldOut())
	if err != nil {
		return 1 // whoever makes the environment or the scaffold says what is wrong
	}
	return waves
}

// Samples reports whether tasks of the node let a policy generate.
func (n Node) Samples() bool { return n.Stage == StageRollout || n.Stage == StageEvalRollout }

// Judges reports whether tasks of the node score rollouts.
func (n Node) Judges() bool { return n.Stage == StageScore || n.Stage == StageEvalScore }

// OfTraces reports whether a task of the node is a shard of traces: their rollouts
// or their scores. An iteration may be closed without some of them.
func (n Node) OfTraces() bool { return n.Samples() || n.Judges() }

// HeldOut reports whether the node works on the held-out plan.
func (n Node) HeldOut() bool {
	return n.Stage == StageEvalRollout || n.Stage == StageEvalScore || n.Stage == StageEvaluate
}

// InWave is the same node in another wave.
func (n Node) InWave(wave int) Node {
	n.Wave = wave
	return n
}

// Sampling is the node of the rollouts that a score node scores.
func (n Node) Sampling() Node {
	if n.HeldOut() {
		return Node{Stage: StageEvalRollout, Iteration: n.Iteration, Wave: n.Wave}
	}
	return Node{Stage: StageRollout, Iteration: n.Iteration, Wave: n.Wave}
}

// Judging is the node that scores a rollout node.
func (n Node) Judging() Node {
	if n.HeldOut() {
		return Node{Stage: StageEvalScore, Iteration: n.Iteration, Wave: n.Wave}
	}
	return Node{Stage: StageScore, Iteration: n.Iteration, Wave: n.Wave}
}

// Waved lists a rollout node and the node that scores it, wave by wave.
func (g Graph) Waved(n Node) []Node {
	var all []Node
	for wave := range g.Waves(n.Stage) {
		all = append(all, n.InWave(wave), n.InWave(wave).Judging())
	}
	return all
}

// SampledBy is the policy version that samples the rollouts of a node.
func (g Graph) SampledBy(n Node) int {
	if n.HeldOut() {
		return n.Iteration
	}
	return g.RolloutVersion(n.Iteration)
}

// Rows is the half-open range of rows of its plan that a shard of rollouts,
// scores or an evaluation works on.
func (g Graph) Rows(t Task) (first, last int) {
	rows := g.PlanRows()
	if t.HeldOut() {
		rows = g.Recipe.Evaluation.Rows()
	}
	return ShardRange(rows, t.Shard, g.Shards(t.Node))
}

// Plan is the plan that a node of rollouts, scores or an evaluation works on.
func (g Graph) Plan(n Node) string {
	if n.HeldOut() {
		return g.Dir.EvaluationPlan()
	}
	return g.Dir.Plan(n.Iteration)
}
