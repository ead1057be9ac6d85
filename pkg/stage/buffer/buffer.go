// Package buffer is the task that follows an iteration's scores: package batch builds
// what is learned from, and package plan what is sampled next.
package buffer

import (
	"context"
	"time"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/batch"
	"github.com/lathe-rl/lathe/pkg/stage/plan"
)

// The names of what a task reads and makes.
type (
	ShardRef = batch.ShardRef
	PlanRef  = plan.Ref
	WaveRef  = stage.WaveRef
)

// Settings are what the task reads of a recipe.
type Settings struct {
	Batch batch.Settings
	Plan  plan.Settings
}

// SettingsOf are those of a recipe.
func SettingsOf(r recipe.Recipe) Settings {
	return Settings{batch.SettingsOf(r), plan.SettingsOf(r)}
}

// Inputs are the files that a buffer task reads and those it makes.
type Inputs struct {
	Iteration int        // 0 makes the first state and plans
	Plans     []PlanRef  // of every iteration that Shards draw from, this one first
	Shards    []ShardRef // this iteration's in order, then the carried ones
	LeftOut   []ShardRef // given up: their instances are dropped
	Late      []ShardRef // stopped when the iteration was closed: their instances are dropped
	RunEnded  []ShardRef // late for good: no iteration is left to carry them into
	State     string     // of the previous iteration, or inherited; empty for none
	Stats     string     // beside it; empty for none
	Waiting   string     // segments that wait for a batch, beside it; empty for none
	// WaveOf names the files that hold a response to an instance of any iteration
	// up to this one, and its scores, to continue from there. The scores may be
	// unknown.
	WaveOf func(ref shard.Ref, instanceID string) (WaveRef, error)

	StateOutput  string
	StatsOutput  string
	BatchOutput  string // empty for iteration 0
	LedgerOutput string // empty for iteration 0
	// WaitingOutput is read by the next iteration under schedule.batch_segments;
	// empty where there is none.
	WaitingOutput string
	PlanOutputs   []PlanRef
	PlanRows      int
}

// Run folds one iteration.
func Run(ctx context.Context, job stage.Job, s Settings, environment env.Env, chooser curriculum.Curriculum, in Inputs) error {
	blank := job.Manifest("buffer", in.Iteration, 0, 1, time.Now())
	next := plan.Inputs{
		Iteration: in.Iteration, WaveOf: in.WaveOf,
		StateOutput: in.StateOutput, StatsOutput: in.StatsOutput, PlanOutputs: in.PlanOutputs, PlanRows: in.PlanRows,
	}
	known, cited, err := plan.Read(ctx, job.Files, in.Iteration, in.State, in.Stats)
	if err != nil {
		return err
	}
	next.Cited = cited
	if in.Iteration > 0 {
		folded := batch.Inputs{
			Iteration: in.Iteration, Plans: in.Plans, Shards: in.Shards, LeftOut: in.LeftOut, Late: in.Late, RunEnded: in.RunEnded,
			Waiting: in.Waiting, RewardStats: known.RewardStats, Entries: known.State.Entries, Cited: next.Cited, WaveOf: in.WaveOf,
			BatchOutput: in.BatchOutput, LedgerOutput: in.LedgerOutput, WaitingOutput: in.WaitingOutput,
		}
		if s.Batch.Advantage.Teacher.Rewords() {
			folded.TeacherPrompt = improving(environment)
		}
		result, err := batch.Run(ctx, job, s.Batch, folded, blank)
		if err != nil {
			return err
		}
		known.RewardStats = result.RewardStats
		next.Groups, next.Plans, next.Cited = result.Groups, result.Plans, result.Cited
	}
	return plan.Run(ctx, job, s.Plan, environment, chooser, known, next, blank)
}

// improving words an environment's prompt to improve a response to a task.
func improving(environment env.Env) func(taskID string, conversation []shard.Message, score shard.Score) ([]shard.Message, error) {
	return func(taskID string, conversation []shard.Message, score shard.Score) ([]shard.Message, error) {
		task, ok := environment.Set().Task(taskID)
		if !ok {
			return nil, exitcode.Dataf("environment %q has no task %q", environment.Set().Name(), taskID)
		}
		parent := env.Parent{Messages: conversation}
		if n := len(score.Turns); n > 0 {
			verdict := env.TurnVerdictOf(score.Turns[n-1])
			parent.Verdict = &verdict
		}
		return environment.Prompt(task, shard.KindImprove, parent)
	}
}
