// Package buffer turns the scored responses of an iteration into a batch to
// learn from, the curriculum's next state, and the plan of a later iteration.
// It is a pure reduction in plan order: its bytes do not depend on how the
// responses were cut into shards.
package buffer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/objective"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// ShardRef names one rollout shard with its verdicts.
type ShardRef struct {
	Iteration         int // in whose plan its instances are
	FirstRow, LastRow int // of that plan, LastRow exclusive
	Rollout           string
	Score             string
}

// PlanRef names a plan.
type PlanRef struct {
	Iteration int
	Path      string
}

// Inputs are the files that a buffer task reads and those it makes.
type Inputs struct {
	Iteration int        // 0 makes the first state and plans
	Plans     []PlanRef  // of every iteration that Shards draw from, this one first
	Shards    []ShardRef // this iteration's in order, then the carried ones
	LeftOut   []ShardRef // given up: their instances are dropped
	RunEnded  []ShardRef // late for good: no iteration is left to carry them into
	State     string     // of the previous iteration; empty for none

	StateOutput  string
	BatchOutput  string // empty for iteration 0
	LedgerOutput string // empty for iteration 0
	PlanOutputs  []PlanRef
	PlanRows     int
}

// Run folds one iteration.
func Run(ctx context.Context, job stage.Job, world env.Env, chooser curriculum.Curriculum, in Inputs) error {
	f := &fold{Job: job, ctx: ctx, world: world, chooser: chooser, in: in, started: time.Now(), metrics: map[string]float64{}, plans: map[int][]shard.Instance{}}
	if in.Iteration > 0 {
		if err := f.read(); err != nil {
			return err
		}
		if err := f.learnable(); err != nil {
			return err
		}
	}
	return f.next()
}

// fold is one run of the stage.
type fold struct {
	stage.Job
	ctx     context.Context
	world   env.Env
	chooser curriculum.Curriculum
	in      Inputs
	started time.Time
	cited   []seal.Input
	metrics map[string]float64

	state  curriculum.State
	plans  map[int][]shard.Instance // by iteration
	groups []group                  // in plan order, carried ones last
	ledger []shard.LedgerRow
}

// response is one response with its verdict.
type response struct {
	shard.Rollout
	score     shard.Score
	reward    float64 // of the iteration step, when the recipe rewards improvement
	advantage float64
	reason    string // why it is dropped; empty when it is trained on
}

// group is one instance of a plan with its responses.
type group struct {
	instance  shard.Instance
	iteration int // in whose plan it was
	carried   bool
	responses []response
}

// read loads the previous state, the plans and the shards, and puts every
// response beside its instance.
func (f *fold) read() error {
	f.state = curriculum.State{Iteration: f.in.Iteration - 1}
	if f.in.State != "" {
		rows, cited, err := stage.ReadTable[shard.Instance](f.ctx, f.Job, f.in.State)
		if err != nil {
			return err
		}
		f.cited = append(f.cited, cited)
		f.state.Instances = rows
	}

	at := map[string]int{} // group id -> index into all
	var all []group
	for _, plan := range f.in.Plans {
		instances, cited, err := stage.ReadTable[shard.Instance](f.ctx, f.Job, plan.Path)
		if err != nil {
			return err
		}
		f.cited = append(f.cited, cited)
		f.plans[plan.Iteration] = instances
		for _, instance := range instances {
			at[instance.GroupID] = len(all)
			all = append(all, group{instance: instance, iteration: plan.Iteration, carried: plan.Iteration != f.in.Iteration})
		}
	}
	for _, ref := range f.in.Shards {
		if err := f.readShard(ref, all, at); err != nil {
			return err
		}
	}
	for _, g := range all {
		if len(g.responses) > 0 {
			f.groups = append(f.groups, g)
		}
	}
	return nil
}

func (f *fold) readShard(ref ShardRef, all []group, at map[string]int) error {
	rollouts, citedRollouts, err := stage.ReadTable[shard.Rollout](f.ctx, f.Job, ref.Rollout)
	if err != nil {
		return err
	}
	scores, citedScores, err := stage.ReadTable[shard.Score](f.ctx, f.Job, ref.Score)
	if err != nil {
		return err
	}
	if len(scores) != len(rollouts) {
		return exitcode.Dataf("score %q has %d rows, its rollout %q has %d", ref.Score, len(scores), ref.Rollout, len(rollouts))
	}
	if err := f.judged(ref, citedRollouts); err != nil {
		return err
	}
	f.cited = append(f.cited, citedRollouts, citedScores)
	for i := range rollouts {
		r, s := rollouts[i], scores[i]
		if r.InstanceID != s.InstanceID || r.Sample != s.Sample {
			return exitcode.Dataf("score %q row %d judges instance %q sample %d, its rollout %q has instance %q sample %d there",
				ref.Score, i, s.InstanceID, s.Sample, ref.Rollout, r.InstanceID, r.Sample)
		}
		index, ok := at[r.GroupID]
		if !ok {
			return exitcode.Dataf("rollout %q row %d: group %q is in no plan of this iteration", ref.Rollout, i, r.GroupID)
		}
		all[index].responses = append(all[index].responses, response{Rollout: r, score: s})
	}
	return nil
}

