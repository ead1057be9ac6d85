// Package learn updates a policy from a batch: in one task, as an array of gradient
// shards and a task that applies them, or with an array that applies them in parts, to
// the same bytes.
package learn

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/arrowfile"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// Inputs are the files that a learner task reads and those it makes.
type Inputs struct {
	Iteration int
	Batch     string
	Policy    string // the policy that the step starts from
	Start     string // the policy that the iteration starts from, whose values are the old ones; empty for Policy
	Optimizer string // its optimizer state; empty for a fresh one
	// Under policy.critic model, the critic before the step, its optimizer state and
	// the critic that the iteration starts from, as of the policy; else empty.
	Critic, CriticOptimizer, StartCritic string
	Reference                            string // empty when the loss has no KL term, and under policy.lora, where it is what is adapted
	Base                                 string // under policy.lora, the folder that the new adapter will name as what it adapts; empty for that of Policy

	Teacher       string // folder of the teacher, with advantage.teacher; else empty
	TeacherSHA256 string // its content when the run was made, of a folder outside the run; empty for not known

	FirstStep  int // optimizer steps of this iteration to take, LastStep exclusive
	LastStep   int
	StepsSoFar int // optimizer steps of all iterations before this one, for the learning rate
	StepsTotal int // optimizer steps of the whole run

	Gradients []string // gradient shards to apply, in order; empty to compute; of an update in parts, the sums
	Parts     []string // of an update in parts, what its tasks made, in order

	// PolicyOf is the folder of a policy version, for responses that were
	// sampled by another program than our engine; nil stands for Policy.
	PolicyOf func(version int) string

	PolicyOutput    string
	PolicyVersion   int
	OptimizerOutput string
	ReferenceOutput string // empty unless this iteration refreshes the reference

	CriticOutput, CriticOptimizerOutput string // with Critic
}

// Run takes optimizer steps and seals the policy that comes out.
func Run(ctx context.Context, job stage.Job, s Settings, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	l := &learner{Settings: s, files: job.Files, process: job.Process, in: in}
	miniBatches := s.Loss.MiniBatches
	wanted := func(u unit) bool { // in one of the steps to take, of gradients that are computed here
		first := (u.step - in.FirstStep%miniBatches + miniBatches) % miniBatches
		return len(in.Gradients) == 0 && in.FirstStep+first < in.LastStep
	}
	if err := l.open(ctx, Workload, wanted); err != nil {
		return seal.Manifest{}, err
	}
	defer l.close()
	var totals totals
	var lastEntropy float64 // of the last optimizer step, so that it does not depend on gradient shards
	for step := in.FirstStep; step < in.LastStep; step++ {
		stats, err := l.gradient(ctx, step)
		if err != nil {
			return seal.Manifest{}, err
		}
		if err := l.apply(step, stats); err != nil {
			return seal.Manifest{}, err
		}
		totals.add(*stats)
		lastEntropy = stats.entropy()
	}
	m, err := l.manifest(job, started, totals, lastEntropy)
	if err != nil {
		return seal.Manifest{}, err
	}
	m.Metrics["batch_bytes_read"] = float64(l.batch.BytesRead())
	if err := trainer.NoteDevice(&m, l.engine.Meter); err != nil {
		return seal.Manifest{}, err
	}
	if err := stage.NoteEngine(&m, l.engine); err != nil {
		return seal.Manifest{}, err
	}
	if err := trainer.SaveOptimizer(l.engine, in.OptimizerOutput, job.Attempt, m); err != nil {
		return seal.Manifest{}, err
	}
	if l.critic != nil {
		if err := trainer.SaveOptimizer(l.critic, in.CriticOptimizerOutput, job.Attempt, m); err != nil {
			return seal.Manifest{}, err
		}
		if _, err := trainer.SavePolicy(l.critic, in.Critic, in.CriticOutput, l.base, job.Attempt, m); err != nil {
			return seal.Manifest{}, err
		}
	}
	if err := l.saveReference(job.Attempt, m); err != nil {
		return seal.Manifest{}, err
	}
	job.Log("learn %d: %d tokens, loss %.5f, gradient norm %.4f, %.1f s",
		in.Iteration, totals.all.Tokens, m.Metrics["loss"], m.Metrics["grad_norm"], time.Since(started).Seconds())
	return trainer.SavePolicy(l.engine, in.Policy, in.PolicyOutput, l.base, job.Attempt, m)
}

