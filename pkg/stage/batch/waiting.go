package batch

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// Under schedule.batch_segments B a batch is closed once B segments are retained,
// which may take several iterations (MLE-RL §4.1, "Asynchronous Training
// for RL": a data pool that triggers training at a batch size). A segment gets its
// credit in the iteration that sampled it, beside those that it is compared with.
// Until its batch is closed its disposition is open, and the ledger has no row of it.

// reasonBatchNotFull is why the segments that wait when the run ends are never
// learned from.
const reasonBatchNotFull = shard.ReasonBatchNotFull

// gather decides what the batch is made of: all that waits, oldest first, and then
// what this iteration retained; or nothing yet, and then that waits, too.
func (r *reduction) gather() error {
	enough := r.BatchSegments
	if enough == 0 {
		r.batch = r.groups
		return nil
	}
	var waiting []shard.Waiting
	if r.in.Waiting != "" {
		rows, cited, err := stage.ReadTable[shard.Waiting](r.ctx, r.files, r.in.Waiting)
		if err != nil {
			return err
		}
		waiting, r.cited = rows, append(r.cited, cited)
	}
	added := r.retained()
	switch {
	case gradients(waiting)+gradients(added) >= enough:
		restored, err := r.restore(waiting)
		if err != nil {
			return fmt.Errorf("reading the segments that wait for a batch: %w", r.files.Lost(err))
		}
		r.batch = slices.Concat(restored, r.groups)
		r.decideAll(waiting, "")
		waiting = nil
	case r.in.WaitingOutput == "":
		r.unfilled = reasonBatchNotFull
		r.decideAll(waiting, r.unfilled)
		waiting = nil
	default:
		r.open = true
		waiting = append(waiting, added...)
	}
	r.metrics["waiting"] = float64(len(waiting))
	if r.in.WaitingOutput == "" {
		return nil
	}
	_, err := shard.Write(r.in.WaitingOutput, waiting, nil, r.attempt, r.manifest())
	return err
}

// decideAll decides the disposition of segments that waited.
func (r *reduction) decideAll(waited []shard.Waiting, dropped string) {
	for _, w := range waited {
		r.decide(w.LedgerRow(), dropped, w.Masked)
	}
}

// gradients is the number of segments that something is learned from.
func gradients(waiting []shard.Waiting) int {
	n := 0
	for _, w := range waiting {
		if w.Masked == "" {
			n++
		}
	}
	return n
}

// retained lists the segments of this iteration that belong into a batch.
func (r *reduction) retained() []shard.Waiting {
	var rows []shard.Waiting
	for _, g := range r.groups {
		for trace, contexts := range g.contexts {
			last := contexts[len(contexts)-1]
			for number, s := range g.segmentsOf(trace) {
				if s.Dropped != "" {
					continue
				}
				rows = append(rows, shard.Waiting{
					IterationSampled: int32(g.iteration), Row: int32(g.row),
					InstanceID: g.Instance.InstanceID, GroupID: g.Instance.GroupID, Sample: last.Sample, Wave: last.Wave,
					RolloutSHA256: g.rollouts[trace], Segment: int32(number), FirstTurn: int32(s.First), LastTurn: int32(s.Last),
					Reward: s.Reward, Advantage: s.Advantage, Factor: s.Factor, Weight: s.Weight,
					TurnFactors: s.TurnFactors, TurnWeights: s.TurnWeights, Masked: s.Masked, MaskedTurns: s.MaskedTurns,
				})
			}
		}
	}
	return rows
}

