package graph

import (
	"fmt"
	"path/filepath"
)

// Dir is the folder of a run. Where each file lies in it is a contract: files of
// a run are found by their names alone, by any version that reads its format.
type Dir string

// Join returns a path below the run's folder.
func (d Dir) Join(elements ...string) string {
	return filepath.Join(append([]string{string(d)}, elements...)...)
}

// Rel returns a path below the run's folder relative to it, as manifests
// cite it.
func (d Dir) Rel(path string) string {
	rel, err := filepath.Rel(string(d), path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// Identity is run.json: who this run is.
func (d Dir) Identity() string { return d.Join("run.json") }

// Recipe is the recipe as resolved, every default written out.
func (d Dir) Recipe() string { return d.Join("recipe.yaml") }

// Extension is the recipe with which the run went on after it was extended n times; for 0
// that which it was made with.
func (d Dir) Extension(n int) string {
	if n == 0 {
		return d.Recipe()
	}
	return d.Join(fmt.Sprintf("recipe.%d.yaml", n))
}

// Tasks is the task set that the run was made with.
func (d Dir) Tasks() string { return d.Join(TasksName) }

// TasksName is the name of the task set in the folder of a run.
const TasksName = "tasks.parquet"

// Policy is the folder of a policy version, in Hugging Face layout.
func (d Dir) Policy(version int) string { return d.Join("policy", fmt.Sprintf("v%06d", version)) }

// Delta is policy version k as its difference from one that is kept.
func (d Dir) Delta(version int) string { return d.Policy(version) + ".delta" }

// Base is, under policy.lora, the folder of the policy that the versions
// adapt.
func (d Dir) Base() string { return d.Join("policy", "base") }

// Optimizer is the folder of the optimizer state beside a policy version.
func (d Dir) Optimizer(version int) string { return OptimizerOf(d.Policy(version)) }

// Reference is the folder of a refreshed reference policy.
func (d Dir) Reference(version int) string { return d.Policy(version) + ".ref" }

// Critic is the folder of the critic of a policy version under policy.critic
// model, with its optimizer state beside it; [graph.Graph.CriticPath] is that of
// version 0.
func (d Dir) Critic(version int) string { return CriticOf(d.Policy(version)) }

// CriticOf is where the critic of a policy lies, a folder as that is.
func CriticOf(policy string) string { return policy + ".critic" }

// OptimizerOf is where the optimizer state of a policy lies, or of a critic.
func OptimizerOf(policy string) string { return policy + ".optim" }

// Warm is the folder of one checkpoint of the warm start: a policy folder
// with its optimizer state beside it.
func (d Dir) Warm(chunk int) string { return d.Join("warm", fmt.Sprintf("%06d", chunk)) }

// WarmOptimizer is the optimizer state beside a warm-start checkpoint.
func (d Dir) WarmOptimizer(chunk int) string { return OptimizerOf(d.Warm(chunk)) }

// Inherited holds, by name, what a run took over of another's curriculum: state, stats,
// and the responses and scores that the state refers to, rollout and score.
func (d Dir) Inherited(name string) string { return d.Join("inherited", name+".parquet") }

// InheritedIteration is the iteration of references to responses of another run.
const InheritedIteration = -1

// Iteration is the folder of an iteration. Iteration 0 holds the state and
// the ledger before anything is sampled.
func (d Dir) Iteration(k int) string { return d.Join("iter", fmt.Sprintf("%06d", k)) }

// Plan names the instances that an iteration samples.
func (d Dir) Plan(k int) string { return filepath.Join(d.Iteration(k), "plan.parquet") }

// Rollout is one shard of an iteration's responses, in their first wave.
func (d Dir) Rollout(k, shard int) string {
	return d.Sampled(Node{Stage: StageRollout, Iteration: k}, shard)
}

// Score is one shard of an iteration's scores, in their first wave.
func (d Dir) Score(k, shard int) string {
	return d.Sampled(Node{Stage: StageScore, Iteration: k}, shard)
}

// Sampled is one shard of responses or scores, of an iteration or of an
// evaluation, in any wave.
func (d Dir) Sampled(n Node, shard int) string {
	folder, kind := d.Iteration(n.Iteration), "rollout"
	if n.HeldOut() {
		folder = d.evaluations(n.Iteration)
	}
	if n.Wave > 0 {
		folder = filepath.Join(folder, fmt.Sprintf("w%02d", n.Wave))
	}
	if n.Judges() {
		kind = "score"
	}
	return filepath.Join(folder, kind, fmt.Sprintf("%05d.parquet", shard))
}

// Close says with which shards an iteration was closed.
func (d Dir) Close(k int) string { return filepath.Join(d.Iteration(k), "close.json") }

// State holds the curriculum's entries after an iteration.
func (d Dir) State(k int) string { return filepath.Join(d.Iteration(k), "state.parquet") }

// Stats is what else the curriculum knows after an iteration.
func (d Dir) Stats(k int) string { return filepath.Join(d.Iteration(k), "stats.parquet") }

// Batch is what the learner maps.
func (d Dir) Batch(k int) string { return filepath.Join(d.Iteration(k), "batch.arrow") }

// Ledger says what became of each response that the iteration decided on.
func (d Dir) Ledger(k int) string { return filepath.Join(d.Iteration(k), "ledger.parquet") }

// Waiting holds, under schedule.batch_segments, the segments that wait for a batch
// after an iteration.
func (d Dir) Waiting(k int) string { return filepath.Join(d.Iteration(k), "waiting.parquet") }

// Gradient is one gradient shard of one optimizer step.
func (d Dir) Gradient(k, step, shard int) string {
	return filepath.Join(d.Iteration(k), "grad", fmt.Sprintf("step-%03d", step), fmt.Sprintf("%05d.arrow", shard))
}

// Reduced is the sum of some gradient shards of one optimizer step.
func (d Dir) Reduced(k, step, shard int) string {
	return filepath.Join(d.Iteration(k), "grad", fmt.Sprintf("step-%03d", step), "sum", fmt.Sprintf("%05d.arrow", shard))
}

// PartSum is the sum of all gradient shards of one optimizer step, for what one task
// applies.
func (d Dir) PartSum(k, step, shard int) string {
	return filepath.Join(d.Iteration(k), "grad", fmt.Sprintf("step-%03d", step), "part", fmt.Sprintf("%05d.arrow", shard))
}

// PartOf is what one task of an update in parts makes of a policy: a folder of files that
// the policy's folder has under other names, and those of its state.
func PartOf(policy string, shard int) string {
	return filepath.Join(policy+".parts", fmt.Sprintf("%05d", shard))
}

// StepPolicy is the policy after an optimizer step that is not the last of
// its iteration, when gradients are computed in shards.
func (d Dir) StepPolicy(k, step int) string {
	return filepath.Join(d.Iteration(k), "step", fmt.Sprintf("%03d", step))
}

// StepOptimizer is the optimizer state beside StepPolicy.
func (d Dir) StepOptimizer(k, step int) string { return OptimizerOf(d.StepPolicy(k, step)) }

// Metrics gathers what the stages of an iteration measured.
func (d Dir) Metrics(k int) string { return filepath.Join(d.Iteration(k), "metrics.parquet") }

// Usage is what the attempts at these tasks took.
func (d Dir) Usage(k int) string { return filepath.Join(d.Iteration(k), "usage.parquet") }

// EvaluationPlan names the held-out instances that every evaluation samples.
func (d Dir) EvaluationPlan() string { return d.Join("eval", "plan.parquet") }

// Evaluation is one shard of the evaluation of a policy version.
func (d Dir) Evaluation(version, shard int) string {
	return filepath.Join(d.evaluations(version), fmt.Sprintf("%05d.parquet", shard))
}

func (d Dir) evaluations(version int) string {
	return d.Join("eval", fmt.Sprintf("v%06d", version))
}

// Logs holds one log per attempt of each task.
func (d Dir) Logs() string { return d.Join("logs") }

// Log is the path of the log of an attempt.
func (d Dir) Log(t Task, attempt int) string {
	return filepath.Join(d.Logs(), fmt.Sprintf("%s.%d.log", t, attempt))
}

// Jobs holds what was submitted and how tasks exited. None of it decides what
// is done.
func (d Dir) Jobs() string { return d.Join("jobs") }

// ExitRecords is the folder of the records of failed tasks.
func (d Dir) ExitRecords() string { return filepath.Join(d.Jobs(), "exit") }

// ExitRecord is the path of the record that a task leaves when it fails: of a
// submission, from 0, and how often Slurm had requeued that.
func (d Dir) ExitRecord(t Task, submission, restarts int) string {
	return filepath.Join(d.ExitRecords(), fmt.Sprintf("%s.%d.%d.json", t, submission, restarts))
}

// Waits is the folder of the notes of tasks that wait for a program.
func (d Dir) Waits() string { return filepath.Join(d.Jobs(), "waits") }

// Report is the folder of the report.
func (d Dir) Report() string { return d.Join("report") }
