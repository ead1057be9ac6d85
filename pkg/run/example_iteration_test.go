package run_test

import (
	"context"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/loss"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	stages "github.com/lathe-rl/lathe/pkg/stage"
	plans "github.com/lathe-rl/lathe/pkg/stage/plan"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
	"github.com/lathe-rl/lathe/pkg/stage/trainer"
)

// One iteration of Lathe from top to bottom, in memory: what the tasks of a run do between
// sealed files, by the same functions and with one thread. The recipe is jobs/smoke.yaml
// (ExIt on additions). [TestOneIteration] runs the same iteration by files, and compares.
type iteration struct {
	recipe      recipe.Recipe
	environment env.Env
	curriculum  curriculum.Curriculum
	state       curriculum.State // before the iteration
	policy      string           // folder of the version that the iteration starts from
	k           int              // number of the iteration, from 1
}

// run returns the weights and the state of the curriculum after the iteration.
func (it iteration) run(ctx context.Context) ([]policy.Tensor, curriculum.State) {
	plan := it.plan()
	rollouts := it.sample(ctx, plan)
	scores := it.score(ctx, plan, rollouts)
	groups, segments := it.assignCredit(plan, rollouts, scores)
	batch := it.batch(groups, segments, rollouts)
	weights := it.learn(batch)
	return weights, must(it.curriculum.Update(it.state, it.k, it.responses(groups, segments, rollouts), it.taskIDs()))
}

// plan asks the curriculum which instances to sample (ExIt Alg. 1: base tasks, and earlier
// responses to improve or to diverge from), and the environment for their prompts. The
// buffer is empty in the first iteration, so each instance is a first attempt at a task.
func (it iteration) plan() []shard.Instance {
	selections := must(it.curriculum.Next(it.state, it.k, it.recipe.Rollout.Prompts, it.taskIDs()))
	plan := make([]shard.Instance, len(selections))
	for i, selected := range selections {
		task, _ := it.environment.Set().Task(selected.TaskID)
		prompt := must(it.environment.Prompt(task, selected.Kind, env.Parent{}))
		id := plans.InstanceID(it.k, i)
		plan[i] = shard.Instance{InstanceID: id, GroupID: id, TaskID: task.ID, Kind: string(selected.Kind), Messages: prompt}
	}
	return plan
}

// sample lets the policy answer each instance rollout.group times. Each token is drawn from
// a stream that is addressed by seed, iteration, instance, sample and position.
func (it iteration) sample(ctx context.Context, plan []shard.Instance) []shard.Rollout {
	settings := rollout.SettingsOf(it.recipe)
	traces := must(rollout.NewBatch(settings, it.environment, plan, rollout.Inputs{Iteration: it.k}))
	sampler := must(rollout.OpenSampler(ctx, settings, oneThread, it.policy, it.environment.Traits().Turns))
	defer sampler.Close()
	try(traces.Play(ctx, sampler))
	return traces.Rows(0, it.k-1)
}

// score has the environment check each response. The embedding is what diversity is
// measured by.
func (it iteration) score(ctx context.Context, plan []shard.Instance, rollouts []shard.Rollout) []shard.Score {
	scores := must(score.Verdicts(ctx, it.environment, plan, rollouts, nil, 0))
	for i, row := range rollouts {
		scores[i].Embedding = score.NGrams(row.Messages[len(row.Messages)-1].Content)
	}
	return scores
}

// assignCredit turns scores into segments with advantages. In this recipe a segment is a
// whole response, its reward r is what the environment gives, and its advantage is
// A_i = (r_i − mean r) / std r over its group (ExIt Eq. 3), times its diversity (ExIt Eq. 6).
func (it iteration) assignCredit(plan []shard.Instance, rollouts []shard.Rollout, scores []shard.Score) ([]credit.Group, [][]credit.Segment) {
	groups := make([]credit.Group, len(plan))
	for i, instance := range plan {
		groups[i].Instance = instance
		for j, row := range rollouts {
			if row.GroupID == instance.GroupID {
				answer := credit.Context{Tokens: len(row.TokenIDs), TurnTokens: []int{int(row.ResponseTokens)}, FinishReason: row.FinishReason}
				groups[i].Traces = append(groups[i].Traces, credit.Trace{Contexts: []credit.Context{answer}, Score: scores[j]})
			}
		}
	}
	composition := must(credit.New(it.recipe.CreditSpec()))
	segments, _, err := composition.Assign(it.k, nil, groups)
	try(err)
	return groups, segments
}

