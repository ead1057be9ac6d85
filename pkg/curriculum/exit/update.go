package exit

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Update folds the finished groups of an iteration, in plan order, into a new
// buffer: first the scores of the entries that were sampled, then the
// expansion of each group. Groups with fewer than two valid responses have no
// score and change nothing but the count of visits.
func (e *Exit) Update(state curriculum.State, iteration int, groups []curriculum.Group) (curriculum.State, error) {
	if iteration <= state.Iteration {
		return curriculum.State{}, exitcode.Bugf("updating the exit curriculum: iteration %d is already folded into the state of iteration %d", iteration, state.Iteration)
	}
	groups, err := canonical(groups)
	if err != nil {
		return curriculum.State{}, fmt.Errorf("updating the exit curriculum for iteration %d: %w", iteration, err)
	}

	buffer := slices.Clone(state.Instances)
	for _, g := range groups {
		updateEntry(buffer, g, iteration)
	}
	for _, g := range groups {
		score, ok := Learnability(g.Responses)
		if !ok {
			continue
		}
		if !e.spec.Improve {
			buffer = e.insertTask(buffer, g.Instance, score, iteration)
			continue
		}
		for _, r := range e.expand(g, iteration) {
			for _, entry := range children(g.Instance, r, score, iteration) {
				buffer = e.insert(buffer, entry)
			}
		}
	}
	return curriculum.State{Iteration: iteration, Instances: buffer}, nil
}

// canonical checks the groups and puts the responses of each into the order
// of their samples, so that the order in which they arrived cannot matter.
func canonical(groups []curriculum.Group) ([]curriculum.Group, error) {
	seen := make(map[string]bool, len(groups))
	ordered := slices.Clone(groups)
	for i := range ordered {
		g := &ordered[i]
		if seen[g.Instance.InstanceID] {
			return nil, exitcode.Bugf("instance %q has two groups", g.Instance.InstanceID)
		}
		seen[g.Instance.InstanceID] = true
		g.Responses = slices.Clone(g.Responses)
		slices.SortStableFunc(g.Responses, func(a, b curriculum.Response) int { return a.Sample - b.Sample })
		for _, r := range g.Responses {
			// Written so that NaN fails.
			if r.Valid && !(r.Quality >= 0 && r.Quality <= 1) {
				return nil, exitcode.Dataf("instance %q, sample %d: quality %v, want 0 to 1", g.Instance.InstanceID, r.Sample, r.Quality)
			}
		}
	}
	return ordered, nil
}

// updateEntry records a visit to the entry that a group was selected from,
// and gives it the group's score. An entry that has been replaced since is
// not brought back. A group of a base task has no parent.
func updateEntry(buffer []shard.Instance, g curriculum.Group, iteration int) {
	if g.Instance.ParentID == "" {
		return
	}
	i := indexOf(buffer, g.Instance.ParentID)
	if i < 0 {
		return
	}
	buffer[i].Visits++
	buffer[i].LastSampled = int32(iteration)
	if score, ok := Learnability(g.Responses); ok {
		buffer[i].Potential = score
	}
}

func indexOf(buffer []shard.Instance, instanceID string) int {
	return slices.IndexFunc(buffer, func(entry shard.Instance) bool { return entry.InstanceID == instanceID })
}

// expand returns the responses of a group that enter the buffer. The group
// has at least two valid ones.
func (e *Exit) expand(g curriculum.Group, iteration int) []curriculum.Response {
	valid := slices.DeleteFunc(slices.Clone(g.Responses), func(r curriculum.Response) bool { return !r.Valid })
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
// partial histories", section 4). Each starts with the score of the group
// that it comes from (section 4.1).
func children(parent shard.Instance, r curriculum.Response, score float64, iteration int) []shard.Instance {
	var entries []shard.Instance
	turn := int32(0)
	for i, message := range r.Conversation {
		if message.Role != "assistant" {
			continue
		}
		turn++
		if i < len(parent.Messages) {
			continue
		}
		entries = append(entries, shard.Instance{
			InstanceID: childID(iteration, parent.InstanceID, r.Sample, i+1),
			TaskID:     parent.TaskID,
			Env:        parent.Env,
			Kind:       string(shard.KindImprove),
			ParentID:   parent.InstanceID,
			Depth:      parent.Depth + 1,
			Turn:       turn,
			Messages:   slices.Clone(r.Conversation[:i+1]),
			BaseScore:  r.Quality,
			Potential:  score,
			Origin:     string(shard.OriginBuffer),
			Seed:       parent.Seed,
		})
	}
	return entries
}

// childID names an entry by where it comes from; prefix is the number of
// messages of the conversation that it holds. The parent's id is hashed so
// that ids do not grow with depth.
func childID(iteration int, parentID string, sample, prefix int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "exit\x00%d\x00%s\x00%d\x00%d", iteration, parentID, sample, prefix))
	return fmt.Sprintf("exit-%06d-%x", iteration, sum[:8])
}

// insert adds an entry. In a full buffer it replaces the oldest of the
// entries with the lowest score, when its own score is at least that
// (section 4.1).
func (e *Exit) insert(buffer []shard.Instance, entry shard.Instance) []shard.Instance {
	if len(buffer) >= e.spec.BufferSize {
		lowest := 0
		for i := range buffer {
			if buffer[i].Potential < buffer[lowest].Potential {
				lowest = i
			}
		}
		if entry.Potential < buffer[lowest].Potential {
			return buffer
		}
		buffer = slices.Delete(buffer, lowest, lowest+1)
	}
	return append(buffer, entry)
}

// insertTask is the expansion of the ablation "curriculum", which selects but
// never iterates (section 5.2): the base task itself enters the buffer, once.
// A base task that is sampled again gives its entry a new score.
func (e *Exit) insertTask(buffer []shard.Instance, instance shard.Instance, score float64, iteration int) []shard.Instance {
	if instance.ParentID != "" {
		return buffer // selected from the buffer: updateEntry has seen to it
	}
	id := "exit-task-" + instance.TaskID
	if i := indexOf(buffer, id); i >= 0 {
		buffer[i].Potential = score
		buffer[i].Visits++
		buffer[i].LastSampled = int32(iteration)
		return buffer
	}
	return e.insert(buffer, shard.Instance{
		InstanceID:  id,
		TaskID:      instance.TaskID,
		Env:         instance.Env,
		Kind:        instance.Kind,
		ParentID:    instance.InstanceID,
		Potential:   score,
		Origin:      string(shard.OriginBuffer),
		LastSampled: int32(iteration),
		Visits:      1,
		Seed:        instance.Seed,
	})
}
