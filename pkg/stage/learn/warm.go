package learn

import (
	"context"
	"fmt"
	"time"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// WarmInputs are the files of one checkpoint of the warm start.
type WarmInputs struct {
	Chunk     int    // from 1
	Source    string // policy folder to start from when the recipe names one
	Policy    string // checkpoint before this one; empty for the first
	Optimizer string // its optimizer state; empty for the first

	FirstStep, LastStep int
	PolicyOutput        string
	PolicyVersion       int    // 0 for the last checkpoint, -1 for the others
	OptimizerOutput     string // empty for the last checkpoint: learning starts with fresh moments
	// Base is, under policy.lora, the folder of the policy that the run's
	// adapters adapt, which the first checkpoint makes.
	Base string
}

// RunWarm makes or copies the first policy and takes the supervised steps of
// one checkpoint: plain negative log-likelihood of correct demonstrations,
// averaged over the tokens of a step.
func RunWarm(ctx context.Context, job stage.Job, world env.Env, in WarmInputs) (seal.Manifest, error) {
	started := time.Now()
	folder, cited, cleanup, err := warmSource(ctx, job, world, in)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer cleanup()
	recent, err := recentBefore(ctx, job, in)
	if err != nil {
		return seal.Manifest{}, err
	}
	// The demonstrations come first: what the engine plans for is their length.
	var lessons []lesson
	if in.LastStep > in.FirstStep && !recent.below(job.Recipe.WarmStart.StopLoss) {
		teacher, err := newTeacher(job.Recipe, world, folder)
		if err != nil {
			return seal.Manifest{}, err
		}
		if lessons, err = teacher.lessons(ctx, in.FirstStep, in.LastStep); err != nil {
			return seal.Manifest{}, err
		}
	}
	engine, base, err := openTrained(job, job.Recipe.WarmStart.Optimizer, folder, WarmWorkload(job.Recipe, longestOf(lessons)))
	if err != nil {
		return seal.Manifest{}, err
	}
	defer engine.Close()
	if in.Optimizer != "" {
		optimizer, err := job.Verify(ctx, in.Optimizer)
		if err != nil {
			return seal.Manifest{}, err
		}
		cited = append(cited, optimizer)
		if err := loadOptimizer(engine, in.Optimizer); err != nil {
			return seal.Manifest{}, err
		}
	}
	m := job.Manifest("warm", in.Chunk, 0, 1, started, cited...)
	if in.Base != "" {
		if in.Chunk == 1 {
			if _, err := sealBase(base, in.Base, job.Attempt, m); err != nil {
				return seal.Manifest{}, err
			}
		}
		base = in.Base
	}
	m.PolicyVersion = in.PolicyVersion
	var loss, learned float64
	steps := 0
	for i, lesson := range lessons {
		if recent.below(job.Recipe.WarmStart.StopLoss) {
			break
		}
		if err := ctx.Err(); err != nil {
			return seal.Manifest{}, err
		}
		step := in.FirstStep + i
		if loss, err = lesson.learn(engine, job.Recipe, step); err != nil {
			return seal.Manifest{}, fmt.Errorf("warm-start step %d: %w", step, err)
		}
		recent.add(loss)
		steps++
		learned += float64(lesson.tokens)
		if (step+1)%100 == 0 || step+1 == in.LastStep || recent.below(job.Recipe.WarmStart.StopLoss) {
			job.Log("warm start step %d of at most %d: loss %.4f, recently %.4f", step+1, job.Recipe.WarmStart.Steps, loss, recent.mean())
		}
	}
	m.Metrics = map[string]float64{
		"loss": loss, "tokens": learned, "optimizer_steps": float64(steps), "seconds": time.Since(started).Seconds(),
		recentSumMetric: recent.sum, recentStepsMetric: float64(recent.steps),
	}
	if err := stage.NoteEngine(&m, engine); err != nil {
		return seal.Manifest{}, err
	}
	if in.OptimizerOutput != "" {
		l := &learner{Job: job, in: Inputs{OptimizerOutput: in.OptimizerOutput}, engine: engine}
		if err := l.saveOptimizer(m); err != nil {
			return seal.Manifest{}, err
		}
	}
	return SavePolicy(engine, folder, in.PolicyOutput, base, job.Attempt, m)
}

// warmSource is the folder to start from: the checkpoint before, the folder
// that the recipe names, or a new policy in a temporary folder.
func warmSource(ctx context.Context, job stage.Job, world env.Env, in WarmInputs) (folder string, cited []seal.Input, cleanup func(), err error) {
	nothing := func() {}
	switch {
	case in.Policy != "":
		cited, err := job.VerifyPolicy(ctx, in.Policy)
		return in.Policy, cited, nothing, err
	case job.Recipe.Policy.New == nil:
		return in.Source, nil, nothing, nil
	}
	// A folder to be sealed that never is: whatever a kill leaves of it is
	// swept like other unfinished work.
	scratch, err := seal.CreateFolder(in.PolicyOutput, job.Attempt)
	if err != nil {
		return "", nil, nothing, err
	}
	cleanup = func() { _ = scratch.Abort() }
	if err := InitPolicy(job.Recipe, world, scratch.Path()); err != nil {
		cleanup()
		return "", nil, nothing, err
	}
	return scratch.Path(), nil, cleanup, nil
}

// teacher makes the demonstrations of each step.
type teacher struct {
	recipe recipe.Recipe
	world  env.Env
	tasks  []env.Task
	chat   chat.Chat
}

// lesson is the batch of one optimizer step.
type lesson struct {
	sequences       []sequence
	tokens, targets int
}

// longestOf is the number of tokens of the longest sequence of lessons.
func longestOf(lessons []lesson) int {
	longest := 1
	for _, l := range lessons {
		for _, s := range l.sequences {
			longest = max(longest, len(s.TokenIDs))
		}
	}
	return longest
}

func newTeacher(r recipe.Recipe, world env.Env, folder string) (*teacher, error) {
	tasks, err := env.TrainingTasks(world, "warm_start.kinds", r.WarmStart.Kinds)
	if err != nil {
		return nil, err
	}
	t := &teacher{recipe: r, world: world, tasks: tasks}
	t.chat, err = chat.Load(folder, time.Time{})
	return t, err
}

// lessons makes those of steps [first, last).
func (t *teacher) lessons(ctx context.Context, first, last int) ([]lesson, error) {
	lessons := make([]lesson, last-first)
	for i := range lessons {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if lessons[i], err = t.lesson(first + i); err != nil {
			return nil, fmt.Errorf("warm-start step %d: %w", first+i, err)
		}
	}
	return lessons, nil
}

// lesson draws the demonstrations of a step.
func (t *teacher) lesson(step int) (lesson, error) {
	var l lesson
	for i := range t.recipe.WarmStart.Batch {
		conversation, err := t.demonstration(step, i)
		if err != nil {
			return l, err
		}
		ids, mask, err := t.chat.Demonstrate(conversation)
		if err != nil {
			return l, err
		}
		for _, masked := range mask {
			if masked {
				l.targets++
			}
		}
		l.tokens += len(ids)
		l.sequences = append(l.sequences, sequence{Sequence: shard.Sequence{TokenIDs: ids, LossMask: mask}})
	}
	return l, nil
}

// learn takes an optimizer step on a lesson and returns its loss in nats per
// token.
func (l lesson) learn(engine policy.Engine, r recipe.Recipe, step int) (loss float64, err error) {
	engine.ZeroGradients()
	for _, micro := range microBatches(bundles(l.sequences, 0), r.Schedule.MicroBatchTokens, engine.Room) {
		batch := pack(micro).Batch
		n := len(batch.TokenIDs)
		logProbs, entropy, coefficients := make([]float32, n), make([]float32, n), make([]float32, n)
		if err := engine.Forward(batch, policy.Sampling{Temperature: 1}, logProbs, entropy); err != nil {
			return 0, err
		}
		for i, wanted := range batch.Targets {
			if wanted {
				loss -= float64(logProbs[i]) / float64(l.targets)
				coefficients[i] = -1 / float32(l.targets)
			}
		}
		if err := engine.Backward(policy.Coefficients{LogProb: coefficients}); err != nil {
			return 0, err
		}
	}
	_, err = takeStep(engine, r.WarmStart.Optimizer, step+1, r.WarmStart.Steps, rng.New(r.Seed, rng.PurposeRounding, step+1, "warm_start", 0))
	return loss, err
}

// demonstration draws a task and the kind of prompt to answer.
func (t *teacher) demonstration(step, index int) ([]shard.Message, error) {
	stream := rng.New(t.recipe.Seed, rng.PurposeWarmStart, step, "", index)
	task := t.tasks[stream.IntN(0, len(t.tasks))]
	kind, u := shard.KindInitial, stream.Float64(1)
	switch w := t.recipe.WarmStart; {
	case u < w.Improve:
		kind = shard.KindImprove
	case u < w.Improve+w.Diverge:
		kind = shard.KindDiverge
	}
	conversation, ok, err := t.world.Demonstration(task, kind, rng.New(t.recipe.Seed, rng.PurposeWarmStart, step, task.ID, index))
	if err != nil {
		return nil, fmt.Errorf("demonstrating task %q: %w", task.ID, err)
	}
	if !ok {
		return nil, exitcode.Usagef("task %q of environment %q has no demonstration of kind %q: set warm_start.steps to 0", task.ID, t.world.Name(), kind)
	}
	return conversation, nil
}
