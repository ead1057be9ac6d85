package batch

import (
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// continued tells each group the entry of the curriculum that it was sampled from. An entry
// that has left the state meanwhile, as it may under schedule.staleness, is none.
func (r *reduction) continued(groups []credit.Group) {
	entries := make(map[string]shard.Entry, len(r.in.Entries))
	for _, e := range r.in.Entries {
		entries[e.EntryID] = e
	}
	for i := range groups {
		groups[i].From = entries[groups[i].Instance.ParentID]
	}
}

// hindsight puts the turns of earlier iterations that get their credit now before what the
// batch is made of. They have a disposition already, so the ledger has no row of them here.
// Recipes do not let segments wait for a batch beside them.
func (r *reduction) hindsight(advantage credit.Hindsight, groups []credit.Group, segments [][]credit.Segment) error {
	earlier, stats := advantage.Earlier(r.in.Iteration, r.rewardStats, groups, segments)
	r.rewardStats = stats
	r.metrics["hindsight_segments"] = 0
	var rows []shard.Waiting
	for _, e := range earlier {
		row, said, err := r.turnsOf(e)
		if err != nil {
			return fmt.Errorf("reading what entry %q continues: %w", e.Entry.EntryID, r.files.Lost(err))
		}
		if !said {
			continue
		}
		if n := len(rows); n > 0 && rows[n-1].InstanceID == row.InstanceID && rows[n-1].Sample == row.Sample {
			row.Segment = rows[n-1].Segment + 1
		}
		rows = append(rows, row)
	}
	restored, err := r.restore(rows)
	if err != nil {
		return err
	}
	r.metrics["hindsight_segments"] = float64(len(rows))
	r.batch = slices.Concat(restored, r.batch)
	return nil
}

// turnsOf is the segment of a trace that gets its credit now; false where the policy has
// said nothing in it.
func (r *reduction) turnsOf(e credit.Earlier) (row shard.Waiting, said bool, err error) {
	ref := e.Entry.Ref
	wave, err := r.in.WaveOf(ref, e.Entry.ParentID)
	if err != nil {
		return row, false, err
	}
	traces, err := r.tracesIn(wave)
	if err != nil {
		return row, false, err
	}
	t, there := traces[shard.TraceName{InstanceID: e.Entry.ParentID, Sample: ref.Sample}]
	if !there {
		return row, false, exitcode.Dataf("rollout %q has no response to instance %q, sample %d", wave.Rollout, e.Entry.ParentID, ref.Sample)
	}
	first, last := turnsBetween(t.contexts, ref.Step, e.After, ref.Messages)
	return shard.Waiting{
		IterationSampled: ref.Iteration, Row: ref.Row, InstanceID: e.Entry.ParentID, GroupID: t.contexts[0].GroupID, Sample: ref.Sample, Wave: ref.Wave,
		RolloutSHA256: t.rollout, FirstTurn: int32(first), LastTurn: int32(last), Reward: e.Value, Advantage: e.Advantage, Factor: 1, Weight: 1,
	}, first <= last, nil
}

// turnsBetween are the first and the last turn of a trace that the policy has said in an
// attempt after so many messages of its conversation, and within so many; last < first for
// none.
func turnsBetween(contexts []contextRow, step, after, within int32) (first, last int) {
	first, last = 0, -1
	turn, messages := 0, int32(0) // of the trace, and of the attempt's conversation
	for _, c := range contexts {
		for i, m := range c.Messages {
			if c.Step == step {
				messages++
			}
			if m.Role != "assistant" || i < int(c.PromptMessages) {
				continue
			}
			if c.Step == step && messages > after && messages <= within {
				if last < first {
					first = turn
				}
				last = turn
			}
			turn++
		}
	}
	return first, last
}
