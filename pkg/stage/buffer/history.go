package buffer

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// InstanceID is the id of a row, from 0, of the plan that this package makes
// for an iteration, from 1.
func InstanceID(iteration, row int) string { return fmt.Sprintf("i%06d-%06d", iteration, row) }

// conversation is what is read of a rollout's row to go on from it.
type conversation struct {
	InstanceID string          `parquet:"instance_id"`
	Sample     int32           `parquet:"sample"`
	Step       int32           `parquet:"step"`
	Messages   []shard.Message `parquet:"messages,list"`
}

// Schema is that of the whole row.
func (conversation) Schema() seal.Schema { return shard.Rollout{}.Schema() }

// attempt names an attempt of a trace inside a file.
type attempt struct {
	instanceID   string
	sample, step int32
}

// histories finds the messages of what selections iterate on, by reference, in
// the rollouts that hold them. It cites those that nothing has been read of yet.
func (f *fold) histories(selections []curriculum.Selection) (map[shard.Ref][]shard.Message, []seal.Input, error) {
	type wanted struct {
		ref shard.Ref
		attempt
	}
	var paths []string // in the order in which they are first needed
	in := map[string][]wanted{}
	found := map[shard.Ref][]shard.Message{}
	for _, s := range selections {
		if _, known := found[s.Ref]; known || s.Ref.IsZero() {
			continue
		}
		found[s.Ref] = nil
		w := wanted{s.Ref, attempt{f.instanceID(s.Ref), s.Ref.Sample, s.Ref.Step}}
		path, err := f.in.RolloutOf(s.Ref, w.instanceID)
		if err != nil {
			return nil, nil, err
		}
		if in[path] == nil {
			paths = append(paths, path)
		}
		in[path] = append(in[path], w)
	}
	read := map[string]bool{}
	for _, input := range f.cited {
		read[input.Path] = true
	}
	var cited []seal.Input
	for _, path := range paths {
		rows, input, err := stage.ReadTable[conversation](f.ctx, f.Job, path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading what the plan goes on from: %w", err)
		}
		if !read[input.Path] {
			cited = append(cited, input)
		}
		attempts := map[attempt][]shard.Message{}
		for _, w := range in[path] {
			attempts[w.attempt] = nil
		}
		for _, row := range rows {
			name := attempt{row.InstanceID, row.Sample, row.Step}
			if _, needed := attempts[name]; needed { // contexts one after the other
				attempts[name] = append(attempts[name], row.Messages...)
			}
		}
		for _, w := range in[path] {
			messages := attempts[w.attempt]
			if n := int(w.ref.Messages); n < 1 || n > len(messages) {
				return nil, nil, exitcode.Dataf("rollout %q has %d messages of instance %q, sample %d, step %d; the curriculum's state goes on from message %d",
					path, len(messages), w.instanceID, w.sample, w.step, n)
			}
			found[w.ref] = messages[:w.ref.Messages:w.ref.Messages]
		}
	}
	return found, cited, nil
}

// instanceID is the instance that a reference's response is to. The plans of
// this iteration's responses may be a person's own, with other ids than those
// that are made here.
func (f *fold) instanceID(ref shard.Ref) string {
	if plan := f.plans[int(ref.Iteration)]; int(ref.Row) < len(plan) {
		return plan[ref.Row].InstanceID
	}
	return InstanceID(int(ref.Iteration), int(ref.Row))
}
