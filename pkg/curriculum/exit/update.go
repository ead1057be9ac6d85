package exit

import (
	"fmt"
	"iter"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Update folds the finished groups of an iteration, in plan order, into a new
// buffer whose scores are the variances of groups. Groups with fewer than two valid
// responses have no score and change nothing but the count of visits.
func (e *Exit) Update(state curriculum.State, iteration int, groups []curriculum.Group, _ []string) (curriculum.State, error) {
	return e.Fold(state, iteration, groups, func(_ *shard.Entry, g curriculum.Group) (float64, bool) { return e.learnability(g) })
}

// Judge says how much can be learned from an entry that a group was selected from, or,
// for nil, from the entries that the group's responses become. ok is false where the
// group has no score.
type Judge func(entry *shard.Entry, g curriculum.Group) (score float64, ok bool)

// Fold is Update with scores of the caller's: first those of the entries that were
// sampled, then the expansion of each group that has one.
func (e *Exit) Fold(state curriculum.State, iteration int, groups []curriculum.Group, judge Judge) (curriculum.State, error) {
	buffer, err := newBuffer(state.Entries, e.spec.BufferSize, turns(groups))
	if err != nil {
		return curriculum.State{}, err
	}
	at := buffer.find(e.named(groups))
	for _, g := range groups {
		if i, ok := at[g.Instance.ParentID]; ok {
			buffer.visit(i, iteration)
			if score, ok := judge(&buffer.entries[i], g); ok {
				buffer.setScore(i, score)
			}
		}
	}
	for _, g := range groups {
		score, ok := judge(nil, g)
		if !ok {
			continue
		}
		children := children
		if !e.spec.Improve {
			insertTask(buffer, at, g.Instance, score, iteration)
			children = again
		}
		for _, r := range e.expand(g, iteration) {
			for _, entry := range children(g.Instance, r, score) {
				buffer.insert(entry)
			}
		}
	}
	return curriculum.State{Iteration: iteration, Entries: buffer.left(), Stats: state.Stats}, nil
}

// turns counts the messages of the policy, each of which may become an entry.
func turns(groups []curriculum.Group) int {
	n := 0
	for _, g := range groups {
		for _, r := range g.Responses {
			n += r.Turns
		}
	}
	return n
}

// named lists the entries that groups may have to do with: those that they were
// selected from, and in the ablation those of their tasks. A group of a base
// task has no parent.
func (e *Exit) named(groups []curriculum.Group) map[string]bool {
	ids := map[string]bool{}
	for _, g := range groups {
		if g.Instance.ParentID != "" {
			ids[g.Instance.ParentID] = true
		} else if !e.spec.Improve {
			ids[entryOfTask(g.Instance.TaskID)] = true
		}
	}
	return ids
}

// expand returns the responses of a group that enter the buffer. The group
// has at least two valid ones.
func (e *Exit) expand(g curriculum.Group, iteration int) []curriculum.Response {
	valid := slices.DeleteFunc(slices.Clone(g.Responses), func(r curriculum.Response) bool { return !r.Valid() })
	if e.spec.Expand == ExpandAll {
		return valid
	}
	stream := rng.New(e.seed, rng.PurposeSelect, iteration, "expand "+g.Instance.InstanceID, 0)
	return []curriculum.Response{valid[stream.IntN(0, len(valid))]}
}

// children makes the self-iteration instances m+ = (m, k+1, τ) of one
// response to a planned instance of depth k: one for each prefix of its
// conversation that ends with a response of this episode, shortest first
// ("we precompute and insert all instances corresponding to the per-turn
// partial histories", ExIt §4). Each starts with the score of the group
// that it comes from (ExIt §4.1).
func children(parent shard.Instance, r curriculum.Response, score float64) []shard.Entry {
	var entries []shard.Entry
	for i, turn := range own(r) {
		ref := r.Ref
		ref.Messages = int32(i + 1)
		entries = append(entries, shard.Entry{
			EntryID:   childID(parent.InstanceID, ref),
			TaskID:    parent.TaskID,
			Kind:      string(shard.KindImprove),
			ParentID:  parent.InstanceID,
			Depth:     parent.Depth + 1,
			Turn:      turn,
			Ref:       ref,
			BaseScore: r.Quality(),
			Potential: score,
		})
	}
	return entries
}

// childID names an entry by where it comes from: instance, sample, attempt and
// messages.
func childID(parentID string, ref shard.Ref) string {
	return fmt.Sprintf("%s/%d/%d/%d", parentID, ref.Sample, ref.Step, ref.Messages)
}

// again makes the instances of the ablation "curriculum", which selects but never
// iterates (ExIt §5.2), of one response: one for each turn prefix of its
// conversation that ends before a response of this episode other than the first,
// shortest first. That before the first is the planned instance itself.
func again(parent shard.Instance, r curriculum.Response, score float64) []shard.Entry {
	var entries []shard.Entry
	for i, turn := range own(r) {
		if i == r.PromptMessages {
			continue
		}
		ref := r.Ref
		ref.Messages = int32(i)
		entries = append(entries, shard.Entry{
			EntryID: childID(parent.InstanceID, ref), TaskID: parent.TaskID, Kind: parent.Kind, ParentID: parent.InstanceID,
			Depth: parent.Depth, Turn: turn - 1, Ref: ref, Potential: score,
		})
	}
	return entries
}

// own are the positions of the messages of the policy in this episode, with the
// number of each among all of the policy's, from 1.
func own(r curriculum.Response) iter.Seq2[int, int32] {
	return func(yield func(int, int32) bool) {
		turn := int32(0)
		for i, role := range r.Roles {
			if role != "assistant" {
				continue
			}
			if turn++; i >= r.PromptMessages && !yield(i, turn) {
				return
			}
		}
	}
}

// insertTask lets a base task itself enter the buffer of that ablation, once.
// A base task that is sampled again gives its entry a new score. at has the
// positions of the entries by their ids.
func insertTask(b *buffer, at map[string]int, instance shard.Instance, score float64, iteration int) {
	if instance.ParentID != "" {
		return // selected from the buffer: visit has seen to it
	}
	id := entryOfTask(instance.TaskID)
	if i, ok := at[id]; ok && !b.gone[i] {
		b.setScore(i, score)
		b.visit(i, iteration)
		return
	}
	i := b.insert(shard.Entry{
		EntryID:     id,
		TaskID:      instance.TaskID,
		Kind:        instance.Kind,
		ParentID:    instance.InstanceID,
		Potential:   score,
		LastSampled: int32(iteration),
		Visits:      1,
	})
	if i >= 0 {
		at[id] = i
	}
}

// entryOfTask names the entry of a base task.
func entryOfTask(taskID string) string { return "exit-task-" + taskID }
