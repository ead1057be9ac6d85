package rundir

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/plan"
)

// inherited is what a run takes over of another's curriculum: its entries and
// statistics, and the responses that entries continue from with their scores, so that the
// run needs the other no more. Iterations of the other count backwards from 0, its last.
type inherited struct {
	curriculum string // its name
	entries    []shard.Entry
	stats      []shard.Stat
	rollouts   []shard.Rollout
	scores     []shard.Score
	cited      []seal.Input // the files that this was read from; the entries' first
}

// readInherited reads what the curriculum and the reward of a run knew after an iteration.
func readInherited(ctx context.Context, from *Run, version int) (*inherited, error) {
	in := &inherited{curriculum: from.Recipe.Curriculum.Name}
	reading := from.Graph.Reading(0)
	cite := func(path string, m seal.Manifest) {
		in.cited = append(in.cited, seal.Input{Path: path, ContentSHA256: m.ContentSHA256})
	}
	entries, m, err := shard.Read[shard.Entry](ctx, from.Dir.State(version), reading)
	if err != nil {
		return nil, err
	}
	cite(from.Dir.State(version), m)
	stats, m, err := shard.Read[shard.Stat](ctx, from.Dir.Stats(version), reading)
	if err != nil {
		return nil, err
	}
	cite(from.Dir.Stats(version), m)
	names := map[string]string{} // of entries, before and now: this run's own must not have the same
	type response struct {
		iteration, row, wave int32
	}
	rows := map[response]int32{}                     // as they count now
	wanted := map[string]map[string]response{}       // instances by the file that has their responses
	samples := map[response]map[[2]int32]bool{}      // sample and step
	scored, order := map[string]string{}, []string{} // rollouts, with their scores
	for i, e := range entries {
		entries[i].LastSampled -= int32(version)
		if e.Ref.IsZero() {
			continue
		}
		r := response{e.Ref.Iteration, e.Ref.Row, e.Ref.Wave}
		if _, known := rows[r]; !known {
			rows[r] = int32(len(rows))
			samples[r] = map[[2]int32]bool{}
			rollout, score := from.Responses(e.Ref)
			if wanted[rollout] == nil {
				wanted[rollout], scored[rollout] = map[string]response{}, score
				order = append(order, rollout)
			}
			wanted[rollout][plan.InstanceID(int(r.iteration), int(r.row))] = r
		}
		samples[r][[2]int32{e.Ref.Sample, e.Ref.Step}] = true
		names[e.EntryID] = from.Identity.RunID + ":" + e.EntryID
		entries[i].EntryID, entries[i].ParentID = names[e.EntryID], from.Identity.RunID+":"+e.ParentID
		entries[i].Ref.Iteration, entries[i].Ref.Row, entries[i].Ref.Wave = graph.InheritedIteration, rows[r], 0
	}
	for i, s := range stats {
		stats[i].Iteration -= int32(version)
		if name, ofEntry := names[s.Key]; ofEntry {
			stats[i].Key = name
		}
	}
	in.entries, in.stats = entries, stats
	for _, path := range order {
		said, m, err := shard.Read[shard.Rollout](ctx, path, reading)
		if err != nil {
			return nil, err
		}
		cite(path, m)
		for _, row := range said {
			r, is := wanted[path][row.InstanceID]
			if is && samples[r][[2]int32{row.Sample, row.Step}] {
				row.InstanceID = plan.InstanceID(graph.InheritedIteration, int(rows[r]))
				in.rollouts = append(in.rollouts, row)
			}
		}
		scores, m, err := shard.Read[shard.Score](ctx, scored[path], reading)
		if err != nil {
			return nil, err
		}
		cite(scored[path], m)
		for _, row := range scores {
			r, is := wanted[path][row.InstanceID]
			if is && slices.ContainsFunc(row.Turns, func(turn shard.TurnScore) bool { return samples[r][[2]int32{row.Sample, turn.Step}] }) {
				row.InstanceID = plan.InstanceID(graph.InheritedIteration, int(rows[r]))
				in.scores = append(in.scores, row)
			}
		}
	}
	return in, nil
}

// check refuses what the run could not go on with.
func (in *inherited) check(curriculum string, environment env.Env, kinds []string) error {
	fresh := "to begin without: --set start.curriculum=fresh"
	if curriculum != in.curriculum {
		return exitcode.WithHint(exitcode.Usagef("start.curriculum: the state is of curriculum %s, and this run has %s", in.curriculum, curriculum), "%s", fresh)
	}
	tasks, err := environment.Set().TrainingTasks("curriculum.kinds", kinds)
	if err != nil {
		return err
	}
	sampled := map[string]bool{}
	for _, task := range tasks {
		sampled[task.ID] = true
	}
	var unknown []string
	for _, e := range in.entries {
		if !sampled[e.TaskID] {
			unknown = append(unknown, e.TaskID)
		}
	}
	if len(unknown) > 0 {
		return exitcode.WithHint(exitcode.Usagef("start.curriculum: %d of %d entries of the state are of tasks that this run does not train on, such as %s",
			len(unknown), len(in.entries), strings.Join(unknown[:min(3, len(unknown))], ", ")), "%s", fresh)
	}
	return nil
}

// seal writes what is taken over into the run.
func (in *inherited) seal(d graph.Dir, attempt seal.Attempt, m seal.Manifest) error {
	m.Inputs = in.cited
	_, err := shard.Write(d.Inherited("state"), in.entries, nil, attempt, m)
	if err == nil {
		_, err = shard.Write(d.Inherited("stats"), in.stats, nil, attempt, m)
	}
	if err == nil {
		_, err = shard.Write(d.Inherited("rollout"), in.rollouts, nil, attempt, m)
	}
	if err == nil {
		_, err = shard.Write(d.Inherited("score"), in.scores, nil, attempt, m)
	}
	if err != nil {
		return fmt.Errorf("writing what the run takes over: %w", err)
	}
	return nil
}

// Responses are the files that have the response of a reference, and its scores.
func (r *Run) Responses(ref shard.Ref) (rollout, score string) {
	if ref.Iteration == graph.InheritedIteration {
		return r.Dir.Inherited("rollout"), r.Dir.Inherited("score")
	}
	n := graph.Node{Stage: graph.StageRollout, Iteration: int(ref.Iteration), Wave: int(ref.Wave)}
	of := r.Graph.ShardOf(n.Iteration, int(ref.Row))
	return r.Dir.Sampled(n, of), r.Dir.Sampled(n.Judging(), of)
}
