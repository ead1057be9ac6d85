// Package warm makes the policy that a run starts from: a new one or a copy,
// after supervised learning on correct demonstrations or on a pool.
package warm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shares"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// Inputs are the files of one checkpoint of the warm start.
type Inputs struct {
	Chunk     int    // from 1
	Source    string // policy folder to start from when the recipe names one
	Policy    string // checkpoint before this one; empty for the first
	Optimizer string // its optimizer state, or the source's; empty for none

	// SourceSHA256 and OptimizerSHA256 are contents that the source and its optimizer state
	// must have, which are of another run; empty for any.
	SourceSHA256, OptimizerSHA256 string

	Pool       string // file of lathe pool to learn from; empty for demonstrations
	PoolSHA256 string // of its content

	Data       []env.Input // files of warm_start.data, as the run was made with them
	DataFolder string      // that their names are relative to

	FirstStep, LastStep int
	PolicyOutput        string
	PolicyVersion       int    // 0 for the last checkpoint, -1 for the others
	OptimizerOutput     string // empty for the last checkpoint, unless it has the source's: learning starts with fresh moments
	// Base is, under policy.lora, the folder of the policy that the run's
	// adapters adapt, which the first checkpoint makes.
	Base string
}

// Settings are what a warm start reads of a recipe.
type Settings struct {
	Seed             uint64
	Policy           recipe.Policy
	WarmStart        recipe.WarmStart
	MicroBatchTokens int // of a pass; 0 leaves them to the engine
}

// SettingsOf are those of a recipe.
func SettingsOf(r recipe.Recipe) Settings {
	return Settings{r.Seed, r.Policy, r.WarmStart, r.Schedule.MicroBatchTokens}
}

// Run makes or copies the first policy and takes the supervised steps of
// one checkpoint: plain negative log-likelihood of correct demonstrations or of
// what a pool holds, averaged over the tokens of a step.
func Run(ctx context.Context, job stage.Job, s Settings, environment env.Env, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	var folder string
	var cited []seal.Input
	var err error
	switch {
	case in.Policy != "":
		folder = in.Policy
		cited, err = job.VerifyPolicy(ctx, folder)
	case s.Policy.New == nil:
		folder = in.Source
		if in.SourceSHA256 != "" {
			cited, err = pinned(ctx, job, folder, in.SourceSHA256)
		}
	default:
		var cleanup func()
		folder, cleanup, err = newPolicy(s, environment, in.PolicyOutput, job.Attempt)
		defer cleanup()
	}
	if err != nil {
		return seal.Manifest{}, err
	}
	recent, err := recentBefore(ctx, in.Policy, job.Reading)
	if err != nil {
		return seal.Manifest{}, err
	}
	// The demonstrations come first: what the engine plans for is their length.
	var batches []batch
	var held batch
	if in.LastStep > in.FirstStep && !recent.below(s.WarmStart.StopLoss) {
		switch {
		case in.Pool != "":
			var pool seal.Input
			batches, pool, err = pooled(ctx, job, s, in, folder)
			cited = append(cited, pool)
		case s.WarmStart.Data != nil:
			batches, held, err = ofFiles(ctx, job, &s, environment, &in, folder)
		default:
			batches, err = demonstrated(ctx, s, environment, folder, in)
		}
		if err != nil {
			return seal.Manifest{}, err
		}
	}
	engine, base, err := trainer.OpenTrained(s.Policy, s.Seed, job.Process, s.WarmStart.Optimizer, folder, Workload(s, longestOf(append(batches, held))))
	if err != nil {
		return seal.Manifest{}, err
	}
	defer engine.Close()
	if in.Optimizer != "" {
		optimizer, err := pinned(ctx, job, in.Optimizer, in.OptimizerSHA256)
		if err != nil {
			return seal.Manifest{}, err
		}
		cited = append(cited, optimizer...)
		if err := trainer.LoadOptimizer(engine, in.Optimizer); err != nil {
			return seal.Manifest{}, err
		}
	}
	m := job.Manifest("warm", in.Chunk, 0, 1, started, cited...)
	if in.Base != "" {
		if in.Chunk == 1 {
			if _, err := trainer.SealBase(base, in.Base, job.Attempt, m); err != nil {
				return seal.Manifest{}, err
			}
		}
		base = in.Base
	}
	m.PolicyVersion = in.PolicyVersion
	m.Metrics = map[string]float64{}
	if in.Chunk == 1 {
		if err := lossOf(engine, s, held, "held_out_loss_before", "before the first step", m.Metrics, job); err != nil {
			return seal.Manifest{}, err
		}
	}
	var loss, learned float64
	steps := 0
	for i, batch := range batches {
		if recent.below(s.WarmStart.StopLoss) {
			break
		}
		if err := ctx.Err(); err != nil {
			return seal.Manifest{}, err
		}
		step := in.FirstStep + i
		if loss, err = batch.learn(engine, s, step); err != nil {
			return seal.Manifest{}, fmt.Errorf("warm-start step %d: %w", step, err)
		}
		recent.add(loss)
		steps++
		learned += float64(batch.tokens)
		if (step+1)%100 == 0 || step+1 == in.LastStep || recent.below(s.WarmStart.StopLoss) {
			job.Log("warm start step %d of at most %d: loss %.4f, recently %.4f", step+1, s.WarmStart.Steps, loss, recent.mean())
		}
	}
	if err := lossOf(engine, s, held, "held_out_loss", fmt.Sprintf("after step %d", in.FirstStep+steps), m.Metrics, job); err != nil {
		return seal.Manifest{}, err
	}
	maps.Copy(m.Metrics, map[string]float64{
		"loss": loss, "tokens": learned, "optimizer_steps": float64(steps),
		recentSumMetric: recent.sum, recentStepsMetric: float64(recent.steps),
	})
	if err := stage.NoteEngine(&m, engine); err != nil {
		return seal.Manifest{}, err
	}
	if in.OptimizerOutput != "" {
		if err := trainer.SaveOptimizer(engine, in.OptimizerOutput, job.Attempt, m); err != nil {
			return seal.Manifest{}, err
		}
	}
	return trainer.SavePolicy(engine, folder, in.PolicyOutput, base, job.Attempt, m)
}