// manifest is that of a policy after optimizer steps.
func (l *learner) manifest(job stage.Job, started time.Time, totals totals, lastEntropy float64) (seal.Manifest, error) {
	m := job.Manifest("learn", l.in.Iteration, 0, 1, started, l.cited...)
	m.PolicyVersion = l.in.PolicyVersion
	m.Metrics = totals.metrics()
	if l.Loss.EntropyTarget > 0 {
		m.Metrics[entropyCoefMetric] = l.entropyCoef
		if totals.all.Tokens > 0 {
			m.Metrics[lastEntropyMetric] = lastEntropy
		}
	}
	return m, l.notePreset(&m)
}

// learner is one loaded policy with what it learns from.
type learner struct {
	Settings
	files   stage.Files
	process stage.Process
	in      Inputs
	engine  *policy.Engine
	critic  *policy.Engine // that is a model of its own; nil for none
	trained trained        // the engine, with such a critic
	base    string         // that the new adapter will name
	batch   *arrowfile.Batch
	// elsewhere says that an engine whose numbers may differ from the learner's sampled
	// some of the batch: then the old log-probabilities are computed again.
	elsewhere bool
	// before is what was computed of sequences before the first optimizer step, by
	// place. Their tokens are not there: they are read again.
	before map[int32]*trainer.Sequence
	cited  []seal.Input
	// entropyCoef is, with loss.entropy_target, what the coefficient has come to; Loss has
	// the one that acts.
	entropyCoef float64
}

// open reads the batch, computes what must be known of the units that are wanted
// before the first optimizer step, and opens what is trained, for a workload. Of
// policies that are not trained one is open at a time, and none beside one that is.
func (l *learner) open(ctx context.Context, workload func(s Settings, longest int) policy.Workload, wanted func(unit) bool) error {
	defer phase.Enter(phase.Load)()
	in := l.in
	batch, batchManifest, err := arrowfile.OpenBatch(ctx, in.Batch, l.files.Reading)
	if err != nil {
		return err
	}
	l.batch = batch
	l.cited = append(l.cited, l.files.Input(in.Batch, batchManifest))
	if err := l.adaptEntropy(ctx); err != nil {
		return err
	}
	looks, err := l.looks(ctx, batchManifest, wanted)
	if err != nil {
		return err
	}
	if err := l.lookBefore(ctx, looks); err != nil {
		return err
	}
	if err := l.openTrained(ctx, workload(l.Settings, l.longest())); err != nil {
		return err
	}
	return l.lookWithTrained(looks)
}

// openTrained opens what is trained, with its optimizer's state.
func (l *learner) openTrained(ctx context.Context, workload policy.Workload) (err error) {
	in := l.in
	if err := l.citePolicy(ctx, in.Policy); err != nil {
		return err
	}
	if l.engine, l.base, err = trainer.OpenTrained(l.Policy, l.Seed, l.process, l.Optimizer, in.Policy, workload); err != nil {
		return err
	}
	l.trained = l.engine
	if in.Base != "" {
		l.base = in.Base
	}
	if in.Optimizer != "" {
		if err := l.loadOptimizer(ctx, l.engine, in.Optimizer); err != nil {
			return err
		}
	}
	if in.Critic != "" {
		if err := l.openCritic(ctx, workload); err != nil {
			return fmt.Errorf("critic: %w", err)
		}
	}
	return nil
}

func (l *learner) citePolicy(ctx context.Context, folder string) error {
	cited, err := l.files.VerifyPolicy(ctx, folder)
	l.cited = append(l.cited, cited...)
	return err
}