// restore finds the groups of segments that waited, with the traces that they are
// of. What holds these becomes an input as carried shards are.
func (r *reduction) restore(waiting []shard.Waiting) ([]group, error) {
	var groups []group
	var waves [][]stage.WaveRef // that hold the traces of each
	at := map[string]int{}
	for len(waiting) > 0 {
		rows := firstTrace(waiting)
		waiting = waiting[len(rows):]
		w := rows[0]
		wave, err := r.in.WaveOf(shard.Ref{Iteration: w.IterationSampled, Row: w.Row, Sample: w.Sample, Wave: w.Wave}, w.InstanceID)
		if err != nil {
			return nil, err
		}
		traces, err := r.tracesIn(wave)
		if err != nil {
			return nil, err
		}
		t, there := traces[shard.TraceName{InstanceID: w.InstanceID, Sample: w.Sample}]
		if !there || t.rollout != w.RolloutSHA256 {
			return nil, exitcode.Dataf("rollout %q does not hold the response to instance %q, sample %d, that got its credit: its content sha256 is %s, was %s",
				wave.Rollout, w.InstanceID, w.Sample, t.rollout, w.RolloutSHA256)
		}
		g, known := at[w.GroupID]
		if !known {
			g = len(groups)
			at[w.GroupID] = g
			instance := shard.Instance{InstanceID: w.InstanceID, GroupID: w.GroupID}
			groups, waves = append(groups, group{Group: credit.Group{Instance: instance}, iteration: int(w.IterationSampled)}), append(waves, nil)
		}
		if !slices.Contains(waves[g], wave) {
			waves[g] = append(waves[g], wave)
		}
		groups[g].segments = append(groups[g].segments, credited(rows, len(groups[g].Traces))...)
		groups[g].add(t)
	}
	r.hold(groups, waves)
	return groups, nil
}

// hold makes inputs of the waves that hold each group.
func (r *reduction) hold(groups []group, waves [][]stage.WaveRef) {
	inputs := map[string]int{}
	for g := range groups {
		key := fmt.Sprint(waves[g])
		number, known := inputs[key]
		if !known {
			number = len(r.in.Shards)
			inputs[key] = number
			first := waves[g][0]
			r.in.Shards = append(r.in.Shards, ShardRef{Iteration: groups[g].iteration, Rollout: first.Rollout, Score: first.Score, Later: waves[g][1:]})
		}
		groups[g].shard = number
	}
}

// tracesIn reads the traces of a wave of an earlier iteration, once.
func (r *reduction) tracesIn(wave stage.WaveRef) (map[shard.TraceName]scored, error) {
	if known := r.earlier[wave]; known != nil {
		return known, nil
	}
	traces, _, err := r.readRollout(wave.Rollout)
	if err != nil {
		return nil, err
	}
	named := make(map[shard.TraceName]scored, len(traces))
	for _, t := range traces {
		named[t.contexts[0].Name()] = t
	}
	r.earlier[wave] = named
	return named, nil
}

// firstTrace is the rows of the trace that the first row is of.
func firstTrace(waiting []shard.Waiting) []shard.Waiting {
	n := 1
	for n < len(waiting) && waiting[n].InstanceID == waiting[0].InstanceID && waiting[n].Sample == waiting[0].Sample {
		n++
	}
	return waiting[:n]
}

// credited are the segments of a trace as they got their credit. Those that were
// dropped then are known by their place alone.
func credited(rows []shard.Waiting, trace int) []credit.Segment {
	segments := make([]credit.Segment, rows[len(rows)-1].Segment+1)
	for i := range segments {
		segments[i] = credit.Segment{Trace: trace, Last: -1, Dropped: "before"}
	}
	for _, w := range rows {
		segments[w.Segment] = credit.Segment{
			Trace: trace, First: int(w.FirstTurn), Last: int(w.LastTurn), Reward: w.Reward, Advantage: w.Advantage, Factor: w.Factor, Weight: w.Weight,
			TurnFactors: orNil(w.TurnFactors), TurnWeights: orNil(w.TurnWeights), Masked: w.Masked, MaskedTurns: orNil(w.MaskedTurns),
		}
	}
	return segments
}

// orNil is a list as it was written: a table knows no difference between one that
// is empty and none.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