// judged makes sure that a score shard judges the responses that are there now.
// A rollout shard that was lost and sampled again by a server holds others.
func (f *fold) judged(ref ShardRef, rollout seal.Input) error {
	m, err := seal.Read(f.ctx, ref.Score, f.Reading)
	if f.Plain && errors.Is(err, seal.ErrNotSealed) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, input := range m.Inputs {
		if input.Path == rollout.Path && input.ContentSHA256 != rollout.ContentSHA256 {
			err := exitcode.Dataf("score %q judges responses that rollout %q does not hold any more: content sha256 %s, now %s",
				ref.Score, ref.Rollout, input.ContentSHA256, rollout.ContentSHA256)
			return exitcode.WithHint(err, "remove %s and %s: then the responses are judged again", ref.Score, seal.ManifestPath(ref.Score))
		}
	}
	return nil
}

// learnable computes rewards and advantages, decides what is trained on, and
// writes the batch and the ledger.
func (f *fold) learnable() error {
	diversity := f.Recipe.Curriculum.Name == "exit" && f.Recipe.Curriculum.Exit.DiversityBonus
	for i := range f.groups {
		if err := f.advantages(&f.groups[i], diversity); err != nil {
			return err
		}
	}
	f.account()
	batch, err := f.batch()
	if err != nil {
		return err
	}
	m := f.manifest()
	m.Metrics = f.metrics
	if _, err := shard.WriteBatch(f.in.BatchOutput, batch, nil, f.Attempt, m); err != nil {
		return err
	}
	f.lost()
	_, err = shard.Write(f.in.LedgerOutput, f.ledger, nil, f.Attempt, f.manifest())
	return err
}

// advantages gives every response of a group its reward and advantage, and
// the reason why it is dropped, if it is.
func (f *fold) advantages(g *group, diversity bool) error {
	n := len(g.responses)
	rewards, valid, lengths := make([]float64, n), make([]bool, n), make([]int, n)
	embeddings := make([][]float32, n)
	for i := range g.responses {
		r := &g.responses[i]
		r.reward = f.reward(g.instance, r.score)
		rewards[i] = r.reward
		valid[i] = shard.Outcome(r.score.Outcome).Policys()
		lengths[i] = int(r.ResponseTokens)
		embeddings[i] = r.score.Embedding
	}
	advantages, err := objective.Advantages(f.Recipe.Advantage, rewards, valid, lengths)
	if err != nil {
		return fmt.Errorf("advantages of group %q: %w", g.instance.GroupID, err)
	}
	if diversity {
		if advantages, err = objective.MultiplyDiversity(advantages, embeddings, valid); err != nil {
			return fmt.Errorf("diversity of group %q: %w", g.instance.GroupID, err)
		}
	}
	candidates := make([]objective.Candidate, n)
	for i, r := range g.responses {
		candidates[i] = objective.Candidate{
			Outcome: shard.Outcome(r.score.Outcome), Reward: rewards[i], Advantage: advantages[i],
			Tokens: lengths[i], Overlong: r.FinishReason == string(policy.FinishLength),
		}
	}
	reasons := objective.Filter(f.Recipe.Filters, candidates)
	for i := range g.responses {
		r := &g.responses[i]
		r.advantage, r.reason = advantages[i], reasons[i]
	}
	return nil
}

// reward is the environment's verdict, or, when the recipe rewards
// improvement, max(0, Δ/Δmax) for iteration steps, where Δmax is what was
// left to gain (paper 000, section 4). Nothing left to gain gives 0.
func (f *fold) reward(instance shard.Instance, s shard.Score) float64 {
	kind := shard.Kind(instance.Kind)
	if !f.Recipe.Env.Answer.StepImprovement || (kind != shard.KindImprove && kind != shard.KindDiverge) {
		return s.Reward
	}
	most := 1 - instance.BaseScore
	if most <= 0 {
		return 0
	}
	return max(0, (s.NormalizedScore-instance.BaseScore)/most)
}

// account adds a ledger row for each response at hand and counts.
func (f *fold) account() {
	var reward, quality, base float64
	var responses int
	for _, g := range f.groups {
		for _, r := range g.responses {
			row := shard.LedgerRow{
				InstanceID: g.instance.InstanceID, GroupID: g.instance.GroupID, Sample: r.Sample,
				IterationSampled: int32(g.iteration), Iteration: int32(f.in.Iteration),
				Fate: string(shard.FateTrained), Reason: r.reason,
			}
			if r.reason != "" {
				row.Fate = string(shard.FateDropped)
				f.metrics["dropped_"+r.reason]++
			} else {
				f.metrics["trained"]++
			}
			f.ledger = append(f.ledger, row)
			f.metrics["outcome_"+r.score.Outcome]++
			if shard.Outcome(r.score.Outcome).Policys() {
				responses++
				reward += r.reward
				quality += r.score.NormalizedScore
			}
		}
		f.metrics["kind_"+g.instance.Kind]++
		f.metrics["origin_"+g.instance.Origin]++
		base += float64(g.instance.Depth)
	}
	if responses > 0 {
		f.metrics["reward_mean"] = reward / float64(responses)
		f.metrics["score_mean"] = quality / float64(responses)
	}
	if len(f.groups) > 0 {
		f.metrics["depth_mean"] = base / float64(len(f.groups))
	}
	f.metrics["groups"] = float64(len(f.groups))
	f.metrics["responses"] = float64(responses)
}

func (f *fold) manifest() seal.Manifest {
	return f.Job.Manifest("buffer", f.in.Iteration, 0, 1, f.started, f.cited...)
}
