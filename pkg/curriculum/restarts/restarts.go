// Package restarts lets each trace start from one of the best programs that any
// trace of the task has submitted so far, or from scratch: the memory of
// MLE-RL §4.2 with its reset ratio, in training.
//
// There is one pool a task, whichever instance, sample or shard a program came
// from. It is sealed with the run's state: an entry is a solution that is held, and
// the fingerprint of its program stands in the statistics. Its solutions count
// by their test score, as the paper's do in training.
package restarts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lathe-rl/lathe/pkg/curriculum"
	"github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/pysource"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/scaffold/memory"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Name of this curriculum in recipes.
const Name = "restarts"

// selectedFromMemory is the rule that drew a solution that is held.
const selectedFromMemory = "memory"

// scopeShape is that of the statistics that are a solution's fingerprint: the key
// is its entry, the name a shape of its syntax tree, the value how often it is there.
const scopeShape = "shape"

// partScore is the part of a score by which solutions are compared: more is better.
// Where there is none the normalised score is.
const partScore = "score"

// Restarts is the curriculum.
type Restarts struct {
	spec Settings
	seed uint64
}

var (
	_ curriculum.Curriculum = (*Restarts)(nil)
	_ curriculum.Explainer  = (*Restarts)(nil)
	_ curriculum.Measurer   = (*Restarts)(nil)
)

// New makes it for a run with a seed.
func New(spec Settings, seed uint64) *Restarts { return &Restarts{spec, seed} }

// Name is as recipes write it.
func (r *Restarts) Name() string { return Name }

// Divisible says that prompts are drawn from the entries and tasks that Next is given alone.
func (r *Restarts) Divisible() {}

// Update pushes the valid submissions of an iteration, each into the pool of its
// task, by their places in the plan, samples and turns. State.Entries are the pools,
// by task, each in the order of its pushes.
func (r *Restarts) Update(state curriculum.State, iteration int, groups []curriculum.Group, taskIDs []string) (curriculum.State, error) {
	pools, err := poolsOf(state)
	if err != nil {
		return curriculum.State{}, err
	}
	found := map[shard.Ref]shard.Entry{} // by the program's place
	for _, e := range state.Entries {
		found[e.Ref] = e
	}
	pushes := map[string][]memory.Solution{}
	for _, g := range groups {
		for _, response := range g.Responses {
			for _, s := range solutionsOf(response) {
				pushes[g.Instance.TaskID] = append(pushes[g.Instance.TaskID], s.Solution)
				found[s.Ref] = shard.Entry{
					EntryID: fmt.Sprintf("%s/%d/%d/%d", g.Instance.InstanceID, s.Ref.Sample, s.Ref.Step, s.Turn),
					TaskID:  g.Instance.TaskID, Kind: string(shard.KindImprove), ParentID: g.Instance.InstanceID,
					Depth: g.Instance.Depth + 1, Turn: s.Turn + 1, Ref: s.Ref, BaseScore: s.quality, Potential: s.Score,
				}
			}
		}
	}
	next := curriculum.State{Iteration: iteration}
	for _, task := range taskIDs {
		pool, _, err := pools[task].Push(r.spec.pool(), pushes[task])
		if err != nil {
			return curriculum.State{}, fmt.Errorf("the memory of task %q: %w", task, err)
		}
		for _, s := range pool.Solutions {
			e := found[s.Ref]
			next.Entries = append(next.Entries, e)
			for _, shape := range s.Fingerprint {
				next.Stats = append(next.Stats, shard.Stat{
					Scope: scopeShape, Key: e.EntryID, Name: strconv.FormatUint(shape.Hash, 16), Iteration: e.Ref.Iteration, Value: float64(shape.Count),
				})
			}
		}
	}
	return next, nil
}

// submitted is a solution with its normalised score.
type submitted struct {
	memory.Solution
	quality float64
}

// solutionsOf are the valid submissions of a response's turns whose programs can be
// compared.
func solutionsOf(r curriculum.Response) []submitted {
	var messages []int32 // of the conversation, up to each message of the policy
	for i, role := range r.Roles {
		if i >= r.PromptMessages && role == "assistant" {
			messages = append(messages, int32(i)+1)
		}
	}
	turns := r.Score.Turns
	if first := len(turns) - len(messages); first > 0 { // those of earlier attempts
		turns = turns[first:]
	}
	var all []submitted
	for t, turn := range turns {
		var print pysource.Fingerprint
		if shard.Outcome(turn.Outcome) != shard.OutcomeOK || print.UnmarshalText([]byte(turn.Fingerprint)) != nil || len(print) == 0 {
			continue
		}
		s := submitted{memory.Solution{Ref: r.Ref, Turn: int32(t), Score: turn.NormalizedScore, Fingerprint: print}, turn.NormalizedScore}
		s.Ref.Messages = messages[t]
		for _, part := range turn.RewardParts {
			if part.Name == partScore {
				s.Score = part.Value
			}
		}
		all = append(all, s)
	}
	return all
}

