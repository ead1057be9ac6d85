// Package batch gives the scored responses of an iteration their credit, and builds the
// batch that is learned from and the ledger. It is a pure reduction in plan order: its
// bytes do not depend on how the responses were cut into shards.
package batch

import (
	"cmp"
	"context"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/plan"
)

// ShardRef names one rollout shard with its scores.
type ShardRef struct {
	Iteration         int // in whose plan its instances are
	FirstRow, LastRow int // of that plan, LastRow exclusive
	Rollout           string
	Score             string
	Later             []stage.WaveRef // of the waves after the first, in order
}

// waves lists all waves of the shard.
func (s ShardRef) waves() []stage.WaveRef {
	return append([]stage.WaveRef{{Rollout: s.Rollout, Score: s.Score}}, s.Later...)
}

// Inputs are the files that are read, and those to write.
type Inputs struct {
	Iteration   int
	Plans       []plan.Ref   // of every iteration that Shards draw from, this one first
	Shards      []ShardRef   // this iteration's in order, then the carried ones
	LeftOut     []ShardRef   // given up: their instances are dropped
	Late        []ShardRef   // stopped when the iteration was closed: their instances are dropped
	RunEnded    []ShardRef   // late for good: no iteration is left to carry them into
	Waiting     string       // segments that wait for a batch, of the iteration before; empty for none
	RewardStats []shard.Stat // that the reward keeps
	Cited       []seal.Input // files that were read before
	// WaveOf names the files that hold a response to an instance of any iteration
	// up to this one.
	WaveOf func(ref shard.Ref, instanceID string) (stage.WaveRef, error)

	// TeacherPrompt words the prompt under which a teacher scores a response, of the
	// conversation and the score of the response that it is to improve; nil where the
	// teacher reads the policy's own prompt, or there is none.
	TeacherPrompt func(taskID string, conversation []shard.Message, score shard.Score) ([]shard.Message, error)

	BatchOutput  string
	LedgerOutput string
	// WaitingOutput is read by the next iteration under schedule.batch_segments;
	// empty where there is none.
	WaitingOutput string
}

// Result is what the next plan is made from.
type Result struct {
	Groups      []curriculum.Group       // in plan order, carried ones last
	Plans       map[int][]shard.Instance // by iteration
	RewardStats []shard.Stat
	Cited       []seal.Input
}

// Run builds the batch of one iteration. blank is the manifest of every output, without
// what was read for it.
func Run(ctx context.Context, job stage.Job, s Settings, in Inputs, blank seal.Manifest) (Result, error) {
	r := &reduction{
		ctx: ctx, Settings: s, files: job.Files, attempt: job.Attempt, blank: blank,
		in: in, cited: in.Cited, rewardStats: in.RewardStats, metrics: map[string]float64{}, plans: map[int][]shard.Instance{},
	}
	if err := r.read(); err != nil {
		return Result{}, err
	}
	if err := r.learnable(); err != nil {
		return Result{}, err
	}
	return Result{r.curriculumGroups(), r.plans, r.rewardStats, r.cited}, nil
}

// reduction is one run of the stage.
type reduction struct {
	Settings
	ctx     context.Context
	files   stage.Files
	attempt seal.Attempt
	blank   seal.Manifest // of every output, without what was read for it
	in      Inputs
	cited   []seal.Input
	metrics map[string]float64

	samplers    []policy.Arithmetic      // engines that sampled what was read
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

// read loads the plans and the shards, and puts every
// response beside its instance.
func (r *reduction) read() error {
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
	composition, err := credit.New(r.Credit)
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

// decide adds the ledger row of a segment whose disposition this iteration decides: why it
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

// account adds a ledger row for each segment at hand that has a disposition, and counts.
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
				IterationSampled: int32(g.iteration), Reward: s.Reward,
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
		if r.Environments {
			r.countEnvironment(g)
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

// countEnvironment counts a group by the name of its environment in the run.
func (r *reduction) countEnvironment(g group) {
	of := "_environment_" + g.Instance.Env
	r.metrics["groups"+of]++
	for i, t := range g.Traces {
		if t.Valid() {
			r.metrics["responses"+of]++
			r.metrics["reward_sum"+of] += g.reward(i)
		}
	}
	for _, s := range g.segments {
		if s.Dropped == "" && s.Masked == "" {
			r.metrics["retained"+of]++
		}
	}
}

// add adds a trace.
func (g *group) add(t scored) {
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

func (r *reduction) manifest() seal.Manifest { return stage.Citing(r.blank, r.cited) }

// lost adds ledger rows for the responses that no iteration will ever see.
func (r *reduction) lost() {
	for _, ended := range []struct {
		shards []ShardRef
		reason string
	}{{r.in.LeftOut, "left_out"}, {r.in.Late, "late"}, {r.in.RunEnded, shard.ReasonRunEnded}} {
		for _, ref := range ended.shards {
			r.ledger = append(r.ledger, r.lostRows(ref, ended.reason)...)
		}
	}
}

// lostRows lists the responses that a shard would have held.
func (r *reduction) lostRows(ref ShardRef, reason string) []shard.LedgerRow {
	var rows []shard.LedgerRow
	instances := r.plans[ref.Iteration]
	for _, instance := range instances[min(ref.FirstRow, len(instances)):min(ref.LastRow, len(instances))] {
		for sample := range r.Group {
			rows = append(rows, shard.LedgerRow{
				InstanceID: instance.InstanceID, GroupID: instance.GroupID, Sample: int32(sample),
				IterationSampled: int32(ref.Iteration), Iteration: int32(r.in.Iteration),
				Fate: string(shard.FateDropped), Reason: reason,
			})
		}
	}
	return rows
}