// pinned verifies what is sealed at a path, of another run if a digest is given.
func pinned(ctx context.Context, job stage.Job, path, contentSHA256 string) ([]seal.Input, error) {
	input, err := job.Verify(ctx, path)
	if err == nil && contentSHA256 != "" && input.ContentSHA256 != contentSHA256 {
		err = exitcode.WithHint(exitcode.Dataf("%q has changed since the run was made: content sha256 %s, was %s", path, input.ContentSHA256, contentSHA256),
			"put it back as it was, or start a new run")
	}
	return []seal.Input{input}, err
}

// newPolicy makes the policy that the recipe describes in a temporary folder.
func newPolicy(s Settings, environment env.Env, output string, attempt seal.Attempt) (folder string, cleanup func(), err error) {
	// A folder to be sealed that never is: whatever a kill leaves of it is
	// swept like other unfinished work.
	scratch, err := seal.CreateFolder(output, attempt)
	if err != nil {
		return "", func() {}, err
	}
	return scratch.Path(), func() { _ = scratch.Abort() }, InitPolicy(s, environment, scratch.Path())
}

// Workload is what a warm start asks of its engine, with sequences of at most
// longest tokens; 0 for as many as the policy takes.
func Workload(s Settings, longest int) policy.Workload {
	return policy.Workload{Longest: longest, PassTokens: s.MicroBatchTokens}
}

// demonstrator makes the demonstrations of each step.
type demonstrator struct {
	Settings
	environment env.Env
	tasks       [][]env.Task // by environment
	shares      shares.Shares
	chat        chat.Chat
}

// demonstrated are the batches of a checkpoint's steps.
func demonstrated(ctx context.Context, s Settings, environment env.Env, folder string, in Inputs) ([]batch, error) {
	d, err := newDemonstrator(s, environment, folder)
	if err != nil {
		return nil, err
	}
	return d.batches(ctx, in.FirstStep, in.LastStep)
}

// batch is what one optimizer step learns from.
type batch struct {
	sequences       []trainer.Sequence
	tokens, targets int
}

// add adds a sequence and the tokens of it that are learned from.
func (b *batch) add(ids []int32, mask []bool) {
	for _, masked := range mask {
		if masked {
			b.targets++
		}
	}
	b.tokens += len(ids)
	b.sequences = append(b.sequences, trainer.Sequence{Sequence: shard.Sequence{TokenIDs: ids, LossMask: mask}})
}

// longestOf is the number of tokens of the longest sequence of batches.
func longestOf(batches []batch) int {
	longest := 1
	for _, b := range batches {
		for _, s := range b.sequences {
			longest = max(longest, len(s.TokenIDs))
		}
	}
	return longest
}

func newDemonstrator(s Settings, environment env.Env, folder string) (*demonstrator, error) {
	tasks, err := environment.Set().TrainingTasks("warm_start.kinds", s.WarmStart.Kinds)
	if err != nil {
		return nil, err
	}
	d := &demonstrator{Settings: s, environment: environment}
	d.tasks, d.shares = environment.Set().Apart(tasks)
	d.chat, err = stage.LoadChat(s.Policy, folder)
	return d, err
}