// batch puts tokens beside their segments' advantages and weights. The loss is the mean
// over responses of the mean over their tokens, so a token weighs 1/(G·|o_i|) (ExIt Eq. 4).
func (it iteration) batch(groups []credit.Group, segments [][]credit.Segment, rollouts []shard.Rollout) []trainer.Sequence {
	var spans [][]int // tokens of each turn of each segment that counts
	for g := range groups {
		for _, s := range segments[g] {
			if s.Dropped == "" {
				spans = append(spans, groups[g].Traces[s.Trace].Tokens())
			}
		}
	}
	weight := it.recipe.Weight.Choice()
	weights := must(must(credit.WeightAxis.Make(weight.Name, weight.Settings)).Weights(spans, it.recipe.Rollout.MaxNewTokens))
	var batch []trainer.Sequence
	counted := 0
	for g := range groups {
		for _, s := range segments[g] {
			if s.Dropped != "" {
				continue
			}
			own := weights[counted][0] * s.WeightOf(0)
			if counted++; !s.HasGradient(0) {
				continue
			}
			row := rollouts[g*it.recipe.Rollout.Group+s.Trace]
			sequence := trainer.Sequence{Sequence: shard.Sequence{
				TokenIDs: row.TokenIDs, LossMask: row.LossMask, Turns: make([]int32, len(row.TokenIDs)), OldLogProbs: row.LogProbs,
				GroupID: row.GroupID, InstanceID: row.InstanceID, Sample: row.Sample,
				TurnAdvantages: []float32{float32(s.Advantage)}, TurnFactors: []float64{s.FactorOf(0)}, TurnWeights: []float64{own},
			}}
			sequence.SpreadAdvantages()
			sequence.ApplyFactors()
			batch = append(batch, sequence)
		}
	}
	return batch
}

// learn takes one optimizer step. The engine computes log-probabilities; the loss turns
// them into one coefficient per token, dL/dlog π(o_t), with the clipped ratio π/π_old and
// the penalty by the reference policy (ExIt Eq. 4); the engine backpropagates the
// coefficients, and AdamW steps.
func (it iteration) learn(batch []trainer.Sequence) []policy.Tensor {
	r := it.recipe
	workload := policy.Workload{Longest: r.Policy.New.MaxPositionEmbeddings}
	engine, _, err := trainer.OpenTrained(r.Policy, r.Seed, oneThread, r.Optimizer, it.policy, workload)
	try(err)
	defer engine.Close()
	reference := must(backend.Open(it.policy, trainer.EngineOptions(r.Policy, oneThread, r.Optimizer, false, workload)))
	defer reference.Close()
	sampling := stages.Sampling(r.Rollout)

	packed := trainer.Pack(trainer.Bundles(batch, r.Schedule.SharedPromptTokens))
	n := len(packed.TokenIDs)
	logProbs, entropy, referenceLogProbs, coefficients := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	try(reference.Forward(packed.Batch, sampling, referenceLogProbs, make([]float32, n)))
	engine.ZeroGradients()
	try(engine.Forward(packed.Batch, sampling, logProbs, entropy))
	for i, s := range packed.Sequences {
		token := loss.TokenInputs{
			New: wide(packed.Of(i, logProbs)), Old: wide(s.OldLogProbs), Reference: wide(packed.Of(i, referenceLogProbs)),
			Entropy: wide(packed.Of(i, entropy)), Advantage: wide(s.Advantages), Weights: s.Weights(), Mask: s.LossMask,
		}
		for t, learned := range s.LossMask {
			if learned && token.New[t] != token.Old[t] {
				panic("the ratio is not exactly 1 on policy")
			}
		}
		packed.Set(i, coefficients, must(loss.Coefficients(r.Loss, token)).LogProb)
	}
	try(engine.Backward(policy.Coefficients{LogProb: coefficients}))
	rounding := rng.New(r.Seed, rng.PurposeRounding, it.k, "learn", 0)
	must(trainer.TakeStep(engine, r.Optimizer, r.Loss.Value, it.k, r.Schedule.Iterations, rounding))
	return engine.Weights()
}

// responses are what the curriculum sees of an iteration.
func (it iteration) responses(groups []credit.Group, segments [][]credit.Segment, rollouts []shard.Rollout) []curriculum.Group {
	seen := make([]curriculum.Group, len(groups))
	for g, group := range groups {
		seen[g].Instance = group.Instance
		for i, s := range segments[g] {
			row := rollouts[g*it.recipe.Rollout.Group+i]
			seen[g].Responses = append(seen[g].Responses, curriculum.Response{
				Sample: s.Trace, Score: group.Traces[s.Trace].Score, Reward: s.Reward,
				Ref:   shard.Ref{Iteration: int32(it.k), Row: int32(g), Sample: row.Sample, Messages: int32(len(row.Messages))},
				Roles: []string{"user", "assistant"}, PromptMessages: int(row.PromptMessages), Turns: 1,
			})
		}
	}
	return seen
}

func (it iteration) taskIDs() []string {
	tasks := must(it.environment.Set().TrainingTasks("curriculum.kinds", it.recipe.Curriculum.Kinds))
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = task.ID
	}
	return ids
}

var oneThread = stages.Process{Threads: 1, Log: func(string, ...any) {}}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func must[T any](value T, err error) T {
	try(err)
	return value
}

func try(err error) {
	if err != nil {
		panic(err)
	}
}
