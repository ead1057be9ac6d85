// Package buffer turns the scored responses of an iteration into a batch to
// learn from, the curriculum's next state, and the plan of a later iteration.
// It is a pure reduction in plan order: its bytes do not depend on how the
// responses were cut into shards.
package buffer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
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
	Later             []WaveRef // of the waves after the first, in order
}

// WaveRef names what one wave of a shard holds.
type WaveRef struct{ Rollout, Score string }

// waves lists all waves of the shard.
func (s ShardRef) waves() []WaveRef {
	return append([]WaveRef{{s.Rollout, s.Score}}, s.Later...)
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
	Late      []ShardRef // stopped when the iteration was closed: their instances are dropped
	RunEnded  []ShardRef // late for good: no iteration is left to carry them into
	State     string     // of the previous iteration; empty for none
	Stats     string     // beside it; empty for none
	Waiting   string     // segments that wait for a batch, beside it; empty for none
	// WaveOf names the files that hold a response to an instance of any iteration
	// up to this one, and the verdicts on it, to go on from there. The verdicts
	// may be unknown.
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
func Run(ctx context.Context, job stage.Job, environment env.Env, chooser curriculum.Curriculum, in Inputs) error {
	r := &reduction{
		ctx: ctx, recipe: job.Recipe, files: job.Files, attempt: job.Attempt, blank: job.Manifest("buffer", in.Iteration, 0, 1, time.Now()),
		environment: environment, chooser: chooser, in: in, metrics: map[string]float64{}, plans: map[int][]shard.Instance{}, log: job.Log,
	}
	if in.Iteration > 0 {
		if err := r.read(); err != nil {
			return err
		}
		if err := r.learnable(); err != nil {
			return err
		}
	}
	return r.next()
}

// reduction is one run of the stage.
type reduction struct {
	ctx         context.Context
	recipe      recipe.Recipe
	files       stage.Files
	attempt     seal.Attempt
	log         func(format string, args ...any)
	blank       seal.Manifest // of every output, without what was read for it
	environment env.Env
	chooser     curriculum.Curriculum
	in          Inputs
	cited       []seal.Input
	metrics     map[string]float64

	state       curriculum.State
	rewardStats []shard.Stat             // what the reward keeps
	plans       map[int][]shard.Instance // by iteration
	groups      []group                  // in plan order, carried ones last
	batch       []group                  // what is learned from; of schedule.batch_segments those that waited come first
	open        bool                     // the segments of groups wait for a batch
	unfilled    string                   // why they will never have one; empty if they do
	ledger      []shard.LedgerRow
}

// group is one instance of a plan with its traces.
type group struct {
	credit.Group
	iteration int              // in whose plan it was
	row       int              // of that plan
	shard     int              // index of the input that holds its traces
	contexts  [][]contextRow   // of each trace
	rollouts  []string         // content digest of the file that holds each trace
	segments  []credit.Segment // by trace and turn, once they have their credit
}

// read loads the previous state, the plans and the shards, and puts every
// response beside its instance.
func (r *reduction) read() error {
	if err := r.readState(); err != nil {
		return err
	}
	at := map[string]int{} // group id -> index into all
	var all []group
	for _, plan := range r.in.Plans {
		instances, cited, err := stage.ReadTable[shard.Instance](r.ctx, r.files, plan.Path)
		if err != nil {
			return err
		}
		r.cited = append(r.cited, cited)
		r.plans[plan.Iteration] = instances
		for row, instance := range instances {
			at[instance.GroupID] = len(all)
			all = append(all, group{Group: credit.Group{Instance: instance}, iteration: plan.Iteration, row: row})
		}
	}
	for i := range r.in.Shards {
		if err := r.readShard(i, all, at); err != nil {
			return err
		}
	}
	for _, g := range all {
		if len(g.Traces) > 0 {
			r.groups = append(r.groups, g)
		}
	}
	return nil
}

// learnable gives every trace its credit, and writes the batch and the ledger.
func (r *reduction) learnable() error {
	composition, err := credit.New(r.recipe.CreditSpec())
	if err != nil {
		return err
	}
	groups := make([]credit.Group, len(r.groups))
	for i, g := range r.groups {
		groups[i] = g.Group
	}
	var segments [][]credit.Segment
	if segments, r.rewardStats, err = composition.Assign(r.in.Iteration, r.rewardStats, groups); err != nil {
		return err
	}
	for i := range r.groups {
		r.groups[i].segments = segments[i]
	}
	if err := r.gather(); err != nil {
		return err
	}
	r.account()
	sequences, err := r.layOut(composition.Advantage.Critic())
	if err != nil {
		return err
	}
	if err := r.writeBatch(sequences); err != nil {
		return err
	}
	r.lost()
	_, err = shard.Write(r.in.LedgerOutput, r.ledger, nil, r.attempt, r.manifest())
	return err
}

// decide adds the ledger row of a segment whose fate this iteration decides: why it
// is left out of the batch, or has no gradient in it.
func (r *reduction) decide(row shard.LedgerRow, dropped, masked string) {
	row.Iteration = int32(r.in.Iteration)
	switch {
	case dropped != "":
		row.Fate, row.Reason = string(shard.FateDropped), dropped
		r.metrics["dropped_"+dropped]++
	case masked != "":
		row.Fate, row.Reason = string(shard.FateMasked), masked
		r.metrics["masked_"+masked]++
	default:
		row.Fate = string(shard.FateTrained)
		r.metrics["trained"]++
	}
	r.ledger = append(r.ledger, row)
}

// account adds a ledger row for each segment at hand that has a fate, and counts.
func (r *reduction) account() {
	var reward, quality, depth float64
	var responses int
	for _, g := range r.groups {
		number := 0 // of the segment in its trace
		for i, s := range g.segments {
			if number++; i == 0 || g.segments[i-1].Trace != s.Trace {
				number = 0
			}
			if r.open && s.Dropped == "" {
				continue
			}
			r.decide(shard.LedgerRow{
				InstanceID: g.Instance.InstanceID, GroupID: g.Instance.GroupID, Sample: g.Traces[s.Trace].Score.Sample, Segment: int32(number),
				IterationSampled: int32(g.iteration),
			}, cmp.Or(s.Dropped, r.unfilled), s.Masked)
		}
		for i, t := range g.Traces {
			r.countTransition(g, i)
			r.metrics["outcome_"+t.Score.Outcome]++
			if t.Valid() {
				responses++
				reward += g.reward(i)
				quality += t.Score.NormalizedScore
				r.metrics["responses_"+g.Instance.Kind]++
				r.metrics["score_sum_"+g.Instance.Kind] += t.Score.NormalizedScore
			}
			if t.Score.Outcome == string(shard.OutcomeInvalid) {
				r.metrics["invalid_"+g.Instance.Kind]++
			}
		}
		r.metrics["kind_"+g.Instance.Kind]++
		r.metrics["origin_"+g.Instance.Origin]++
		depth += float64(g.Instance.Depth)
	}
	if responses > 0 {
		r.metrics["reward_mean"] = reward / float64(responses)
		r.metrics["score_mean"] = quality / float64(responses)
	}
	if len(r.groups) > 0 {
		r.metrics["depth_mean"] = depth / float64(len(r.groups))
	}
	r.metrics["groups"] = float64(len(r.groups))
	r.metrics["responses"] = float64(responses)
}

// add adds a trace.
func (g *group) add(t judged) {
	g.contexts, g.Traces, g.rollouts = append(g.contexts, t.contexts), append(g.Traces, t.trace), append(g.rollouts, t.rollout)
}

// reward is the mean over the segments of a trace.
func (g group) reward(trace int) float64 {
	var sum, n float64
	for _, s := range g.segments {
		if s.Trace == trace {
			sum += s.Reward
			n++
		}
	}
	return sum / n
}

func (r *reduction) manifest() seal.Manifest {
	m := r.blank
	m.Inputs = slices.Concat(r.cited, m.Inputs)
	return m
}
