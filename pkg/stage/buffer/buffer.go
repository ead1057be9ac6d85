// Package buffer turns the scored responses of an iteration into a batch to
// learn from, the curriculum's next state, and the plan of a later iteration.
// It is a pure reduction in plan order: its bytes do not depend on how the
// responses were cut into shards.
package buffer

import (
	"context"
	"errors"
	"time"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
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
	RunEnded  []ShardRef // late for good: no iteration is left to carry them into
	State     string     // of the previous iteration; empty for none
	Stats     string     // beside it; empty for none
	// RolloutOf names the file that holds a response to an instance of any
	// iteration up to this one, to take up its conversation.
	RolloutOf func(ref shard.Ref, instanceID string) (string, error)

	StateOutput  string
	StatsOutput  string
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

// group is one instance of a plan with its traces.
type group struct {
	credit.Group
	iteration int              // in whose plan it was
	segments  []credit.Segment // by trace and turn, once they have their credit
}

// read loads the previous state, the plans and the shards, and puts every
// response beside its instance.
func (f *fold) read() error {
	if err := f.readState(); err != nil {
		return err
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
			all = append(all, group{Group: credit.Group{Instance: instance}, iteration: plan.Iteration})
		}
	}
	for _, ref := range f.in.Shards {
		if err := f.readShard(ref, all, at); err != nil {
			return err
		}
	}
	for _, g := range all {
		if len(g.Traces) > 0 {
			f.groups = append(f.groups, g)
		}
	}
	return nil
}

// readShard files the traces of a shard under their groups: those of its last
// waves, which are whole.
func (f *fold) readShard(ref ShardRef, all []group, at map[string]int) error {
	var order []shard.TraceName
	final := map[shard.TraceName]credit.Trace{}
	for _, wave := range ref.waves() {
		rollouts, citedRollouts, err := stage.ReadTable[shard.Rollout](f.ctx, f.Job, wave.Rollout)
		if err != nil {
			return err
		}
		scores, citedScores, err := stage.ReadTable[shard.Score](f.ctx, f.Job, wave.Score)
		if err != nil {
			return err
		}
		if err := f.judged(wave, citedRollouts); err != nil {
			return err
		}
		f.cited = append(f.cited, citedRollouts, citedScores)
		traces := shard.Traces(rollouts)
		if len(scores) != len(traces) {
			return exitcode.Dataf("score %q has %d rows, its rollout %q has %d traces", wave.Score, len(scores), wave.Rollout, len(traces))
		}
		for i, rows := range traces {
			name := rows[0].Name()
			if name != scores[i].Name() {
				return exitcode.Dataf("score %q row %d judges instance %q sample %d, its rollout %q has instance %q sample %d there",
					wave.Score, i, scores[i].InstanceID, scores[i].Sample, wave.Rollout, name.InstanceID, name.Sample)
			}
			if _, known := at[rows[0].GroupID]; !known {
				return exitcode.Dataf("rollout %q, trace %d: group %q is in no plan of this iteration", wave.Rollout, i, rows[0].GroupID)
			}
			if _, before := final[name]; !before {
				order = append(order, name)
			}
			final[name] = credit.Trace{Rows: rows, Score: scores[i]}
		}
	}
	for _, name := range order {
		trace := final[name]
		g := &all[at[trace.Rows[0].GroupID]]
		g.Traces = append(g.Traces, trace)
	}
	return nil
}

// judged makes sure that a score shard judges the responses that are there now.
// A rollout shard that was lost and sampled again by a server holds others.
func (f *fold) judged(ref WaveRef, rollout seal.Input) error {
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

// learnable gives every trace its credit, and writes the batch and the ledger.
func (f *fold) learnable() error {
	spec, err := f.Recipe.CreditSpec()
	if err != nil {
		return err
	}
	composition, err := credit.New(spec)
	if err != nil {
		return err
	}
	groups := make([]credit.Group, len(f.groups))
	for i, g := range f.groups {
		groups[i] = g.Group
	}
	segments, _, err := composition.Assign(nil, groups)
	if err != nil {
		return err
	}
	for i := range f.groups {
		f.groups[i].segments = segments[i]
	}
	f.account()
	batch, err := f.batch(composition.Advantage.Critic())
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

// account adds a ledger row for each segment at hand and counts.
func (f *fold) account() {
	var reward, quality, depth float64
	var responses int
	for _, g := range f.groups {
		number := 0 // of the segment in its trace
		for i, s := range g.segments {
			if number++; i == 0 || g.segments[i-1].Trace != s.Trace {
				number = 0
			}
			row := shard.LedgerRow{
				InstanceID: g.Instance.InstanceID, GroupID: g.Instance.GroupID, Sample: g.Traces[s.Trace].Score.Sample, Segment: int32(number),
				IterationSampled: int32(g.iteration), Iteration: int32(f.in.Iteration),
				Fate: string(shard.FateTrained), Reason: s.Dropped,
			}
			if s.Dropped != "" {
				row.Fate = string(shard.FateDropped)
				f.metrics["dropped_"+s.Dropped]++
			} else {
				f.metrics["trained"]++
			}
			f.ledger = append(f.ledger, row)
		}
		for i, t := range g.Traces {
			f.metrics["outcome_"+t.Score.Outcome]++
			if t.Valid() {
				responses++
				reward += g.reward(i)
				quality += t.Score.NormalizedScore
			}
		}
		f.metrics["kind_"+g.Instance.Kind]++
		f.metrics["origin_"+g.Instance.Origin]++
		depth += float64(g.Instance.Depth)
	}
	if responses > 0 {
		f.metrics["reward_mean"] = reward / float64(responses)
		f.metrics["score_mean"] = quality / float64(responses)
	}
	if len(f.groups) > 0 {
		f.metrics["depth_mean"] = depth / float64(len(f.groups))
	}
	f.metrics["groups"] = float64(len(f.groups))
	f.metrics["responses"] = float64(responses)
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

func (f *fold) manifest() seal.Manifest {
	return f.Job.Manifest("buffer", f.in.Iteration, 0, 1, f.started, f.cited...)
}