// loadOptimizer gives an engine the optimizer state that a folder holds.
func (l *learner) loadOptimizer(ctx context.Context, engine policy.Trainer, folder string) error {
	cited, err := l.files.Verify(ctx, folder)
	if err != nil {
		return err
	}
	l.cited = append(l.cited, cited)
	return trainer.LoadOptimizer(engine, folder)
}

// openPolicy opens a policy that is not trained.
func (l *learner) openPolicy(ctx context.Context, folder string, p recipe.Policy) (*policy.Engine, error) {
	if err := l.citePolicy(ctx, folder); err != nil {
		return nil, err
	}
	return backend.Open(folder, trainer.EngineOptions(p, l.process, l.Optimizer, false, l.Workload(l.longest())))
}

func (l *learner) close() {
	if l.critic != nil {
		l.critic.Close()
	}
	l.engine.Close()
	l.batch.Close()
}

// gradient leaves the summed gradient of one optimizer step in the engine: it
// computes it, or sums the gradient shards that hold it.
func (l *learner) gradient(ctx context.Context, step int) (*stepStats, error) {
	l.trained.ZeroGradients()
	tree := newTree(l.trained, l.GradientUnits)
	stats := &stepStats{}
	if len(l.in.Gradients) > 0 {
		if _, err := l.readGradients(ctx, tree, stats); err != nil {
			return nil, err
		}
	} else if err := l.units(ctx, step, tree, stats); err != nil {
		return nil, err
	}
	return stats, tree.finish()
}

// apply takes the optimizer step with the engine's gradient. A step without
// sequences changes nothing, and says so.
func (l *learner) apply(step int, stats *stepStats) error {
	if stats.Sequences == 0 {
		stats.Skipped = true
		return nil
	}
	take := func(engine *policy.Engine) (policy.StepStats, error) {
		settings, err := stepSettings(l.Settings, l.in, step, engine == l.critic)
		if err != nil {
			return policy.StepStats{}, err
		}
		return engine.Step(settings)
	}
	done, err := take(l.engine)
	stats.GradNorm, stats.HeadNorm, stats.Skipped = done.GradNorm, done.HeadNorm, done.Skipped
	if err != nil || l.critic == nil {
		return err
	}
	done, err = take(l.critic)
	stats.HeadNorm, stats.Skipped = done.GradNorm, stats.Skipped || done.Skipped
	return err
}

// stepSettings are those of an optimizer step of the iteration, from 0, of the policy or
// of a critic that is a model of its own.
func stepSettings(s Settings, in Inputs, step int, critic bool) (policy.AdamW, error) {
	number, of := in.StepsSoFar+step+1, "learn"
	own, value := s.Optimizer, s.Loss.Value
	if critic {
		of = "critic"
		own.LearningRate, own.MaxGradNorm = cmp.Or(value.LearningRate, own.LearningRate), cmp.Or(value.MaxGradNorm, own.MaxGradNorm)
		value = loss.Value{}
	}
	return trainer.StepOf(own, value, number, in.StepsTotal, rng.New(s.Seed, rng.PurposeRounding, number, of, 0))
}

// saveReference refreshes the reference policy: ref ← α·policy + (1-α)·ref
// (ExIt §2.2).
func (l *learner) saveReference(attempt seal.Attempt, m seal.Manifest) error {
	if l.in.ReferenceOutput == "" {
		return nil
	}
	weights, _ := policy.SplitValueHead(l.engine.Weights())
	if err := l.engine.Err(); err != nil {
		return fmt.Errorf("reading the weights: %w", err)
	}
	_, reference, err := checkpoint.Load(l.in.Reference)
	if err != nil {
		return err
	}
	if len(weights) != len(reference) {
		return exitcode.Dataf("reference %q has %d tensors, policy %q has %d", l.in.Reference, len(reference), l.in.Policy, len(weights))
	}
	for i := range reference {
		if err := loss.RefreshReference(reference[i].Data, weights[i].Data, l.Loss.KL.RefAlpha); err != nil {
			return err
		}
	}
	_, err = trainer.SaveWhole(reference, l.in.Reference, l.in.ReferenceOutput, attempt, m)
	return err
}