// batches makes those of steps [first, last).
func (d *demonstrator) batches(ctx context.Context, first, last int) ([]batch, error) {
	batches := make([]batch, last-first)
	for i := range batches {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if batches[i], err = d.batch(first + i); err != nil {
			return nil, fmt.Errorf("warm-start step %d: %w", first+i, err)
		}
	}
	return batches, nil
}

// batch draws the demonstrations of a step.
func (d *demonstrator) batch(step int) (batch, error) {
	var b batch
	of, _ := d.shares.Plan(step*d.WarmStart.Batch, d.WarmStart.Batch)
	for i := range d.WarmStart.Batch {
		conversation, err := d.demonstration(step, i, d.tasks[of[i]])
		if err != nil {
			return b, err
		}
		ids, mask, err := d.chat.Demonstrate(conversation)
		if err != nil {
			return b, err
		}
		b.add(ids, mask)
	}
	return b, nil
}

// learn takes an optimizer step on a batch and returns its loss in nats per
// token.
func (b batch) learn(engine *policy.Engine, s Settings, step int) (nats float64, err error) {
	engine.ZeroGradients()
	for _, micro := range trainer.MicroBatches(trainer.Bundles(b.sequences, 0), s.MicroBatchTokens, engine.Room) {
		batch, logProbs, err := forward(engine, micro)
		if err != nil {
			return 0, err
		}
		coefficients := make([]float32, len(logProbs))
		for i, wanted := range batch.Targets {
			if wanted {
				nats -= float64(logProbs[i]) / float64(b.targets)
				coefficients[i] = -1 / float32(b.targets)
			}
		}
		if err := engine.Backward(policy.Coefficients{LogProb: coefficients}); err != nil {
			return 0, err
		}
	}
	_, err = trainer.TakeStep(engine, s.WarmStart.Optimizer, loss.Value{}, step+1, s.WarmStart.Steps, rng.New(s.Seed, rng.PurposeRounding, step+1, "warm_start", 0))
	return nats, err
}

// forward returns the log-probabilities of sequences, of which none attends to another.
func forward(engine *policy.Engine, micro []trainer.Bundle) (policy.Batch, []float32, error) {
	batch := trainer.Pack(micro).Batch
	n := len(batch.TokenIDs)
	logProbs, entropy := make([]float32, n), make([]float32, n)
	return batch, logProbs, engine.Forward(batch, policy.Sampling{Temperature: 1}, logProbs, entropy)
}

// demonstration draws one of the tasks and the kind of prompt to answer.
func (d *demonstrator) demonstration(step, index int, tasks []env.Task) ([]shard.Message, error) {
	stream := rng.New(d.Seed, rng.PurposeWarmStart, step, "", index)
	task := tasks[stream.IntN(0, len(tasks))]
	kind, u := shard.KindInitial, stream.Float64(1)
	switch w := d.WarmStart; {
	case u < w.Improve:
		kind = shard.KindImprove
	case u < w.Improve+w.Diverge:
		kind = shard.KindDiverge
	}
	conversation, ok, err := d.environment.Demonstration(task, kind, rng.New(d.Seed, rng.PurposeWarmStart, step, task.ID, index))
	if err != nil {
		return nil, fmt.Errorf("demonstrating task %q: %w", task.ID, err)
	}
	if !ok {
		return nil, NoDemonstration(task.ID, d.environment, kind)
	}
	return conversation, nil
}

// NoDemonstration is the error of a recipe that learns from demonstrations of a kind of
// which the environment has none. Each kind has a setting of its own.
func NoDemonstration(task string, environment env.Env, kind shard.Kind) error {
	setting := map[shard.Kind]string{shard.KindImprove: "warm_start.improve", shard.KindDiverge: "warm_start.diverge"}[kind]
	return exitcode.Usagef("%s: task %q of environment %q has no demonstration of kind %q: set it to 0", cmp.Or(setting, "warm_start.steps"), task, environment.Set().Name(), kind)
}

// CheckDemonstrations looks whether a task of the environment has a demonstration of each
// kind that a recipe learns from, before anything is made.
func CheckDemonstrations(environment env.Env, s Settings) error {
	w := s.WarmStart
	if !w.Demonstrated() {
		return nil
	}
	tasks, err := environment.Set().TrainingTasks("warm_start.kinds", w.Kinds)
	if err != nil {
		return err
	}
	apart, _ := environment.Set().Apart(tasks)
	for kind, share := range map[shard.Kind]float64{shard.KindInitial: 1 - w.Improve - w.Diverge, shard.KindImprove: w.Improve, shard.KindDiverge: w.Diverge} {
		if share <= 0 {
			continue
		}
		for _, own := range apart {
			_, there, err := environment.Demonstration(own[0], kind, rng.New(s.Seed, rng.PurposeWarmStart, 0, own[0].ID, 0))
			if err == nil && !there {
				return NoDemonstration(own[0].ID, environment, kind)
			}
		}
	}
	return nil
}
