package command

import (
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy/bench"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// By hand, with prompts of 100 tokens that are read at 1,000 a second, decoding at 10 a
// second by one and 400 by 64 at a time, training at 500 and half a second an update.
func TestForetell(t *testing.T) {
	t.Parallel()
	b := benchmark{PromptTokens: 100, Rates: []bench.Rate{
		{Work: bench.Prefill, Batch: 64, TokensPerSecond: 1000, Seconds: 1},
		{Work: bench.Decode, Batch: 1, TokensPerSecond: 10, Seconds: 1},
		{Work: bench.Decode, Batch: 64, TokensPerSecond: 400, Seconds: 1},
		{Work: bench.Train, Batch: 8, TokensPerSecond: 500, Seconds: 1},
		{Work: bench.Update, Batch: 1, Seconds: 0.5},
	}}
	var r recipe.Recipe
	r.Rollout = recipe.Rollout{Prompts: 32, Group: 4, MaxNewTokens: 50, Shards: 2}
	r.Schedule.Oversample, r.Schedule.GradientUnits, r.Schedule.GradientShards = 1, 8, 1
	r.Loss.Epochs, r.Loss.MiniBatches = 2, 4

	// A task has 16 prompts, 64 responses: 64·100/1000 + 64·50/400 = 14.4 s. All 128 are
	// learned from twice, 2·128·150/500 = 76.8 s, in 8 updates of 0.5 s.
	alone := b.estimate(r)
	check(t, alone, 128, map[graph.Stage]float64{graph.StageRollout: 14.4, graph.StageLearn: 80.8})
	if want := []string{"resources.stages.rollout.minutes=1", "resources.stages.learn.minutes=3"}; !slices.Equal(alone.settings(), want) {
		t.Errorf("settings %q, want %q", alone.settings(), want)
	}

	// Of 4 steps in 2 shards a gradient task has an eighth of 38.4 s. A chunk of 20 steps of
	// 8 demonstrations takes 20·(8·150/500 + 0.5) = 58 s. Of 3 problems with 2 samples and
	// a greedy chain, in 2 tasks, one has 2 problems, 6 responses at a time at the rate of
	// one: 3 attempts of 6·100/1000 + 6·10/10 s each.
	r.Schedule.GradientShards = 2
	r.WarmStart.Steps, r.WarmStart.Chunk, r.WarmStart.Batch = 50, 20, 8
	r.Evaluation = recipe.Evaluation{Problems: 3, Samples: 2, Greedy: true, Steps: 2, MaxNewTokens: 10, Shards: 2, Scaffold: "chain"}
	check(t, b.estimate(r), 128, map[graph.Stage]float64{
		graph.StageWarm: 58, graph.StageRollout: 14.4, graph.StageGradient: 4.8, graph.StageLearn: 0.5, graph.StageEvalRollout: 19.8,
	})
}

// With the rates above: three turns of 50, 20 and 20 tokens are 300 tokens read and 90
// written, in each of two attempts of two samples. Evaluations write 10 a turn. Of a policy
// that takes 195 tokens both are half, and 195/330 there.
func TestForetellTurns(t *testing.T) {
	t.Parallel()
	b := benchmark{PromptTokens: 100, Rates: []bench.Rate{
		{Work: bench.Prefill, TokensPerSecond: 1000},
		{Work: bench.Decode, TokensPerSecond: 10},
		{Work: bench.Train, TokensPerSecond: 500},
		{Work: bench.Update},
	}}
	asked := func(example string, set ...string) recipe.Recipe {
		set = append(set, "rollout.prompts=1", "rollout.group=2", "rollout.max_new_tokens=50", "rollout.max_new_tokens_by_turn=[50, 20]", "rollout.shards=1",
			"scaffold.name=chain", "scaffold.steps=1", "loss.epochs=1", "schedule.oversample=1", "schedule.gradient_shards=1", "warm_start.steps=0",
			"evaluation.problems=1", "evaluation.samples=1", "evaluation.greedy=false", "evaluation.steps=0", "evaluation.shards=1", "evaluation.max_new_tokens=10")
		resolved, err := recipe.Load(example, set)
		if err != nil {
			t.Fatal(err)
		}
		return resolved.Recipe
	}
	chat := asked("../../jobs/arithmetic.yaml", "env.max_turns=3")
	check(t, b.estimate(chat), 4, map[graph.Stage]float64{graph.StageRollout: 4 * (0.3 + 9), graph.StageLearn: 4 * 390. / 500, graph.StageEvalRollout: 0.3 + 3})
	b.ContextTokens = 195
	check(t, b.estimate(chat), 4, map[graph.Stage]float64{graph.StageRollout: 4 * (0.15 + 4.5), graph.StageLearn: 4 * 195. / 500, graph.StageEvalRollout: 195. / 330 * 3.3})

	// A program's message waits for its score, so a task samples one: of the 270 tokens
	// of both at most 50 are written, and the others read.
	b.ContextTokens = 0
	programs := asked("../../jobs/mle-mini.yaml", "env.max_turns=2")
	check(t, b.estimate(programs), 4, map[graph.Stage]float64{graph.StageRollout: 2 * (0.22 + 5), graph.StageLearn: 4 * 270. / 500, graph.StageEvalRollout: 0.21 + 1})
}

func check(t *testing.T, got taskTimes, responses int, seconds map[graph.Stage]float64) {
	t.Helper()
	if got.Responses != responses || len(got.Tasks) != len(seconds) {
		t.Errorf("%d responses and tasks %v, want %d and %v", got.Responses, got.Tasks, responses, seconds)
	}
	for _, task := range got.Tasks {
		if want := seconds[task.Stage]; task.Minutes*60 < want-1e-9 || task.Minutes*60 > want+1e-9 {
			t.Errorf("a task of %s takes %g s, want %g", task.Stage, task.Minutes*60, want)
		}
	}
}