// poolsOf are the pools of a state, by task.
func poolsOf(state curriculum.State) (map[string]memory.Pool, error) {
	prints := map[string]pysource.Fingerprint{}
	for _, stat := range state.Stats {
		hash, err := strconv.ParseUint(stat.Name, 16, 64)
		if err != nil || stat.Scope != scopeShape || stat.Value != float64(uint32(stat.Value)) {
			return nil, exitcode.Dataf("the statistic %q of scope %q with the value %v is no shape of a program", stat.Name, stat.Scope, stat.Value)
		}
		prints[stat.Key] = append(prints[stat.Key], pysource.Shape{Hash: hash, Count: uint32(stat.Value)})
	}
	pools := map[string]memory.Pool{}
	for _, e := range state.Entries {
		if len(prints[e.EntryID]) == 0 {
			return nil, exitcode.Dataf("the statistics have no shape of the program of entry %q", e.EntryID)
		}
		pool := pools[e.TaskID]
		pool.Solutions = append(pool.Solutions, memory.Solution{Ref: e.Ref, Score: e.Potential, Fingerprint: prints[e.EntryID]})
		pools[e.TaskID] = pool
	}
	return pools, nil
}

// Next draws the task of each prompt, and then whether it starts from a solution of
// the task and from which.
func (r *Restarts) Next(state curriculum.State, iteration, n int, taskIDs []string) ([]curriculum.Selection, error) {
	tasks := uniform.Tasks(r.spec.BaseTasks, r.seed, state, iteration, n, taskIDs)
	held := map[string][]shard.Entry{}
	for _, e := range state.Entries {
		held[e.TaskID] = append(held[e.TaskID], e)
	}
	selections := make([]curriculum.Selection, n)
	for i, task := range tasks {
		members := held[task]
		pool := memory.Pool{Solutions: make([]memory.Solution, len(members))}
		for j, e := range members {
			pool.Solutions[j] = memory.Solution{Ref: e.Ref}
		}
		s, restarts := pool.Get(r.spec.pool(), rng.New(r.seed, rng.PurposeSelect, iteration, "restart", i), 0)
		if !restarts {
			selections[i] = uniform.Selection(task, r.reset(len(members)))
			continue
		}
		e := members[slices.IndexFunc(members, func(e shard.Entry) bool { return e.Ref == s.Ref })]
		selections[i] = curriculum.Selection{
			TaskID: task, Kind: shard.KindImprove, Origin: shard.OriginBuffer, ParentID: e.EntryID, Depth: int(e.Depth), Turn: int(e.Turn),
			Ref: e.Ref, BaseScore: e.BaseScore, Potential: e.Potential,
			Probability: (1 - r.spec.ResetRatio) / float64(len(members)), SelectedBy: selectedFromMemory,
		}
	}
	return selections, nil
}

// Kinds is that of restarts.
func (r *Restarts) Kinds() []shard.Kind { return []shard.Kind{shard.KindImprove} }

// reset is the probability of a trace from scratch, of a task of which so many
// solutions are held.
func (r *Restarts) reset(held int) float64 {
	if held == 0 {
		return 1
	}
	return r.spec.ResetRatio
}

// Explain lists what the probability is made of; it is that of the start, given the
// task.
func (r *Restarts) Explain(state curriculum.State, _, _ int, selected curriculum.Selection) ([]curriculum.Term, error) {
	held, there := 0, false
	for _, e := range state.Entries {
		if e.TaskID == selected.TaskID {
			held++
			there = there || e.EntryID == selected.ParentID
		}
	}
	terms := []curriculum.Term{{Name: "solutions of the task", Value: float64(held)}, {Name: "reset ratio", Value: r.reset(held)}}
	if selected.Origin != shard.OriginBuffer {
		return append(terms, curriculum.Term{Name: "probability", Value: r.reset(held)}), nil
	}
	if !there {
		return nil, exitcode.Dataf("solution %q is none of those that it was selected from", selected.ParentID)
	}
	return append(terms,
		curriculum.Term{Name: "score", Value: selected.Potential},
		curriculum.Term{Name: "probability", Value: (1 - r.spec.ResetRatio) / float64(held)},
	), nil
}

// Metrics are the size of the pools and the quality of what they hold.
func (r *Restarts) Metrics(state curriculum.State) map[string]float64 {
	tasks := map[string]float64{}
	var quality, best float64
	for _, e := range state.Entries {
		tasks[e.TaskID] = max(tasks[e.TaskID], e.BaseScore)
		quality += e.BaseScore
	}
	m := map[string]float64{"solutions": float64(len(state.Entries)), "tasks": float64(len(tasks))}
	if len(state.Entries) > 0 {
		m["score_mean"] = quality / float64(len(state.Entries))
		for _, task := range slices.Sorted(maps.Keys(tasks)) {
			best += tasks[task]
		}
		m["score_best"] = best / float64(len(tasks))
	}
	return m
}
